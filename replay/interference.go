package replay

import (
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// Interference
//
// Compute that runs alongside a collective slows it: the collective's workgroups wait
// longer for memory and for the interconnect between CUs and caches. The co-run slowdown
// of a phase grows in proportion to the CUs that compute, up to the measured slowdown
// (Phase.Slowdown), which holds for compute on all CUs that the collective leaves. With
// matrix instructions it starts at a share of that (Kernel.Onset), because the first one
// lowers the clock of the whole GPU (rules I3 and I8).
//
// Channels that move bytes slow compute that waits for memory in turn: the slowdown of a
// phase of a kernel with Kernel.Channels grows in proportion to the CUs whose channels
// move bytes (rule I10). The memory serves all CUs alike: a kernel that fills it loses the
// part of CUs whose channels move bytes, but not that of CUs whose channels wait. Its other
// CUs get that (Kernel.Fed, rule M10).
//
//	CUs  |cccccc|GGGGGGGGGGGG......|     share = G / (all - c)
//	     collective   compute

// computed adds n, 1 or -1, to the workgroups of a compute kernel that work on a CU (or on
// none). A CU counts at most once.
func (s *sim) computed(l *launch, cu int32, n int) {
	g := &s.gpus[l.gpu]
	by := int64(n) * l.occupies
	if cu == none {
		g.occupied += by
	} else {
		x := &g.pipes[cu]
		before := min(x.compute, wholePipe)
		x.compute += by
		g.occupied += min(x.compute, wholePipe) - before
	}
	if l.kernel.Matrix {
		g.matrix += n
	}
	s.interferes(l.gpu)
}

// communicates updates the count of CUs that hold a workgroup of a collective.
func (s *sim) communicates(l *launch, cu int32, n int32) {
	if l.computes() || cu == none {
		return
	}
	g := &s.gpus[l.gpu]
	u := &g.cus[cu]
	if before := u.collectives; before == 0 || before+n == 0 {
		g.collectives += int(n)
		s.interferes(l.gpu)
	}
	u.collectives += n
}

// interferes marks the GPU: co-run slowdowns of its phases may have changed.
func (s *sim) interferes(gpu int32) {
	if g := &s.gpus[gpu]; !g.interferenceChanged && (len(s.flows.coRun[gpu]) > 0 || len(g.quiet) > 0) {
		g.interferenceChanged = true
		s.interfered = append(s.interfered, gpu)
	}
}

// interfere updates the co-run slowdowns that changed in this instant.
func (s *sim) interfere() {
	for _, g := range s.interfered {
		of := &s.gpus[g]
		of.interferenceChanged = false
		if of.collectives > 0 {
			for _, path := range of.quiet {
				s.Contended(path)
			}
			of.quiet = of.quiet[:0]
		}
		for _, id := range s.flows.coRun[g] {
			s.flows.SetLimit(id, s.limit(&s.flows.classes[id].key))
		}
	}
	s.interfered = s.interfered[:0]
}

// quietOn reports whether no CU of the GPU holds a channel. From the time at which one does, flows on the path
// that depend on channels are in classes.
func (g *gpu) quietOn(path int32) bool {
	if g.collectives > 0 {
		return false
	}
	if !slices.Contains(g.quiet, path) {
		g.quiet = append(g.quiet, path)
	}
	return true
}

// interference is the current co-run slowdown of a class member, caused by compute of
// other kernels (rule I1).
func (s *sim) interference(k *classKey) float64 {
	g := &s.gpus[k.gpu]
	if k.channels {
		cus := float64(len(g.cus))
		waiting := min(max(0, float64(g.collectives-g.moving)), cus-1)
		return machine.Interference(k.coRun, 0, min(1, float64(g.moving)/cus)) * (1 - k.fed*waiting/cus)
	}
	occupied, matrix := g.occupied, g.matrix
	if k.launch != none {
		l := s.kernels.at(k.launch)
		occupied -= int64(l.working) * l.occupies
		if l.working > 0 && l.kernel.Matrix { // else it may have ended
			matrix -= l.working
		}
	}
	rest := wholePipe * int64(max(1, len(g.cus)-g.collectives))
	share, onset := float64(max(0, min(occupied, rest)))/float64(rest), 0.0
	if matrix > 0 {
		onset = k.onset
	}
	return machine.Interference(k.coRun, onset, share)
}

// Arbitration of memory
//
// A memory controller that distinguishes computation and communication serves both sides
// in full while bandwidth suffices. Otherwise each side gets its guaranteed share and what
// the other side does not use:
//
//	asked for  |compute ..............|communication ........|
//	memory     |compute ......|communication|
//	                     share: ^
//
// Each side is a resource that its flows cross in addition to the memory. Its capacity
// depends on the maximum rate of the other side.

// A side is the owner of memory traffic: computation or communication.
type side uint8

const (
	oneSide side = iota // no arbiter
	computation
	communication
	numSides = 2
)

// side is s if the memories have sides, else oneSide (rules R1 and Q1).
func (f *fabric) side(s side) side {
	if f.sides == none {
		return oneSide
	}
	return s
}

func (f *fabric) sideOf(gpu int, s side) int32 {
	return f.sides + int32(numSides*gpu) + int32(s-computation)
}

// beginShare applies the share that a kernel sets on its GPU (rule Q1).
func (s *sim) beginShare(l *launch) {
	share := l.kernel.CommShare
	if share == 0 || s.program.Arbiter.Policy != program.ComputeFirst || s.flows.sides == none {
		return
	}
	s.flows.shares[l.gpu] = share
	s.flows.NoteDemand(s.flows.sideOf(int(l.gpu), computation))
}

// Demanded divides the memories whose demand by side has changed.
func (s *sim) Demanded(sides []int32) {
	f := &s.flows
	for _, id := range sides {
		gpu := int(id-f.sides) / numSides
		rate, share := f.capacities[f.resource(gpu, Memory)], f.shares[gpu]
		compute, comm := f.sideOf(gpu, computation), f.sideOf(gpu, communication)
		asks, others := f.Demand(compute), f.Demand(comm)
		f.SetCapacity(compute, max((1-share)*rate, rate-others), int64(s.now))
		f.SetCapacity(comm, max(share*rate, rate-asks), int64(s.now))
	}
}
