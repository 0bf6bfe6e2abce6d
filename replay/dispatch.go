package replay

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// Dispatch
//
// Workgroups are placed in order and do not migrate. A CU has four resources; a workgroup
// fits if all four suffice (rules D1 to D3).
//
//	CU 0  threads   |AAAAAAAABBBB....|
//	      registers |AAAABB..........|   one A and one B are resident,
//	      shared    |AAAAAAAAAAAA....|   a second A does not fit:
//	      workgroups|AB..............|   shared memory
//
// Workgroups of a cluster are placed together (cluster.go).
//
// Kernels with unplaced workgroups wait in a queue, by priority, then by the time at which
// they became ready. A free slot goes to the first kernel in the queue whose next
// workgroup fits. A later kernel gets only what earlier ones cannot use (leftover policy,
// rule D4). While workgroups of a kernel wait, kernels of lower priority start none on as many
// CUs: those empty until one fits (rule D10).

// A gpu is the state of one device. Fields that every phase reads come first.
type gpu struct {
	pipes               []pipes // by CU
	occupied            int64   // CU share of compute workgroups in a Work or Store phase, in units of 1/wholePipe
	matrix              int     // workgroups of Matrix kernels in a Work or Store phase
	busy                gauge   // CUs with a workgroup in a Work or Store phase
	interferenceChanged bool    // is in sim.interfered
	quiet               []int32 // paths with uncontended flows that depend on channels (Kernel.Channels); none is on the GPU

	dirty    bool // is in sim.dirty
	cus      []cu
	load     [][]uint64 // bit c of load[n]: CU c has n resident workgroups
	line     []int32    // dispatch queue: launches with unplaced workgroups
	freed    []uint64   // bit c: workgroups left CU c in this instant
	held     []uint64   // bit c: CU c empties for a workgroup of higher priority (rule D10)
	mask     []uint64   // scratch: candidate CUs
	laneSets []bool     // lane sets in use by running persistent kernels
	engines  engines
	postponed
	collectives int   // CUs with a resident workgroup of a collective
	moving      int   // workgroups of collectives on CUs in a Work or Store phase
	loads       int64 // sum of the CUs' pipe loads
	woken       int32 // cause event of the last launch or departed workgroup, if causes are recorded
}

// postponed are the workgroups of a kernel that are stepped without a place.
type postponed struct {
	unplaced int32 // batch of the kernel whose workgroups are yet to be placed, or none
	left     int   // workgroups of its wave that left all CUs in this instant
}

type cu struct {
	free        program.CUResources
	kept        program.CUResources // free, while the GPU holds the CU from kernels of lower priority
	freed       int32               // workgroups that left in this instant and were not replaced
	collectives int32               // resident workgroups of collectives
	left        int32               // cause event of the last one that left, if causes are recorded
	wgs         []int32             // resident workgroups, unordered
	slots       []int32             // by slot: index into vacancies.residencies, or none
	classes     []int32             // flow classes of this CU's work that touches no memory
}

// Pipes is the part of a CU's state that every phase reads.
type pipes struct {
	load    int64   // sum of pipe shares of resident work, in units of 1/wholePipe
	slow    float64 // slowdown of work on this CU; at least 1
	compute int64   // pipe share of compute in a Work or Store phase, same units
	working int32   // workgroups in a Work or Store phase
	changed bool    // is in sim.pipesChanged
}

type cuRef struct{ gpu, cu int32 }

func newGPU(m *machine.Machine) gpu {
	n := int(m.GPU.CUs.Value)
	words := (n + 63) / 64
	g := gpu{
		cus: make([]cu, n), pipes: make([]pipes, n),
		mask: make([]uint64, words), freed: make([]uint64, words), held: make([]uint64, words),
		engines: newEngines(m), postponed: postponed{unplaced: none},
	}
	empty := make([]uint64, words)
	for i := range g.cus {
		g.cus[i], g.pipes[i] = cu{free: m.GPU.CUResources()}, pipes{slow: 1}
		empty[i/64] |= 1 << (i % 64)
	}
	g.load = [][]uint64{empty}
	return g
}

// A gauge counts the CUs of a GPU with a workgroup in a Work or Store phase over time.
type gauge struct {
	count int
	since program.Time
	parts *parts // nil: not recorded
}

func (g *gauge) add(n int, now program.Time) {
	if g.parts == nil {
		return
	}
	if g.count > 0 && now > g.since {
		g.parts.spread(g.since, now, float64(g.count))
	}
	g.since = now
	g.count += n
}

// wake marks the GPU as having workgroups to dispatch.
func (s *sim) wake(id int32) {
	if g := &s.gpus[id]; !g.dirty {
		g.dirty = true
		s.dirty = append(s.dirty, id)
	}
}

// enqueue adds a launch to the dispatch queue.
func (s *sim) enqueue(id int32) {
	l := s.kernels.at(id)
	g := &s.gpus[l.gpu]
	at := len(g.line)
	for at > 0 && s.kernels.at(g.line[at-1]).priority < l.priority {
		at--
	}
	g.line = slices.Insert(g.line, at, id)
	l.fresh = true
	s.wake(l.gpu)
}

// dispatch places all workgroups that fit and reports whether it placed any.
func (s *sim) dispatch() bool {
	if len(s.dirty) > 1 {
		slices.Sort(s.dirty)
	}
	for i := 0; i < len(s.dirty); i++ {
		s.dispatchGPU(s.dirty[i])
	}
	s.dirty = s.dirty[:0]
	return s.head < len(s.queue)
}

func (s *sim) dispatchGPU(id int32) {
	g := &s.gpus[id]
	g.dirty = false
	if g.left > 0 {
		s.nextWave(g)
	}
	if len(g.line) > 1 || len(g.line) == 1 && g.unplaced != none && s.batches.at(g.unplaced).launch != g.line[0] {
		s.catchUp(g)
	}
	for i, held := range g.held { // kernels that were kept off these CUs look at them again
		g.freed[i], g.held[i] = g.freed[i]|held, 0
	}
	waiting, kept := g.line[:0], 0 // kept: so many of waiting have CUs held for them
	for _, l := range g.line {
		k := s.kernels.at(l)
		for ; kept < len(waiting) && s.kernels.at(waiting[kept]).priority > k.priority; kept++ {
			s.hold(g, s.kernels.at(waiting[kept]))
		}
		s.place(g, l)
		if k.placed < k.kernel.WGs {
			s.starve(k)
			waiting = append(waiting, l)
		} else {
			k.full = s.now
		}
	}
	g.line = waiting
	for c := range each(g.held) {
		g.cus[c].free = g.cus[c].kept
	}
	for c := range each(g.freed) {
		g.cus[c].freed = 0
	}
	clear(g.freed)
}

// hold keeps a CU for each waiting workgroup of a kernel: of those that would hold one without the
// workgroups of lower priority, the ones with the fewest residents.
func (s *sim) hold(g *gpu, l *launch) {
	n := l.kernel.WGs - l.placed
	for load := 0; load < len(g.load) && n > 0; load++ {
		for w, set := range g.load[load] {
			for set &^= g.held[w]; set != 0 && n > 0; set &= set - 1 {
				u := &g.cus[w*64+bits.TrailingZeros64(set)]
				empty := u.free
				for _, wg := range u.wgs {
					if r := s.kernels.at(s.wgs.at(wg).launch); r.priority < l.priority {
						empty = empty.Plus(r.need)
					}
				}
				if empty.Holds(l.need) {
					u.kept, u.free = u.free, program.CUResources{}
					g.held[w] |= set & -set
					n--
				}
			}
		}
	}
}

// place gives the kernel the slots that it can use. A kernel that was already waiting
// first replaces the workgroups that left in this instant, one for one on the same CU: of
// those that left a CU together the older one first, on all CUs, then the next. All other
// workgroups go to the CU with the fewest residents, the lowest index among equals (rule D5).
func (s *sim) place(g *gpu, id int32) {
	l := s.kernels.at(id)
	l.batch = none
	switch {
	case l.kernel.Free:
		for l.placed < l.kernel.WGs {
			s.start(id, none)
		}
	case l.cluster > 1:
		s.placeClusters(g, id)
	case l.fresh:
		if l.fresh = false; !s.postpone(g, id) {
			s.sweepAll(g, id)
		}
	case s.refill(g, id):
		s.sweep(g, id)
	}
}

// refill places one workgroup for each that left. It reports whether CUs in the mask can
// hold more.
func (s *sim) refill(g *gpu, id int32) (more bool) {
	l := s.kernels.at(id)
	for again := true; again; {
		again, more = false, false
		clear(g.mask)
		for c := range each(g.freed) {
			u := &g.cus[c]
			if u.freed > 0 && l.placed < l.kernel.WGs && u.free.Holds(l.need) {
				s.start(id, int32(c))
				u.freed--
				again = again || u.freed > 0
			}
			if u.free.Holds(l.need) {
				g.mask[c/64] |= 1 << (c % 64)
				more = true
			}
		}
	}
	return more && l.placed < l.kernel.WGs
}

// each yields the bits that are set, lowest first.
func each(set []uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range set {
			for ; word != 0; word &= word - 1 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// sweepAll is sweep of all CUs.
func (s *sim) sweepAll(g *gpu, id int32) {
	for i := range g.mask {
		g.mask[i] = ^uint64(0)
	}
	s.sweep(g, id)
}

// sweep places workgroups on the masked CUs, those with the fewest residents first. A CU
// that takes one is visited again at its new resident count.
func (s *sim) sweep(g *gpu, id int32) {
	l := s.kernels.at(id)
	for n := 0; n < len(g.load); n++ {
		for w := range g.mask {
			for set := g.load[n][w] & g.mask[w]; set != 0; set &= set - 1 {
				if l.placed == l.kernel.WGs {
					return
				}
				if c := int32(w*64 + bits.TrailingZeros64(set)); g.cus[c].free.Holds(l.need) {
					s.start(id, c)
				}
			}
		}
	}
}

// occupy and vacate update the free resources and load of a CU.
func (s *sim) occupy(g *gpu, c, wg int32, need program.CUResources) {
	u := &g.cus[c]
	u.free = u.free.Minus(need)
	g.shift(c, len(u.wgs), len(u.wgs)+1)
	s.wgs.at(wg).at = int16(len(u.wgs))
	u.wgs = append(u.wgs, wg)
}

func (s *sim) vacate(g *gpu, c, wg int32, need program.CUResources) {
	u := &g.cus[c]
	n := len(u.wgs) - 1
	at, last := s.wgs.at(wg).at, u.wgs[n]
	u.wgs[at] = last
	s.wgs.at(last).at = at
	u.wgs = u.wgs[:n]
	u.free = u.free.Plus(need)
	g.shift(c, n+1, n)
	u.freed++
	g.freed[c/64] |= 1 << (c % 64)
}

func (g *gpu) shift(c int32, from, to int) {
	if to == len(g.load) {
		g.load = append(g.load, make([]uint64, len(g.mask)))
	}
	g.load[from][c/64] &^= 1 << (c % 64)
	g.load[to][c/64] |= 1 << (c % 64)
}
