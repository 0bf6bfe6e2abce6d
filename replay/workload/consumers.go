package workload

import (
	"fmt"

	"github.com/overlapse/overlapse/trace"
)

// consumer finds the GEMM or the gradient of an embedding that reads a collective's output.
func (f *finder) consumer(c *Op) candidate {
	comm := f.commOf(c)
	if comm.Op != trace.AllGather && comm.Op != trace.AllToAll && comm.Op != trace.UnknownOp {
		return candidate{}
	}
	brought := sizeOf(&comm, comm.Out)
	at := f.reader[c.ID]
	t := search{confidence: 1}
	if at >= 0 {
		for _, d := range f.ops[at].After {
			if d.Op == c.ID {
				t.evidence = []string{d.Why.String()}
				if d.Why == Timing {
					t.confidence = onlyByTime
				}
			}
		}
	}
	var between []int32
	for range maxSteps {
		if at < 0 || !sameStep(&f.ops[at], c) {
			return candidate{}
		}
		op := &f.ops[at]
		switch f.role(op) {
		case boundary:
			return candidate{}
		case transparent:
			between = append(between, at)
			if !t.passLight(op, brought) {
				if t.far = true; comm.Op != trace.AllGather {
					return candidate{}
				}
			}
		case heavy:
			var found candidate
			if comm.Op == trace.AllGather {
				found = f.readsRows(c, op, brought, between, t)
			}
			worth, why, sized := f.reads(op, brought)
			if !t.far && worth*t.confidence > found.confidence && (sized || !f.busyDuring(c)) {
				found = candidate{first: c.ID, second: at, evidence: append(t.evidence, why), confidence: worth * t.confidence}
			}
			return found
		}
		at = f.next[at]
	}
	return candidate{}
}

// reads is the confidence that a heavy op reads the wanted data, 0: not at all, and whether
// sizes say so. If a size is unknown, the first GEMM that waits for a gather is taken for
// its reader (rule V13).
func (f *finder) reads(op *Op, brought size) (worth float64, why string, sized bool) {
	a, b := operands(op)
	switch {
	case !brought.known() || !a.known() && !b.known():
		if f.multiplies(op) {
			return gemmByName, "the first GEMM behind it by its name; one of the two is of unknown size", false
		}
	case a.agree(brought) > 0:
		return sizesAgree * a.agree(brought), fmt.Sprintf("its first input is as large as what was brought: %d bytes", brought.bytes), true
	case b.agree(brought) > 0:
		return sizesAgree * b.agree(brought), fmt.Sprintf("its second input is as large as what was brought: %d bytes", brought.bytes), true
	}
	return 0, "", false
}

// busyDuring reports whether a heavy op ran alongside a gather and before its first reader:
// the gather was issued ahead of need, and the two are not adjacent.
func (f *finder) busyDuring(c *Op) bool {
	before := f.facts[f.reader[c.ID]].before
	return before >= 0 && before != c.ID && f.ops[before].End > c.Start && f.role(&f.ops[before]) == heavy
}

// operands are the sizes of a GEMM's inputs, and of the gradients that an embedding's tables take.
func operands(op *Op) (a, b size) {
	s := op.Shape
	if s.Kind == EmbeddingGrad {
		if n, ok := volume([]int64{s.M, s.N}); ok {
			a = size{n, bytesOf(n, s.ElemSize)}
		}
		return a, size{}
	}
	if s.Kind != GEMM && s.Kind != GEMV {
		return size{}, size{}
	}
	if n, ok := volume([]int64{s.M, s.K}); ok {
		a = size{n, bytesOf(n, s.ElemSize)}
	}
	if n, ok := volume([]int64{max(1, s.Groups), s.K, s.N}); ok {
		b = size{n, bytesOf(n, s.ElemSize)}
	}
	return a, b
}
