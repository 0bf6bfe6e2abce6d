package plan

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Recut is the workload with its chains in n equal parts, and their collectives through
// the given channels (0: as captured). Chains that cannot be cut stay as captured. only
// limits it to some chains; nil: all. It returns the workload itself and the reason if
// there is nothing to cut.
func Recut(w *workload.Workload, m machine.Machine, sc Scenario, n, channels int, only func(*lift.Chain) bool) (cut *workload.Workload, why string) {
	var chains []lift.Chain
	for _, c := range lift.Chains(w) {
		if only != nil && !only(&c) {
			continue
		}
		if short := tooFewRows(w, &c, n); short != "" {
			why = short
			continue
		}
		chains = append(chains, c)
	}
	if len(chains) == 0 {
		return w, why
	}
	return edit.Chains(w, chains, n, cutter(w, m, sc, channels)), ""
}

// JoinChains is the Strategy.Rebuild of strategies that serve a kernel and its collective: the
// workload with each of its chains as such a pair (rule V20); the workload itself if it has none.
func JoinChains(w *workload.Workload, m machine.Machine, _ Values, sc Scenario) *workload.Workload {
	chains := lift.Chains(w)
	if len(chains) == 0 {
		return w
	}
	return edit.Joined(w, chains, cutter(w, m, sc, 0))
}

// Undecomposed is the workload with its chains in one part each and its pipelined collectives
// (async tensor parallelism) as the library's; the workload itself if it has neither.
func Undecomposed(w *workload.Workload, m machine.Machine, sc Scenario, channels int) *workload.Workload {
	w, _ = Recut(w, m, sc, 1, channels, func(c *lift.Chain) bool { return c.Parts() > 1 })
	if pipelines := edit.Pipelines(w); len(pipelines) > 0 {
		w = edit.Unpipelined(w, pipelines, cutter(w, m, sc, channels))
	}
	return w
}

// Batched is the workload with up/down times the tokens of every iteration, in n batches that do
// not depend on each other, as two-batch overlap splits them (rule V24).
func Batched(w *workload.Workload, m machine.Machine, sc Scenario, up, down, n int) *workload.Workload {
	b := edit.Batch(w, up, down, n, cutter(w, m, sc, 0))
	if b.Rescaled == nil { // its clock is that of the capture
		b.Rescaled = &workload.Rescaling{From: m.Name, To: m.Name, Same: true, Of: w, On: m}
	}
	return b
}

// fewRows is the most rows of a GEMM of a step that is taken for decoding where the trace does not
// tell its phase.
const fewRows = 256

// WithTokens gives the steps of unknown batch the tokens that the user knows, and those of unknown
// phase the one that so many rows suggest.
func WithTokens(w *workload.Workload, tokens int64) *workload.Workload {
	known := w.Copy()
	for i := range known.Steps {
		b := &known.Steps[i].Batch
		if b.Tokens == 0 || tokens > 0 {
			b.Tokens = tokens
		}
		switch {
		case b.Phase != workload.NoPhase || b.Tokens == 0 || slices.ContainsFunc(w.Ops, func(op workload.Op) bool { return op.Backward || op.Optimizer }):
		case b.Tokens > fewRows:
			b.Phase = workload.Prefill
		default:
			b.Phase = workload.Decode
		}
	}
	return known
}

// cutter gives the parts of a workload their times on the machine.
func cutter(w *workload.Workload, m machine.Machine, sc Scenario, channels int) edit.Cutter {
	pl := &Planner{Workload: w, Machine: m, Scenario: sc}
	return edit.Cutter{
		Part: func(captured []*workload.Op, k, n int) workload.Op {
			return pl.Laws().Kernel(captured, cost.Part{K: k, Of: n}).Op
		},
		Collective: func(captured []*workload.Collective, n int) workload.Collective {
			return pl.Laws().Cut(captured, n, channels)
		},
		Alone: func(c *workload.Collective) trace.Time {
			return Duration(pl.Laws().Time(c, c.Op, c.Bytes, channels))
		},
		Disturbs: pl.disturbs,
		Gap:      Duration(m.Launch.Gap.Value),
	}
}

// disturbs reports whether an operation slows a collective alongside it (rule I1). Lookups
// that read less than half of the memory's rate do not: they wait for single reads.
func (pl *Planner) disturbs(op *workload.Op) bool {
	return op.Shape.Kind != workload.Embedding || 2*pl.Laws().Moving(op) > Seconds(op.DurAlone())
}

// mostOps bounds the operations of a workload in other parts.
const mostOps = 1 << 22

// tooFewRows is the reason why a chain cannot be cut into n parts; "" if it can.
func tooFewRows(w *workload.Workload, c *lift.Chain, n int) string {
	if n > mostOps/max(1, len(w.Ops)) {
		return fmt.Sprintf("chunks=%d makes more than %d operations", n, mostOps)
	}
	pl := Planner{Workload: w}
	for _, parts := range c.Before {
		for _, part := range parts {
			for _, id := range part {
				p := workload.Pair{First: []int32{id}, Second: []int32{id}}
				if why := pl.TooFewRows(&p, max(1, n/c.Parts())); why != "" {
					return why
				}
			}
		}
	}
	return ""
}
