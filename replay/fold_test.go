package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
	"pgregory.net/rapid"
)

// A turned program has a block of GPUs that do the same, each with its peers at the same
// distances and flags of its own, of a pair or of all.
type turned struct {
	p       program.Program
	ranks   int
	flags   map[string]program.Flag
	kernels []kernelDraw
}

// A kernelDraw is a kernel of every GPU, with phases relative to it.
type kernelDraw struct {
	stream, wgs, tiles int
	delay              program.Time
	free               bool
	phases             []program.Phase // Peer: distance; Flag: index of kinds
}

func (x *turned) flag(name string, of *program.Owners, n int) program.Flag {
	f, ok := x.flags[name]
	if !ok {
		f = x.p.NewFlagsOf(of, n, func(i int) string { return fmt.Sprint(name, i) })[0]
		x.flags[name] = f
	}
	return f
}

// place is a phase on a GPU. Flag 1 is a flag of the GPU at the phase's distance, 2 of the two
// GPUs, 3 of all.
func (x *turned) place(k int, p program.Phase, rank int) program.Phase {
	to := (rank + int(p.Peer)) % x.ranks
	switch p.Flag {
	case 1:
		each := &program.Owners{Each: 1}
		for g := range x.ranks {
			each.GPUs = append(each.GPUs, int32(g))
		}
		p.Flag = x.flag(fmt.Sprint(k, " of "), each, x.ranks) + program.Flag(to)
	case 2:
		both := &program.Owners{GPUs: []int32{int32(min(rank, to)), int32(max(rank, to))}, Family: k}
		p.Flag = x.flag(fmt.Sprint(k, " of ", both.GPUs), both, 1)
	case 3:
		p.Flag = x.flag(fmt.Sprint(k, " of all"), nil, 1)
	}
	p.Peer = int32(to)
	return p
}

func drawTurned(t *rapid.T) *turned {
	x := &turned{ranks: rapid.IntRange(2, 6).Draw(t, "ranks"), flags: map[string]program.Flag{}}
	for range rapid.IntRange(1, 5).Draw(t, "kernels") {
		d := kernelDraw{
			stream: rapid.IntRange(0, 1).Draw(t, "stream"), wgs: rapid.IntRange(1, 5).Draw(t, "wgs"), free: rapid.Bool().Draw(t, "free"),
			delay: program.Time(rapid.IntRange(0, 300).Draw(t, "delay")), tiles: rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "tiles"),
		}
		meet := rapid.IntRange(0, 3).Draw(t, "meet") // at which flag the GPUs wait for each other
		peer := int32(rapid.IntRange(1, x.ranks-1).Draw(t, "distance"))
		posts := int64(1)
		for range rapid.IntRange(1, 4).Draw(t, "phases") {
			bytes := float64(rapid.IntRange(0, 5000).Draw(t, "bytes"))
			ns := program.Time(rapid.IntRange(0, 400).Draw(t, "time"))
			d.phases = append(d.phases, rapid.SampledFrom([]program.Phase{
				{Op: program.Work, Time: ns, Read: bytes, Write: 100},
				{Op: program.Work, Time: ns, Slowdown: 1.5},
				{Op: program.Store, Peer: peer, Time: ns, Bytes: bytes + 1, Read: bytes},
				{Op: program.Put, Peer: peer, Bytes: bytes + 1, DMA: rapid.Bool().Draw(t, "dma"), Flag: 1, Count: 1},
				{Op: program.Sleep, Time: ns},
			}).Draw(t, "phase"))
		}
		if meet > 0 { // all have posted before any waits, so that none holds what another needs
			d.free = true
			switch meet {
			case 2:
				posts = 2
				if 2*int(peer)%x.ranks != 0 { // each pair has two flags, of which one is posted by either
					posts = 1
				}
			case 3:
				posts = int64(x.ranks)
			}
			each := int64(max(d.tiles, d.wgs))
			if d.tiles > 0 {
				d.tiles = 0
				each = int64(d.wgs)
			}
			d.phases = append(d.phases,
				program.Phase{Op: program.PostTo, Flag: program.Flag(meet), Peer: peer, Count: 1, Time: program.Time(rapid.IntRange(0, 50).Draw(t, "flight"))},
				program.Phase{Op: program.WaitFor, Flag: program.Flag(meet), Count: posts * each})
			if meet != 3 {
				d.phases[len(d.phases)-1].Peer = map[int]int32{1: 0, 2: peer}[meet]
			}
		}
		x.kernels = append(x.kernels, d)
	}
	x.p.GPUs = make([]program.GPU, x.ranks)
	for rank := range x.ranks {
		streams := []program.Stream{{Name: "a", Queue: 7}, {Name: "b", Queue: 9, Priority: 1}}
		for k, d := range x.kernels {
			phases := make([]program.Phase, len(d.phases))
			for i, p := range d.phases {
				phases[i] = x.place(k, p, rank)
			}
			kernel := &program.Kernel{
				Name: fmt.Sprint("kernel ", k), Kind: rapidKind(k), WGs: d.wgs, Tiles: d.tiles, Free: d.free,
				Recipe: func(_ int, buf []program.Phase) []program.Phase { return append(buf, phases...) },
			}
			streams[d.stream].Commands = append(streams[d.stream].Commands,
				program.Command{Op: program.Launch, Kernel: kernel, Delay: d.delay, Origin: int32(10*rank + k)},
				program.Command{Op: program.Start, Copy: &program.Copy{Name: "copy", From: int32(rank), Peer: int32((rank + 1) % x.ranks), Bytes: 3000}, Origin: -1})
		}
		x.p.GPUs[rank].Streams = streams
	}
	if x.p.Flags.Len() == 1 {
		x.p.NewFlag("none")
	}
	return x
}

func rapidKind(k int) trace.Kind {
	if k%2 == 1 {
		return trace.Collective
	}
	return trace.Compute
}

// TestFoldedRandomPrograms: programs of GPUs that do the same end at the same times when they are
// folded, with the same spans and bytes, on switches, meshes and rings, in one node and two.
func TestFoldedRandomPrograms(t *testing.T) {
	drawn, folds, rounded := 0, 0, 0
	rapidtest.Check(t, func(t *rapid.T) {
		drawn++
		x := drawTurned(t)
		m := drawMachine(t, x.ranks)
		a, errA := Simulate(m, &x.p, Options{})
		b, errB := Simulate(m, &x.p, Options{Unfolded: true})
		if fmt.Sprint(errA) != fmt.Sprint(errB) {
			t.Fatalf("%v, unfolded %v", errA, errB)
		}
		if errA != nil || a.Folded.Classes == 0 {
			return
		}
		folds++
		written := 0
		some := program.Program{GPUs: make([]program.GPU, len(x.p.GPUs)), Flags: x.p.Flags}
		Share(&m, &some, x.ranks, func([]int32) bool { return true }, func(g int) {
			written++
			some.GPUs[g] = x.p.GPUs[g]
		})
		if c, err := Simulate(m, &some, Options{}); err != nil || some.Equal == nil || c.Folded != a.Folded || !slices.Equal(ofOwn(c, spansOf(a)), spansOf(c)) || !slices.Equal(c.Traffic, a.Traffic) {
			t.Fatalf("with %d of %d GPUs written: %v, %+v; with all: %+v", written, x.ranks, err, c, a)
		}
		if len(a.Run.Spans) != len(b.Run.Spans) || len(a.Traffic) != len(b.Traffic) {
			t.Fatalf("%d ns, %d spans, %d of traffic, unfolded %d, %d, %d", a.Makespan, len(a.Run.Spans), len(a.Traffic), b.Makespan, len(b.Run.Spans), len(b.Traffic))
		}
		x1, x2 := spansOf(a), spansOf(b)
		slack := program.Time(0)
		if !turns(a, x2) {
			rounded++
			slack = program.Time(20 * len(x.kernels)) // a nanosecond for each phase and copy of a GPU
		}
		for i, s := range x1 {
			if u := x2[i]; s.name != u.name || s.rank != u.rank || max(s.start-u.start, u.start-s.start, s.end-u.end, u.end-s.end) > slack {
				t.Fatalf("%v, unfolded %v", s, u)
			}
		}
		for i, y := range b.Traffic {
			if z := a.Traffic[i]; z.GPU != y.GPU || z.Resource != y.Resource || z.Name != y.Name || math.Abs(z.Bytes-y.Bytes) > 1e-9*y.Bytes {
				t.Fatalf("traffic %v, unfolded %v", z, y)
			}
		}
	})
	if folds < drawn/2 || rounded > folds/5 {
		t.Errorf("%d of %d programs were folded; in %d GPUs that do the same differ by rounding without folding", folds, drawn, rounded)
	}
}

// A spanOf is a kernel or copy of a GPU.
type spanOf struct {
	rank, queue int
	name        string
	start, end  program.Time
}

// ofOwn are the spans of the GPUs that have their own in a run.
func ofOwn(r *Result, all []spanOf) []spanOf {
	return slices.DeleteFunc(all, func(s spanOf) bool { return !r.Run.Own(s.rank) })
}

// spansOf lists a run's kernels and copies by GPU, queue and start.
func spansOf(r *Result) (all []spanOf) {
	for _, s := range r.Run.Spans {
		l := r.Run.Lanes[s.Lane]
		all = append(all, spanOf{int(l.Rank), int(l.ID), r.Run.Names[s.Name], s.Start, s.End})
	}
	slices.SortFunc(all, func(a, b spanOf) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.queue, b.queue), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	return all
}

// turns reports whether GPUs of one class have equal spans in a run that was not folded.
func turns(folded *Result, spans []spanOf) bool {
	n, classes := folded.Folded.GPUs, map[string][]spanOf{} // by the folded spans of a GPU
	each, per := spansOf(folded), len(spans)/folded.Folded.GPUs
	if len(spans) != n*per {
		return false
	}
	for g := range n {
		own := slices.Clone(spans[g*per : (g+1)*per])
		text := slices.Clone(each[g*per : (g+1)*per])
		for i := range own {
			own[i].rank, text[i].rank = 0, 0
		}
		key := fmt.Sprint(text)
		if was, ok := classes[key]; ok && !slices.Equal(was, own) {
			return false
		}
		classes[key] = own
	}
	return true
}

// Programs that differ in anything are not folded.
func TestNotFolded(t *testing.T) {
	for name, change := range map[string]func(p *program.Program){
		"duration": func(p *program.Program) { p.GPUs[2].Streams[0].Commands[0].Kernel.Each[0].Time++ },
		"delay":    func(p *program.Program) { p.GPUs[1].Streams[0].Commands[0].Delay = 5 },
		"priority": func(p *program.Program) { p.GPUs[3].Streams[0].Priority = 1 },
		"straggler": func(p *program.Program) {
			p.GPUs[0].Streams[0].Commands = append(p.GPUs[0].Streams[0].Commands, program.Command{Op: program.Delay, Delay: 1})
		},
		"peer":       func(p *program.Program) { p.GPUs[0].Streams[0].Commands[0].Kernel.Each[1].Peer = 2 },
		"other flag": func(p *program.Program) { p.GPUs[2].Streams[0].Commands[1].Flag = 1 },
	} {
		p := &program.Program{GPUs: make([]program.GPU, 4)}
		for g := range p.GPUs {
			f := p.NewFlag(fmt.Sprint("flag ", g))
			p.GPUs[g].Streams = []program.Stream{{Name: "main", Commands: []program.Command{
				{Op: program.Launch, Kernel: &program.Kernel{Name: "k", WGs: 2, Free: true, Each: []program.Phase{
					{Op: program.Work, Time: 10}, {Op: program.Store, Peer: int32((g + 1) % 4), Bytes: 100, Time: 10},
				}}},
				{Op: program.Post, Flag: f, Count: 1},
				{Op: program.Wait, Flag: f, Count: 1},
			}}}
		}
		r, err := Simulate(small(4, 2), p, Options{})
		if err != nil || r.Folded != (folded{4, 1}) {
			t.Fatalf("%v, %v", r, err)
		}
		change(p)
		if r, err = Simulate(small(4, 2), p, Options{}); err == nil && r.Folded.Classes == 1 {
			t.Errorf("%s: folded into one class", name)
		}
	}
}
