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
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// chain shows a path, one segment a line.
func chain(p *program.Program, path []Segment) string {
	var out []string
	for _, g := range path {
		line := fmt.Sprintf("%d-%d %s of %d %q", g.Start, g.End, g.Step, g.Rank, g.Name)
		if g.Peer != none {
			line += fmt.Sprintf(" to %d", g.Peer)
		}
		if g.Flag != program.NoFlag {
			line += fmt.Sprintf(" %q", p.Flags.Name(g.Flag))
		}
		if g.Waited > 0 {
			line += fmt.Sprintf(" waited %d", g.Waited)
		}
		if g.Bound != Unbound {
			line += fmt.Sprintf(" alone %d, %s", g.Alone, g.Bound)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// The critical path covers the makespan without gap, each of its steps is one
// that was recorded, and what a wait on it waited for was posted by what the
// segment before it belongs to.
func TestCriticalPathIsWhatHappened(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, _, r := drawRun(t, Options{Level: Phases, Causes: true})
		seen := map[string]bool{}
		for _, s := range r.Run.Spans {
			name := r.Run.NameOf(s)
			if s.Parent != trace.None {
				name = r.Run.NameOf(r.Run.Spans[s.Parent])
			}
			seen[fmt.Sprintf("%s %d %q %d-%d", s.Kind, r.Run.RankOf(s), name, s.Start, s.End)] = true
		}
		idle := func(g Segment) bool {
			return slices.ContainsFunc(r.Idle(), func(i Idle) bool {
				return i.Rank == g.Rank && i.Stream == g.Stream && i.Cause == program.LaunchGap && i.Start <= g.Start && i.End >= g.End
			})
		}
		kinds := map[step]trace.Kind{Working: trace.PhaseCompute, Storing: trace.PhaseStore, Sleeping: trace.PhaseWait}
		var at, sum program.Time
		for i, g := range r.Path {
			if g.Start != at || g.End < g.Start {
				t.Fatalf("segment %d is %d-%d, the one before ends at %d", i, g.Start, g.End, at)
			}
			at, sum = g.End, sum+g.End-g.Start
			st := &p.GPUs[g.Rank].Streams[g.Stream]
			what := fmt.Sprintf("segment %d, %s of %d %q, %d-%d", i, g.Step, g.Rank, g.Name, g.Start, g.End)
			if (g.Step == Woken || g.Step == Placed || g.Step == Served) && g.End > g.Start {
				t.Fatalf("%s takes time", what)
			}
			switch g.Step {
			case Working, Storing, Sleeping:
				free := false
				for _, c := range st.Commands {
					free = free || c.Kernel != nil && c.Kernel.Name == g.Name && c.Kernel.Free
				}
				if key := fmt.Sprintf("%s %d %q %d-%d", kinds[g.Step], g.Rank, g.Name, g.Start, g.End); !free && !seen[key] {
					t.Fatalf("%s was not recorded", what)
				}
				if g.Step != Sleeping && (g.Alone > g.End-g.Start || g.Bound != Unbound && g.Alone == g.End-g.Start) {
					t.Fatalf("%s: alone %d, bound by %s", what, g.Alone, g.Bound)
				}
			case Launching:
				if g.End > g.Start && !st.Host && !idle(g) {
					t.Fatalf("%s, but the stream was not idle for it: %v", what, r.Idle())
				}
			case Woken:
				if i > 0 && !couldPost(p, r.Path[i-1], g.Flag) {
					t.Fatalf("%s: %s of %d %q does not post flag %d", what, r.Path[i-1].Step, r.Path[i-1].Rank, r.Path[i-1].Name, g.Flag)
				}
				if g.Waited > g.End {
					t.Fatalf("%s: waited %d", what, g.Waited)
				}
			case Placed:
				if i == 0 || r.Path[i-1].Rank != g.Rank {
					t.Fatalf("%s was left by %+v", what, r.Path[i-1])
				}
			}
		}
		if at != r.Makespan || sum != r.Makespan {
			t.Fatalf("the path ends at %d and takes %d, the makespan is %d", at, sum, r.Makespan)
		}
	})
}

// couldPost reports whether the stream that a segment belongs to posts the flag
// itself or by one of its kernels.
func couldPost(p *program.Program, g Segment, f program.Flag) bool {
	for _, c := range p.GPUs[g.Rank].Streams[g.Stream].Commands {
		posts := flagSet{}
		if c.Kernel != nil {
			posts.unplaced(c.Kernel, 0, 0)
		}
		if c.Op == program.Post && c.Flag == f || posts[f] {
			return true
		}
	}
	return false
}

// On a machine on which nothing contends, what is longer on the critical path
// makes the whole longer by as much.
func TestCriticalPathIsCritical(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 3).Draw(t, "gpus")
		const longer = 50
		type node struct {
			time program.Time
			deps []int
		}
		nodes := make([]node, rapid.IntRange(1, 12).Draw(t, "n"))
		for i := range nodes {
			nodes[i].time = program.Time(rapid.IntRange(1, 100).Draw(t, "time"))
			for range rapid.IntRange(0, 2).Draw(t, "deps") {
				if i > 0 {
					nodes[i].deps = append(nodes[i].deps, rapid.IntRange(0, i-1).Draw(t, "dep"))
				}
			}
		}
		build := func(slow int) *program.Program {
			p := &program.Program{GPUs: make([]program.GPU, gpus)}
			for i := range nodes {
				p.NewFlag(fmt.Sprint(i))
			}
			for i, n := range nodes {
				if i == slow {
					n.time += longer
				}
				var phases []program.Phase
				for _, d := range n.deps {
					phases = append(phases, program.Phase{Op: program.WaitFor, Flag: program.Flag(d + 1), Count: 1})
				}
				phases = append(phases, program.Phase{Op: program.Work, Time: n.time}, program.Phase{Op: program.PostTo, Flag: program.Flag(i + 1), Count: 1})
				g := &p.GPUs[i%gpus]
				g.Streams = append(g.Streams, program.Stream{Queue: int64(i), Commands: []program.Command{kernel(fmt.Sprint(i), 1, phases)}})
			}
			return p
		}
		m := small(gpus, len(nodes))
		r := must.Have(Simulate(m, build(-1), Options{Causes: true}))(t)
		for _, g := range r.Path {
			if g.Step != Working {
				continue
			}
			var slow int
			_, _ = fmt.Sscan(g.Name, &slow)
			if got := mustRun(t, m, build(slow)); got != r.Makespan+longer {
				t.Fatalf("kernel %d is on the path; %d ns longer, the whole takes %d instead of %d", slow, longer, got, r.Makespan)
			}
		}
	})
}

// A simulation that is asked to stop does, within a few hundred instants.
func TestStop(t *testing.T) {
	p := prog([]program.Stream{{Commands: slices.Repeat([]program.Command{kernel("A", 1, work(10))}, 10_000)}})
	asked := 0
	_, err := Simulate(small(1, 1), p, Options{Stop: func() bool { asked++; return asked == 3 }})
	if !errors.Is(err, ErrStopped) || asked != 3 {
		t.Errorf("error %v after %d questions", err, asked)
	}
	if _, err := Simulate(small(1, 1), p, Options{Stop: func() bool { return false }}); err != nil {
		t.Error(err)
	}
	var shares []float64
	progress := func(run string, share float64) {
		if run != "slow" {
			t.Errorf("progress of %q", run)
		}
		shares = append(shares, share)
	}
	if _, err := Simulate(small(1, 1), p, Options{Name: "slow", Progress: progress}); err != nil {
		t.Error(err)
	}
	if n := len(shares); n < 5 || !slices.IsSorted(shares) || shares[0] > 0.1 || shares[n-1] < 0.9 || shares[n-1] > 1 {
		t.Errorf("progress: %v", shares)
	}
}

// Every resource is one bound. The capacities tell which is which.
func TestBounds(t *testing.T) {
	m := small(8, 1)
	m.GPU.Memory, m.GPU.CacheRate = q(1e9), q(2e9)
	m.Fabric = machine.Fabric{Topology: machine.Mesh, Egress: q(3e9), Ingress: q(4e9), Pair: q(5e9)}
	m.Network = machine.Network{Node: q(4), NICs: q(2), Topology: machine.Mesh, Egress: q(6e9), Ingress: q(7e9), Pair: q(8e9)}
	p := prog(make([][]program.Stream, 8)...)
	p.Arbiter = program.Arbiter{Policy: program.ComputeFirst, Share: .5}
	f := newFabric(&m, p)
	want := map[float64]bound{1: byMemory, 2: byCache, 3: byEgress, 4: byIngress, 5: byLink, 6: byNIC, 7: byNIC, 8: byLink}
	seen := map[bound]bool{}
	for i := range f.capacities {
		b := f.boundBy(int32(i))
		if b != want[f.capacities[i]] {
			t.Errorf("resource %d of %g bytes a nanosecond: %s", i, f.capacities[i], b)
		}
		seen[b] = true
	}
	if len(seen) != 6 {
		t.Errorf("bounds %v", seen)
	}
}
