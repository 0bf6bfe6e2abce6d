package workload

import "fmt"

// Memory that a job may take: mostAlways, or mostPerEvent for each event of its trace, but
// never more than mostEver. Copies of captured ranks make a job of millions of operations
// out of a small trace.
const (
	mostAlways   = 2 << 30
	mostPerEvent = 64 << 10
	mostEver     = 8 << 30
	maxOps       = 1 << 23 // operations, including those of copied ranks
)

// A TooLargeError refuses a job whose operations take too much memory.
type TooLargeError struct {
	Ranks, Ops  int
	Bytes, Most int64 // estimated and allowed
}

func (e *TooLargeError) Error() string {
	const gib = 1 << 30
	ranks := max(1, int(float64(e.Ranks)*min(float64(e.Most)/float64(e.Bytes), maxOps/float64(e.Ops))))
	return fmt.Sprintf("%d operations on %d ranks take about %.1f GiB of memory, more than %.1f GiB (capture fewer steps, or a job of at most %d ranks)",
		e.Ops, e.Ranks, float64(e.Bytes)/gib, float64(e.Most)/gib, ranks)
}

// Affordable returns a TooLargeError if so many operations of so many bytes each are too many
// for the trace.
func (w *Workload) Affordable(ops int, each int64) error {
	most := max(mostAlways, min(mostEver, int64(len(w.Run.Spans))*mostPerEvent))
	if bytes := int64(ops) * each; bytes > most || ops > maxOps {
		return &TooLargeError{Ranks: w.World, Ops: ops, Bytes: bytes, Most: most}
	}
	return nil
}
