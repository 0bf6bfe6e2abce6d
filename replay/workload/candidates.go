package workload

import (
	"fmt"
	"math"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A candidate is a possible pair on one rank: two ops of its source, and the evidence.
// The zero value is none.
type candidate struct {
	first, second int32
	evidence      []string
	confidence    float64
	experts       int32 // as in Pair
}

// candidates are the possible pairs of one rank.
type candidates struct {
	producers map[int32]candidate // by collective op
	consumers map[int32]candidate
	gemms     []candidate                  // by second
	guessed   map[int32]trace.CollectiveOp // by collective op whose operation the trace does not give
}

// A finder searches one source for candidates.
type finder struct {
	*lifter
	*source
	next   []int32 // by op: the one that followed it on its queue, or -1
	reader []int32 // by op: the first op but a collective that waited for it, or -1
}

// findCandidates looks at every collective and every GEMM of a source.
func (l *lifter) findCandidates(src *source) candidates {
	f := finder{lifter: l, source: src, next: filled(len(src.ops)), reader: filled(len(src.ops))}
	for i := range src.ops {
		op := &src.ops[i]
		if b := src.facts[i].before; b >= 0 && f.next[b] < 0 {
			f.next[b] = op.ID
		}
		for _, d := range op.After {
			if op.Kind != trace.Collective && f.reader[d.Op] < 0 {
				f.reader[d.Op] = op.ID
			}
		}
	}
	found := candidates{producers: map[int32]candidate{}, consumers: map[int32]candidate{}, guessed: map[int32]trace.CollectiveOp{}}
	producing, consuming := map[int32]bool{}, map[int32]bool{} // a kernel is in one pair of a kind
	for i := range src.ops {
		op := &src.ops[i]
		switch {
		case op.Kind == trace.Collective:
			if c := f.commOf(op); c.Op == trace.UnknownOp {
				found.guessed[op.ID] = f.guessOperation(op)
			}
			if h := f.producer(op); h.confidence > 0 && !producing[h.first] {
				producing[h.first] = true
				found.producers[op.ID] = l.shareEvidence(h)
			}
			if h := f.consumer(op); h.confidence > 0 && !consuming[h.second] {
				consuming[h.second] = true
				found.consumers[op.ID] = l.shareEvidence(h)
			}
		case op.Shape.Kind == GEMM || op.Shape.Kind == GEMV:
			if h := f.gemmBefore(op); h.confidence >= leastConfidence {
				found.gemms = append(found.gemms, l.shareEvidence(h))
			}
		}
	}
	return found
}

// shareEvidence lets halves with the same evidence have it in common: a training step
// repeats the same few pairs. Nobody changes evidence.
func (l *lifter) shareEvidence(h candidate) candidate {
	key := strings.Join(h.evidence, "\n")
	if l.evidence[key] == nil {
		l.evidence[key] = h.evidence
	}
	h.evidence = l.evidence[key]
	return h
}

func filled(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

// A size is how much data an op leaves or takes; zero fields are unknown.
type size struct{ elements, bytes int64 }

func (s size) known() bool { return s.bytes > 0 }

// output is the size of an op's output.
func output(op *Op) size {
	s := op.Shape
	switch {
	case s.Kind != NoShape && s.ElemSize > 0:
		n, _ := volume([]int64{s.M, s.N})
		return size{n, bytesOf(n, s.ElemSize)}
	case op.Kind == trace.Copy:
		return size{0, int64(op.Write)}
	}
	return size{}
}

func bytesOf(elements int64, each int) int64 {
	if elements > math.MaxInt64/int64(max(1, each)) {
		return 0
	}
	return elements * int64(each)
}

// agree is 1 for equal sizes, less if only the number of elements is equal, else 0.
func (s size) agree(t size) float64 {
	switch {
	case !s.known() || !t.known():
		return 0
	case s.bytes == t.bytes:
		return 1
	case s.elements > 0 && s.elements == t.elements:
		return otherType
	}
	return 0
}

// A opRole is how an op counts on a walk.
type opRole uint8

const (
	ignored     opRole = iota // a fill: it belongs to the kernel behind it
	transparent               // light: data go through it
	heavy
	boundary // a collective: ops behind it are not adjacent
)

func (f *finder) role(op *Op) opRole {
	switch {
	case op.Kind == trace.Collective:
		return boundary
	case op.Kind == trace.Copy:
		if c := f.Run.Copy(f.Run.Spans[op.Span]); c != nil && c.Dir == trace.Fill {
			return ignored
		}
		return transparent
	case op.Shape.Kind == GEMM || op.Shape.Kind == GEMV || op.Shape.Kind == Embedding || op.Shape.Kind == EmbeddingGrad:
		return heavy
	case op.Shape.Kind == Elementwise:
		return transparent
	}
	switch f.kernelName(op).class {
	case light, sweep:
		return transparent
	case unknown:
		if op.Dur() < tiny {
			return transparent
		}
	}
	return heavy
}

// A search is the state of a search from an op to its partner.
type search struct {
	evidence      []string
	confidence    float64
	lights, heavy int
	far           bool // past so many light kernels that only recorded accesses tell
}

// passLight passes a light kernel and reports whether the walk may go on.
func (t *search) passLight(op *Op, want size) bool {
	t.lights++
	if output(op).agree(want) > 0 {
		t.confidence *= throughSame
		t.evidence = append(t.evidence, fmt.Sprintf("through %s, of the same size", short(op.Name)))
	} else {
		t.confidence *= throughOther
		t.evidence = append(t.evidence, fmt.Sprintf("through %s", short(op.Name)))
	}
	return t.lights <= maxLight
}

// passHeavy passes a heavy kernel that is not the partner.
func (t *search) passHeavy(op *Op) bool {
	t.heavy++
	t.confidence *= pastHeavy
	t.evidence = append(t.evidence, fmt.Sprintf("past %s, whose output has another size", short(op.Name)))
	return t.heavy <= maxHeavy
}

// short is the short form of a kernel's name.
func short(name string) string {
	const most = 60
	name = strings.ReplaceAll(strings.TrimPrefix(name, "void "), "(anonymous namespace)::", "")
	if i := strings.IndexAny(name, "(<"); i > 0 {
		name = strings.TrimSpace(name[:i])
	}
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

// sameStep reports whether two ops may belong together: an iteration that the
// program marked is never left.
func sameStep(a, b *Op) bool { return a.Step == b.Step || a.Step < 0 || b.Step < 0 }

// producer finds the kernel whose output a collective sends: the last heavy one
// on the stream that launched it.
//
//	queue 7  |GGGGGGcc      |   G, through the light c, makes what C sends
//	queue 19 |        CCCC  |
func (f *finder) producer(c *Op) candidate {
	comm := f.commOf(c)
	dep, ok := f.launchedBehind(c)
	if !ok || comm.Op == trace.Barrier {
		return candidate{}
	}
	sent := sizeOf(&comm, comm.In)
	t := search{confidence: 1, evidence: []string{dep.Why.String()}}
	if dep.Why == Timing {
		t.confidence = onlyByTime
	}
	at := dep.Op
	adds := comm.Op == trace.ReduceScatter || comm.Op == trace.AllReduce
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
			if !t.passLight(op, sent) {
				if t.far = true; !adds {
					return candidate{}
				}
			}
		case heavy:
			worth, why := f.makes(op, comm.Op, sent)
			if worth > 0 && !t.far && (output(op).known() && sent.known() || t.heavy == 0) {
				return candidate{first: at, second: c.ID, evidence: append(t.evidence, why), confidence: worth * t.confidence}
			}
			if adds && t.heavy == 0 {
				if h := f.makesRows(op, c, sent, between, t); h.confidence > 0 {
					return h
				}
			}
			if t.far || !t.passHeavy(op) {
				return candidate{}
			}
		}
		at = f.facts[at].before
	}
	return candidate{}
}

// launchedBehind is the op that a collective's data come from, according to stream order.
func (f *finder) launchedBehind(c *Op) (dep Dep, ok bool) {
	for _, d := range c.After {
		if f.ops[d.Op].Kind != trace.Collective && (!ok || f.ops[d.Op].End >= f.ops[dep.Op].End) {
			dep, ok = d, true
		}
	}
	return dep, ok
}

// commOf is what the trace says of a collective op; sizes are 0 and the operation may be
// unknown where it says nothing.
func (f *finder) commOf(c *Op) trace.Comm {
	if comm := f.Run.Comm(f.Run.Spans[c.Span]); comm != nil {
		return *comm
	}
	return trace.Comm{Op: trace.KernelOp(f.Run.NameOf(f.Run.Spans[c.Span])), Group: trace.None, Peer: trace.None}
}

func sizeOf(c *trace.Comm, bytes int64) size {
	if bytes <= 0 {
		bytes = c.Bytes()
	}
	s := size{bytes: bytes}
	if c.ElemSize > 0 {
		s.elements = bytes / int64(c.ElemSize)
	}
	return s
}

// makes is the confidence that a heavy op's output is the wanted data; 0: not at all.
func (f *finder) makes(op *Op, sent trace.CollectiveOp, want size) (worth float64, why string) {
	out := output(op)
	if out.known() && want.known() {
		if a := out.agree(want); a > 0 {
			return sizesAgree * a, fmt.Sprintf("its output is as large as what is sent: %d bytes", want.bytes)
		}
		return 0, ""
	}
	switch sent {
	case trace.AllReduce, trace.ReduceScatter, trace.AllToAll, trace.UnknownOp:
	default: // other collectives rarely send a kernel's output: weights, older gradients
		return 0, ""
	}
	class := f.kernelName(op).class
	switch {
	case out.known() && f.multiplies(op):
		return gemmByName, "a GEMM before a collective of unknown size"
	case class == matrix:
		return gemmByName, "a GEMM by its name, of unknown size"
	case class == lookup:
		return gemmByName, "a lookup by its name, of unknown size"
	case class == unknown && want.known() && !out.known():
		return adjacentOnly, "a kernel of unknown work"
	}
	return 0, ""
}

// multiplies reports whether an op is a GEMM, by its shape or its name.
func (f *finder) multiplies(op *Op) bool {
	return op.Shape.Kind == GEMM || op.Shape.Kind == GEMV || f.kernelName(op).class == matrix
}

// gemmBefore finds the GEMM whose output is another one's first input:
// the last heavy kernel before it on its stream, with no collective between.
func (f *finder) gemmBefore(g *Op) candidate {
	t := search{confidence: 1, evidence: []string{StreamOrder.String()}}
	at := g.ID
	for range maxSteps {
		if f.waitsForCollective(&f.ops[at]) {
			return candidate{}
		}
		at = f.facts[at].before
		if at < 0 || !sameStep(&f.ops[at], g) {
			return candidate{}
		}
		op := &f.ops[at]
		in, _ := operands(g)
		switch f.role(op) {
		case boundary:
			return candidate{}
		case transparent:
			if !t.passLight(op, in) {
				return candidate{}
			}
		case heavy:
			s := op.Shape
			if (s.Kind != GEMM && s.Kind != GEMV) || s.M != g.Shape.M || s.Groups != g.Shape.Groups || !f.feeds(s, g) {
				return candidate{}
			}
			why := fmt.Sprintf("its %d×%d output has the shape of the other's first input", s.M, s.N)
			return candidate{first: at, second: g.ID, evidence: append(t.evidence, why), confidence: sizesAgree * t.confidence}
		}
	}
	return candidate{}
}

// feeds reports whether a GEMM's columns are what another one sums over:
// themselves, once a filter position, or three times as many: queries, keys and values.
func (f *finder) feeds(s Shape, g *Op) bool {
	k := g.Shape.K
	if row := f.facts[g.ID].operator; row != trace.None {
		switch f.Run.Operators[row].Name {
		case convolution:
			return k%s.N == 0
		case attention:
			return s.N == 3*k
		}
	}
	return s.N == k
}

func (f *finder) waitsForCollective(op *Op) bool {
	for _, d := range op.After {
		if f.ops[d.Op].Kind == trace.Collective {
			return true
		}
	}
	return false
}
