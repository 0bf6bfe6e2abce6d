package verdict

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Moved is the bytes that one cause reads and writes in memory per rank and iteration
// (mean over both).
type Moved struct {
	Cause   string  `json:"cause"` // "compute", "reduce_scatter", "all_gather", ...: the causes of T3's Figure 18
	Read    float64 `json:"read_bytes"`
	Written float64 `json:"written_bytes"`
}

// MemoryByCause divides an outcome's simulated memory traffic by cause, compute first. An
// all-reduce counts as its two halves. It is empty for captured and ideal, which simulate
// no memory.
func MemoryByCause(w *workload.Workload, out engines.Outcome) []Moved {
	run := out.Result.Run
	per := float64(max(1, w.World) * max(1, workload.Iterations(w)))
	computes, library := map[string]bool{}, map[string]*opShares{} // by name of kernel
	for _, s := range run.Spans {
		switch s.Kind {
		case trace.Compute:
			computes[run.NameOf(s)] = true
		case trace.Collective:
			if comm := run.Comm(s); comm != nil {
				of := library[run.NameOf(s)]
				if of == nil {
					of = &opShares{}
					library[run.NameOf(s)] = of
				}
				ranks := w.World
				if id := plan.OriginOf(run, s); id >= 0 && w.Ops[id].Collective >= 0 {
					ranks = len(w.Collectives[w.Ops[id].Collective].Members)
				}
				of.add(comm, ranks)
			}
		}
	}
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
	for _, t := range out.Result.Traffic {
		if t.Resource != replay.Memory {
			continue
		}
		read := t.Bytes - t.Written
		switch of := library[t.Name]; {
		case of != nil:
			of.split(read, t.Written, add)
		case computes[t.Name]:
			add("compute", read, t.Written)
		default:
			cause, _, _ := strings.Cut(t.Name, " by ")
			add(cause, read, t.Written)
		}
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

// opShares is the bytes read and written by kernels of one name, by operation of the
// library, according to the rule of the simulation.
type opShares struct{ read, written [trace.Barrier + 1]float64 }

// add counts a kernel of a rank.
func (s *opShares) add(comm *trace.Comm, ranks int) {
	ops := []trace.CollectiveOp{comm.Op}
	if comm.Op == trace.AllReduce {
		ops = []trace.CollectiveOp{trace.ReduceScatter, trace.AllGather}
	}
	for _, op := range ops {
		read, written := machine.MemoryOf(op, ranks)
		wire := float64(op.WireBytes(max(comm.In, comm.Out), ranks))
		s.read[op] += wire * read
		s.written[op] += wire * (1 + written)
	}
}

// split divides the kernels' traffic among the operations.
func (s *opShares) split(read, written float64, add func(cause string, read, written float64)) {
	var reads, writes float64
	for op := range s.read {
		reads, writes = reads+s.read[op], writes+s.written[op]
	}
	for op := range s.read {
		if s.written[op] > 0 {
			add(trace.CollectiveOp(op).String(), read*s.read[op]/reads, written*s.written[op]/writes)
		}
	}
}
