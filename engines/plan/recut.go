package plan

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/lift/pairs"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/recut"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Recut is the workload with its chains in n equal parts, and their collectives through
// the given channels (0: as captured). Chains that cannot be cut stay as captured. only
// limits it to some chains; nil: all. It returns the workload itself and the reason if
// there is nothing to cut.
func Recut(w *workload.Workload, m machine.Machine, sc Scenario, n, channels int, only func(*pairs.Chain) bool) (cut *workload.Workload, why string) {
	var chains []pairs.Chain
	for _, c := range pairs.Chains(w) {
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
	return recut.Chains(w, chains, n, cutter(w, m, sc, channels)), ""
}

// JoinChains is the Strategy.Rebuild of strategies that serve a kernel and its collective: the
// workload with each of its chains as such a pair (rule V20); the workload itself if it has none.
func JoinChains(w *workload.Workload, m machine.Machine, _ Values, sc Scenario) *workload.Workload {
	chains := pairs.Chains(w)
	if len(chains) == 0 {
		return w
	}
	return recut.Joined(w, chains, cutter(w, m, sc, 0))
}

// Undecomposed is the workload with its chains in one part each and its pipelined collectives
// (async tensor parallelism) as the library's; the workload itself if it has neither.
func Undecomposed(w *workload.Workload, m machine.Machine, sc Scenario, channels int) *workload.Workload {
	w, _ = Recut(w, m, sc, 1, channels, func(c *pairs.Chain) bool { return c.Parts() > 1 })
	if pipelines := recut.Pipelines(w); len(pipelines) > 0 {
		w = recut.Unpipelined(w, pipelines, cutter(w, m, sc, channels))
	}
	return w
}

// Batched is the workload with up/down times the tokens of every iteration, in n batches that do
// not depend on each other, as two-batch overlap splits them (rule V24).
func Batched(w *workload.Workload, m machine.Machine, sc Scenario, up, down, n int) *workload.Workload {
	b := recut.Batch(w, up, down, n, cutter(w, m, sc, 0))
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
	known := *w
	known.Steps = slices.Clone(w.Steps)
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
	return &known
}

// cutter gives the parts of a workload their times on the machine.
func cutter(w *workload.Workload, m machine.Machine, sc Scenario, channels int) recut.Cutter {
	pl := &Planner{Workload: w, Machine: m, Scenario: sc}
	return recut.Cutter{
		Part: pl.PartOf,
		Collective: func(captured []*workload.Collective, n int) workload.Collective {
			return pl.partOfCollective(captured, n, channels)
		},
		Alone: func(c *workload.Collective) trace.Time {
			return Duration(m.Library.Time(c.Op, c.Bytes, len(c.Members), channels))
		},
		Disturbs: pl.disturbs,
		Gap:      Duration(m.Launch.Gap.Value),
		Event:    Duration(m.Launch.Hop.Or(m.Launch.Event.Value)),
	}
}

// disturbs reports whether an operation slows a collective alongside it (rule I1). Lookups
// that read less than half of the memory's rate do not: they wait for single reads.
func (pl *Planner) disturbs(op *workload.Op) bool {
	return op.Shape.Kind != workload.Embedding || 2*streaming(op, &pl.Machine) > Seconds(op.DurAlone())
}

// mostOps bounds the operations of a workload in other parts.
const mostOps = 1 << 22

// tooFewRows is the reason why a chain cannot be cut into n parts; "" if it can.
func tooFewRows(w *workload.Workload, c *pairs.Chain, n int) string {
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

// PartOf is the k-th of n parts of an operation that was captured in parts (rule G20).
func (pl *Planner) PartOf(captured []*workload.Op, k, n int) workload.Op {
	op := *captured[0]
	share := float64(len(captured)) / float64(n)
	var alone trace.Time
	for _, c := range captured {
		alone += c.DurAlone()
	}
	alone /= trace.Time(len(captured))
	op.Alone = max(1, pl.shareTime(&op, alone, share))
	op.Kernel = pl.parts.Of(partKey{op.Kernel, len(captured), k, n, op.Step}, func() *workload.Kernel { return pl.partOfKernel(captured, k, n) })
	reads, writes := share, share
	if read, write := captured[0].Shape.Traffic(); read*write > 0 && (op.Shape.Kind == workload.GEMM || op.Shape.Kind == workload.GEMV) {
		r, w := op.Shape.Traffic() // weights are read whole by every part
		reads, writes = r/read, w/write
	}
	op.Read, op.Write = op.Read*reads, op.Write*writes
	return op
}

// A partKey is what the kernel of a part depends on: the captured one, of which several are cut
// together, and the step.
type partKey struct {
	kernel         *workload.Kernel
	captured, k, n int
	step           int32
}

// partOfKernel is the kernel of PartOf.
func (pl *Planner) partOfKernel(captured []*workload.Op, k, n int) *workload.Kernel {
	op, part := captured[0], *captured[0].Kernel
	if part.Shape.M > 0 {
		part.Shape.M = portion(part.Shape.M*int64(len(captured)), k, n)
	}
	if part.Shape.Kind == workload.GEMM || part.Shape.Kind == workload.GEMV {
		part.Shape.Kind = kernel.GEMMKind(part.Shape.M, part.Shape.N)
	}
	if part.Tiling.WGs > 0 && !fixedGrid(op) && !pl.fillsSlots(op) && (op.Shape.Kind == workload.GEMM || pl.byRows(op, float64(len(captured))/float64(n)) == 0) {
		part.Tiling.WGs = max(1, portion(part.Tiling.WGs*len(captured), k, n))
		part.Tiling.Tiles = part.Tiling.WGs
	}
	if part.Shape.Kind == workload.GEMM && part.Tiling.TileM > 0 {
		sh := part.Shape
		t := pl.Machine.Tiling(sh.M, sh.N, sh.K)
		part.Tiling.TileM, part.Tiling.TileN, part.Tiling.Tiles = t.Columns, t.Rows, t.Tiles
		if part.Tiling.WGs = t.Tiles; part.Tiling.Persistent {
			part.Tiling.WGs = min(t.Tiles, op.Tiling.WGs)
		}
	}
	return &part
}

// fixedGrid reports whether a kernel launches the same number of workgroups for any number of
// rows: PyTorch's EmbeddingBag (aten/src/ATen/native/cuda/EmbeddingBag.cu: grid = 1024), and the gradients of
// a norm's parameters (layer_norm_kernel.cu: a workgroup for 32 columns, which loops over the rows).
func fixedGrid(op *workload.Op) bool {
	return strings.Contains(op.Name, "EmbeddingBag_updateOutputKernel") || strings.Contains(op.Name, "GammaBetaBackwardCUDAKernel")
}

// shareTime is the time alone of a share of an operation, in parts or several together,
// that itself takes the given time alone. A GEMM follows the law of the library. The time
// of others is in proportion to their rows but for what each launch costs once: the time
// of a kernel that does nothing and, for lookups, the time in which only the last vectors
// are read, and for copies what is not their bytes. Workgroups that all fit on the GPU at once take as long however
// few they are; a light kernel of decoding whose grid the trace does not show has one for each row.
func (pl *Planner) shareTime(op *workload.Op, alone trace.Time, share float64) trace.Time {
	if by := pl.byRows(op, share); by > 0 {
		return trace.Time(float64(alone)*by + 0.5)
	}
	once := Seconds(alone)
	wgs := float64(op.Tiling.WGs)
	if b := pl.Workload.BatchOf(op); wgs == 0 && op.Kind == trace.Compute && !op.Matrix() && b.Phase == workload.Decode {
		wgs = float64(max(1, b.Tokens)) // a row each
	}
	switch {
	case op.Kind == trace.Copy && op.Read*op.Write > 0: // within the memory
		once = max(0, once-(op.Read+op.Write)/pl.Machine.GPU.Memory.Value)
	case op.Kind == trace.Copy:
		once = min(once, pl.Machine.Engines.Queued.Or(0))
	default:
		once = min(once, pl.Machine.Launch.Graph.Or(0)+pl.lastVectors(op, once))
	}
	if wgs > 0 && !fixedGrid(op) && !pl.fillsSlots(op) {
		slots := pl.Machine.GPU.CUs.Value * float64(pl.Residents(op.Footprint))
		each := func(wgs float64) float64 { return max(1, wgs/slots) } // that a slot runs
		reach := func(wgs float64) float64 { return pl.Machine.GPU.StreamAt(int(min(wgs, slots) + 0.5)) }
		if from, to := reach(wgs), reach(wgs*share); op.Moves && op.Read+op.Write > 0 && from*to > 0 {
			share *= from / to
		} else {
			share = each(wgs*share) / each(wgs)
		}
	}
	return trace.Time((once+(Seconds(alone)-once)*share)*1e9 + 0.5)
}

// byRows is the factor on the time of a GEMM that has share times the rows, by the law of the library; 0 for other
// kernels. Where a side is only guessed (rule V26) it is the mean over sides a tenth around it, since a law of waves
// jumps with them. For a kernel of unknown size that holds weights, in a step of inference of known tokens, or of
// decoding, with one row for each request, it is that of the GEMM of so many rows, as wide as deep, that takes its time. Those of few rows read all of their weights for any number of them (rule V24).
func (pl *Planner) byRows(op *workload.Op, share float64) float64 {
	b := pl.Workload.BatchOf(op)
	return pl.factors.Of(rowsKey{op.Kernel, b.Tokens, share}, func() float64 {
		sh, law := op.Shape, pl.Machine.Preferred
		gemm := sh.Kind == workload.GEMM || sh.Kind == workload.GEMV
		var sides [][2]int64 // N, K
		switch {
		case gemm && sh.Guessed == 0:
			sides, law = [][2]int64{{sh.N, sh.K}}, pl.Machine.Tiling
		case gemm:
			for tenth := -1.0; tenth <= 1; tenth += 0.25 {
				around := func(n int64, guessed bool) int64 {
					if guessed {
						return machine.Side * int64(float64(n)*(1+tenth/10)/machine.Side+0.5)
					}
					return n
				}
				sides = append(sides, [2]int64{max(1, around(sh.N, sh.Guessed == 'N')), max(1, around(sh.K, sh.Guessed == 'K'))})
			}
		case op.Kind == trace.Compute && sh.Kind == workload.NoShape && (b.Phase == workload.Decode || b.Tokens > 0) && kernel.HoldsWeights(op):
			sh.M = max(1, b.Tokens)
			n := machine.Side * int64(1+sort.Search(machine.MostSides, func(n int) bool {
				return law(sh.M, machine.Side*int64(n+1), machine.Side*int64(n+1)).Seconds >= Seconds(op.DurAlone())
			}))
			sides = [][2]int64{{n, n}}
		}
		sum := 0.0
		for _, s := range sides {
			if from := law(sh.M, s[0], s[1]).Seconds; from > 0 {
				sum += law(max(1, int64(float64(sh.M)*share)), s[0], s[1]).Seconds / from
			}
		}
		return sum / float64(max(1, len(sides)))
	})
}

// A rowsKey is what byRows depends on.
type rowsKey struct {
	kernel *workload.Kernel
	tokens int64
	share  float64
}

// lastVectors is the time at the end of a lookup in which workgroups run out of vectors,
// in seconds: as long as the times of one vector differ. A thread reads one column, so
// the threads of all workgroups together read that many columns at a time.
func (pl *Planner) lastVectors(op *workload.Op, seconds float64) float64 {
	sh := op.Shape
	if sh.Kind != workload.Embedding || op.Tiling.WGs == 0 || op.Footprint.Threads == 0 {
		return 0
	}
	slots := min(op.Tiling.WGs, int(pl.Machine.GPU.CUs.Value)*pl.Residents(op.Footprint))
	rounds := float64(sh.M) * float64(sh.N) / (float64(slots) * float64(op.Footprint.Threads))
	return 2 * pl.Machine.GPU.GatherSpread.Or(0) * seconds / max(1, rounds)
}

// limited reports whether something else than its bytes limits a captured collective's channels: it has fewer than half
// of those that the library takes for them. NCCL takes one for 4 KiB times the ranks (512 threads of 8 bytes,
// src/enqueue.cc), and the profile's grain is that of four ranks.
func (pl *Planner) limited(c *workload.Collective) bool {
	return 2*pl.Channels(c) < pl.libraryFor(c).ChannelsFor(c.Op, c.Bytes)
}

// boundByBytes reports whether a captured collective has as many channels as its bytes allow: no setting raises them
// (rule C4).
func (pl *Planner) boundByBytes(c *workload.Collective) bool {
	lib := pl.libraryFor(c)
	return !pl.limited(c) && lib.ChannelsFor(c.Op, c.Bytes) < int(lib.Of(c.Op).Channels.Value)
}

// partOfCollective is one of n equal parts of a collective that was captured in parts. Its
// time is the captured one, scaled by the library's times (rule C11).
func (pl *Planner) partOfCollective(captured []*workload.Collective, n, channels int) workload.Collective {
	c := *captured[0]
	c.Scale = 0 // Alone has it
	parts := int64(len(captured))
	var alone trace.Time
	for _, x := range captured {
		alone += x.TransferAlone()
	}
	c.Alone = alone / trace.Time(parts)
	whole := c
	whole.Bytes, whole.In, whole.Out = c.Bytes*parts, c.In*parts, c.Out*parts
	lib, ranks := pl.libraryFor(captured[0]), len(c.Members)
	limit := cmp.Or(channels, pl.Channels(captured[0]))
	if channels == 0 && !pl.limited(captured[0]) {
		limit = int(lib.Of(c.Op).Channels.Value)
	}
	runs := func() { // as many channels as the library takes for the size
		c.Channels = min(lib.Runs(c.Op, max(1, limit)), max(1, lib.ChannelsFor(c.Op, c.Bytes)))
	}
	if channels == 0 && c.Channels > 0 {
		runs()
	}
	from := lib.Time(c.Op, c.Bytes, ranks, pl.Channels(&c))
	c.Bytes, c.In, c.Out = whole.Bytes/int64(n), whole.In/int64(n), whole.Out/int64(n)
	if channels > 0 || c.Channels > 0 {
		runs()
	}
	if to := lib.Time(c.Op, c.Bytes, ranks, pl.Channels(&c)); from > 0 {
		c.Alone = trace.Time(float64(c.Alone)*to/from + 0.5)
	} else {
		c.Alone = c.Alone * trace.Time(parts) / trace.Time(n)
	}
	c.Alone = max(1, c.Alone)
	return c
}
