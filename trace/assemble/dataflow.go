package assemble

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A tree is the calls of an execution trace: by operator, its caller, its first callee
// and its caller's next one; trace.None where there is none.
type tree struct{ caller, callee, next []int32 }

// resolve divides storages into lives. Operators must be in order of id, which is the
// order of their starts.
//
// The storage id of the trace is an address, which the caching allocator gives out
// again. A life begins where an operator returns a storage that is neither among its
// arguments nor was touched by its callees. For this purpose, an operator ends with the
// start of its last callee.
func (x *Execution) resolve() {
	n := len(x.Operators)
	x.calls = tree{make([]int32, n), make([]int32, n), make([]int32, n)}
	last := make([]int32, n) // by operator: its last callee, direct or not, or itself
	index := make(map[int64]int32, n)
	for i := range x.Operators {
		x.calls.caller[i], x.calls.callee[i], x.calls.next[i] = trace.None, trace.None, trace.None
		last[i] = int32(i)
		if p, ok := index[x.Operators[i].caller]; ok {
			x.calls.caller[i] = p
		}
		index[x.Operators[i].ID] = int32(i)
	}
	ends := make([][]int32, n) // by operator: those that end as it starts, callees first
	for i := n - 1; i >= 0; i-- {
		if p := x.calls.caller[i]; p != trace.None {
			last[p] = max(last[p], last[i])
			x.calls.next[i], x.calls.callee[p] = x.calls.callee[p], int32(i)
		}
		ends[last[i]] = append(ends[last[i]], int32(i))
	}
	lives := map[int32]*life{}
	for i := range n {
		x.start(int32(i), lives)
		for _, e := range ends[i] {
			x.end(e, lives)
		}
	}
}

// A life is the state of one address.
type life struct {
	number  int32          // of the present allocation; 0: it was there at the start
	touched int32          // the last operator that had it as an argument or a result
	read    int32          // the last operator that reads it
	objects map[int32]bool // tensors seen in this life
	covered int64          // end of the last byte that a tensor of this life had
}

func (l *life) renew() { l.number, l.objects, l.covered = l.number+1, nil, 0 }

// replaced reports whether an operator that does not read t gives all bytes of memory
// that was allocated during the recording new values: then nothing depends on the old
// ones but the order in which the memory is used, as where Inductor reuses a buffer.
func (l *life) replaced(t *tensor) bool {
	return t.Write && !t.Read && l.number > 0 && t.From == 0 && t.To >= l.covered
}

// see adds a tensor object and reports whether it was seen before in this life.
func (l *life) see(object int32) bool {
	seen := l.objects[object]
	if l.objects == nil {
		l.objects = map[int32]bool{}
	}
	l.objects[object] = true
	return seen
}

func lifeOf(lives map[int32]*life, storage int32) *life {
	return trace.Memo(lives, storage, func() *life { return &life{touched: trace.None, read: trace.None} })
}

// start gives the arguments of an operator their lives.
func (x *Execution) start(i int32, lives map[int32]*life) {
	op := &x.Operators[i]
	unseen := 0 // arguments at the end that no operator had before
	for k := range op.inputs {
		t := &op.inputs[k]
		l := lifeOf(lives, t.Storage)
		if l.see(t.Object) {
			unseen = 0
		} else {
			unseen++
		}
	}
	if op.triton {
		tritonRoles(op.inputs, unseen)
	}
	for k := range op.inputs {
		if t := &op.inputs[k]; t.Read {
			lives[t.Storage].read = i
		}
	}
	for k := range op.inputs {
		t := &op.inputs[k]
		l := lives[t.Storage]
		allocated := unseen > 0 && k == len(op.inputs)-1 && t.Write && !t.Read && x.compiled(i)
		fresh := allocated || l.replaced(t) || t.Write && !t.Read && allocatesOut[op.Operator.Name]
		if fresh && !op.isComm() && l.touched < i && l.read < i {
			l.renew()
			l.see(t.Object)
		}
		t.Life, l.touched, l.covered = l.number, i, max(l.covered, t.To)
	}
}

// compiled reports whether Inductor's code called the operator. It allocates buffers
// without an operator and passes them as the last argument.
func (x *Execution) compiled(i int32) bool {
	p := x.calls.caller[i]
	return x.Operators[i].triton || p != trace.None && strings.HasPrefix(x.Operators[p].Operator.Name, "## Call CompiledFxGraph")
}

// allocatesOut are the operators whose results go to storages that FSDP gave memory
// just before, which no operator records (FSDPParam.alloc_all_gather_outputs in
// torch/distributed/fsdp/_fully_shard).
var allocatesOut = map[string]bool{"fsdp::split_with_sizes_copy": true}

// tritonRoles sets what a kernel of Inductor does with its arguments, which the trace
// does not record. Inductor passes buffers that it changes in place first, then inputs,
// then outputs (KernelArgs in torch/_inductor/codegen/common.py). unseen arguments at
// the end are outputs that were just allocated, or inputs that nothing used before.
func tritonRoles(args []tensor, unseen int) {
	for k := range args {
		t := &args[k]
		first, last := k == 0, k == len(args)-1
		t.Read, t.Write = true, first || last || k >= len(args)-unseen
		t.Inferred = t.Write
		if last && unseen > 0 && !first {
			t.Read, t.Inferred = false, false
		}
	}
}

// end gives the results of an operator their lives.
func (x *Execution) end(i int32, lives map[int32]*life) {
	op := &x.Operators[i]
	for k := range op.outputs {
		t := &op.outputs[k]
		l := lifeOf(lives, t.Storage)
		if l.touched < i && !op.isComm() {
			l.renew()
		}
		l.see(t.Object)
		t.Life, l.touched, l.covered = l.number, max(l.touched, i), max(l.covered, t.To)
	}
}

// isComm reports whether the operator is the framework's record of a collective. Its
// results are storages that callers made.
func (r *Recorded) isComm() bool {
	return r.Operator.Name == "record_param_comms" || strings.HasPrefix(r.Operator.Name, "nccl:") ||
		strings.HasPrefix(r.Operator.Name, "c10d::")
}

// HasTensors reports whether an operator that a profile shows as such has tensors.
func (x *Execution) HasTensors(i int32) bool {
	op := &x.Operators[i]
	return len(op.inputs)+len(op.outputs) > 0 && !strings.HasPrefix(op.Operator.Name, "nccl:")
}

// Owner returns the operator that says what the kernels launched by an operator, and not
// by a callee, read and write: itself, or the record of the collective around it.
func (x *Execution) Owner(i int32) int32 {
	if p := x.calls.caller[i]; p != trace.None && strings.HasPrefix(x.Operators[i].Operator.Name, "nccl:") {
		return p
	}
	return i
}

// Accesses returns what the kernels of an owner read and write; nothing if that is not
// recorded. Storages that its callees made are temporary ones, which it may read.
func (x *Execution) Accesses(i int32) []trace.Access {
	op := &x.Operators[i]
	if len(op.inputs)+len(op.outputs) == 0 || x.delegates(i) {
		return nil
	}
	list := op.own()
	in, out := storagesOf(op.inputs), storagesOf(op.outputs)
	for c := x.calls.callee[i]; c != trace.None && !op.isComm(); c = x.calls.next[c] {
		callee := &x.Operators[c]
		arguments := storagesOf(callee.inputs)
		for _, t := range callee.outputs {
			if key := keyOf(t); !in[key] && !arguments[key] {
				t.Read, t.Write = true, allocates(callee.Operator.Name) && !out[key]
				list = append(list, t.Access)
			}
		}
	}
	if !op.declared && !op.isComm() && !op.triton {
		for k := range list {
			list[k].Inferred = true
		}
	}
	return unique(list)
}

// delegates reports whether callees write all that an operator outside of ATen returns:
// the kernels that it launches itself, such as the barriers of a symmetric memory
// between copies and products, have effects that no tensor shows.
func (x *Execution) delegates(i int32) bool {
	op := &x.Operators[i]
	if strings.HasPrefix(op.Operator.Name, "aten::") || op.isComm() || op.triton || x.calls.callee[i] == trace.None {
		return false
	}
	if slices.ContainsFunc(op.inputs, func(t tensor) bool { return t.Write }) {
		return false
	}
	left := storagesOf(op.outputs)
	const most = 10_000 // callees to look at
	next := []int32{x.calls.callee[i]}
	for seen := 0; len(next) > 0 && seen < most; seen++ {
		c := next[len(next)-1]
		next = next[:len(next)-1]
		for _, t := range x.calls.push(&next, c, x.Operators) {
			delete(left, keyOf(t))
		}
	}
	return len(left) == 0
}

// push adds a callee's next one and its own first callee to a stack, and returns what
// the callee writes.
func (t *tree) push(stack *[]int32, c int32, all []Recorded) []tensor {
	for _, n := range [...]int32{t.next[c], t.callee[c]} {
		if n != trace.None {
			*stack = append(*stack, n)
		}
	}
	op := &all[c]
	var list []tensor
	for _, in := range op.inputs {
		if in.Write {
			list = append(list, in)
		}
	}
	if !allocates(op.Operator.Name) {
		list = append(list, op.outputs...)
	}
	return list
}

// allocates reports whether an operator makes a tensor without a value.
func allocates(name string) bool {
	return strings.HasPrefix(name, "aten::empty") || strings.HasPrefix(name, "aten::new_empty") || name == "aten::resize_"
}

// own is the accesses that an operator's arguments and results show. A result that is
// no argument is written. The record of a collective has its buffers as both.
func (r *Recorded) own() []trace.Access {
	list := make([]trace.Access, 0, len(r.inputs)+len(r.outputs))
	in := storagesOf(r.inputs)
	for _, t := range r.inputs {
		if r.way != receives {
			list = append(list, t.Access)
		}
	}
	for _, t := range r.outputs {
		if r.way != sends && (r.isComm() || !in[keyOf(t)]) {
			t.Read, t.Write = false, true
			list = append(list, t.Access)
		}
	}
	return list
}

// A way is the direction of a point-to-point operation.
type way uint8

const (
	both way = iota
	sends
	receives
)

// wayOf reads the direction of the record of a collective from its arguments.
func wayOf(values []byte) way {
	for _, v := range lex.Elements(values) {
		switch {
		case bytes.Equal(v, []byte(`"send"`)):
			return sends
		case bytes.HasPrefix(v, []byte(`"recv`)):
			return receives
		}
	}
	return both
}

// A storageKey is one life of a storage.
type storageKey struct{ storage, life int32 }

func keyOf(t tensor) storageKey { return storageKey{t.Storage, t.Life} }

func storagesOf(list []tensor) map[storageKey]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[storageKey]bool, len(list))
	for _, t := range list {
		set[keyOf(t)] = true
	}
	return set
}

// unique sorts accesses and joins those of the same bytes.
func unique(list []trace.Access) []trace.Access {
	slices.SortFunc(list, func(a, b trace.Access) int {
		return cmp.Or(cmp.Compare(a.Storage, b.Storage), cmp.Compare(a.Life, b.Life), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	kept := list[:0]
	for _, a := range list {
		if n := len(kept) - 1; n >= 0 && kept[n].Storage == a.Storage && kept[n].Life == a.Life &&
			kept[n].From == a.From && kept[n].To == a.To {
			kept[n].Read, kept[n].Write = kept[n].Read || a.Read, kept[n].Write || a.Write
			kept[n].Inferred = kept[n].Inferred || a.Inferred
			continue
		}
		kept = append(kept, a)
	}
	return kept
}
