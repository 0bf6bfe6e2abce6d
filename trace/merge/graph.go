package merge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// NameGraphs returns a copy of a run in which the kernels of captured graphs have the
// framework operators and the communication of the same kernels in another run: one of the
// same step, launched kernel by kernel. A profiler records neither for a graph. Kernels
// are the same if their names and grids are; they are matched rank by rank, each with the
// next one in the order of the other run, which starts again at its end. n is the number
// of kernels that were found there, of the kernels of graphs.
func NameGraphs(run, outside *trace.Run) (named *trace.Run, n, of int) {
	r := *run
	r.Kernels = slices.Clone(run.Kernels)
	operators, comms := int32(len(r.Operators)), int32(len(r.Comms))
	r.Operators = slices.Concat(run.Operators, outside.Operators)
	r.Comms = slices.Concat(run.Comms, outside.Comms)
	for i := range outside.Comms { // groups and order are of the other run
		r.Comms[int(comms)+i].Group, r.Comms[int(comms)+i].Seq = trace.None, 0
	}
	sequences := map[int]*kernelSequence{} // by rank id
	for row, ids := range kernelsByRank(outside) {
		sequences[outside.Ranks[row].ID] = newKernelSequence(outside, ids)
	}
	for row, ids := range kernelsByRank(run) {
		launched := map[int64]int{}
		for _, id := range ids {
			launched[run.Kernels[run.Spans[id].Attr].Correlation]++
		}
		sequence, next := sequences[run.Ranks[row].ID], 0
		for _, id := range ids {
			k := &r.Kernels[run.Spans[id].Attr]
			if k.Correlation == 0 || launched[k.Correlation] < 2 || k.Op != trace.None || k.Comm != trace.None && run.Comms[k.Comm].Bytes() > 0 {
				continue
			}
			of++
			at, ok := sequence.next(likeOf(run, id), next)
			if !ok {
				continue
			}
			same := outside.Kernels[outside.Spans[sequence.ids[at]].Attr]
			if next, n = at+1, n+1; same.Op != trace.None {
				k.Op = same.Op + operators
			}
			if same.Comm != trace.None {
				k.Comm = same.Comm + comms
			}
		}
	}
	r.Ledger.Entries = slices.Clone(run.Ledger.Entries)
	if n > 0 {
		r.Ledger.Entries = append(r.Ledger.Entries, trace.Entry{Action: trace.Noted, Reason: fmt.Sprintf("kernels of graphs with operators and sizes of the same kernels in %s", outside.Name), Count: n})
	}
	return &r, n, of
}

// kernelsByRank lists the kernels of every row of Run.Ranks by start.
func kernelsByRank(run *trace.Run) [][]trace.SpanID {
	all := make([][]trace.SpanID, len(run.Ranks))
	for i, s := range run.Spans {
		if (s.Kind == trace.Compute || s.Kind == trace.Collective) && s.Attr != trace.None {
			row := run.RankOf(s)
			all[row] = append(all[row], trace.SpanID(i))
		}
	}
	for _, ids := range all {
		slices.SortStableFunc(ids, func(a, b trace.SpanID) int { return cmp.Compare(run.Spans[a].Start, run.Spans[b].Start) })
	}
	return all
}

// A likeKernel is what makes two kernels the same.
type likeKernel struct {
	name string
	grid [3]int32
}

// A kernelSequence is the kernels of one rank, and where each occurs.
type kernelSequence struct {
	run *trace.Run
	ids []trace.SpanID
	at  map[likeKernel][]int // positions, in order
}

func newKernelSequence(run *trace.Run, ids []trace.SpanID) *kernelSequence {
	q := &kernelSequence{run, ids, map[likeKernel][]int{}}
	for i, id := range ids {
		k := likeOf(run, id)
		q.at[k] = append(q.at[k], i)
	}
	return q
}

func likeOf(run *trace.Run, id trace.SpanID) likeKernel {
	return likeKernel{run.NameOf(run.Spans[id]), run.Kernels[run.Spans[id].Attr].Grid}
}

// next is the position of the next kernel like the given one, from a position on; false if
// there is none.
func (q *kernelSequence) next(k likeKernel, from int) (at int, ok bool) {
	if q == nil || len(q.at[k]) == 0 {
		return 0, false
	}
	all := q.at[k]
	i, _ := slices.BinarySearch(all, from)
	return all[i%len(all)], true
}
