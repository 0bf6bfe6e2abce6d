package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The fast simulator and the obvious one agree to the nanosecond, and to the
// byte in what they add up.
func TestEqualsNaive(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		if rapid.Bool().Draw(t, "to everyone") {
			replicate(p, &m)
		}
		equalsNaive(t, m, p)
	})
}

// So they do where there is much of one kind: classes held back on one path,
// puts to one peer, phases of one tile, workgroups that come and go on one CU.
func TestManyEqualNaive(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m := small(2, rapid.IntRange(1, 40).Draw(t, "CUs"))
		m.GPU.Memory, m.Network = q(40e9), machine.Network{Node: q(rapid.SampledFrom([]float64{1, 2}).Draw(t, "node")), Message: q(3e-9)}
		p := &program.Program{}
		f := p.NewFlag("put")
		several := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) program.Phase {
			x := drawPhase(t, 2, rapid.SampledFrom([]program.PhaseOp{program.Work, program.Work, program.Work, program.Store}).Draw(t, "op"))
			x.Read += float64(rapid.IntRange(0, 99).Draw(t, "read more"))
			x.Weight = rapid.SampledFrom([]float64{0, 0, .5, 1.5, 2, 3}).Draw(t, "weight")
			return x
		}), 1, 40).Draw(t, "phases")
		many := kernel("many", rapid.IntRange(1, 50).Draw(t, "workgroups"), nil, threads(rapid.SampledFrom([]int{1, 4, 8}).Draw(t, "threads")), pipe(.3))
		each := rapid.IntRange(1, 12).Draw(t, "phases of each")
		many.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			for i := range each {
				buf = append(buf, several[(tile*each+i)%len(several)])
			}
			return buf
		}
		sizes := rapid.SliceOfN(rapid.IntRange(0, 200), 1, 5).Draw(t, "puts of")
		puts := rapid.IntRange(0, 150).Draw(t, "puts")
		put := kernel("put", 1, nil, threads(0), pipe(.1))
		put.Kernel.Recipe = func(_ int, buf []program.Phase) []program.Phase {
			for i := range puts {
				buf = append(buf, program.Phase{Op: program.Put, Peer: 1, Bytes: float64(sizes[i%len(sizes)]) / 4, Flag: f, Count: 1})
			}
			return append(buf, program.Phase{Op: program.WaitFor, Flag: f, Count: int64(puts)})
		}
		p.GPUs = []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{many}}, {Queue: 1, Commands: []program.Command{put}}}}, {}}
		equalsNaive(t, m, p)
	})
}

// Programs in which the two once differed.
func TestCasesEqualNaive(t *testing.T) {
	held := grouped([]float64{1, 1}, []float64{2, 1})
	for _, c := range []struct {
		name    string
		m       machine.Machine
		streams []program.Stream
	}{
		{
			// The second cluster of A has CUs 0 and 1 held from 0 on. It starts on CUs 1 and 2 at 10, and B on CU 0.
			"a cluster starts on a CU that is no longer held", held,
			[]program.Stream{
				{Priority: 1, Commands: []program.Command{kernel("A", 4, nil, clusters(2), func(k *program.Kernel) {
					k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
						return append(buf, work([]program.Time{0, 10, 30, 30}[tile])...)
					}
				})}},
				{Commands: []program.Command{kernel("B", 2, work(50), clusters(2), threads(4), pipe(.5))}},
			},
		},
		{
			// Channels slow compute, so the collective is slowed from 0 on by what computes.
			"a collective marked as slowed by channels", small(1, 1),
			[]program.Stream{
				{Commands: []program.Command{kernel("A", 1, []program.Phase{{Op: program.Store, Bytes: 1, Time: 10, Slowdown: 2}}, func(k *program.Kernel) {
					k.Kind, k.Channels, k.Free = trace.Collective, true, true
				})}},
				{Commands: []program.Command{kernel("B", 1, work(30))}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) { equalsNaive(t, c.m, prog(c.streams)) })
	}
}

func equalsNaive(t rapid.TB, m machine.Machine, p *program.Program) {
	naive := runNaive(m, p)
	r, err := Simulate(m, p, Options{Level: Workgroups, Usage: true})
	var deadlock *DeadlockError
	if err != nil && !errors.As(err, &deadlock) {
		t.Fatal(err)
	}
	if naive.stuck != (err != nil) {
		t.Fatalf("error %v; naive deadlocked: %t", err, naive.stuck)
	}
	if err != nil {
		return
	}
	got := logOf(p, r.Run, 1)
	if !slices.Equal(got, naive.log) || r.Makespan != naive.end {
		t.Fatalf("makespan %d, want %d\n%s", r.Makespan, naive.end, differences(got, naive.log))
	}
	if d := naive.differs(r); d != "" {
		t.Fatal(d)
	}
}

func differences(got, want []string) string {
	var b strings.Builder
	for _, l := range got {
		if !slices.Contains(want, l) {
			fmt.Fprintln(&b, "got ", l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			fmt.Fprintln(&b, "want", l)
		}
	}
	return b.String()
}

// logOf writes a run as the naive simulator does, in so many nanoseconds.
func logOf(p *program.Program, r *trace.Run, unit program.Time) []string {
	in := func(s trace.Span) string {
		return fmt.Sprint(float64(s.Start)/float64(unit), "-", float64(s.End)/float64(unit))
	}
	streams := make([]int, len(p.GPUs)+1)
	for g := range p.GPUs {
		streams[g+1] = streams[g] + len(p.GPUs[g].Streams)
	}
	var log []string
	for _, s := range r.Spans {
		lane := r.Lanes[s.Lane]
		gpu := int(lane.Rank)
		switch {
		case s.Kind == trace.Workgroup:
			if w := r.Workgroup(s); w.ID != trace.None {
				log = append(log, fmt.Sprintf("tile %d of %s gpu %d cu %d: %s", w.ID, r.NameOf(s), gpu, w.CU, in(s)))
			}
		case s.Kind == trace.Copy:
			log = append(log, fmt.Sprintf("copy gpu %d at %d %s: %s", gpu, streams[gpu]+int(lane.ID), r.NameOf(s), in(s)))
		case s.Kind.OnDevice():
			log = append(log, fmt.Sprintf("kernel gpu %d at %d %s: %s", gpu, streams[gpu]+int(lane.ID), r.NameOf(s), in(s)))
		}
	}
	slices.Sort(log)
	return log
}
