package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// guessOperations sets the operations of collectives that the trace does not name to what
// their first members suggest, and returns their number (rule V10).
func guessOperations(w *workload.Workload) (n int) {
	var f *finder
	var last map[[2]int32]int32
	evidence := map[string]string{} // few: a string for each collective would take as much memory as all of them
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if c.Op != trace.UnknownOp {
			continue
		}
		if f == nil {
			f, last = newFinder(w), lastOfPass(w)
		}
		op := &w.Ops[c.Members[0]]
		c.Op, c.Guessed = f.guessOperation(op), true
		if w.BatchOf(op).Phase != workload.NoPhase && last[[2]int32{int32(op.Rank), op.Step}] == op.ID {
			c.Op = trace.AllGather
		}
		if evidence[c.Evidence] == "" {
			evidence[c.Evidence] = c.Evidence + "; its operation is guessed from the kernel before it"
		}
		c.Evidence = evidence[c.Evidence]
		n++
	}
	if n > 0 {
		agree(w)
	}
	return n
}

// agree gives collectives at one place of their iterations one operation: the one that the trace names for some of
// them, else the commonest guess; and where it names that, its size.
func agree(w *workload.Workload) {
	type choice struct {
		named *workload.Collective
		count map[trace.CollectiveOp]int
	}
	numbers := placesIn(w)
	choices := map[int32]*choice{}
	for i, place := range numbers {
		if place == 0 {
			continue
		}
		c, at := &w.Collectives[i], trace.Memo(choices, place, func() *choice { return &choice{count: map[trace.CollectiveOp]int{}} })
		if at.count[c.Op]++; !c.Guessed && c.Bytes > 0 {
			at.named = c
		}
	}
	for i, place := range numbers {
		c := &w.Collectives[i]
		if place == 0 || !c.Guessed {
			continue
		}
		at := choices[place]
		for op, n := range at.count {
			if n > at.count[c.Op] || n == at.count[c.Op] && op < c.Op {
				c.Op = op
			}
		}
		if at.named != nil {
			c.Op, c.Bytes, c.In, c.Out = at.named.Op, at.named.Bytes, at.named.In, at.named.Out
			c.Evidence += "; its operation and size are those of its twins in other iterations"
		}
	}
}

// placesIn numbers the collectives that come at one place of the iterations of a loop, from 1 on: those of one stream,
// group and number of channels, in iterations with as many collectives on that stream as most have. They repeat, and have one
// operation and size (rule V10). Others have 0, as have those of serving, whose batches differ.
func placesIn(w *workload.Workload) []int32 {
	type stream struct {
		rank      int
		queue     int64
		iteration int32
	}
	type place struct {
		rank     int
		queue    int64
		at       int
		group    int32
		channels int
	}
	numbers := make([]int32, len(w.Collectives))
	of, n := workload.IterationsOf(w)
	if n < 2 || slices.ContainsFunc(w.Steps, func(s workload.Step) bool { return s.Batch.Phase != workload.NoPhase }) {
		return numbers
	}
	rows := map[stream][]int32{} // collectives of an iteration, in order
	var streams []stream
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind == trace.Collective && op.Collective >= 0 && of[i] >= 0 &&
			w.Collectives[op.Collective].Members[0] == op.ID {
			s := stream{op.Rank, op.Queue, of[i]}
			if rows[s] == nil {
				streams = append(streams, s)
			}
			rows[s] = append(rows[s], op.Collective)
		}
	}
	counts := map[stream]map[int]int{} // by stream, of its iterations with so many collectives
	for _, s := range streams {
		each := trace.Memo(counts, stream{s.rank, s.queue, 0}, func() map[int]int { return map[int]int{} })
		each[len(rows[s])]++
	}
	ids := map[place]int32{}
	for _, s := range streams {
		each := counts[stream{s.rank, s.queue, 0}]
		if 2*each[len(rows[s])] <= n {
			continue
		}
		for at, row := range rows[s] {
			c := &w.Collectives[row]
			numbers[row] = trace.Memo(ids, place{s.rank, s.queue, at, c.Group, c.Channels}, func() int32 { return int32(len(ids)) + 1 })
		}
	}
	return numbers
}

// lastOfPass is the last op that multiplies by weights or communicates, by rank and step. A collective at the end
// of a forward pass gathers logits, of which each rank of a tensor parallel head has some columns.
func lastOfPass(w *workload.Workload) map[[2]int32]int32 {
	last := map[[2]int32]int32{}
	for i := range w.Ops {
		if op := &w.Ops[i]; w.BatchOf(op).Phase != workload.NoPhase && (op.Kind == trace.Collective || workload.HoldsWeights(op)) {
			last[[2]int32{int32(op.Rank), op.Step}] = op.ID
		}
	}
	return last
}

// guessOperation guesses the operation of a collective that the trace does not name, as
// RCCL's kernels without API records, from what ran before it: gradients are concatenated
// before they are reduced and scattered (PyTorch's foreach_reduce of FSDP), a GEMM's or experts' partial
// results are reduced everywhere, as is what a norm behind it on its stream reads (tensor parallel
// layers; parameters are gathered on a stream of their own), and anything else is a gather, as of
// parameters (rule V10). A concatenation counts that began last, or shortly before: AMD's time stamps of a kernel and
// of one that waits for it on another queue overlap by microseconds.
func (f *finder) guessOperation(c *workload.Op) trace.CollectiveOp {
	const few = 4
	for i := c.ID - 1; i >= max(f.Ranks[c.Rank][0], c.ID-few) && (i == c.ID-1 || c.Start-f.Ops[i].Start <= eventHop); i-- {
		if workload.NameHas(f.Ops[i].Name, "catarray", "chunk_cat") {
			return trace.ReduceScatter
		}
	}
	if at, _ := f.sent(c); at >= 0 && workload.HoldsWeights(&f.Ops[at]) {
		return trace.AllReduce
	}
	for _, behind := range f.Ops[c.ID+1:] {
		if behind.Rank != c.Rank {
			break
		}
		if behind.Queue == c.Queue {
			if behind.Kind == trace.Compute && workload.NameHas(behind.Name, "norm") {
				return trace.AllReduce
			}
			break
		}
	}
	return trace.AllGather
}

// sizesByNorms gives an all-reduce whose size the trace does not show the bytes that a norm of known rows and columns
// behind it reads, or a sum of known elements, as of the residual stream, which is in front of a norm once, or a copy
// within the memory; and returns their number (rule V10). PyTorch's elementwise kernels cover threads × vector elements a workgroup
// (aten/src/ATen/native/cuda/CUDALoops.cuh); NCCL's kernels have the type of their elements in their names.
func sizesByNorms(w *workload.Workload) (n int) {
	unsized := func(c workload.Collective) bool { return c.Bytes == 0 && c.Op == trace.AllReduce && !c.Earlier }
	if !slices.ContainsFunc(w.Collectives, unsized) {
		return 0
	}
	f, residual := newFinder(w), map[*workload.Kernel]bool{}
	for i := range w.Ops {
		if norm := f.after(int32(i)); norm >= 0 {
			if rows := normRows(&w.Ops[norm]); rows > 0 && elements(&w.Ops[i])%rows == 0 {
				residual[w.Ops[i].Kernel] = true
			}
		}
	}
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if !unsized(*c) {
			continue
		}
		bytes := int64(0)
		for _, id := range c.Members {
			f.walk(f.behind(id), &w.Ops[id], maxSteps, f.after, func(behind *workload.Op, r opRole) bool {
				size := normElements(behind)
				if residual[behind.Kernel] {
					size = max(size, elements(behind))
				}
				bytes = max(bytes, size*elementSize(w.Ops[id].Name))
				if c.Foreign && behind.Kind == trace.Copy && behind.Read == behind.Write { // out of the buffer that peers read
					bytes = max(bytes, int64(behind.Read))
				}
				return r == ignored
			})
		}
		if bytes > 0 {
			c.Bytes = bytes
			c.In, c.Out = c.Op.Sides(bytes, len(c.Members))
			c.Evidence += "; its size is that of the norm behind it"
			n++
		}
	}
	return n
}

// sizesByRows gives an all-reduce whose size the trace does not show the rows of the norm behind it, and the columns of a
// model's hidden state, which are the same in all of its layers and steps; and returns their number (rule V10). Where a sum
// in front of an all-reduce covers its elements up to less than a workgroup, and there are as many rows, one
// number of columns fits; the commonest counts. What is as large in front of it as behind is reduced everywhere.
func sizesByRows(w *workload.Workload) (n int) {
	type columns struct{ number, each int64 } // each: bytes of an element
	found, fits, f := map[int32]int64{}, map[columns]int{}, (*finder)(nil)
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if c.Bytes > 0 || c.Op != trace.AllReduce || c.Earlier {
			continue
		}
		if f == nil {
			f = newFinder(w)
		}
		op, rows := &w.Ops[c.Members[0]], int64(0)
		f.walk(f.behind(op.ID), op, maxSteps, f.after, func(behind *workload.Op, r opRole) bool {
			rows = normRows(behind)
			return rows == 0 && r == ignored
		})
		if rows == 0 {
			continue
		}
		found[int32(i)] = rows
		at, _ := f.sent(op)
		if at < 0 {
			continue
		}
		sum := &w.Ops[at]
		covers, each := elements(sum), elementSize(sum.Name)
		if covers == 0 || each == 0 {
			continue
		}
		if last := covers / int64(sum.Tiling.WGs); last <= rows && covers%rows < last {
			fits[columns{covers / rows, each}]++
		}
	}
	var hidden columns
	for c, n := range fits {
		if most := fits[hidden]; n > most || n == most && (c.number < hidden.number || c.number == hidden.number && c.each < hidden.each) {
			hidden = c
		}
	}
	for row, rows := range found {
		if c := &w.Collectives[row]; hidden.number > 0 {
			c.Bytes = rows * hidden.number * hidden.each
			c.In, c.Out, c.Guessed = c.Bytes, c.Bytes, false
			c.Evidence += "; its size is that of the norm's rows behind it and of the columns of a sum in front of one"
			n++
		}
	}
	return n
}

// sizesByProducts gives an all-reduce whose size the trace does not show the bytes of the GEMM whose output it adds up,
// and those of its twins, and returns their number (rule V10).
func sizesByProducts(w *workload.Workload) (n int) {
	unsized := func(c workload.Collective) bool { return c.Bytes == 0 && c.Op == trace.AllReduce && !c.Earlier }
	if !slices.ContainsFunc(w.Collectives, unsized) {
		return 0
	}
	twins, bytes := twinsOf(w), map[int32]int64{} // by twin
	for id, row := range newFinder(w).addedBy() {
		if op, c := &w.Ops[id], &w.Collectives[row]; unsized(*c) && op.Shape.Groups <= 1 &&
			(op.Shape.Kind == workload.GEMM || op.Shape.Kind == workload.GEMV) {
			own := op.Shape.M * op.Shape.N * elementSize(w.Ops[c.Members[0]].Name)
			twin := cmp.Or(twins[row], -row-1)
			bytes[twin] = max(bytes[twin], own)
		}
	}
	for i := range w.Collectives {
		if c, own := &w.Collectives[i], bytes[cmp.Or(twins[i], -int32(i)-1)]; own > 0 && unsized(*c) {
			c.Bytes = own
			c.In, c.Out = c.Op.Sides(own, len(c.Members))
			c.Evidence += "; its size is that of a GEMM's output that it adds up"
			n++
		}
	}
	return n
}

// twinsOf numbers the collectives that have one size, though the trace does not show it, from 1 on: those of one operation,
// group and step whose result the same kernel, a norm, reads behind them on their stream, or which are the same
// kernel of an engine, as the rows and columns of a model's hidden state are the same in all of its layers; else those at one
// place of their iterations (rule V10). Others have 0.
func twinsOf(w *workload.Workload) []int32 {
	type role struct {
		op                 trace.CollectiveOp
		group, step, place int32
		channels           int
		kernel             *workload.Kernel
	}
	numbers, twins, f := map[role]int32{}, make([]int32, len(w.Collectives)), (*finder)(nil)
	var at []int32 // Places
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if c.Bytes > 0 && !c.Guessed || c.Earlier || len(c.Members) < 2 {
			continue
		}
		if f == nil {
			f, at = newFinder(w), placesIn(w)
		}
		op := &w.Ops[c.Members[0]]
		k := role{c.Op, c.Group, op.Step, 0, c.Channels, op.Kernel}
		if next := f.behind(op.ID); !c.Foreign {
			switch {
			case next >= 0 && workload.NameHas(w.Ops[next].Name, "norm"):
				k.kernel = w.Ops[next].Kernel
			case at[i] > 0:
				k = role{op: c.Op, place: at[i]}
			default:
				continue
			}
		}
		if numbers[k] == 0 {
			numbers[k] = int32(len(numbers)) + 1
		}
		twins[i] = numbers[k]
	}
	return twins
}

// behind is the op behind a collective on its stream or, where that is another collective or none, the first to wait
// for it; or -1.
func (f *finder) behind(id int32) int32 {
	if next := f.after(id); next >= 0 && f.Ops[next].Kind != trace.Collective {
		return next
	}
	return f.reader[id]
}

// tokens gives the steps of inference whose range does not name the tokens of their batch the commonest
// rows of their GEMMs, or where no size of a GEMM is known, of their norms (rule V24).
func tokens(w *workload.Workload) {
	type of struct {
		step int32
		gemm bool
	}
	rows, norms := map[of]map[int64]int{}, map[*workload.Kernel]int64{}
	trains := make([]bool, len(w.Steps))
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Step < 0 {
			continue
		}
		trains[op.Step] = trains[op.Step] || op.Backward || op.Optimizer
		m, known := norms[op.Kernel]
		if !known {
			m = normRows(op)
			norms[op.Kernel] = m
		}
		key := of{op.Step, true}
		if key.gemm = m == 0; key.gemm && op.Shape.Kind == workload.GEMM && op.Shape.Groups <= 1 {
			m = op.Shape.M
		}
		if m > 0 {
			if rows[key] == nil {
				rows[key] = map[int64]int{}
			}
			rows[key][m]++
		}
	}
	for i := range w.Steps {
		found := rows[of{int32(i), true}]
		if found == nil {
			found = rows[of{int32(i), false}]
		}
		if b := &w.Steps[i].Batch; b.Tokens == 0 && !trains[i] {
			for m, n := range found {
				if now := found[b.Tokens]; n > now || n == now && m < b.Tokens {
					b.Tokens = m
				}
			}
		}
	}
}
