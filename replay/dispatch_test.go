package replay

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
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
