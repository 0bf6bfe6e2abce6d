package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What lies between two dependent GEMMs becomes part of them, as GeLU does in cuSync: the
// epilogue of the first or the prologue of the second (rule T9).
//
//	captured  |GEMM 1|  C  |GeLU|  D  |GEMM 2|     C is written and read again
//	fused     |GEMM 1 + GeLU|  D  |GEMM 2|
//
// Kernels on the way that neither read what the first GEMM writes for the second, nor write what
// the second reads, stay kernels; they run behind the first GEMM on its stream.
type between struct {
	fused  []*workload.Op // in order
	beside []*workload.Op
	rows   *workload.Op // of fused: works on whole rows; nil: none does
}

// betweenOf sorts what lies between two GEMMs, or says what keeps them apart.
func betweenOf(w *workload.Workload, a, b *workload.Op) (t between, why string) {
	fed, needed := map[int32]bool{a.ID: true}, map[int32]bool{b.ID: true}
	known := func(id int32) bool { return w.EvidenceOf(id) > workload.Guessed }
	for id := a.ID + 1; id < b.ID; id++ {
		fed[id] = slices.ContainsFunc(w.Edges(id), func(e workload.Edge) bool { return e.Recorded() && fed[e.Op] })
	}
	for id := b.ID; id > a.ID; id-- {
		for _, e := range w.Waits(id) {
			needed[e.Op] = needed[e.Op] || needed[id]
		}
	}
	for id := a.ID + 1; id < b.ID; id++ {
		op := &w.Ops[id]
		if op.Queue != a.Queue && op.Queue != b.Queue || op.Collective >= 0 || w.IsFill(op) {
			continue
		}
		if known(id) && known(b.ID) && !needed[id] {
			t.beside = append(t.beside, op)
			continue
		}
		needs := needOf(op)
		switch {
		case needs == needsAll && known(id) && !fed[id]:
			return t, fmt.Sprintf("%s lies between the two GEMMs and makes what the second one reads", trace.Short(op.Name))
		case needs == needsAll:
			return t, fmt.Sprintf("%s lies between the two GEMMs and reads the first one's whole output", trace.Short(op.Name))
		case !sized(op, a, b):
			return t, fmt.Sprintf("%s lies between the two GEMMs, and its %d×%d output is neither the first one's nor what the second one reads", trace.Short(op.Name), op.Shape.M, op.Shape.N)
		case needs == needsRow:
			t.rows = op
		}
		t.fused = append(t.fused, op)
	}
	return t, ""
}

// A need is what of its input an element of a light kernel's output needs.
type need uint8

const (
	needsAll     need = iota // all of it, or the name does not say
	needsElement             // the element in its place: activations, biases, residuals, a GEMM's own sums of parts along K
	needsRow                 // its row: norms, softmax, quantisation by row
)

// needOf reads a kernel's name. Copies may transpose, and sums over rows or batches read columns.
func needOf(op *workload.Op) need {
	if op.Kind != trace.Compute || op.Dense || op.Shape.Kind != workload.NoShape && op.Shape.Kind != workload.Elementwise {
		return needsAll
	}
	for _, p := range [...]struct {
		needs need
		words []string
	}{
		{needsElement, []string{"splitkreduce", "splitk_reduce", "postgsu", "epilogue::impl"}},
		{needsAll, []string{"batch_norm", "batchnorm", "bn_", "group_norm", "groupnorm", "gammabeta", "copy", "transpose", "permute", "cat", "clone", "embedding", "index", "scatter", "gather"}},
		{needsRow, []string{"layer_norm", "layernorm", "rms_norm", "rmsnorm", "softmax", "quant"}},
		{needsElement, []string{"elementwise_kernel", "triton_poi_", "gelu", "silu", "relu", "swiglu", "act_and_mul", "activation", "bias", "residual", "dropout"}},
	} {
		if workload.NameHas(op.Name, p.words...) {
			return p.needs
		}
	}
	return needsAll
}

// sized reports whether a kernel's output can be on the way from one GEMM to another.
func sized(op, a, b *workload.Op) bool {
	s := op.Shape
	return s.Kind != workload.Elementwise || s.M*s.N == a.Shape.M*a.Shape.N || s.M*s.N == b.Shape.M*b.Shape.K
}

// A fusion is what the memory traffic of two GEMMs becomes with the kernels between them in
// their loops.
type fusion struct {
	reads  float64 // bytes of other operands that the first GEMM reads, such as biases and residuals
	writes float64 // bytes that the first GEMM writes more than alone; may be negative
	saved  float64 // bytes that nobody writes and reads again
}

// fusionOf counts bytes. An intermediate that a later operation reads too, such as the backward
// pass, is still written.
func fusionOf(w *workload.Workload, a, b *workload.Op, t between) fusion {
	if len(t.fused) == 0 {
		return fusion{}
	}
	passed := append([]*workload.Op{a}, t.fused...)
	last := passed[len(passed)-1]
	reads, made, kept := 0.0, 0.0, 0.0
	for i, op := range passed {
		if i > 0 {
			reads += op.Read
		}
		if op != last {
			made += op.Write
			if readAfter(w, op, b) {
				kept += op.Write
			}
		}
	}
	others := max(0, reads-made)
	return fusion{reads: others, writes: last.Write + kept - a.Write, saved: max(0, made+reads-others-kept)}
}

// readAfter reports whether an op behind b reads what op wrote. Where no accesses are recorded, a
// forward pass keeps them for the backward pass.
func readAfter(w *workload.Workload, op, b *workload.Op) bool {
	if w.EvidenceOf(b.ID) == workload.Guessed {
		return !op.Backward && slices.ContainsFunc(w.Ranks[op.Rank], func(id int32) bool { return w.Ops[id].Backward })
	}
	ids := w.Ranks[op.Rank]
	for id := b.ID + 1; id <= ids[len(ids)-1]; id++ {
		if slices.ContainsFunc(w.Edges(id), func(e workload.Edge) bool { return e.Op == op.ID && e.Recorded() }) {
			return true
		}
	}
	return false
}

// leaveBeside takes the kernels that stay kernels out of a chain, so that they are written behind
// it, and notes those that become part of the GEMMs, with what that saves, by what they are.
func leaveBeside(pl *plan.Planner) {
	type saving struct {
		of             string
		pairs, kernels int // kernels of one pair
		took           trace.Time
		bytes          float64
	}
	var savings []*saving
	for i := range pl.Pairs {
		for _, l := range pl.Pairs[i].Links() {
			for k := range l.First {
				a, b := &pl.Workload.Ops[l.First[k]], &pl.Workload.Ops[l.Second[k]]
				t, _ := betweenOf(pl.Workload, a, b)
				for _, op := range t.beside {
					delete(pl.Replaced, op.ID)
				}
				l.Between[a.Rank] = slices.DeleteFunc(l.Between[a.Rank], func(id int32) bool { return pl.Replaced[id] == 0 })
				if len(t.fused) == 0 {
					continue
				}
				of := fmt.Sprintf("%d×%d×%d and %d×%d×%d (%s)", a.Shape.M, a.Shape.N, a.Shape.K, b.Shape.M, b.Shape.N, b.Shape.K,
					workload.FunctionName(t.fused[0].Name))
				at := slices.IndexFunc(savings, func(s *saving) bool { return s.of == of })
				if at < 0 {
					at, savings = len(savings), append(savings, &saving{of: of})
				}
				s := savings[at]
				s.pairs, s.kernels, s.bytes = s.pairs+1, len(t.fused), s.bytes+fusionOf(pl.Workload, a, b, t).saved
				for _, op := range t.fused {
					s.took += op.DurAlone()
					pl.NeverRun(noFusedBuild(op))
				}
			}
		}
	}
	for _, s := range savings {
		kernels := fmt.Sprintf("%d kernels between the GEMMs %s become", s.kernels, s.of)
		if s.kernels == 1 {
			kernels = fmt.Sprintf("1 kernel between the GEMMs %s becomes", s.of)
		}
		pl.Note("%s part of them by a fused build, %d times: %.0f us of kernels and %.1f MiB of memory traffic less each time",
			kernels, s.pairs, float64(s.took)/1e3/float64(s.pairs), s.bytes/float64(s.pairs)/(1<<20))
	}
}

// noGEMMs says why a workload has no two dependent GEMMs that can be seen.
func noGEMMs(w *workload.Workload) string {
	give := "give them with --dataflow: - {op: NAME, shape: MxNxK}"
	if record := lift.RecorderOf(w.Run).Shapes; record != "" {
		give = "record them (" + record + "), or " + give
	}
	var without, other, why string
	graph := false
	last := map[int]*workload.Op{} // by rank
	for i := range w.Ops {
		op := &w.Ops[i]
		switch {
		case op.Rank < len(w.Copies) && w.Copies[op.Rank]: // as the captured rank
			continue
		case !workload.Multiplies(op):
			if op.Kind == trace.Compute && other == "" && op.Shape.Kind == workload.NoShape && workload.ClassOf(op.Name) == workload.ClassUnknown {
				other = workload.FunctionName(op.Name)
			}
			continue
		case op.Shape.Kind == workload.NoShape && without == "":
			without, graph = workload.FunctionName(op.Name), op.Graph
		}
		if a := last[op.Rank]; a != nil && why == "" {
			why = apart(w, a, op)
		}
		last[op.Rank] = op
	}
	switch {
	case len(last) == 0 && other != "":
		return "no GEMM by its name; if " + other + " is one, give its shape and tile with --dataflow: - {op: NAME, shape: MxNxK, tile: 128x128}"
	case len(last) == 0:
		return "no GEMM in the trace"
	case graph:
		return "the sizes of " + without + " are not known: give a profile without the graph in a folder capture_traces beside the trace, or its shape with --dataflow: - {op: NAME, shape: MxNxK}"
	case without != "":
		return "the sizes of " + without + " are not known: " + give
	case why == "":
		return "each rank runs one GEMM"
	}
	return "no GEMM reads what the one before it wrote: " + why
}

// apart says why one GEMM does not read what the one before it wrote.
func apart(w *workload.Workload, a, b *workload.Op) string {
	for id := a.ID + 1; id < b.ID; id++ {
		op := &w.Ops[id]
		if op.Collective >= 0 {
			return fmt.Sprintf("an %s lies between %s and %s", w.Collectives[op.Collective].Op,
				workload.FunctionName(a.Name), workload.FunctionName(b.Name))
		}
		if op.Dense {
			return fmt.Sprintf("%s lies between %s and %s, and works on whole matrices", workload.FunctionName(op.Name),
				workload.FunctionName(a.Name), workload.FunctionName(b.Name))
		}
	}
	return fmt.Sprintf("%s writes %d×%d, and %s reads %d×%d", workload.FunctionName(a.Name), a.Shape.M, a.Shape.N,
		workload.FunctionName(b.Name), b.Shape.M, b.Shape.K)
}
