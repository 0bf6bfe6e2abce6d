package verdict

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// slow says first which collectives take several times the machine's law (rule C28), or that large ones do as a whole beside
// compute, which never makes those of healthy links so slow: over all captures with all ranks 2.2 times at most.
func (v *Verdict) slow(w *workload.Workload, m *machine.Machine) {
	for i := range w.Slow {
		v.say("%s", SlowText(&w.Slow[i]))
	}
	if by := overLaw(w, m, true); len(w.Slow) == 0 && by > sick && w.Captured == w.World && w.Run.Estimated == "" &&
		w.Rescaled == nil && m.Guess == "" {
		v.say("the collectives take %.0f times as long as %s's law gives for their sizes: the trace has wrong sizes, or the links are not what they should be", by, m.Profile)
	}
}

// SlowText says how much longer than the machine's law collectives take, and what may be the cause.
func SlowText(s *workload.SlowCollective) string {
	at := ""
	if s.Links > 0 {
		at = fmt.Sprintf(", %.2g %% of the links of %s", 100*s.Bus/s.Links, s.Machine)
	}
	return fmt.Sprintf("%s runs at %.2g GB/s%s: %s an iteration instead of %s by the law, in each of %d; find out why first: peer access off (NCCL_P2P_DISABLE, IOMMU), host staging, ranks that are late",
		s.Op, s.Bus/1e9, at, trace.Micros(s.Took), trace.Micros(s.Law), s.Iterations)
}
