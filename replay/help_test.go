package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func q(v float64) machine.Quantity { return machine.Quantity{Value: v} }

// small is a machine of round numbers: CUs of 8 threads (so that footprints
// read as eighths), memory of 1000 bytes a nanosecond, links of 100.
func small(gpus, cus int) machine.Machine {
	return machine.Machine{
		Name: "small", GPUs: gpus,
		GPU:    machine.GPU{CUs: q(float64(cus)), Threads: q(8), WGs: q(8), MemoryRates: machine.MemoryRates{Memory: q(1000e9)}},
		Fabric: machine.Fabric{Topology: machine.Switch, Egress: q(100e9), Ingress: q(100e9)},
	}
}

// A kernelOption shapes a kernel of a test.
type kernelOption func(*program.Kernel)

func threads(n int) kernelOption { return func(k *program.Kernel) { k.Footprint.Threads = n } }
func pipe(share float64) kernelOption {
	return func(k *program.Kernel) { k.Pipe = share }
}

func persistent(tiles, owned int) kernelOption {
	return func(k *program.Kernel) { k.Tiles, k.Owned = tiles, owned }
}

// kernel makes a launch whose workgroups each take a whole CU and run the given phases.
func kernel(name string, wgs int, recipe []program.Phase, options ...kernelOption) program.Command {
	k := &program.Kernel{
		Name: name, WGs: wgs, Kind: trace.Compute, Footprint: program.Footprint{Threads: 8},
		Recipe: func(_ int, buf []program.Phase) []program.Phase { return append(buf, recipe...) },
	}
	for _, o := range options {
		o(k)
	}
	return program.Command{Op: program.Launch, Kernel: k}
}

func work(t program.Time) []program.Phase { return []program.Phase{{Op: program.Work, Time: t}} }

func prog(gpus ...[]program.Stream) *program.Program {
	p := &program.Program{}
	for _, g := range gpus {
		for i := range g {
			g[i].Queue = int64(i)
		}
		p.GPUs = append(p.GPUs, program.GPU{Streams: g})
	}
	return p
}

func mustSimulate(t testing.TB, m machine.Machine, p *program.Program, o Options) *Result {
	t.Helper()
	r := must.Have(Simulate(m, p, o))(t)
	return r
}

// draw shows lanes of a kind as rows of text, a column being the given time. A
// span shows as the first letter of its name. Times must be multiples of it.
func draw(t testing.TB, r *trace.Run, kind trace.LaneKind, span trace.Kind, column program.Time) string {
	t.Helper()
	rows := map[trace.LaneID][]byte{}
	width := int(r.End / column)
	for _, s := range r.Spans {
		if r.Lanes[s.Lane].Kind != kind || kind != trace.Queue && s.Kind != span || s.Start == s.End {
			continue
		}
		if s.Start%column != 0 || s.End%column != 0 {
			t.Errorf("span %q from %d to %d is not in columns of %d", r.NameOf(s), s.Start, s.End, column)
		}
		row, ok := rows[s.Lane]
		if !ok {
			row = []byte(strings.Repeat(".", width))
			rows[s.Lane] = row
		}
		for i := s.Start / column; i < s.End/column; i++ {
			if row[i] != '.' {
				t.Errorf("lane %d: %q overlaps at %d", s.Lane, r.NameOf(s), i*column)
			}
			row[i] = r.NameOf(s)[0]
		}
	}
	var out []string
	for id, row := range rows {
		l := r.Lanes[id]
		name := l.Name
		if kind != trace.Queue {
			name = fmt.Sprintf("%03d.%d", l.ID, l.Sub)
		}
		out = append(out, fmt.Sprintf("%d/%s |%s|", l.Rank, name, row))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
