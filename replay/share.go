package replay

import (
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// Share writes those of the first n GPUs of a program that are not images of others under a symmetry
// of machine and program: the lowest of each class. The results are those of the whole program, with
// spans and idle times of these GPUs only (trace.Run.Like).
//
// may says which permutations can be symmetries, write writes a GPU. Whether one is a symmetry is seen
// from some of the GPUs, which write has written for that: the first and the last class, the GPUs that
// they become, and those that become them. The images of flags are what the program states
// (program.Owners). If no permutation is a symmetry, all GPUs are written.
func Share(m *machine.Machine, p *program.Program, n int, may func(to []int32) bool, write func(gpu int)) {
	s := &sim{machine: m, program: p, gpus: make([]gpu, len(p.GPUs))}
	s.newFlows()
	f := &fold{order: 1}
	gpus := f.newClasses(nil, len(s.gpus))
	written := make([]bool, n)
	need := func(all ...int32) {
		for _, g := range all {
			if !written[g] {
				written[g] = true
				write(int(g))
			}
		}
	}
	var taken []rotation
	var known []*symmetry
	plain := map[*program.Kernel]bool{}
	for _, r := range rotations(n) {
		if slices.ContainsFunc(taken, func(t rotation) bool { return !r.commutes(t) }) {
			continue
		}
		y := s.newSymmetry(r, n, plain)
		if y.stated = true; !may(y.gpus[:n]) || !y.ofMachine() {
			continue
		}
		with := &fold{order: f.order, radix: slices.Clone(f.radix)}
		with.add(r)
		classes := with.newClasses(append(slices.Clone(gpus.maps), y.gpus), len(s.gpus))
		first, last := int32(0), slices.Max(classes.of[:n])
		back := func(g int32) int32 { return int32(slices.Index(y.gpus, g)) }
		need(first, y.gpus[first], back(first), last, y.gpus[last], back(last))
		y.flags = newBijection(p.Flags.Len())
		same := func(g int32) bool { return y.sameGPU(int(g), int(y.gpus[g])) }
		if same(first) && same(back(first)) && (last == first || same(last) && same(back(last))) {
			taken, known, f, gpus = append(taken, r), append(known, y), with, classes
		}
	}
	self := s.newSymmetry(rotation{1, 1}, n, plain) // finds the routes of the GPUs that are simulated
	for g := range int32(n) {
		if gpus.of[g] == g {
			need(g)
		}
	}
	self.flags, self.resources = newBijection(p.Flags.Len()), newBijection(len(s.flows.capacities))
	for g := 0; f.order > 1 && g < n; g++ {
		if gpus.of[g] == int32(g) {
			self.sameGPU(g, g)
		}
	}
	exact := func(y *symmetry) bool { // the last poster is one of several images
		for flag := range y.last {
			if !p.Flags.OfOne(flag) {
				return true
			}
		}
		return false
	}
	if f.order == 1 || slices.ContainsFunc(known, exact) || !f.routes(gpus, self.routed, known) {
		for g := range int32(n) {
			need(g)
		}
		return
	}
	for g := range n {
		if gpus.of[g] != int32(g) {
			p.GPUs[g] = program.GPU{}
		}
	}
	f.names, p.Equal = &p.Flags, f
}

// routes finds the classes of resources: those that the images of the routes of the GPUs that are simulated cross.
// It reports whether all GPUs have such routes.
func (f *fold) routes(gpus classes, keys map[[2]int32]bool, known []*symmetry) bool {
	f.gpus, f.group.Of, f.group.By = gpus, gpus.of, gpus.turn
	for t := range f.order {
		to := slices.Clone(gpus.maps[0])
		for x := range to {
			to[x] = int32(x)
		}
		unit := int32(1)
		for g, order := range f.radix {
			if t/unit%order > 0 {
				for x, y := range f.group.To[t-unit] {
					to[x] = gpus.maps[g][y]
				}
				break
			}
			unit *= order
		}
		f.group.To, f.group.Back = append(f.group.To, to), append(f.group.Back, f.minus(0, t))
	}
	var maps [][]int32
	for _, y := range known {
		for key := range keys {
			for _, to := range f.group.To {
				image := [2]int32{to[key[0]], key[1]}
				if key[1] >= 0 {
					image[1] = to[key[1]]
				}
				if !y.sameRoute(image[0], image[1]) {
					return false
				}
			}
		}
		maps = append(maps, y.resources.to)
	}
	f.resources = f.newClasses(maps, len(known[0].resources.to))
	return true
}

// stated is the fold with the classes of flags that the program states.
func (f *fold) stated(s *sim) *fold {
	n := s.program.Flags.Len()
	f.flags = classes{of: make([]int32, n), turn: make([]int32, n), size: make([]int32, n)}
	for i, x := range s.program.Flags.Turns(&f.group) {
		f.flags.of[i], f.flags.turn[i], f.flags.size[i] = int32(x.Of), x.By, x.Size
	}
	return f
}

// reaches reports whether a permutation maps a posted flag to another one.
func (f *fold) reaches(posted program.Flag, turn int32, reached program.Flag) bool {
	if f.names == nil {
		return f.image(&f.flags, int32(posted), turn) == int32(reached)
	}
	return f.flags.of[posted] == f.flags.of[reached] && f.names.Image(posted, reached, func(g int32) int32 { return f.group.To[turn][g] })
}
