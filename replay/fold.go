package replay

import (
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// Folding
//
// GPUs that a symmetry of machine and program maps to each other do the same at the same
// times, so one of them is simulated for all. A symmetry is a permutation of the GPUs under
// which every command and phase of a GPU becomes that of its image, its peers and flags
// those of the image, and every route the route between the images (symmetry.go finds and
// proves them):
//
//	8 GPUs of a ring       0→1→2→3→4→5→6→7→0       one class of 8
//	2 nodes of 4, rings    0→4→0, 1→5→1, ...       4 classes of 2: rings leave a node at
//	that cross nodes                               different GPUs
//
// The permutations form a group of some order, of which only the identity maps a GPU with
// work to itself. The simulation runs the lowest GPU of each class.
//
//   - A flag stands for its class. One post counts for all images of the post that
//     reach the flag: order / flags in the class.
//   - A resource stands for its class. A flow crosses it for all images of the flow that
//     do: its cost is that of all crossings in the class, times order / resources in the
//     class. Max-min fair rates are unique, so the images' rates are equal.
//   - Spans and traffic of the other GPUs are written when the run has ended, idle intervals when
//     somebody asks for those of a GPU.
//
// Of a program that says which GPUs its flags are of (program.Owners), only the GPUs that are simulated,
// and those that prove the symmetry, need to be written (Share).
//
// Results are those without folding (TestFoldedAsUnfolded, TestFoldedRandomPrograms), but for three
// things: where events of several GPUs fall into one instant, which of them is named as the cause;
// a nanosecond for each phase in random programs whose equal GPUs round differently without
// folding; and the rates of components of over 256 paths, which are smaller when folded and so
// more exact (Result.Approximation). Runs of which more than kernels is recorded, and GPUs that
// differ in anything, are not folded.

// A fold is the symmetry of a simulation.
type fold struct {
	order     int32   // number of permutations
	radix     []int32 // orders of the generators; their product is order
	gpus      classes
	flags     classes
	resources classes
	made      []launched     // by span
	group     program.Group  // of a program of which only some GPUs are written (Share)
	names     *program.Flags // likewise; nil: the images of flags were found
}

// add adds a generator.
func (f *fold) add(r rotation) {
	f.order, f.radix = f.order*int32(r.order()), append(f.radix, int32(r.order()))
}

// launched is a command of a GPU's stream.
type launched struct{ gpu, stream, command int32 }

// classes are things, numbered from 0, that the permutations map to each other.
type classes struct {
	maps [][]int32 // by generator and thing: its image; none: it has none
	of   []int32   // by thing: the lowest of its class
	turn []int32   // by thing: a permutation that maps the lowest to it
	size []int32   // by thing: number of things in the class
	last []int32   // by thing: the last of its class
}

// newClasses follows the generators' maps.
func (f *fold) newClasses(maps [][]int32, n int) classes {
	c := classes{maps: maps, of: slices.Repeat([]int32{none}, n), turn: make([]int32, n), size: make([]int32, n), last: make([]int32, n)}
	var members []int32
	for first := range int32(n) {
		if c.of[first] != none {
			continue
		}
		c.of[first] = first
		members = append(members[:0], first)
		for i := 0; i < len(members); i++ {
			unit := int32(1)
			for g, m := range maps {
				if to := m[members[i]]; to != none && c.of[to] == none {
					c.of[to], c.turn[to] = first, f.plus(c.turn[members[i]], unit)
					members = append(members, to)
				}
				unit *= f.radix[g]
			}
		}
		last := slices.Max(members)
		for _, x := range members {
			c.size[x], c.last[x] = int32(len(members)), last
		}
	}
	return c
}

// plus composes two permutations, minus a permutation with the inverse of the other. A
// permutation is how often each generator is applied, as digits of a number.
func (f *fold) plus(a, b int32) int32 {
	sum, unit := int32(0), int32(1)
	for _, n := range f.radix {
		sum += unit * ((a/unit%n + b/unit%n) % n)
		unit *= n
	}
	return sum
}

func (f *fold) minus(a, b int32) int32 {
	inverse, unit := int32(0), int32(1)
	for _, n := range f.radix {
		inverse += unit * ((n - b/unit%n) % n)
		unit *= n
	}
	return f.plus(a, inverse)
}

// image is where a permutation maps a thing.
func (f *fold) image(c *classes, x, turn int32) int32 {
	for g, n := range f.radix {
		for range turn % n {
			x = c.maps[g][x]
		}
		turn /= n
	}
	return x
}

// times is for how many of its images a post or crossing of a thing counts.
func (f *fold) times(c *classes, x int32) int32 { return f.order / c.size[x] }

// flagOf is the flag that stands for f, and the number of posts that one post stands for.
func (s *sim) flagOf(f program.Flag) (program.Flag, int64) {
	if s.fold == nil || f == program.NoFlag {
		return f, 1
	}
	return program.Flag(s.fold.flags.of[f]), int64(s.fold.times(&s.fold.flags, int32(f)))
}

// runs reports whether the GPU is simulated: it is the lowest of its class.
func (f *fold) runs(gpu int) bool { return f == nil || f.gpus.of[gpu] == int32(gpu) }

// crossings are those of a route, by class.
func (f *fold) crossings(way []fluid.Crossing) []fluid.Crossing {
	if f == nil {
		return way
	}
	folded := way[:0]
	for _, x := range way {
		x.Cost *= float64(f.times(&f.resources, x.Resource))
		x.Resource = f.resources.of[x.Resource]
		if at := slices.IndexFunc(folded, func(y fluid.Crossing) bool { return y.Resource == x.Resource }); at >= 0 {
			folded[at].Cost += x.Cost
		} else {
			folded = append(folded, x)
		}
	}
	return folded
}

// poster is the GPU that a post comes from whose poster is gpu in the simulation: of the
// images of the post that reach the flag, that of the last GPU.
func (f *fold) poster(gpu int32, posted, reached program.Flag) int32 {
	if f == nil {
		return gpu
	}
	switch f.flags.size[reached] {
	case f.order:
		return f.image(&f.gpus, gpu, f.minus(f.flags.turn[reached], f.flags.turn[posted]))
	case 1:
		return f.gpus.last[gpu]
	}
	last := int32(none)
	for turn := range f.order {
		if f.reaches(posted, turn, reached) {
			last = max(last, f.image(&f.gpus, gpu, turn))
		}
	}
	return last
}

// made notes the command of the span that was opened.
func (s *sim) made(st *stream) {
	if s.fold != nil && s.program.Equal == nil {
		s.fold.made = append(s.fold.made, launched{st.gpu, st.index, int32(st.next)})
	}
}

// folded counts the GPUs that work and their classes.
func (s *sim) folded() (n folded) {
	if s.fold == nil {
		return n
	}
	for g := range s.program.GPUs {
		if len(s.program.GPUs[s.fold.gpus.of[g]].Streams) > 0 {
			n.GPUs++
			if s.fold.runs(g) {
				n.Classes++
			}
		}
	}
	return n
}

// unfoldRun writes the spans of all GPUs, in the order in which they begin without folding:
// streams start copies, then each GPU in turn dispatches its kernels.
func (s *sim) unfoldRun() {
	f, folded := s.fold, s.record.Run.Spans
	together := func(a, b *trace.Span) bool {
		return a.Start == b.Start && (a.Kind == trace.Copy) == (b.Kind == trace.Copy)
	}
	s.record = newRecorder(s.machine, s.program, s.record.options)
	from := 0
	s.record.Read = func() float64 { return float64(from) / float64(len(folded)) }
	for from < len(folded) {
		to := from + 1
		for to < len(folded) && together(&folded[from], &folded[to]) {
			to++
		}
		for g := range s.program.GPUs {
			for i := from; i < to; i++ {
				if by := f.made[i]; by.gpu == f.gpus.of[g] {
					st, wgs := &s.program.GPUs[g].Streams[by.stream], 0
					if k := s.program.GPUs[by.gpu].Streams[by.stream].Commands[by.command].Kernel; k != nil {
						wgs = k.WGs
					}
					span := s.record.command(int32(g), st, &st.Commands[by.command], wgs, folded[i].Start)
					s.record.end(span, folded[i].End)
				}
			}
		}
		from = to
	}
}

// unfold shares the bytes counted for a class among its GPUs.
func (t *ledger) unfold(f *fold) {
	for _, bytes := range t.bytes {
		sums := make([]float64, len(bytes))
		for i, b := range bytes {
			gpu, column := i/int(numColumns), i%int(numColumns)
			sums[int(f.gpus.of[gpu])*int(numColumns)+column] += b * float64(f.times(&f.gpus, int32(gpu)))
		}
		for i := range bytes {
			bytes[i] = sums[int(f.gpus.of[i/int(numColumns)])*int(numColumns)+i%int(numColumns)]
		}
	}
}
