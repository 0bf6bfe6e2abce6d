package schedule

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A mark is a range of the host within which a chunk's operations are launched.
type mark struct {
	from, to trace.Time
	stage    int
	pipelineChunk
}

// markOf reads the name of a range: PyTorch's schedules of several stages on a rank
// (torch/distributed/pipelining/schedules.py) mark "PP:2F0", which is forward of micro-batch 0 on
// stage 2. B is backward, I and W its gradients of inputs and of weights.
func markOf(name string) (m mark, ok bool) {
	text, ok := strings.CutPrefix(name, "PP:")
	at := strings.IndexAny(text, "FBIW")
	if !ok || at < 0 {
		return m, false
	}
	switch text[at] {
	case 'B':
		m.Part = backwardPart
	case 'I':
		m.Part, m.Split = backwardPart, true
	case 'W':
		m.Part = weights
	}
	stage, err := strconv.ParseUint(text[:at], 10, 16)
	micro, bad := strconv.ParseUint(text[at+1:], 10, 16)
	m.stage, m.Micro = int(stage), int(micro)
	return m, err == nil && bad == nil
}

// marks are the marks of every rank, in order.
func (rd *reading) marks() [][]mark {
	run, names := rd.w.Run, map[int32]mark{}
	for i, name := range run.Names {
		if m, ok := markOf(name); ok {
			names[int32(i)] = m
		}
	}
	byRow, all := make([][]mark, len(run.Ranks)), make([][]mark, rd.w.World)
	for _, s := range run.Spans {
		if m, ok := names[int32(s.Name)]; ok && run.Lanes[s.Lane].Kind == trace.HostThread {
			m.from, m.to, m.Group = s.Start, s.End, m.stage/len(rd.ranks[0])
			byRow[run.RankOf(s)] = append(byRow[run.RankOf(s)], m)
		}
	}
	for rank := range all {
		all[rank] = byRow[rd.w.Rows[rank]]
		slices.SortFunc(all[rank], func(a, b mark) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}

// marked divides a rank's operations of an iteration, in order of issue, by the marks around their
// launches. What lies between two marks belongs to the first.
func (rd *reading) marked(x *work, ids []int32, marks []mark) {
	at := -1 // the last mark that an operation was launched in
	for _, id := range ids {
		op := &rd.w.Ops[id]
		if rd.isMessage(op) {
			continue
		}
		next, _ := slices.BinarySearchFunc(marks, op.Issued, func(m mark, t trace.Time) int { return cmp.Compare(m.from, t+1) })
		inside := next > 0 && op.Issued < marks[next-1].to
		if inside {
			for _, id := range x.tail { // between two marks
				x.take(x.microBatchOrder[len(x.microBatchOrder)-1][0], id)
			}
			x.tail = nil
			for ; at >= 0 && at < next-1; at++ { // the first stage has no gradients of inputs to make
				x.take(marks[at].pipelineChunk)
			}
			at = next - 1
		}
		switch {
		case inside:
			x.take(marks[at].pipelineChunk, id)
			if marks[at].Part == weights && !op.Backward && !op.Gradient && op.Kind == trace.Compute {
				x.sums[id] = true
			}
		case at < 0:
			x.head = append(x.head, id)
		default:
			x.tail = append(x.tail, id)
		}
	}
}
