package replay

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

func TestErrorsNameThePlace(t *testing.T) {
	phase := func(p program.Phase) *program.Program {
		return prog([]program.Stream{{Name: "main", Commands: []program.Command{
			{Op: program.Delay, Delay: 1}, kernel("gemm", 2, []program.Phase{{Op: program.Sleep, Time: 1}, p}),
		}}})
	}
	command := func(c program.Command) *program.Program {
		return prog(nil, []program.Stream{{Name: "main", Commands: []program.Command{c}}})
	}
	shaped := func(change func(*program.Kernel)) *program.Program {
		return command(kernel("gemm", 1, work(1), change))
	}
	for _, c := range []struct {
		p    *program.Program
		want string
	}{
		{phase(program.Phase{Op: program.Store, Peer: 3, Bytes: 1}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: peer: GPU 3 of 1`},
		{phase(program.Phase{Op: program.Put, Peer: -1}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: peer: GPU -1 of 1`},
		{phase(program.Phase{Op: program.Work, Time: -5}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: time: -5 ns`},
		{phase(program.Phase{Op: program.Work, Read: math.NaN()}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: NaN bytes (want 0 to 1e+18)`},
		{phase(program.Phase{Op: program.Work, Slowdown: -1}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: slowdown: factor -1 (want 0 to 1e6)`},
		{phase(program.Phase{Op: program.WaitFor, Flag: 9}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: flag 9: the program has 0`},
		{phase(program.Phase{Op: program.PostTo, Last: 2}), `phase 1: last: 2 (want a post to a flag that is there at once, or 0)`},
		{phase(program.Phase{Op: program.Sleep, Last: -1}), `phase 1: last: -1 (want a post`},
		{phase(program.Phase{Op: 77}), `gpu 0: stream "main": command 1 "gemm": tile 0: phase 1: op 77 is not known`},
		{command(program.Command{Op: program.Wait, Flag: 1, Name: "event"}), `gpu 1: stream "main": command 0 "event": flag 1: the program has 0`},
		{command(program.Command{Op: program.Post, Flag: -1}), `gpu 1: stream "main": command 0 "post": flag -1: the program has 0`},
		{command(program.Command{Op: program.Post, Count: -1}), `gpu 1: stream "main": command 0 "post": flag "": count -1 (flags only grow from 0)`},
		{command(program.Command{Op: program.Delay, Delay: -1}), `gpu 1: stream "main": command 0 "delay": delay: -1 ns`},
		{command(program.Command{Op: 200}), `gpu 1: stream "main": command 0 "": op 200 is not known`},
		{command(program.Command{Op: program.Launch}), `gpu 1: stream "main": command 0 "launch": want a kernel to launch or a copy to start, and only that`},
		{command(program.Command{Op: program.Start, Copy: &program.Copy{Name: "c", Peer: 2}}), `gpu 1: stream "main": command 0 "c": peer: GPU 2 of 2`},
		{command(program.Command{Op: program.Start, Copy: &program.Copy{Name: "c", Bytes: math.Inf(1)}}), `gpu 1: stream "main": command 0 "c": +Inf bytes (want 0 to 1e+18)`},
		{shaped(func(k *program.Kernel) { k.WGs = -1 }), `gpu 1: stream "main": command 0 "gemm": -1 workgroups (want 0 to 2147483647)`},
		{shaped(func(k *program.Kernel) { k.Recipe = nil }), `gpu 1: stream "main": command 0 "gemm": no recipe`},
		{shaped(func(k *program.Kernel) { k.Footprint.Threads = 9 }), `gpu 1: stream "main": command 0 "gemm": footprint: needs 9 threads, a CU has 8`},
		{shaped(func(k *program.Kernel) { k.Pipe = math.NaN() }), `gpu 1: stream "main": command 0 "gemm": pipe share NaN (want 0 to 1024)`},
		{
			prog([]program.Stream{{Name: "h", Host: true, Commands: []program.Command{kernel("gemm", 1, work(1))}}}),
			`gpu 0: stream "h": command 0 "gemm": a host stream holds no device work (want delay, wait or post)`,
		},
		{prog(nil, nil, nil), `program for 3 GPUs: machine "small" has 2`},
		{func() *program.Program {
			p := &program.Program{}
			f := p.NewFlag("big")
			post := program.Command{Op: program.Post, Flag: f, Count: math.MaxInt64}
			p.GPUs = []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{post, post}}}}}
			return p
		}(), `flag "big": count runs beyond`},
		{prog([]program.Stream{{Commands: []program.Command{
			{Op: program.Delay, Delay: program.MaxTime - 1}, {Op: program.Delay, Delay: program.MaxTime - 1},
		}}}), `time runs beyond`},
	} {
		_, err := Simulate(small(2, 1), c.p, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func TestMachineErrors(t *testing.T) {
	for want, change := range map[string]func(*machine.Machine){
		`CUs: -1`:                          func(m *machine.Machine) { m.GPU.CUs = q(-1) },
		`memory bandwidth: NaN`:            func(m *machine.Machine) { m.GPU.Memory = q(math.NaN()) },
		`flag time: -1e-09`:                func(m *machine.Machine) { m.Fabric.Message = q(-1e-9) },
		`latency: +Inf`:                    func(m *machine.Machine) { m.Fabric.Latency = q(math.Inf(1)) },
		`egress: 0.5 bytes a second`:       func(m *machine.Machine) { m.Fabric.Egress = q(.5) },
		`topology "donut" is not known`:    func(m *machine.Machine) { m.Fabric.Topology = "donut" },
		`machine "small" has no CUs`:       func(m *machine.Machine) { m.GPU.CUs = q(0) },
		`needs 8 threads, a CU has 4`:      func(m *machine.Machine) { m.GPU.Threads = q(4) },
		`shared memory, a CU has 10`:       func(m *machine.Machine) { m.GPU.Shared, m.GPU.SharedSpare = q(10), q(11) },
		`engines: 1e+06 (want 0 to 1024)`:  func(m *machine.Machine) { m.Engines.Count = q(1e6) },
		`program for 1 GPUs: machine "sma`: func(m *machine.Machine) { m.GPUs = -1 },
	} {
		m := small(1, 1)
		change(&m)
		_, err := Simulate(m, prog([]program.Stream{{Commands: []program.Command{kernel("gemm", 1, work(1))}}}), Options{})
		if m.GPUs < 0 {
			if err != nil {
				t.Errorf("a machine of unknown size: %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A phase that cannot be ends the run, whatever else is due at the same time.
func TestErrorBesideOthers(t *testing.T) {
	bad := kernel("gemm", 8, work(1))
	bad.Kernel.Recipe = func(i int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Work, Time: 5, Read: []float64{math.Inf(1), 0}[i%2]})
	}
	_, err := Simulate(small(1, 4), prog([]program.Stream{{Commands: []program.Command{bad}}}), Options{})
	if err == nil || !strings.Contains(err.Error(), "+Inf bytes") {
		t.Errorf("got %v", err)
	}
}

// The empty program, and what a caller leaves out, run.
func TestEmptyPrograms(t *testing.T) {
	for _, p := range []*program.Program{
		{},
		prog(nil),
		prog([]program.Stream{{}}),
		prog([]program.Stream{{Commands: []program.Command{{Op: program.Wait}, {Op: program.Post}, {Op: program.Delay}}}}),
		prog([]program.Stream{{Commands: []program.Command{kernel("none", 0, nil)}}}),
		prog([]program.Stream{{Commands: []program.Command{kernel("nothing", 3, nil)}}}),
	} {
		r, err := Simulate(machine.Machine{GPU: machine.GPU{CUs: q(1)}}, p, Options{Level: Phases})
		if err != nil || r.Makespan != 0 {
			t.Errorf("%+v: makespan %v, error %v", p, r, err)
		}
	}
}
