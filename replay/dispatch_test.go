package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// A column is 10 ns; rows are CUs and their slots.
func TestDispatch(t *testing.T) {
	one := func(c ...program.Command) []program.Stream { return []program.Stream{{Name: "s", Commands: c}} }
	for _, c := range []struct {
		name string
		cus  int
		p    *program.Program
		want string
	}{
		{
			name: "in order, to the emptiest CU, the lowest among equals",
			cus:  3,
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 1, work(20), threads(4), pipe(.5))}},
				{Name: "b", Commands: []program.Command{kernel("B", 3, work(10), threads(4), pipe(.5))}},
			}),
			want: `
				0/000.0 |AA|
				0/000.1 |B.|
				0/001.0 |B.|
				0/002.0 |B.|`,
		},
		{
			name: "a half-full last wave",
			cus:  2,
			p:    prog(one(kernel("A", 3, work(20)))),
			want: `
				0/000.0 |AAAA|
				0/001.0 |AA..|`,
		},
		{
			name: "two slots freed on each CU at one instant are refilled in turn: a tail has one on each",
			cus:  2,
			p:    prog(one(kernel("A", 6, work(10), threads(4), pipe(.5)))),
			want: `
				0/000.0 |AA|
				0/000.1 |A.|
				0/001.0 |AA|
				0/001.1 |A.|`,
		},
		{
			name: "one for each that left, on every CU, before a second on any",
			cus:  2,
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 2, work(10))}},
				{Name: "b", Commands: []program.Command{kernel("B", 2, work(10), threads(4), pipe(.5))}},
			}),
			want: `
				0/000.0 |AB|
				0/001.0 |AB|`,
		},
		{
			name: "a stream's next kernel starts after the last workgroup and the gap",
			cus:  2,
			p: prog(one(kernel("A", 3, work(20)), func() program.Command {
				c := kernel("B", 2, work(10))
				c.Delay = 10
				return c
			}())),
			want: `
				0/000.0 |AAAA.B|
				0/001.0 |AA...B|`,
		},
		{
			name: "a later kernel gets only what an earlier cannot use",
			cus:  2,
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 3, work(20))}},
				{Name: "b", Commands: []program.Command{kernel("B", 2, work(10))}},
			}),
			want: `
				0/000.0 |AAAA|
				0/001.0 |AABB|`,
		},
		{
			name: "a later kernel that fits where the earlier does not starts at once",
			cus:  1,
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 2, work(20), threads(5), pipe(.1))}},
				{Name: "b", Commands: []program.Command{kernel("B", 2, work(10), threads(3), pipe(.1))}},
			}),
			want: `
				0/000.0 |AAAA|
				0/000.1 |BB..|`,
		},
		{
			name: "priority decides among those who wait and preempts nobody",
			cus:  1,
			p: prog([]program.Stream{
				{Name: "low", Commands: []program.Command{kernel("A", 3, work(20))}},
				{Name: "high", Priority: 1, Commands: []program.Command{{Op: program.Delay, Delay: 10}, kernel("B", 2, work(10))}},
			}),
			want: `0/000.0 |AABBAAAA|`,
		},
		{
			name: "a CU empties for a workgroup of higher priority that needs more than one that left, the other keeps starting workgroups",
			cus:  2,
			p: prog([]program.Stream{
				{Name: "low", Commands: []program.Command{kernel("A", 2, work(20), threads(4), pipe(.1)), kernel("C", 4, work(20), threads(4), pipe(.1))}},
				{Name: "other", Commands: []program.Command{kernel("B", 6, work(30), threads(4), pipe(.1))}},
				{Name: "high", Priority: 1, Commands: []program.Command{{Op: program.Delay, Delay: 10}, kernel("H", 1, work(30), threads(8), pipe(.1))}},
			}),
			want: `
				0/000.0 |AA.HHHBBB.|
				0/000.1 |BBB...CCCC|
				0/001.0 |AABBBBBBCC|
				0/001.1 |BBBBBBCC..|`,
		},
		{
			name: "priority decides among those who come at one instant",
			cus:  1,
			p: prog([]program.Stream{
				{Name: "low", Commands: []program.Command{kernel("A", 1, work(20))}},
				{Name: "high", Priority: 1, Commands: []program.Command{kernel("B", 1, work(10))}},
			}),
			want: `0/000.0 |BAA|`,
		},
		{
			name: "an exclusive workgroup needs the whole CU",
			cus:  2,
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 1, work(30), threads(1))}},
				{Name: "b", Commands: []program.Command{kernel("B", 2, work(10), threads(0), func(k *program.Kernel) { k.Footprint.Exclusive = true })}},
			}),
			want: `
				0/000.0 |AAA|
				0/001.0 |BB.|`,
		},
		{
			name: "two workgroups share the pipes of their CU",
			cus:  1,
			p:    prog(one(kernel("A", 2, work(10), threads(4)))),
			want: `
				0/000.0 |AA|
				0/000.1 |AA|`,
		},
		{
			name: "one that joins half way slows the other from there",
			cus:  1,
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 1, work(40), threads(4))}},
				{Name: "b", Commands: []program.Command{{Op: program.Delay, Delay: 20}, kernel("B", 1, work(10), threads(4))}},
			}),
			// 20 of A's 40 are done at 20; both run at half speed until B is done at 40.
			want: `
				0/000.0 |AAAAA|
				0/000.1 |..BB.|`,
		},
		{
			name: "waiting workgroups hold their slots",
			cus:  1,
			p: func() *program.Program {
				p := &program.Program{}
				f := p.NewFlag("go")
				p.GPUs = []program.GPU{{Streams: []program.Stream{
					{Name: "a", Commands: []program.Command{kernel("A", 1, []program.Phase{{Op: program.WaitFor, Flag: f, Count: 1}, {Op: program.Work, Time: 10}})}},
					{Name: "b", Commands: []program.Command{kernel("B", 1, work(10))}},
					{Name: "host", Host: true, Commands: []program.Command{{Op: program.Delay, Delay: 30}, {Op: program.Post, Flag: f, Count: 1}}},
				}}}
				return p
			}(),
			want: `0/000.0 |AAAAB|`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustSimulate(t, small(len(c.p.GPUs), c.cus), c.p, Options{Level: Phases})
			if got := draw(t, r.Run, trace.Slot, trace.Workgroup, 10); got != trim(c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, trim(c.want))
			}
		})
	}
}

// Tiles that workgroups own wait for them however late they come; others go to whoever asks.
func TestPersistent(t *testing.T) {
	late := func(tiles, owned int) *program.Program {
		return prog([]program.Stream{
			{Name: "first", Commands: []program.Command{kernel("X", 1, work(30))}},
			{Name: "tiles", Commands: []program.Command{kernel("T", 2, work(10), persistent(tiles, owned))}},
		})
	}
	for _, c := range []struct {
		name         string
		tiles, owned int
		want         string
	}{
		{"all owned", 6, -1, `
			0/000.0 |TTT...|
			0/001.0 |...TTT|`},
		{"one owned, the rest by ticket", 7, 1, `
			0/000.0 |TTTTT|
			0/001.0 |...TT|`},
		{"none owned", 7, 0, `
			0/000.0 |TTTTT|
			0/001.0 |...TT|`},
		{"two owned wait for their late owner", 7, 2, `
			0/000.0 |TTTTT|
			0/001.0 |...TT|`},
		{"three owned", 6, 3, `
			0/000.0 |TTT...|
			0/001.0 |...TTT|`},
		{"fewer tiles than workgroups", 1, -1, `0/000.0 |T..|`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustSimulate(t, small(1, 2), late(c.tiles, c.owned), Options{Level: Workgroups})
			if got := draw(t, r.Run, trace.Persistent, trace.Workgroup, 10); got != trim(c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, trim(c.want))
			}
		})
	}
}

// Whoever brings a counter to its count does what is left of the tile, at once;
// the others go on to their next tile. "done" marks who was last.
func TestLastFinisherGoesOn(t *testing.T) {
	p := &program.Program{}
	pairs := []program.Flag{p.NewFlag("pair 0"), p.NewFlag("pair 1"), p.NewFlag("pair 2")}
	took := []program.Time{20, 10, 20, 10, 20, 90} // by tile; workgroup w has tiles w, w+2, w+4
	k := kernel("T", 2, nil, persistent(6, -1))
	k.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		return append(buf,
			program.Phase{Op: program.Work, Time: took[tile]},
			program.Phase{Op: program.PostTo, Flag: pairs[tile/2], Count: 1, Last: 2},
			program.Phase{Op: program.Sleep, Time: 10, Mark: "done"})
	}
	p.GPUs = []program.GPU{{Streams: []program.Stream{{Name: "tiles", Commands: []program.Command{k}}}}}
	r := mustSimulate(t, small(1, 2), p, Options{Level: Phases})
	// Workgroup 0 ends its tiles at 20, 30+20 and 60+20, and is last of the first
	// two pairs, each of which costs it 10; workgroup 1 ends its own at 10, 20 and 110.
	var got []string
	for _, s := range r.Run.Spans {
		if r.Run.NameOf(s) == "done" {
			got = append(got, fmt.Sprintf("%d by %d", s.Start, r.Run.Lanes[s.Lane].ID))
		}
	}
	if want := "[30 by 0 60 by 0 120 by 1]"; fmt.Sprint(got) != want || r.Makespan != 120 {
		t.Errorf("got %v until %d, want %s until 120", got, r.Makespan, want)
	}
}

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
			Name: name, Kind: trace.Compute, WGs: wgs, Pipe: 0.01, Footprint: program.Footprint{Threads: threads, Registers: 16, Shared: shared},
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
