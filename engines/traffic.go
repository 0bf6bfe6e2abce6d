package engines

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Moved is the bytes of memory that one cause reads and writes on a rank in an
// iteration (mean over both).
type Moved struct {
	Cause   string  `json:"cause"` // "compute", "reduce_scatter", "all_gather", ...: as T3's Figure 18 has them
	Read    float64 `json:"read_bytes"`
	Written float64 `json:"written_bytes"`
}

// MemoryByCause says what an outcome's memory traffic was for, compute first.
// The library's collectives count by the rule of their ring (MECHANISM B2), an
// all-reduce as its two halves; all else by what was simulated. Empty where
// nothing was: captured and ideal hold no memory.
func MemoryByCause(w *workload.Workload, out Outcome) []Moved {
	run := out.Result.Run
	per := float64(max(1, w.World) * max(1, Iterations(w)))
	by := map[string]*Moved{}
	add := func(cause string, read, written float64) {
		m := by[cause]
		if m == nil {
			m = &Moved{Cause: cause}
			by[cause] = m
		}
		m.Read += read / per
		m.Written += written / per
	}
	causes := map[string]string{} // by name of kernel; "": a library's collective
	var library []trace.Span
	for _, s := range run.Spans {
		switch s.Kind {
		case trace.Compute:
			causes[run.NameOf(s)] = "compute"
		case trace.Collective:
			if run.Comm(s) != nil {
				causes[run.NameOf(s)] = ""
				library = append(library, s)
			}
		}
	}
	simulated := false
	for _, t := range out.Result.Traffic {
		cause, known := causes[t.Name]
		if t.Resource != replay.Memory || known && cause == "" {
			continue
		}
		if !known {
			cause, _, _ = strings.Cut(t.Name, " by ")
		}
		simulated = true
		add(cause, t.Bytes-t.Written, t.Written)
	}
	if !simulated {
		return nil
	}
	for _, s := range library {
		id := OriginOf(run, s)
		if id < 0 || w.Ops[id].Collective < 0 {
			continue
		}
		c := &w.Collectives[w.Ops[id].Collective]
		share := 1.0 // of the captured collective
		if comm := run.Comm(s); c.In > 0 {
			share = float64(comm.In) / float64(c.In)
		}
		ringTraffic(run.Comm(s).Op, len(c.Members), share*float64(c.Bytes), add)
	}
	var all []Moved
	for _, m := range by {
		all = append(all, Moved{m.Cause, math.Round(m.Read), math.Round(m.Written)})
	}
	slices.SortFunc(all, func(a, b Moved) int {
		return cmp.Or(cmp.Compare(causeOrder(a.Cause), causeOrder(b.Cause)), cmp.Compare(a.Cause, b.Cause))
	})
	return all
}

func causeOrder(cause string) int {
	if cause == "compute" {
		return 0
	}
	return 1
}

// ringTraffic is a collective's bytes of memory on one rank, in chunks of bytes/n.
// A reduce-scatter sends n-1 chunks: the first is read, of each other both
// partial sums are, as of the last, which is added and written at home. An
// all-gather reads and sends n-1 chunks; so does an all-to-all.
func ringTraffic(op trace.CollectiveOp, n int, bytes float64, add func(cause string, read, written float64)) {
	chunk := bytes / float64(max(1, n))
	sent := float64(n - 1)
	switch op {
	case trace.AllReduce:
		ringTraffic(trace.ReduceScatter, n, bytes, add)
		ringTraffic(trace.AllGather, n, bytes, add)
	case trace.ReduceScatter:
		add(op.String(), (2*sent+1)*chunk, (sent+1)*chunk)
	default:
		add(op.String(), sent*chunk, sent*chunk)
	}
}
