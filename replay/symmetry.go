package replay

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A rotation moves each GPU of a block of consecutive ones a step on, around the block:
// those of a node, or with a step of a node's GPUs, the nodes.
type rotation struct{ block, step int }

// order is how often the rotation has to be applied until all GPUs are at their places.
func (r rotation) order() int { return r.block / r.step }

// image is the GPU to which the rotation moves one of the first n.
func (r rotation) image(gpu, n int) int32 {
	if gpu >= n {
		return int32(gpu)
	}
	at := gpu % r.block
	return int32(gpu - at + (at+r.step)%r.block)
}

// commutes reports whether the rotations together map no GPU to itself: one is of blocks
// within the steps of the other.
func (r rotation) commutes(with rotation) bool {
	return with.step%r.block == 0 || r.step%with.block == 0
}

// rotations lists those of n GPUs, the largest order first.
func rotations(n int) (all []rotation) {
	for block := 2; block <= n; block++ {
		for step := 1; n%block == 0 && step < block; step++ {
			if block%step == 0 {
				all = append(all, rotation{block, step})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b rotation) int {
		return cmp.Or(cmp.Compare(b.order(), a.order()), cmp.Compare(b.block, a.block))
	})
	return all
}

// findFold returns the largest symmetry that is found, or nil.
func (s *sim) findFold(o Options) *fold {
	if o.Unfolded || o.Level > Kernels || o.Causes || o.Limits || o.Usage {
		return nil
	}
	if known, ok := s.program.Equal.(*fold); ok {
		f := *known
		return f.stated(s).serves(s)
	}
	n := len(s.program.GPUs)
	for n > 0 && len(s.program.GPUs[n-1].Streams) == 0 {
		n--
	}
	f := &fold{order: 1}
	var gpus, flags, resources [][]int32
	var taken []rotation
	var exact []*symmetry
	known := map[*program.Kernel]bool{}
	for _, r := range rotations(n) {
		if slices.ContainsFunc(taken, func(t rotation) bool { return !r.commutes(t) }) {
			continue
		}
		y := s.newSymmetry(r, n, known)
		if !y.ofMachine() || !y.holds() {
			continue
		}
		taken, exact = append(taken, r), append(exact, y)
		f.add(r)
		gpus, flags, resources = append(gpus, y.gpus), append(flags, y.flags.to), append(resources, y.resources.to)
	}
	if f.order == 1 {
		return nil
	}
	f.gpus, f.flags, f.resources = f.newClasses(gpus, len(s.gpus)), f.newClasses(flags, len(s.flags)),
		f.newClasses(resources, len(s.flows.capacities))
	for _, y := range exact {
		for flag := range y.last { // the last poster is one of several images
			if f.flags.size[flag] != f.order {
				return nil
			}
		}
	}
	return f.serves(s)
}

// serves returns the fold if NICs serve no two GPUs of a class, whose messages they would
// take one after another.
func (f *fold) serves(s *sim) *fold {
	if s.flows.message == 0 {
		return f
	}
	for g := range s.program.GPUs {
		h := &s.flows.homes[g]
		if h.nic == none || len(s.program.GPUs[g].Streams) == 0 {
			continue
		}
		if f.resources.size[h.card] != f.order && f.resources.maps[0][h.card] != none {
			return nil
		}
	}
	cards := s.flows.homes[0].card
	for g := range s.flows.homes {
		if h := &s.flows.homes[g]; h.nic != none {
			h.nic = (f.resources.of[h.card] - cards) / resourcesPerNIC
		}
	}
	return f
}

// A bijection pairs things with their images.
type bijection struct{ to, from []int32 }

func newBijection(n int) bijection {
	return bijection{slices.Repeat([]int32{none}, n), slices.Repeat([]int32{none}, n)}
}

// pair reports whether b may be the image of a, and makes it that.
func (m *bijection) pair(a, b int32) bool {
	if m.to[a] == none && m.from[b] == none {
		m.to[a], m.from[b] = b, a
	}
	return m.to[a] == b
}

// A symmetry compares every GPU with its image. While it compares, it finds the images of
// flags and resources.
type symmetry struct {
	s                *sim
	gpus             []int32
	flags, resources bijection
	last             map[program.Flag]bool // flags with a last poster
	routed           map[[2]int32]bool
	known            map[*program.Kernel]bool // by kernel: it is plain
	stated           bool                     // flags have the images that the program states
	a, b             []program.Phase
	way              []fluid.Crossing
}

func (s *sim) newSymmetry(r rotation, n int, known map[*program.Kernel]bool) *symmetry {
	y := &symmetry{s: s, known: known, gpus: make([]int32, len(s.gpus)), last: map[program.Flag]bool{}, routed: map[[2]int32]bool{}}
	for g := range y.gpus {
		y.gpus[g] = r.image(g, n)
	}
	return y
}

// ofMachine reports whether the GPUs' own resources are those of their images.
func (y *symmetry) ofMachine() bool {
	nodes := map[int32]int32{}
	for g, to := range y.gpus {
		from, on := y.s.flows.homes[g].node, y.s.flows.homes[to].node
		if was, ok := nodes[from]; ok && was != on {
			return false
		}
		nodes[from] = on
	}
	y.resources = newBijection(len(y.s.flows.capacities))
	f := &y.s.flows.fabric
	for g, to := range y.gpus { // NICs and links are paired by the routes that cross them
		for _, r := range [...]Resource{Memory, Egress, ingress, Cache} {
			if id := f.resource(g, r); id != none && !y.resources.pair(id, f.resource(int(to), r)) {
				return false
			}
		}
		for side := computation; f.sides != none && side <= communication; side++ {
			y.resources.pair(f.sideOf(g, side), f.sideOf(int(to), side))
		}
	}
	return true
}

// holds compares all GPUs.
func (y *symmetry) holds() bool {
	y.flags = newBijection(len(y.s.flags))
	for g, to := range y.gpus {
		if !y.sameGPU(g, int(to)) {
			return false
		}
	}
	return true
}

func (y *symmetry) sameGPU(g, to int) bool {
	a, b := y.s.program.GPUs[g].Streams, y.s.program.GPUs[to].Streams
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, z := &a[i], &b[i]
		if x.Queue != z.Queue || x.Priority != z.Priority || x.Host != z.Host || x.Name != z.Name || len(x.Commands) != len(z.Commands) {
			return false
		}
		for c := range x.Commands {
			if !y.sameCommand(int32(g), &x.Commands[c], &z.Commands[c]) {
				return false
			}
		}
	}
	return true
}

func (y *symmetry) sameCommand(g int32, a, b *program.Command) bool {
	if a.Op != b.Op || a.Why != b.Why || a.Count != b.Count || a.Delay != b.Delay || !y.sameFlag(a.Flag, b.Flag) {
		return false
	}
	switch a.Op {
	case program.Launch:
		return y.sameKernel(g, a.Kernel, b.Kernel)
	case program.Start:
		x, z := a.Copy, b.Copy
		return x.Name == z.Name && x.Bytes == z.Bytes && x.Time == z.Time && x.Free == z.Free &&
			x.Update == z.Update && x.Named == z.Named &&
			y.gpus[x.From] == z.From && y.gpus[x.Peer] == z.Peer && y.sameRoute(x.From, x.Peer)
	}
	return true
}

func (y *symmetry) sameFlag(a, b program.Flag) bool {
	if a <= program.NoFlag || b <= program.NoFlag || int(max(a, b)) >= len(y.flags.to) {
		return a == b && a == program.NoFlag
	}
	if y.flags.to[a] == none && y.stated && !y.s.program.Flags.Image(a, b, func(g int32) int32 { return y.gpus[g] }) {
		return false
	}
	return y.flags.pair(int32(a), int32(b))
}

func (y *symmetry) sameKernel(g int32, a, b *program.Kernel) bool {
	if a == b && a.Prologue == nil && a.Epilogue == nil && y.plain(a) {
		return true
	}
	if a.Name != b.Name || a.Kind != b.Kind || a.WGs != b.WGs || a.Tiles != b.Tiles || a.Alike != b.Alike || a.Owned != b.Owned ||
		a.Footprint != b.Footprint ||
		a.Cluster != b.Cluster || a.Free != b.Free || a.Matrix != b.Matrix || a.Onset != b.Onset || a.Channels != b.Channels ||
		a.Merged != b.Merged || a.CommShare != b.CommShare || a.Pipe != b.Pipe ||
		(a.Prologue == nil) != (b.Prologue == nil) || (a.Epilogue == nil) != (b.Epilogue == nil) || (a.Recipe == nil) != (b.Recipe == nil) {
		return false
	}
	if a.Recipe == nil {
		if !y.samePhases(g, a.Each, b.Each) {
			return false
		}
	} else {
		for t := range cmp.Or(a.Tiles, a.WGs) {
			if y.a, y.b = a.Recipe(t, y.a[:0]), b.Recipe(t, y.b[:0]); !y.samePhases(g, y.a, y.b) {
				return false
			}
		}
	}
	for w := 0; w < a.WGs && a.Tiles > 0 && (a.Prologue != nil || a.Epilogue != nil); w++ {
		for _, of := range [...][2]func(int, []program.Phase) []program.Phase{{a.Prologue, b.Prologue}, {a.Epilogue, b.Epilogue}} {
			if of[0] == nil {
				continue
			}
			if y.a, y.b = of[0](w, y.a[:0]), of[1](w, y.b[:0]); !y.samePhases(g, y.a, y.b) {
				return false
			}
		}
	}
	return true
}

// plain reports whether no phase of the kernel's tiles has a peer or a flag: GPUs that share the
// kernel do the same.
func (y *symmetry) plain(k *program.Kernel) bool {
	leaves := func(p program.Phase) bool { return p.Op != program.Work && p.Op != program.Sleep }
	if k.Recipe == nil {
		return !slices.ContainsFunc(k.Each, leaves)
	}
	plain, known := y.known[k]
	if known {
		return plain
	}
	plain = true
	for t := 0; t < max(k.WGs, k.Tiles) && plain; t++ {
		y.a = k.Recipe(t, y.a[:0])
		plain = !slices.ContainsFunc(y.a, leaves)
	}
	y.known[k] = plain
	return plain
}

func (y *symmetry) samePhases(g int32, a, b []program.Phase) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !y.samePhase(g, &a[i], &b[i]) {
			return false
		}
	}
	return true
}

func (y *symmetry) samePhase(g int32, a, b *program.Phase) bool {
	x := *b
	x.Flag, x.Peer, x.Mark = a.Flag, a.Peer, a.Mark
	if x != *a || !y.sameFlag(a.Flag, b.Flag) {
		return false
	}
	if a.Last != 0 {
		y.last[a.Flag] = true
	}
	if a.Op != program.Store && a.Op != program.Put {
		return true
	}
	if a.Peer == program.Everyone {
		return b.Peer == program.Everyone && y.sameRoute(g, a.Peer)
	}
	return a.Peer >= 0 && int(a.Peer) < len(y.gpus) && y.gpus[a.Peer] == b.Peer && y.sameRoute(g, a.Peer)
}

// sameRoute reports whether bytes between two GPUs cross the images of the resources that
// bytes between their images cross, with equal latencies.
func (y *symmetry) sameRoute(from, to int32) bool {
	key := [2]int32{from, to}
	if from == to || y.routed[key] {
		return true
	}
	y.routed[key] = true
	f := &y.s.flows.fabric
	if to == program.Everyone { // the images of the node's GPUs are a node's
		y.way = append(y.way[:0], f.route(pathKey{from: from, to: to, write: 1})...)
		return len(y.way) == len(f.route(pathKey{from: y.gpus[from], to: to, write: 1}))
	}
	a, b := pathKey{from: from, to: to}, pathKey{from: y.gpus[from], to: y.gpus[to]}
	if f.apart(from, to) != f.apart(b.from, b.to) || f.latency(from, to) != f.latency(b.from, b.to) {
		return false
	}
	y.way = append(y.way[:0], f.route(a)...)
	way := f.route(b)
	if len(y.way) != len(way) {
		return false
	}
	for i, x := range y.way {
		if f.capacities[x.Resource] != f.capacities[way[i].Resource] || !y.resources.pair(x.Resource, way[i].Resource) {
			return false
		}
	}
	return true
}
