package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The same tiles are handed out once each whichever way.
func TestPersistentTilesOnce(t *testing.T) {
	for owned := -1; owned < 5; owned++ {
		var tiles []int
		c := kernel("T", 3, nil, persistent(11, owned))
		c.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			tiles = append(tiles, tile)
			return append(buf, program.Phase{Op: program.Work, Time: program.Time(1 + tile%4)})
		}
		mustSimulate(t, small(1, 2), prog([]program.Stream{{Commands: []program.Command{c}}}), Options{})
		slices.Sort(tiles)
		if !slices.Equal(tiles, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
			t.Errorf("owned %d: tiles run: %v", owned, tiles)
		}
	}
}

func TestPrologueAndEpilogueFrameTheTiles(t *testing.T) {
	c := kernel("T", 2, work(20), persistent(3, -1))
	c.Kernel.Prologue = func(_ int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Sleep, Time: 10})
	}
	c.Kernel.Epilogue = func(wg int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Sleep, Time: program.Time(10 * (wg + 1))})
	}
	r := mustSimulate(t, small(1, 2), prog([]program.Stream{{Commands: []program.Command{c}}}), Options{Level: Phases})
	type span struct {
		id         int32
		start, end program.Time
	}
	var got []span
	for _, s := range r.Run.Spans {
		if w := r.Run.Workgroup(s); s.Kind == trace.Workgroup && w.Persistent == 0 {
			got = append(got, span{w.ID, s.Start, s.End})
		}
	}
	want := []span{{trace.None, 0, 10}, {0, 10, 30}, {2, 30, 50}, {trace.None, 50, 60}}
	if !slices.Equal(got, want) {
		t.Errorf("workgroup 0: got %v, want %v", got, want)
	}
}

// What was measured on an H100: 24 workgroups that each need a whole CU, ready just after a kernel of 8
// waves whose workgroups last 100 to 167 us. Of higher priority they start when the CUs that were
// kept for them are empty, 116 to 126 us later, and the kernel takes 1207 to 1246 us; of equal priority
// they start 1039 to 1087 us later, in its tail, and it takes 1160 to 1217 us.
func TestPriorityOnH100(t *testing.T) {
	m := machinetest.Load(t, "h100:1")
	lasting := func(name string, wgs, threads, shared int, least, more trace.Time) program.Command {
		return program.Command{Op: program.Launch, Kernel: &program.Kernel{
			Name: name, Kind: trace.Compute, WGs: wgs, Sharing: program.Sharing{Pipe: 0.01}, Footprint: program.Footprint{Threads: threads, Registers: 16, Shared: shared},
			Recipe: func(wg int, buf []program.Phase) []program.Phase {
				return append(buf, program.Phase{Op: program.Work, Time: least + more*trace.Time(uint32(wg)*2654435761%997)/997})
			},
		}}
	}
	for priority, want := range [][3]trace.Time{{1_039_000, 1_087_000, 1_217_000}, {116_000, 126_000, 1_246_000}} {
		result := mustSimulate(t, m, prog([]program.Stream{
			{Name: "compute", Commands: []program.Command{lasting("G", 8*4*132, 256, 48_000, 100_000, 66_400)}},
			{Name: "communication", Priority: priority, Commands: []program.Command{{Op: program.Delay, Delay: 1_000}, lasting("C", 24, 640, 200_000, 300_000, 199_200)}},
		}), Options{Level: Workgroups})
		first, last, whole := trace.Infinity, trace.Time(0), trace.Time(0)
		for _, s := range result.Run.Spans {
			switch kernel := result.Run.NameOf(s); {
			case s.Kind == trace.Compute && kernel == "G":
				whole = s.Dur()
			case s.Kind == trace.Workgroup && kernel == "C":
				first, last = min(first, s.Start-1_000), max(last, s.Start-1_000)
			}
		}
		for i, got := range []trace.Time{first, last, whole} {
			if off := got - want[i]; off*off > 20_000*20_000 && 20*max(off, -off) > want[i] {
				t.Errorf("priority %d: %d ns, measured %d", priority, got, want[i])
			}
		}
	}
}

// What is due at one instant acts in order of launch and index, whatever
// order timers and classes come in: here workgroups take tickets.
func TestTiesActInOrderOfLaunchAndIndex(t *testing.T) {
	order := func(first program.Time) []int {
		var tiles []int
		c := kernel("T", 4, nil, persistent(100, 1))
		c.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			if !slices.Contains(tiles, tile) {
				tiles = append(tiles, tile)
			}
			if tile < 4 {
				// The even ones join their class early, the odd ones late; all are done at 100.
				if tile%2 == 0 {
					return append(buf, program.Phase{Op: program.Work, Time: 100})
				}
				return append(buf, program.Phase{Op: program.Sleep, Time: first}, program.Phase{Op: program.Work, Time: 100 - first})
			}
			return append(buf, program.Phase{Op: program.Work, Time: 1000})
		}
		c.Kernel.Tiles = 8
		mustSimulate(t, small(1, 4), prog([]program.Stream{{Commands: []program.Command{c}}}), Options{})
		return tiles
	}
	for _, first := range []program.Time{1, 50, 99} {
		if got := order(first); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("tickets handed out: %v", got)
		}
	}
}

// Posts on their way arrive when they are due, whatever else is on its way, and
// whoever waits knows who brought the flag to its count.
func TestPostsArrive(t *testing.T) {
	type arrival struct {
		at   program.Time
		from string
	}
	rapidtest.Check(t, func(t *rapid.T) {
		p := &program.Program{GPUs: make([]program.GPU, 1)}
		const flags = 3
		for f := range flags {
			p.NewFlag(fmt.Sprint("flag ", f+1))
		}
		var seen [flags + 1][]arrival
		for k := range rapid.IntRange(1, 4).Draw(t, "kernels") {
			name := fmt.Sprint("k", k)
			now := program.Time(0)
			var phases []program.Phase
			for range rapid.IntRange(1, 8).Draw(t, "posts") {
				pause := program.Time(rapid.IntRange(0, 4).Draw(t, "pause"))
				way := program.Time(rapid.SampledFrom([]int{0, 2, 3, 9}).Draw(t, "way"))
				f := program.Flag(rapid.IntRange(1, flags).Draw(t, "flag"))
				phases = append(phases, program.Phase{Op: program.Sleep, Time: pause}, program.Phase{Op: program.PostTo, Flag: f, Count: 1, Time: way})
				now += pause
				seen[f] = append(seen[f], arrival{now + way, name})
			}
			p.GPUs[0].Streams = append(p.GPUs[0].Streams, program.Stream{Name: name, Commands: []program.Command{kernel(name, 1, phases)}})
		}
		for f := 1; f <= flags; f++ {
			for i := range seen[f] {
				p.GPUs[0].Streams = append(p.GPUs[0].Streams, program.Stream{Name: "waits", Commands: []program.Command{{Op: program.Wait, Flag: program.Flag(f), Count: int64(i + 1)}}})
			}
		}
		r := must.Have(Simulate(small(1, 4), p, Options{}))(t)
		for s, st := range p.GPUs[0].Streams {
			c := st.Commands[0]
			if c.Op != program.Wait {
				continue
			}
			arrivals := seen[c.Flag]
			slices.SortStableFunc(arrivals, func(a, b arrival) int { return int(a.at - b.at) })
			last := arrivals[c.Count-1]
			var got Idle
			for _, idle := range r.Idle() {
				if idle.Stream == s && idle.Cause == program.FlagWait {
					got = idle
				}
			}
			// Of several that arrive in one nanosecond, any may have been the one.
			by := slices.ContainsFunc(arrivals, func(a arrival) bool {
				return a.at == last.at && got.Note == fmt.Sprintf("posted by GPU 0 %q", a.from)
			})
			if got.End != last.at || last.at > 0 && !by {
				t.Fatalf("flag %d was to reach %d at %d by %s: %+v", c.Flag, c.Count, last.at, last.from, got)
			}
		}
	})
}
