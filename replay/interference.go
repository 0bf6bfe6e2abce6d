package replay

import "github.com/overlapse/overlapse/replay/machine"

// Interference
//
// A collective's workgroup that shares the GPU with compute waits longer for
// memory and for the interconnect between CUs and caches, because compute keeps
// more requests in flight there. Each CU that computes adds its own, so that the
// co-run slowdown of a phase grows in proportion to the CUs that compute, up to
// the measured one (Phase.Beside), which is of kernels that fill all CUs that the
// collective leaves. It begins at none, or, alongside matrix instructions, at a part of
// that (Kernel.Onset): the first one lowers the clock of the whole GPU, and channels with
// it (samples/measurements/2026-11-22-h200x2-alongside; rules I3 and I8).
//
//	CUs  |cccccc|GGGGGGGGGGGG......|     share = G / (all - c)
//	     collective   compute

// computed counts n workgroups of a compute kernel, 1 or -1, that begin to work on
// a CU or on none. A CU is not more than occupied.
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

// communicates counts a workgroup of a collective that comes to a CU or leaves it.
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

// interferes notes that phases on the GPU may be slowed more or less from now on.
func (s *sim) interferes(gpu int32) {
	if g := &s.gpus[gpu]; !g.interferenceChanged && len(s.flows.coRun[gpu]) > 0 {
		g.interferenceChanged = true
		s.interfered = append(s.interfered, gpu)
	}
}

// interfere slows phases as much as the work of this instant has them.
func (s *sim) interfere() {
	for _, g := range s.interfered {
		s.gpus[g].interferenceChanged = false
		for _, id := range s.flows.coRun[g] {
			s.flows.SetLimit(id, s.limit(&s.flows.classes[id].key))
		}
	}
	s.interfered = s.interfered[:0]
}

// interference is how many times as long a member of the class takes at present
// alongside compute of other kernels (rule I6).
func (s *sim) interference(k *classKey) float64 {
	g := &s.gpus[k.gpu]
	occupied, matrix := g.occupied, g.matrix
	if k.launch != none {
		l := s.kernels.at(k.launch)
		occupied -= int64(l.working) * l.occupies
		if l.working > 0 && l.kernel.Matrix { // else it may be over
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
