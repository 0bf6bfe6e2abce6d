package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Autograd marks each parameter's gradient with a range of torch::autograd::AccumulateGrad, on
// whose input profilers with shapes record the size. What sums gradients over ranks takes
// those that are ready, in buckets: DDP and Megatron from a hook in the range of a bucket's
// last gradient, other programs behind the backward pass, from a buffer that gradients are
// copied into (rule V8).
//
//	DDP      |A1  A2  A3 all-reduce(1 2 3)  A4 ..|
//	others   |A1  A2  A3  A4 | cat(1 2 3)  all-reduce  copy 1  copy 2  copy 3  cat(4 ..|

// A gradient is one parameter's, ready to be summed.
type gradient struct {
	op       int32 // the last kernel of its range; if it has none, the last product in front of it with as many elements, or the last op
	elements int64 // 0: unknown
}

// A bucket is the gradients of a backward pass that no collective has summed yet, by time.
type bucket struct {
	ready    []gradient
	products []int32 // the last ones of the backward pass that made no gradient yet
	flat     []int32 // copies that ended with the last op, of one name: into the buffer of the next collective
	name     string  // of the copies into the buffer of the last collective
	back     int     // gradients that may still be copied out of that buffer
	sum      int32   // the last collective
	hooked   []int32 // by gradient that DDP's hook summed and nothing copied out yet: the collective
	sums     []int32 // the collectives of hooks, in the order of their issue
}

// open begins a gradient.
func (a *annotator) open() {
	b := &a.bucket
	b.flat, b.back = nil, 0
	b.ready = append(b.ready, gradient{op: a.compute})
}

// size sets how many elements the gradient has that was opened last.
func (a *annotator) size(elements int64) {
	b := &a.bucket
	if len(b.ready) == 0 {
		return // the range around it is not in the trace
	}
	g := &b.ready[len(b.ready)-1]
	g.elements = elements
	for i, id := range slices.Backward(b.products) {
		if s := &a.Ops[id].Shape; s.M > 0 && s.M <= elements && elements%s.M == 0 && elements/s.M == s.N {
			g.op, b.products = id, slices.Delete(b.products, i, i+1)
			return
		}
	}
}

// makes handles a kernel in the range of a gradient: the addition, and what DDP's hook does. One behind
// the hook's collective works on the sum.
func (a *annotator) makes(id int32) {
	if a.sum >= 0 {
		a.reads(id, a.sum)
		a.reduced = append(a.reduced, id)
		return
	}
	if len(a.bucket.ready) == 0 {
		a.reads(id, a.compute)
		return
	}
	g := &a.bucket.ready[len(a.bucket.ready)-1]
	a.reads(id, g.op)
	g.op = id
	g.elements = cmp.Or(g.elements, elements(&a.Ops[id]))
}

// hooked handles a collective in the range of a gradient. It sums a bucket.
func (a *annotator) hooked(run *trace.Run, id int32) {
	b := &a.bucket
	list, bytes := a.take(run, id, nil)
	if list == nil { // which of them is not known
		list, bytes, b.ready = b.ready, 0, nil
	}
	a.sums(id, list, bytes)
	if len(list) == 0 {
		a.reads(id, a.compute)
	}
	b.hooked = append(b.hooked, slices.Repeat([]int32{id}, len(list))...)
	b.sums = append(b.sums, id)
	a.reduced = append(a.reduced, id)
}

// copiedOut handles the copy of one gradient out of DDP's buckets, which come in the order in
// which they were summed.
func (a *annotator) copiedOut(id int32) {
	if b := &a.bucket; len(b.hooked) > 0 {
		a.reads(id, b.hooked[0])
		b.hooked = b.hooked[1:]
	}
	a.reduced = append(a.reduced, id)
}

// sums adds the edges of a collective, or of a copy into its buffer, to gradients that hold
// so many bytes together; 0: unknown.
func (a *annotator) sums(id int32, list []gradient, bytes int64) {
	var all int64
	a.known = bytes > 0
	for _, g := range list {
		all += g.elements
	}
	for _, g := range list {
		if g.op < 0 || !a.precedes(g.op, id) {
			continue
		}
		e := workload.Edge{Op: g.op, Kind: workload.ReadAfterWrite, Evidence: workload.Annotated}
		if all > 0 {
			e.Bytes = int64(float64(bytes) * float64(g.elements) / float64(all))
		}
		switch at, ok := edgeTo(a.found, g.op); {
		case !ok:
			a.add(id, e)
		case a.found[at].Evidence == workload.Annotated:
			a.found[at].Bytes += e.Bytes
		case a.found[at].Evidence == workload.Guessed:
			a.found[at] = e
		}
	}
}

// outsideSums handles a collective outside of ranges that sums gradients behind the backward
// pass, with the copies in front of it. It reports whether it does.
func (a *annotator) outsideSums(run *trace.Run, id int32) bool {
	b := &a.bucket
	op := run.Comm(run.Spans[a.Ops[id].Span])
	if op == nil || op.Op != trace.AllReduce && op.Op != trace.ReduceScatter || a.Ops[id].Backward || len(b.ready) == 0 {
		return false
	}
	var parts [][]int64
	if len(b.flat) > 0 {
		parts = a.partsOf(run, b.flat[0])
	}
	list, bytes := a.take(run, id, parts)
	if list == nil {
		return false
	}
	b.back, b.sum = 0, id
	if len(b.flat) > 0 && len(list) > 1 {
		first, last := b.flat[0], b.flat[len(b.flat)-1]
		own := a.found
		a.found = slices.Clone(a.all[first])
		for i := range a.found {
			if a.found[i].Evidence == workload.Guessed {
				a.found[i].Kind = workload.StreamOnly
			}
		}
		a.sums(first, list, bytes)
		a.all[first], a.found = a.found, own
		a.reads(id, last)
		b.back, b.name, a.known = len(list), a.Ops[first].Name, true
	} else {
		a.sums(id, list, bytes)
	}
	b.flat = nil
	a.reduced = append(a.reduced, id)
	return true
}

// follows notes an op outside of ranges: whether it copies gradients to or from a buffer. A
// product behind the backward pass is of the next forward pass: gradients that are ready then
// are accumulated into.
func (a *annotator) follows(id int32) {
	b, op := &a.bucket, &a.Ops[id]
	switch {
	case op.Backward && op.Matrix():
		const most = 16 // autograd adds a gradient soon after it is made
		b.products = append(b.products[max(0, len(b.products)-most+1):], id)
	case op.Backward:
	case op.Matrix() || len(b.ready) > 0 && workload.ClassOf(op.Name) == workload.ClassMatrix:
		*b = bucket{}
	case !workload.Copies(op):
		b.flat, b.back = nil, 0
	case b.back > 0 && op.Name != b.name:
		b.back--
		a.reads(id, b.sum)
		a.reduced = append(a.reduced, id)
	case len(b.flat) > 0 && a.Ops[b.flat[0]].Name == op.Name && a.Facts[b.flat[0]].Operator == a.Facts[id].Operator:
		a.reads(id, b.flat[len(b.flat)-1])
		b.flat = append(b.flat, id)
	default:
		b.flat = []int32{id}
	}
}

// partsOf are the shapes of the tensors that the operator of an op joins; nil if not recorded.
func (a *annotator) partsOf(run *trace.Run, id int32) [][]int64 {
	row := a.Facts[id].Operator
	if row == trace.None || len(run.Operators[row].Lists) == 0 {
		return nil
	}
	return run.Operators[row].Lists[0]
}

// take removes from the ready gradients those that a collective sums and returns them, with
// the collective's bytes; nil if their sizes do not tell which. parts are the shapes of what
// was copied into its buffer, if recorded.
func (a *annotator) take(run *trace.Run, id int32, parts [][]int64) (list []gradient, bytes int64) {
	comm := run.Comm(run.Spans[a.Ops[id].Span])
	if comm == nil {
		return nil, 0
	}
	b, size := &a.bucket, cmp.Or(int64(comm.ElemSize), elementSize(a.Ops[id].Name))
	if size == 0 || comm.In < size {
		return nil, 0
	}
	which := sized(b.ready, parts)
	if which == nil {
		which = summing(b.ready, comm.In/size)
	}
	if which == nil {
		return nil, 0
	}
	rest := make([]gradient, 0, len(b.ready))
	for i, g := range b.ready {
		if which[i] {
			list = append(list, g)
		} else {
			rest = append(rest, g)
		}
	}
	b.ready = rest
	return list, comm.In
}

// sized finds, for each of a list of tensors, the first gradient of its size.
func sized(ready []gradient, parts [][]int64) (which []bool) {
	bySize := map[int64][]int{}
	for i, g := range ready {
		bySize[g.elements] = append(bySize[g.elements], i)
	}
	for _, dims := range parts {
		n, ok := volume(dims)
		if !ok || n == 0 || len(bySize[n]) == 0 {
			return nil
		}
		if which == nil {
			which = make([]bool, len(ready))
		}
		which[bySize[n][0]] = true
		bySize[n] = bySize[n][1:]
	}
	return which
}

// summing finds the gradients whose sizes make up n elements: the first ones, if they do so
// exactly; one alone; the first ones, up to a fiftieth, since buffers are padded and grids
// rounded up; or all but some, as DDP holds a bucket back until those before it are full. The
// last one, which filled the bucket, is left out only if nothing else fits.
func summing(ready []gradient, n int64) (which []bool) {
	which = make([]bool, len(ready))
	first := func(slack int64) bool {
		sum, k := int64(0), 0
		for ; k < len(ready) && sum < n-slack; k++ {
			sum += ready[k].elements
		}
		if sum < n-slack || sum > n+slack {
			return false
		}
		for i := range which[:k] {
			which[i] = true
		}
		return true
	}
	if first(0) {
		return which
	}
	if i := slices.IndexFunc(ready, func(g gradient) bool { return g.elements == n }); i >= 0 {
		which[i] = true
		return which
	}
	if first(n / 50) {
		return which
	}
	if !without(ready, which, n, len(ready)-1) && !without(ready, which, n, len(ready)) {
		return nil
	}
	return which
}

// without chooses all gradients but some of the first so many, the largest first that fit into
// what all have more than n elements. It reports whether about n are left.
func without(ready []gradient, which []bool, n int64, some int) bool {
	surplus, bySize := -n, make([]int, 0, len(ready))
	for i, g := range ready {
		which[i], surplus = true, surplus+g.elements
		if i < some && g.elements > 0 {
			bySize = append(bySize, i)
		}
	}
	slices.SortStableFunc(bySize, func(a, b int) int { return cmp.Compare(ready[b].elements, ready[a].elements) })
	for _, i := range bySize {
		if e := ready[i].elements; e <= surplus {
			which[i], surplus = false, surplus-e
		}
	}
	return surplus <= n/50 && surplus >= -n/50
}
