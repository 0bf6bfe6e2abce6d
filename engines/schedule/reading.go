package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A reading is what a capture shows of its pipeline: which rank has which stage, and which
// operations are forward and backward of which micro-batch. Messages between stages, and
// changes between forward and backward, end a micro-batch's chunk:
//
//	stage 0 |F0|send|F1|send|  recv|B0|F2|send|recv|B1|...
//	stage 1 |recv|F0|B0|send|recv|F1|B1|send|...
type reading struct {
	w      *workload.Workload
	stage  []int    // by rank
	chain  []int    // by rank: which of several pipelines beside each other, of data or tensor parallelism
	ranks  [][]int  // by chain and stage
	rounds [][]work // by iteration and rank
	round  []int32  // by op: its iteration

	messages    [][]int32 // by rank: sends and receives
	micros      int
	groups      int  // of layers on each rank: stages that are not beside each other
	splits      bool // gradients of weights are chunks of their own
	forwardOnly bool
	named       bool // the names of kernels tell which multiply matrices
}

// A work is an iteration of a rank. Operations are in order of issue.
type work struct {
	microBatchOrder                           // of the chunks, as captured
	head, tail      []int32                   // in front of the first micro-batch and behind the last
	chunks          map[pipelineChunk][]int32 // by part, micro-batch and group
	sums            map[int32]bool            // by op: gradients that PyTorch adds up for a call that makes gradients of weights
	count           [2]int                    // of forward and backward
}

// take adds operations to a chunk.
func (x *work) take(c pipelineChunk, ids ...int32) {
	key := pipelineChunk{Part: c.Part, Micro: c.Micro, Group: c.Group}
	if _, ok := x.chunks[key]; !ok {
		x.microBatchOrder = append(x.microBatchOrder, c)
		if c.Part != weights {
			x.count[c.Part]++
		}
	}
	x.chunks[key] = append(x.chunks[key], ids...)
}

// of are the operations of a part of a micro-batch in some groups of layers, in the order in which
// data pass. Those of backward include the gradients of weights, but not what only making them apart takes.
func (x *work) of(k part, micro int, groups ...int) (ids []int32) {
	for _, g := range groups {
		ids = append(ids, x.chunks[pipelineChunk{Part: k, Micro: micro, Group: g}]...)
		if k == backwardPart {
			ids = append(ids, x.chunks[pipelineChunk{Part: weights, Micro: micro, Group: g}]...)
		}
	}
	return slices.DeleteFunc(ids, func(id int32) bool { return x.sums[id] })
}

// groupsOf are the captured groups of layers in the order in which a part of a micro-batch passes them.
func (rd *reading) groupsOf(k part) (list []int) {
	for g := range rd.groups {
		list = append(list, g)
	}
	if k != forwardPart {
		slices.Reverse(list)
	}
	return list
}

// read finds the pipeline of a capture. It returns the reason why there is none that can be
// planned anew, or "".
func read(w *workload.Workload) (rd *reading, why string) {
	rd = &reading{w: w, named: slices.ContainsFunc(w.Ops, func(o workload.Op) bool { return o.Matrix() }), messages: make([][]int32, w.World), stage: slices.Repeat([]int{-1}, w.World), chain: make([]int, w.World)}
	for i := range w.Ops {
		if op := &w.Ops[i]; rd.isMessage(op) {
			rd.messages[op.Rank] = append(rd.messages[op.Rank], op.ID)
		}
	}
	switch without := slices.IndexFunc(rd.messages, func(ids []int32) bool { return len(ids) == 0 }); {
	case !slices.ContainsFunc(rd.messages, func(ids []int32) bool { return len(ids) > 0 }):
		return nil, "no stage sends to another: the trace has no pipeline"
	case w.Captured < w.World || without >= 0:
		return nil, fmt.Sprintf("a rank of every stage is needed, and rank %d was not captured or sends nothing", max(0, without, slices.Index(w.Copies, true)))
	}
	if why := rd.findStages(); why != "" {
		return nil, why
	}
	return rd, rd.findChunks()
}

// isMessage reports whether an operation is a send or a receive.
func (rd *reading) isMessage(op *workload.Op) bool {
	return op.Collective >= 0 && rd.w.Collectives[op.Collective].Op == trace.SendRecv
}

// computes reports whether an operation is one of those that a stage consists of: GEMMs and
// attention or, where the names show none, any kernel.
func (rd *reading) computes(op *workload.Op) bool {
	return op.Kind == trace.Compute && (op.Matrix() || !rd.named)
}

// findStages orders the ranks: what a rank runs first is behind the first message of the stage
// before it; the first stage computes in front of its first message.
func (rd *reading) findStages() string {
	next := map[int]int{}
	var firsts []int
	for rank := range rd.w.World {
		order := rd.w.IssueOrder(rank)
		i := slices.IndexFunc(order, func(id int32) bool { return rd.computes(&rd.w.Ops[id]) || rd.isMessage(&rd.w.Ops[id]) })
		op := &rd.w.Ops[order[i]] // a rank has messages
		if !rd.isMessage(op) {
			firsts = append(firsts, rank)
			continue
		}
		c := rd.w.Run.Comm(rd.w.Run.Spans[op.Span])
		if c == nil || c.Peer < 0 || int(c.Peer) >= rd.w.World {
			return fmt.Sprintf("the trace does not say which rank the first message of rank %d comes from", rank)
		}
		if other, ok := next[int(c.Peer)]; ok {
			return fmt.Sprintf("ranks %d and %d both begin with a message of rank %d, which no pipeline does", other, rank, c.Peer)
		}
		next[int(c.Peer)] = rank
	}
	for _, first := range firsts {
		var chain []int
		for at, ok := first, true; ok; at, ok = next[at] {
			rd.stage[at], rd.chain[at] = len(chain), len(rd.ranks)
			chain = append(chain, at)
		}
		if len(chain) < 2 {
			return fmt.Sprintf("rank %d computes before its first message, and no rank begins with a message of it: the messages are not those of a pipeline", first)
		}
		if rd.ranks = append(rd.ranks, chain); len(chain) != len(rd.ranks[0]) {
			return fmt.Sprintf("the pipeline of rank %d has %d stages, that of rank %d has %d", first, len(chain), firsts[0], len(rd.ranks[0]))
		}
	}
	if rank := slices.Index(rd.stage, -1); rank >= 0 {
		return fmt.Sprintf("rank %d is in a ring of ranks that all receive before they compute: messages of a ring, or of a pipeline that is interleaved already, are not planned anew", rank)
	}
	return ""
}

// findChunks finds the micro-batches of every iteration and rank.
func (rd *reading) findChunks() string {
	of, n := workload.IterationsOf(rd.w)
	rd.round = of
	rd.rounds = make([][]work, max(1, n))
	marks := rd.marks()
	for rank := range rd.w.World {
		if m := marks[rank]; len(m) > 0 && slices.ContainsFunc(m, func(m mark) bool { return m.stage%len(rd.ranks[0]) != rd.stage[rank] }) {
			return fmt.Sprintf("rank %d has stages that are not %d apart: layers in another order than in turn are not planned anew", rank, len(rd.ranks[0]))
		}
		parts, at := make([][]int32, len(rd.rounds)), 0
		for _, id := range rd.w.IssueOrder(rank) {
			at = max(at, int(of[id]))
			parts[at] = append(parts[at], id)
		}
		for i, ids := range parts {
			x := work{chunks: map[pipelineChunk][]int32{}, sums: map[int32]bool{}}
			if len(marks[rank]) > 0 {
				rd.marked(&x, ids, marks[rank])
			} else {
				rd.divide(&x, ids)
			}
			rd.rounds[i] = append(rd.rounds[i], x)
			if i == 0 && rank == 0 {
				rd.shapeOf(&x)
			}
			if f, b := x.count[forwardPart], x.count[backwardPart]; !rd.complete(&x) {
				return fmt.Sprintf("rank %d runs %d forward and %d backward between its messages in an iteration, and rank 0 runs %d and %d: micro-batches cannot be told apart",
					rank, f, b, rd.rounds[0][0].count[forwardPart], rd.rounds[0][0].count[backwardPart])
			}
		}
		if len(marks[rank]) == 0 && len(rd.messages[rank]) > rd.mostMessages(rank)*len(rd.rounds) {
			return fmt.Sprintf("rank %d has more messages than its stage has with its neighbours: the pipeline is interleaved already, and nothing in the trace marks which stage a micro-batch passes", rank)
		}
	}
	return ""
}

// shapeOf takes the number of micro-batches and groups of layers from a rank's iteration.
func (rd *reading) shapeOf(x *work) {
	rd.groups, rd.forwardOnly = 1, x.count[backwardPart] == 0
	for c := range x.chunks {
		rd.groups, rd.splits = max(rd.groups, c.Group+1), rd.splits || c.Part == weights
	}
	rd.micros = x.count[forwardPart] / rd.groups
}

// complete reports whether an iteration has all chunks.
func (rd *reading) complete(x *work) bool {
	all := rd.micros * rd.groups
	if all == 0 || x.count[forwardPart] != all || x.count[backwardPart] != all && !rd.forwardOnly || x.count[backwardPart] > 0 && rd.forwardOnly {
		return false
	}
	for c := range x.chunks {
		if c.Micro >= rd.micros || c.Group >= rd.groups {
			return false
		}
	}
	return true
}

// mostMessages is how many messages a rank has in an iteration if its stage is one.
func (rd *reading) mostMessages(rank int) int {
	n := 2 // neighbours
	if rd.stage[rank] == 0 || rd.stage[rank] == len(rd.ranks[0])-1 {
		n = 1
	}
	if !rd.forwardOnly {
		n *= 2
	}
	return n * rd.micros
}

// divide divides a rank's operations of an iteration by its messages.
func (rd *reading) divide(x *work, ids []int32) {
	var now []int32 // of the current chunk
	computes, back, last := false, false, (*pipelineChunk)(nil)
	end := func() {
		switch {
		case computes:
			last = &pipelineChunk{Part: forwardPart}
			if back {
				last.Part = backwardPart
			}
			last.Micro = x.count[last.Part]
			x.take(*last, now...)
		case last == nil:
			x.head = append(x.head, now...)
		default: // a few operations between messages
			x.take(*last, now...)
		}
		now, computes = nil, false
	}
	for i, id := range ids {
		op := &rd.w.Ops[id]
		switch {
		case rd.isMessage(op):
			end()
			continue
		case op.Optimizer:
			end()
			x.tail = append(x.tail, slices.DeleteFunc(slices.Clone(ids[i:]), func(id int32) bool { return rd.isMessage(&rd.w.Ops[id]) })...)
			rd.endBackward(x, last)
			return
		case rd.computes(op):
			if computes && op.Backward != back {
				end()
			}
			computes, back = true, op.Backward
		}
		now = append(now, id)
	}
	if computes {
		end()
	}
	x.tail = now
	rd.endBackward(x, last)
}

// endBackward moves what a rank runs behind the last operation that autograd launched in its last
// chunk, as the division of gradients by the number of micro-batches, to the iteration's end.
func (rd *reading) endBackward(x *work, last *pipelineChunk) {
	if last == nil || last.Part != backwardPart {
		return
	}
	ids := x.chunks[*last]
	n := len(ids)
	for n > 0 && !rd.w.Ops[ids[n-1]].Backward {
		n--
	}
	if n > 0 {
		x.chunks[*last], x.tail = ids[:n:n], append(slices.Clone(ids[n:]), x.tail...)
	}
}

// split divides backward of a micro-batch into what the gradient that is sent on depends on, and
// the gradients of weights. Recorded data tell: nothing that multiplies matrices, and no message,
// reads a gradient of weights. Else shapes do: it sums over the rows of the activations.
func (rd *reading) split(ids, forward []int32) (inputs, grads []int32, why string) {
	late := rd.unread(ids)
	if late == nil {
		if late, why = rd.sumsOverRows(ids, forward); why != "" {
			return nil, nil, why
		}
	}
	rd.addsFrom(ids, late)
	for _, id := range ids {
		if late[id] || rd.w.Ops[id].Gradient {
			grads = append(grads, id)
		} else {
			inputs = append(inputs, id)
		}
	}
	if len(grads) == 0 || !slices.ContainsFunc(inputs, func(id int32) bool { return rd.computes(&rd.w.Ops[id]) }) {
		return nil, nil, fmt.Sprintf("rank %d: no kernel of backward is known to make gradients of weights only", rd.w.Ops[ids[0]].Rank)
	}
	return inputs, grads, ""
}

// addsFrom adds the kernels in front of additions to gradients: sums of biases' and norms' gradients, and what clears
// the memory of them.
func (rd *reading) addsFrom(ids []int32, late map[int32]bool) {
	for i := len(ids) - 1; i > 0; i-- {
		op, before := &rd.w.Ops[ids[i]], &rd.w.Ops[ids[i-1]]
		makes := op.Gradient && before.Kind == trace.Compute && !before.Gradient && !before.Matrix()
		clears := late[op.ID] && before.Kind == trace.Copy
		late[before.ID] = late[before.ID] || makes || clears
	}
}

// unread are the kernels of a chunk that no later GEMM or attention of it, and no message, depends
// on; nil: the data that they access are not recorded.
func (rd *reading) unread(ids []int32) map[int32]bool {
	if rd.w.Flow == nil {
		return nil
	}
	needed, recorded := map[int32]bool{}, false
	need := func(id int32) {
		for _, e := range rd.w.Flow[id] {
			if e.Recorded() && !e.Reused {
				needed[e.Op] = true
			}
		}
	}
	for _, id := range rd.messages[rd.w.Ops[ids[0]].Rank] {
		need(id)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		op := &rd.w.Ops[ids[i]]
		if rd.computes(op) {
			recorded = recorded || rd.w.EvidenceOf(op.ID) > workload.Guessed
		}
		if needed[op.ID] || rd.computes(op) || op.Collective >= 0 {
			need(op.ID)
		}
	}
	if !recorded {
		return nil
	}
	late := map[int32]bool{}
	for _, id := range ids {
		late[id] = !needed[id] && rd.w.Ops[id].Collective < 0
	}
	return late
}

// sumsOverRows are the GEMMs of backward that sum over as many rows as the GEMMs of forward have.
func (rd *reading) sumsOverRows(back, ahead []int32) (late map[int32]bool, why string) {
	counts, rows := map[int64]int{}, int64(0)
	for _, id := range ahead {
		if x := rd.w.Ops[id].Shape; x.Kind == workload.GEMM {
			if counts[x.M]++; counts[x.M] > counts[rows] {
				rows = x.M
			}
		}
	}
	late = map[int32]bool{}
	for _, id := range back {
		op := &rd.w.Ops[id]
		switch x := op.Shape; {
		case !op.Matrix() || op.Dense && x.Kind != workload.GEMM:
		case x.Kind != workload.GEMM || rows == 0:
			return nil, fmt.Sprintf("neither data nor shapes tell whether %s makes a gradient of weights%s", trace.Short(op.Name), recording(rd.w))
		case x.K == rows && (x.M == rows || x.N == rows):
			return nil, fmt.Sprintf("whether %s makes a gradient of weights cannot be told from its sizes, since a micro-batch has as many rows (%d) as a layer is wide%s", x, rows, recording(rd.w))
		case x.K == rows:
			late[id] = true
		}
	}
	return late, ""
}

// divideLayers divides a chunk into n parts at the borders of its layers, which are a sequence of
// GEMMs and attention that repeats. What the first layer runs in front of its first GEMM, others do too.
func (rd *reading) divideLayers(ids []int32, n int) (parts [][]int32, why string) {
	if n < 2 {
		return [][]int32{ids}, ""
	}
	var matrices []int32
	var at []int // in ids
	for i, id := range ids {
		if rd.computes(&rd.w.Ops[id]) {
			matrices, at = append(matrices, id), append(at, i)
		}
	}
	all := make([]int, len(matrices)/2)
	for i := range all {
		all[i] = i + 1
	}
	from, to, period := workload.Repeated(len(matrices), all, func(i, j int) bool { return rd.w.Alike(matrices[i], matrices[j]) })
	layers := (to - from) / max(1, period)
	if layers < n || layers%n != 0 {
		return nil, fmt.Sprintf("%d groups of layers: rank %d has %d layers a stage that its kernels show to be equal", n, rd.w.Ops[ids[0]].Rank, layers)
	}
	cut, first := 0, at[from]
	for k := 1; k < n; k++ {
		to, before := at[from+k*layers/n*period], 0
		for before < min(first, to-cut) && rd.w.Alike(ids[first-before-1], ids[to-before-1]) {
			before++
		}
		parts = append(parts, ids[cut:to-before])
		cut = to - before
	}
	return append(parts, ids[cut:]), ""
}

// recording says how what shapes or dependencies would tell is recorded; "" where the profiler of the program cannot.
func recording(w *workload.Workload) string {
	h := lift.RecorderOf(w.Run)
	if h.Shapes == "" || h.Dataflow == h.Shapes {
		return strings.TrimSuffix(": read "+h.Shapes, ": read ")
	}
	return ": record sizes (" + h.Shapes + ") or " + h.Dataflow
}
