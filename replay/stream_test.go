package replay

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A column is 10 ns; rows are streams.
func TestStreams(t *testing.T) {
	ring := small(2, 1)
	ring.Engines = machine.Engines{Count: q(1), Rate: q(50e9), Latency: q(10e-9)}
	copyTo := func(name string, from, to int32, bytes float64) program.Command {
		return program.Command{Op: program.Start, Copy: &program.Copy{Name: name, From: from, Peer: to, Bytes: bytes}}
	}
	for _, c := range []struct {
		name string
		p    *program.Program
		want string
	}{
		{
			name: "copies queue for the engine, with its latency and rate",
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{copyTo("A", 0, 1, 1000)}},
				{Name: "b", Commands: []program.Command{copyTo("B", 0, 1, 500)}},
			}, nil),
			want: `
				0/a |AAA..|
				0/b |...BB|`,
		},
		{
			name: "the copy that waits longest has the engine next",
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{copyTo("A", 0, 1, 500)}},
				{Name: "b", Commands: []program.Command{copyTo("B", 0, 1, 500)}},
				{Name: "c", Commands: []program.Command{copyTo("C", 0, 1, 500)}},
			}, nil),
			want: `
				0/a |AA....|
				0/b |..BB..|
				0/c |....CC|`,
		},
		{
			name: "a pull uses the other's egress",
			p: prog(
				[]program.Stream{{Name: "a", Commands: []program.Command{copyTo("A", 1, 0, 1000)}}},
				[]program.Stream{{Name: "b", Commands: []program.Command{copyTo("B", 1, 0, 1000)}}}),
			// Two engines of 50 into one ingress of 100.
			want: `
				0/a |AAA|
				1/b |BBB|`,
		},
		{
			name: "a captured copy just lasts",
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{{Op: program.Start, Copy: &program.Copy{Name: "A", Time: 40, Bytes: 1e9, Free: true}}}},
				{Name: "b", Commands: []program.Command{copyTo("B", 0, 1, 500)}},
			}, nil),
			want: `
				0/a |AAAA|
				0/b |BB..|`,
		},
		{
			name: "a captured kernel holds no slot",
			p: prog([]program.Stream{
				{Name: "a", Commands: []program.Command{kernel("A", 1, work(30), func(k *program.Kernel) { k.Free = true })}},
				{Name: "b", Commands: []program.Command{kernel("B", 1, work(20))}},
			}, nil),
			want: `
				0/a |AAA|
				0/b |BB.|`,
		},
		{
			name: "events order streams",
			p: func() *program.Program {
				p := &program.Program{}
				f := p.NewFlag("A is done")
				p.GPUs = []program.GPU{{Streams: []program.Stream{
					{Name: "a", Queue: 1, Commands: []program.Command{kernel("A", 1, work(20)), {Op: program.Post, Flag: f, Count: 1}}},
					{Name: "b", Queue: 2, Commands: []program.Command{{Op: program.Wait, Flag: f, Count: 1}, kernel("B", 1, work(10))}},
				}}, {}}
				return p
			}(),
			want: `
				0/a |AA.|
				0/b |..B|`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustSimulate(t, ring, c.p, Options{})
			if got := draw(t, r.Run, trace.Queue, 0, 10); got != trim(c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, trim(c.want))
			}
		})
	}
}

// A copy of 500 bytes takes 10 ns and the engine's latency of 10, or of 2 behind another copy on
// its stream (rule S22).
func TestQueuedCopies(t *testing.T) {
	m := small(2, 1)
	m.Engines = machine.Engines{Count: q(1), Rate: q(50e9), Latency: q(10e-9), Queued: q(2e-9)}
	p := &program.Program{}
	f := p.NewFlag("the other stream is at 100")
	move := func(name string) program.Command {
		return program.Command{Op: program.Start, Copy: &program.Copy{Name: name, Peer: 1, Bytes: 500}}
	}
	until := program.Command{Op: program.Wait, Flag: f, Count: 1}
	p.GPUs = []program.GPU{{Streams: []program.Stream{
		{Name: "copies", Commands: []program.Command{
			move("first"), move("behind"),
			{Op: program.Delay, Delay: 5},
			move("behind a delay"),
			until, move("behind a wait"), until, move("behind no wait"), kernel("K", 1, work(10)), move("behind a kernel"),
		}},
		{Name: "other", Queue: 1, Commands: []program.Command{{Op: program.Delay, Delay: 100}, {Op: program.Post, Flag: f, Count: 1}}},
	}}, {}}
	got := map[string]program.Time{}
	r := mustSimulate(t, m, p, Options{})
	for _, s := range r.Run.Spans {
		if s.Kind == trace.Copy {
			got[r.Run.NameOf(s)] = s.End
		}
	}
	want := map[string]program.Time{"first": 20, "behind": 32, "behind a delay": 49, "behind a wait": 120, "behind no wait": 132, "behind a kernel": 162}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A collective is workgroups that wait for each other: it moves nothing until
// the last is there, and holds its slots from the first.
func TestGangMovesTogether(t *testing.T) {
	p := &program.Program{}
	arrived, done := p.NewFlag("arrived"), p.NewFlag("done")
	gang := func(peer int32) program.Command {
		return kernel("C", 1, []program.Phase{
			{Op: program.PostTo, Flag: arrived, Count: 1},
			{Op: program.WaitFor, Flag: arrived, Count: 2},
			{Op: program.Store, Peer: peer, Bytes: 1000},
			{Op: program.PostTo, Flag: done, Count: 1},
			{Op: program.WaitFor, Flag: done, Count: 2},
		}, func(k *program.Kernel) { k.Kind = trace.Collective })
	}
	p.GPUs = []program.GPU{
		{Streams: []program.Stream{{Name: "c", Commands: []program.Command{gang(1)}}}},
		{Streams: []program.Stream{{Name: "c", Commands: []program.Command{kernel("A", 1, work(30)), gang(0)}}}},
	}
	r := mustSimulate(t, small(2, 1), p, Options{})
	want := trim(`
		0/c |CCCC|
		1/c |AAAC|`)
	if got := draw(t, r.Run, trace.Queue, 0, 10); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFlagNeverOvertakesItsData(t *testing.T) {
	m := small(2, 1)
	m.Fabric.Latency = q(70e-9)
	for _, c := range []struct {
		name   string
		phases []program.Phase
		want   program.Time
	}{
		{"put", []program.Phase{{Op: program.Put, Peer: 1, Bytes: 1000, Flag: 1, Count: 1}}, 10 + 70},
		{"second put to the same peer", []program.Phase{{Op: program.Put, Peer: 1, Bytes: 1000}, {Op: program.Put, Peer: 1, Flag: 1, Count: 1}}, 10 + 70},
		{"put here", []program.Phase{{Op: program.Put, Peer: 0, Bytes: 1000, Flag: 1, Count: 1}}, 2},
		{"post after a store to a peer", []program.Phase{{Op: program.Store, Peer: 1, Bytes: 1000}, {Op: program.PostTo, Flag: 1, Count: 1}}, 10 + 70},
		{"post after a store here", []program.Phase{{Op: program.Store, Peer: 0, Bytes: 1000}, {Op: program.PostTo, Flag: 1, Count: 1}}, 1},
		{"post seen later", []program.Phase{{Op: program.PostTo, Flag: 1, Count: 1, Time: 33}}, 33},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &program.Program{}
			f := p.NewFlag("here")
			p.GPUs = []program.GPU{
				{Streams: []program.Stream{{Commands: []program.Command{kernel("A", 1, c.phases)}}}},
				{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Wait, Flag: f, Count: 1}, kernel("B", 1, work(1))}}}},
			}
			if r := mustSimulate(t, m, p, Options{}); r.Makespan != c.want+1 {
				t.Errorf("seen at %d, want %d", r.Makespan-1, c.want)
			}
		})
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

// Z is launched after Y, though in the place in memory of X that has ended: of
// two puts to one GPU at one instant Y's leaves first.
func TestTiesActInOrderOfLaunchThatIsNoPlace(t *testing.T) {
	put := func(name string, d program.Time) program.Command {
		return kernel(name, 1, []program.Phase{{Op: program.Work, Time: d}, {Op: program.Put, Peer: 1, Bytes: 1000}})
	}
	p := prog([]program.Stream{
		{Commands: []program.Command{kernel("X", 1, work(10)), put("Z", 10)}},
		{Commands: []program.Command{put("Y", 20)}},
	}, nil)
	r := mustSimulate(t, small(2, 2), p, Options{Level: Phases})
	if got, want := draw(t, r.Run, trace.Link, trace.Transfer, 10), "0/000.0 |..YZ|"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Of two flags that arrive at one instant the one that was sent first does first,
// though the other has the place in memory of one that is there already.
func TestPostsOfOneInstantArriveAsSent(t *testing.T) {
	p := &program.Program{}
	done, early, late := p.NewFlag("done"), p.NewFlag("early"), p.NewFlag("late")
	waits := func(name string, f program.Flag) []program.Stream {
		return []program.Stream{{Commands: []program.Command{kernel(name, 1, []program.Phase{{Op: program.WaitFor, Flag: f, Count: 1}, {Op: program.Put, Peer: 1, Bytes: 1000}})}}}
	}
	p.GPUs = []program.GPU{{Streams: append(waits("Z", late), waits("Y", early)...)}, {}}
	send := kernel("send", 1, []program.Phase{
		{Op: program.PostTo, Flag: done, Count: 1, Time: 1},
		{Op: program.PostTo, Flag: early, Count: 1, Time: 10},
		{Op: program.Sleep, Time: 4},
		{Op: program.PostTo, Flag: late, Count: 1, Time: 6},
	})
	p.GPUs[1].Streams = []program.Stream{{Commands: []program.Command{send}}}
	r := mustSimulate(t, small(2, 2), p, Options{Level: Phases})
	if got, want := draw(t, r.Run, trace.Link, trace.Transfer, 10), "0/000.0 |.YZ|"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
