package lift

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A candidate is a possible pair on one rank: two ops, and the evidence. The zero value is none.
type candidate struct {
	first, second int32
	evidence      []string
	confidence    float64
	experts       int32 // as in Pair
}

// A search is the state of a search from an op to its partner.
type search struct {
	evidence   []string
	confidence float64
	between    []int32 // light ops on the way
	light      int     // the most of them
	heavy      int
}

// begin starts a search with what shows that one op waited for the other.
func begin(why workload.Reason) *search {
	t := &search{confidence: 1, light: maxLight, evidence: []string{why.String()}}
	if why == workload.Timing {
		t.confidence = onlyByTime
	}
	return t
}

// passLight passes a light kernel.
func (t *search) passLight(op *workload.Op, want size) {
	t.between = append(t.between, op.ID)
	if output(op).agree(want) > 0 {
		t.confidence *= throughSame
		t.evidence = append(t.evidence, fmt.Sprintf("through %s, of the same size", workload.FunctionName(op.Name)))
	} else {
		t.confidence *= throughOther
		t.evidence = append(t.evidence, fmt.Sprintf("through %s", workload.FunctionName(op.Name)))
	}
}

// partner walks to the heavy op of a pair. Data of the wanted size pass through a few light ones.
// judge sees each heavy op, and says whether the walk may pass it.
func (f *finder) partner(at int32, of *workload.Op, to func(int32) int32, t *search, want size,
	judge func(*workload.Op) (h candidate, more bool),
) (found candidate) {
	f.walk(at, of, maxSteps, to, func(op *workload.Op, r opRole) bool {
		more := true
		switch r {
		case transparent:
			t.passLight(op, want)
			more = len(t.between) <= t.light
		case heavy:
			found, more = judge(op)
		}
		return more
	})
	if found.confidence > 0 {
		found.evidence = f.shareEvidence(found.evidence)
	}
	return found
}

// pair is the candidate of two ops with the evidence of the walk between them.
func (t *search) pair(first, second int32, worth float64, why string) candidate {
	return candidate{first: first, second: second, evidence: append(t.evidence, why), confidence: worth * t.confidence}
}

// producer finds the kernel whose output a collective sends: the last heavy one that its data
// come from; where nothing tells which, on the stream that launched it.
//
//	queue 7  |GGGGGGcc      |   G, through the light c, makes what C sends
//	queue 19 |        CCCC  |
func (f *finder) producer(c *workload.Op) candidate {
	comm := f.commOf(c)
	at, why := f.sent(c)
	if at < 0 || comm.Op == trace.Barrier {
		return candidate{}
	}
	t, sent := begin(why), communicated(&comm, comm.In)
	adds := comm.Op == trace.ReduceScatter || comm.Op == trace.AllReduce
	return f.partner(at, c, f.before, t, sent, func(op *workload.Op) (candidate, bool) {
		worth, why := f.makes(op, comm.Op, sent)
		if worth > 0 && (output(op).known() && sent.known() || t.heavy == 0) {
			return t.pair(op.ID, c.ID, worth, why), false
		}
		if adds && t.heavy == 0 {
			if h := f.makesRows(op, c, sent, *t); h.confidence > 0 {
				return h, false
			}
		}
		t.heavy++
		t.confidence *= pastHeavy
		t.evidence = append(t.evidence, fmt.Sprintf("past %s, whose output has another size", workload.FunctionName(op.Name)))
		return candidate{}, t.heavy <= maxHeavy
	})
}

// consumer finds the GEMM or the gradient of an embedding that reads a collective's output.
func (f *finder) consumer(c *workload.Op) candidate {
	comm, at := f.commOf(c), f.reader[c.ID]
	if at < 0 || comm.Op != trace.AllGather && comm.Op != trace.AllToAll && comm.Op != trace.UnknownOp {
		return candidate{}
	}
	t := begin(f.waited(&f.Ops[at], c.ID))
	brought := communicated(&comm, comm.Out)
	gathers := comm.Op == trace.AllGather
	return f.partner(at, c, f.after, t, brought, func(op *workload.Op) (found candidate, more bool) {
		if gathers {
			found = f.readsRows(c, op, brought, *t)
		}
		worth, why, sized := f.reads(op, brought)
		if worth*t.confidence > found.confidence && (sized || !f.busyDuring(c)) {
			found = t.pair(c.ID, op.ID, worth, why)
		}
		return found, false
	})
}

// gemmBefore finds the GEMM whose output is another one's first input: the last heavy kernel
// before it on its stream, with no collective between. Any number of light kernels may lie between
// two GEMMs that recorded accesses connect.
func (f *finder) gemmBefore(g *workload.Op) candidate {
	t := begin(workload.StreamOrder)
	t.light = maxSteps
	in, _ := operands(g)
	return f.partner(f.beforeAlone(g.ID), g, f.beforeAlone, t, in, func(op *workload.Op) (candidate, bool) {
		s := op.Shape
		if (s.Kind != workload.GEMM && s.Kind != workload.GEMV) || s.M != g.Shape.M || s.Groups != g.Shape.Groups ||
			!feeds(s, g.Shape, len(t.between) > 0) {
			return candidate{}, false
		}
		if len(t.between) > 0 && f.flows(op.ID, g.ID, t.between) {
			t.evidence, t.confidence = []string{"recorded accesses"}, 1
		} else if len(t.between) > maxLight+1 {
			return candidate{}, false
		}
		why := fmt.Sprintf("its %d×%d output has the shape of the other's first input", s.M, s.N)
		if s.N != g.Shape.K && g.Shape.Like == "" {
			why = fmt.Sprintf("half of the columns of its %d×%d output, times the other half, have the shape of the other's first input", s.M, s.N)
		}
		return t.pair(op.ID, g.ID, sizesAgree, why), false
	})
}

// feeds reports whether a GEMM's columns are what another one sums over: themselves, once a filter
// position, three times as many: queries, keys and values, or twice as many, through a gated
// activation.
func feeds(s, g workload.Shape, through bool) bool {
	switch g.Like {
	case Convolution:
		return g.K%s.N == 0
	case attentionOperator:
		return s.N == 3*g.K
	}
	return s.N == g.K || through && s.N == 2*g.K
}

// shareEvidence lets candidates with the same evidence have it in common: a training step
// repeats the same few pairs. Nobody changes evidence.
func (f *finder) shareEvidence(list []string) []string {
	key := f.key[:0]
	for _, e := range list {
		key = append(append(key, e...), '\n')
	}
	f.key = key
	if f.evidence[string(key)] == nil {
		f.evidence[string(key)] = list
	}
	return f.evidence[string(key)]
}

// commOf is what the trace says of a collective op; sizes are 0 and the operation may be
// unknown where it says nothing.
func (f *finder) commOf(c *workload.Op) trace.Comm {
	if comm := f.Run.Comm(f.Run.Spans[c.Span]); comm != nil {
		return *comm
	}
	return trace.Comm{Op: trace.KernelOp(f.Run.NameOf(f.Run.Spans[c.Span])), Group: trace.None, Peer: trace.None}
}

// makes is the confidence that a heavy op's output is the wanted data; 0: not at all.
func (f *finder) makes(op *workload.Op, sent trace.CollectiveOp, want size) (worth float64, why string) {
	out := output(op)
	if out.known() && want.known() {
		return sizesAgree * out.agree(want), fmt.Sprintf("its output is as large as what is sent: %d bytes", want.bytes)
	}
	switch sent {
	case trace.AllReduce, trace.ReduceScatter, trace.AllToAll, trace.UnknownOp:
	default: // other collectives rarely send a kernel's output: weights, older gradients
		return 0, ""
	}
	class := workload.ClassOf(op.Name)
	switch {
	case out.known() && f.multiplies(op):
		return gemmByName, "a GEMM before a collective of unknown size"
	case class == workload.ClassMatrix:
		return gemmByName, "a GEMM by its name, of unknown size"
	case class == workload.ClassLookup:
		return gemmByName, "a lookup by its name, of unknown size"
	case class == workload.ClassUnknown && want.known() && !out.known():
		return adjacentOnly, "a kernel of unknown work"
	}
	return 0, ""
}

// reads is the confidence that a heavy op reads the wanted data, 0: not at all, and whether
// sizes say so. If a size is unknown, the first GEMM that waits for a gather is taken for
// its reader (rule V3).
func (f *finder) reads(op *workload.Op, brought size) (worth float64, why string, sized bool) {
	a, b := operands(op)
	if !brought.known() || !a.known() && !b.known() {
		if f.multiplies(op) {
			return gemmByName, "the first GEMM behind it by its name; one of the two is of unknown size", false
		}
		return 0, "", false
	}
	for i, in := range [...]size{a, b} {
		if agree := in.agree(brought); agree > 0 {
			return sizesAgree * agree, fmt.Sprintf("its %s input is as large as what was brought: %d bytes",
				[...]string{"first", "second"}[i], brought.bytes), true
		}
	}
	return 0, "", false
}

// multiplies reports whether an op is a GEMM, by its shape or its name.
func (f *finder) multiplies(op *workload.Op) bool {
	return op.Shape.Kind == workload.GEMM || op.Shape.Kind == workload.GEMV || workload.ClassOf(op.Name) == workload.ClassMatrix
}

// busyDuring reports whether a heavy op ran alongside a gather and before its first reader:
// the gather was issued ahead of need, and the two are not adjacent.
func (f *finder) busyDuring(c *workload.Op) bool {
	before := f.before(f.reader[c.ID])
	return before >= 0 && before != c.ID && f.Ops[before].End > c.Start && f.role(&f.Ops[before]) == heavy
}

// In a mixture of experts under tensor parallelism every rank has a slice of every expert. An
// all-gather brings the tokens of all ranks, each goes to several experts, and the rows of the
// grouped GEMM are the tokens times their experts. Behind the last GEMM the rows of a token are
// added before a reduce-scatter or an all-reduce (rule V23):
//
//	all-gather       tokens           x hidden
//	rows by expert   tokens x experts x hidden   a permutation, or an index that the GEMM reads through
//	grouped GEMMs    tokens x experts x columns
//	weighted sum     tokens           x hidden
//	reduce-scatter   tokens / ranks   x hidden

// Confidence of pairs whose rows are not equally many.
const (
	flowsExactly  = 0.95 // recorded accesses connect the two through a kernel that changes the number of rows
	flowsToGroups = 0.90 // recorded accesses connect a grouped GEMM; they do not say which input it reads
	rowsByGroups  = 0.80 // adjacent, a grouped GEMM
)

// expertsOf is the rows of a GEMM for each row of width elements that is communicated: the
// experts of a token; 0 if they are not a whole number above one.
func expertsOf(g *workload.Shape, sent size, width int64) int64 {
	if g.Kind != workload.GEMM || sent.elements <= 0 || width <= 0 || sent.elements%width != 0 {
		return 0
	}
	tokens := sent.elements / width
	if g.M%tokens != 0 || g.M == tokens || g.Groups > 1 && g.M/tokens > g.Groups {
		return 0
	}
	return g.M / tokens
}

// readsRows is a pair of a gather and a GEMM that reads each of the brought rows several
// times; confidence 0 if it is none.
func (f *finder) readsRows(c, g *workload.Op, brought size, t search) candidate {
	k := expertsOf(&g.Shape, brought, g.Shape.K)
	why := fmt.Sprintf("each of %d rows that were brought is in its first input %d times", brought.elements/max(1, g.Shape.K), k)
	a, _ := operands(g)
	through := func(op *workload.Op) bool { return workload.MovesRows(op) && leaves(op, a) }
	for _, id := range t.between {
		if op := &f.Ops[id]; through(op) && output(op).known() { // of the size of what the GEMM reads
			t.confidence *= throughSame / throughOther
		}
	}
	return f.byRows(c.ID, g.ID, g, k, t, why, through)
}

// makesRows is a pair of a GEMM and a reduction that sends the sums of several of its rows.
func (f *finder) makesRows(g, c *workload.Op, sent size, t search) candidate {
	k := expertsOf(&g.Shape, sent, g.Shape.N)
	why := fmt.Sprintf("each of %d rows that are sent is the sum of %d of its output", sent.elements/max(1, g.Shape.N), k)
	through := func(op *workload.Op) bool { return workload.SumsRows(op) && leaves(op, sent) }
	return f.byRows(g.ID, c.ID, g, k, t, why, through)
}

// leaves reports whether an op's output has a size, or an unknown one.
func leaves(op *workload.Op, want size) bool {
	out := output(op)
	return !out.known() || out.agree(want) > 0
}

// byRows judges a GEMM with k rows for each communicated one. A grouped GEMM is enough
// evidence; another one needs recorded accesses that lead through a kernel that changes the
// number of rows.
func (f *finder) byRows(first, second int32, g *workload.Op, k int64, t search, why string, through func(*workload.Op) bool) candidate {
	if k == 0 {
		return candidate{}
	}
	changes := slices.ContainsFunc(t.between, func(id int32) bool {
		return through(&f.Ops[id]) && f.flows(first, id, t.between) && f.flows(id, second, t.between)
	})
	switch {
	case changes:
		t.evidence, t.confidence = []string{"recorded accesses"}, flowsExactly
	case g.Shape.Groups > 1 && f.flows(first, second, t.between):
		t.evidence, t.confidence = []string{"recorded accesses"}, flowsToGroups
	case g.Shape.Groups > 1:
		t.confidence *= rowsByGroups
	default:
		return candidate{}
	}
	return candidate{
		first: first, second: second, evidence: append(t.evidence, why), confidence: t.confidence,
		experts: int32(min(k, 1<<30)),
	}
}

// flows reports whether recorded accesses lead from one op to a later one through some or none
// of the ops between.
func (f *finder) flows(from, to int32, between []int32) bool {
	return slices.ContainsFunc(f.Edges(to), func(e workload.Edge) bool {
		return e.Kind == workload.ReadAfterWrite && e.Evidence >= workload.Exact &&
			(e.Op == from || slices.Contains(between, e.Op) && f.flows(from, e.Op, between))
	})
}
