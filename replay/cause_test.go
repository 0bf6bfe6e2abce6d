package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
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

func TestCriticalPath(t *testing.T) {
	for _, c := range []struct {
		name string
		m    func(*machine.Machine)
		prog func(p *program.Program)
		want string
	}{
		{
			// A's only workgroup holds the one CU until 30; B was ready at 5.
			name: "slot",
			prog: func(p *program.Program) {
				b := kernel("B", 1, work(20))
				b.Delay = 5
				p.GPUs = []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{kernel("A", 1, work(30))}}, {Commands: []program.Command{b}}}}}
			},
			want: `
				0-0 launch of 0 "A"
				0-30 work of 0 "A"
				30-30 slot of 0 "B" waited 25
				30-50 work of 0 "B"`,
		},
		{
			// The second wave of one kernel follows the first: no change of hands.
			name: "waves",
			prog: func(p *program.Program) {
				p.GPUs = []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{kernel("A", 2, work(30))}}}}}
			},
			want: `
				0-0 launch of 0 "A"
				0-30 work of 0 "A"
				30-60 work of 0 "A"`,
		},
		{
			// From 5 on B of higher priority has CU 0 held, where L leaves half. At 10 M leaves CU 1 and B
			// takes that: only then may N start beside L.
			name: "held slot",
			m:    func(m *machine.Machine) { m.GPU.CUs = q(2) },
			prog: func(p *program.Program) {
				b, n := kernel("B", 1, work(10)), kernel("N", 1, work(50), threads(4), pipe(.5))
				b.Delay, n.Delay = 5, 6
				p.GPUs = []program.GPU{{Streams: []program.Stream{
					{Commands: []program.Command{kernel("L", 1, work(40), threads(4), pipe(.5))}},
					{Commands: []program.Command{kernel("M", 1, work(10))}},
					{Commands: []program.Command{b}, Priority: 1},
					{Commands: []program.Command{n}},
				}}}
			},
			want: `
				0-0 launch of 0 "M"
				0-10 work of 0 "M"
				10-10 slot of 0 "N" waited 4
				10-60 work of 0 "N"`,
		},
		{
			// Both clusters need both CUs. One CU is empty at 0, but the second cluster starts when the other is.
			name: "clusters behind one another",
			m: func(m *machine.Machine) {
				m.GPU.CUs, m.GPU.Groups = q(2), machine.Table{Rows: [][]float64{{2, 1}}}
			},
			prog: func(p *program.Program) {
				clusters := kernel("A", 4, nil, func(k *program.Kernel) { k.Cluster = 2 })
				clusters.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
					return append(buf, work(program.Time(10*(tile%2)))...)
				}
				p.GPUs = []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{clusters}, Priority: 1}, {Commands: []program.Command{kernel("B", 1, nil)}}}}}
			},
			want: `
				0-0 launch of 0 "A"
				0-10 work of 0 "A"
				10-20 work of 0 "A"`,
		},
		{
			// GPU 1 ends last because GPU 0's post reaches it at 40 + 7.
			name: "flag of a peer",
			m:    func(m *machine.Machine) { m.Fabric.Latency = q(7e-9) },
			prog: func(p *program.Program) {
				f := p.NewFlag("tile")
				p.GPUs = []program.GPU{
					{Streams: []program.Stream{{Commands: []program.Command{kernel("A", 1, []program.Phase{
						{Op: program.Work, Time: 10}, {Op: program.Store, Peer: 1, Bytes: 3000, Time: 4}, {Op: program.PostTo, Flag: f, Count: 1}, {Op: program.Work, Time: 1},
					})}}}},
					{Streams: []program.Stream{{Commands: []program.Command{kernel("B", 1, []program.Phase{
						{Op: program.Work, Time: 15}, {Op: program.WaitFor, Flag: f, Count: 1}, {Op: program.Sleep, Time: 2},
					})}}}},
				}
			},
			want: `
				0-0 launch of 0 "A"
				0-10 work of 0 "A"
				10-40 store of 0 "A" to 1 alone 4, egress
				40-47 flag on its way of 0 "A" "tile"
				47-47 flag of 1 "B" "tile" waited 32
				47-49 latency of 1 "B"`,
		},
		{
			// The host issues at 5; the gap ends at 8. Puts leave one after the other, 20 each.
			name: "host, gap, put",
			prog: func(p *program.Program) {
				issued, there := p.NewFlag("issued"), p.NewFlag("there")
				a := kernel("A", 1, []program.Phase{{Op: program.Work, Time: 2}, {Op: program.Put, Peer: 1, Bytes: 2000, Flag: there, Count: 1}, {Op: program.Put, Peer: 1, Bytes: 2000, Flag: there, Count: 1}})
				a.Delay = 3
				p.GPUs = []program.GPU{
					{Streams: []program.Stream{
						{Name: "main", Commands: []program.Command{{Op: program.Wait, Flag: issued, Count: 1}, a}},
						{Name: "host", Host: true, Queue: 1, Commands: []program.Command{{Op: program.Delay, Delay: 5, Why: program.HostIssue, Name: "A"}, {Op: program.Post, Flag: issued, Count: 1}}},
					}},
					{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Wait, Flag: there, Count: 2, Name: "A"}, kernel("B", 1, work(9))}}}},
				}
			},
			want: `
				0-5 delay of 0 "A"
				5-5 flag of 0 "wait" "issued" waited 5
				5-8 launch of 0 "A"
				8-10 work of 0 "A"
				10-30 put of 0 "A" to 1
				30-50 put of 0 "A" to 1
				50-50 flag of 1 "A" "there" waited 50
				50-59 work of 1 "B"`,
		},
		{
			// A's put of nothing, behind B's 10, takes no time but posts the flag.
			name: "put of nothing",
			prog: func(p *program.Program) {
				there := p.NewFlag("there")
				p.GPUs = []program.GPU{{Streams: []program.Stream{
					{Commands: []program.Command{kernel("B", 1, []program.Phase{{Op: program.Put, Peer: 1, Bytes: 1000}})}},
					{Commands: []program.Command{kernel("A", 1, []program.Phase{{Op: program.Put, Peer: 1, Flag: there, Count: 1}})}},
				}}, {Streams: []program.Stream{{Commands: []program.Command{{Op: program.Wait, Flag: there, Count: 1}, kernel("C", 1, work(9))}}}}}
			},
			want: `
				0-0 launch of 0 "B"
				0-10 put of 0 "B" to 1
				10-10 put of 0 "A" to 1
				10-10 flag of 1 "wait" "there" waited 10
				10-19 work of 1 "C"`,
		},
		{
			// One copy engine: C2 has to wait for C1. Two workgroups on a CU share its pipes.
			name: "engine and pipes",
			m: func(m *machine.Machine) {
				m.Engines = machine.Engines{Count: q(1), Rate: q(10e9), Latency: q(3e-9)}
			},
			prog: func(p *program.Program) {
				cp := func(name string) program.Command {
					return program.Command{Op: program.Start, Copy: &program.Copy{Name: name, From: 0, Peer: 1, Bytes: 100}}
				}
				p.GPUs = []program.GPU{
					{Streams: []program.Stream{{Commands: []program.Command{cp("C1")}}, {Commands: []program.Command{cp("C2"), kernel("A", 2, work(10), threads(4))}}}}, {},
				}
			},
			want: `
				0-3 copy start of 0 "C1" to 1
				3-13 copy of 0 "C1" to 1
				13-13 engine of 0 "C2" waited 13
				13-16 copy start of 0 "C2" to 1
				16-26 copy of 0 "C2" to 1
				26-46 work of 0 "A" alone 10, shared CUs`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &program.Program{}
			c.prog(p)
			m := small(len(p.GPUs), 1)
			if c.m != nil {
				c.m(&m)
			}
			r := mustSimulate(t, m, p, Options{Causes: true})
			if diff := cmp.Diff(trim(c.want), chain(p, r.Path)); diff != "" {
				t.Error(diff)
			}
		})
	}
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
		r, err := Simulate(m, build(-1), Options{Causes: true})
		if err != nil {
			t.Fatal(err)
		}
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
