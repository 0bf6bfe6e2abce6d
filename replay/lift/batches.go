package lift

import (
	"cmp"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A opRange is launches between two waits of the host, or from a graph that holds the layers of a
// model to the next one: positions in the order of launch.
type opRange struct {
	from, to int
	graph    bool // it has such a graph
	layers   bool
}

// cutSteps cuts a rank whose program marked no iteration into forward passes, as of a serving
// engine. A pass runs the layers of a model, a sequence of kernels that repeats. It is a graph
// launch and what follows, or what the host launched between two waits for results: the engine
// takes in the tokens of one pass between the launches of two others.
//
//	host  |prepare GRAPH sample wait prepare GRAPH sample wait kernels wait|
//	steps |0                                |1                |2           |
//
// Pieces of a pass that are graphs each, with attention between them, are no passes. A graph that was recorded
// as a whole is one where no attention was recorded outside: it holds that. Where no
// host call tells, the passes are the smallest repetition of kernels that holds such layers; what the
// busiest queue ran before and after it, such as a program's start, is of no pass.
func (r *rankOps) cutSteps(run *trace.Run) {
	if !r.unmarked {
		return
	}
	var ids []int32 // in order of launch
	for i := range r.Ops {
		if r.Facts[i].Launch != trace.None {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(r.Ops[a].Issued, r.Ops[b].Issued) })
	parts, within := []opRange(nil), overlap.Interval{End: trace.Infinity}
	if !r.backward && r.ends == nil { // a step of training is no forward pass
		parts = r.passes(run, ids)
	}
	if len(parts) == 0 || len(parts) == 1 && !parts[0].graph && len(r.results) == 0 {
		ids, parts, within = r.repetition(run)
	}
	// On the device a pass begins with its first kernel on the busiest queue: engines prepare the
	// next batch on another queue, alongside.
	var starts []trace.Time
	var last, before []named // kernels of the last two passes
	for _, p := range parts {
		main := r.kernels(run, ids[p.from:p.to])
		if start := r.Ops[main[0].op].Start; len(starts) == 0 || start > starts[len(starts)-1] {
			starts = append(starts, start)
			r.Batches = append(r.Batches, r.batchOf(run, ids[p.from:p.to], p.graph))
			last, before = main, last
		}
	}
	if starts == nil {
		return
	}
	// A last pass that is the beginning of the one before is no step: the profiler saw only some of its layers.
	whole := len(starts)
	if n := len(last); n < len(before) && holdsLayers(before[n:]) &&
		slices.EqualFunc(last, before[:n], func(a, b named) bool { return a.name == b.name }) {
		whole--
		r.Batches = r.Batches[:len(r.Batches)-1]
	}
	for i := range r.Ops {
		after, found := slices.BinarySearch(starts, r.Ops[i].Start)
		if !found {
			after--
		}
		if r.Ops[i].Step = int32(max(0, after)); after >= whole || r.Ops[i].Start < within.Start || r.Ops[i].Start >= within.End {
			r.Ops[i].Step = -1
		}
	}
}

// passes are the forward passes among launches in order.
func (r *rankOps) passes(run *trace.Run, ids []int32) (passes []opRange) {
	waits := r.results
	whole := !slices.ContainsFunc(r.Ops, func(op workload.Op) bool { return r.names[run.Spans[op.Span].Name].Attention })
	for i := 0; i < len(ids); {
		f, to := &r.Facts[ids[i]], i+1
		for f.shared && to < len(ids) && r.Facts[ids[to]].Launch == f.Launch {
			to++
		}
		graph := f.shared && r.layered(run, ids[i:to]) || whole && r.names[run.Spans[r.Ops[ids[i]].Span].Name].Graph
		cut := len(passes) == 0 || graph
		for len(waits) > 0 && waits[0] <= r.Ops[ids[i]].Issued {
			waits, cut = waits[1:], true
		}
		if cut {
			passes = append(passes, opRange{from: i, to: i})
		}
		p := &passes[len(passes)-1]
		p.to, p.graph = to, p.graph || graph
		i = to
	}
	kept := passes[:0]
	for _, p := range passes {
		p.layers = p.graph || r.layered(run, ids[p.from:p.to])
		switch {
		case len(kept) > 0 && !kept[len(kept)-1].layers, len(kept) > 0 && !p.layers:
			// what comes before the first pass is part of it, what follows a pass of that
			last := &kept[len(kept)-1]
			last.to, last.graph, last.layers = p.to, last.graph || p.graph, last.layers || p.layers
		default:
			kept = append(kept, p)
		}
	}
	if len(kept) == 1 && !kept[0].layers {
		return nil
	}
	return kept
}

// repetition cuts the rank's busiest queue into the smallest sequence of kernels whose repetition
// makes up most of it, if that holds layers. The repetition runs within a time.
func (r *rankOps) repetition(run *trace.Run) (ids []int32, passes []opRange, within overlap.Interval) {
	for i := range r.Ops {
		ids = append(ids, int32(i))
	}
	names := r.kernels(run, ids)
	from, to, period := repeated(names)
	if 2*(to-from) <= len(names) || !holdsLayers(names[from:from+period]) {
		return nil, nil, within
	}
	within.End = trace.Infinity
	if from > 0 {
		within.Start = r.Ops[names[from].op].Start
	}
	if to < len(names) {
		within.End = r.Ops[names[to].op].Start
	}
	for i := from; i < to; i += period {
		passes = append(passes, opRange{from: int(names[i].op), to: int(names[min(i+period, to)-1].op) + 1})
	}
	return ids, passes, within
}

// repeated is the longest stretch of kernels that repeats a sequence at least twice, and the length of the shortest such
// sequence. A sequence is as long as from one kernel to the next of its name for those that it holds once: the distances
// in the middle of all are tried.
func repeated(names []named) (from, to, period int) {
	last, middle := map[trace.NameID]int{}, len(names)/2
	periods := map[int]bool{}
	for i, k := range names {
		if at, ok := last[k.name]; ok && at < middle && i >= middle {
			periods[i-at] = true
		}
		last[k.name] = i
	}
	return workload.Repeated(len(names), slices.Sorted(maps.Keys(periods)), func(i, j int) bool { return names[i].name == names[j].name })
}

// A named kernel is a kernel of the busiest queue.
type named struct {
	op   int32
	name trace.NameID
}

// kernels are those of the queue that runs most of some ops' kernels, in the order of ids.
func (r *rankOps) kernels(run *trace.Run, ids []int32) []named {
	count := make([]int, r.queues)
	busiest := int32(0)
	for _, id := range ids {
		if q := r.Facts[id].Queue; r.Ops[id].Kind != trace.Copy {
			if count[q]++; count[q] > count[busiest] {
				busiest = q
			}
		}
	}
	var list []named
	for _, id := range ids {
		if r.Facts[id].Queue == busiest && r.Ops[id].Kind != trace.Copy {
			list = append(list, named{id, run.Spans[r.Ops[id].Span].Name})
		}
	}
	return list
}

// layered reports whether ops hold the layers of a model.
func (r *rankOps) layered(run *trace.Run, ids []int32) bool { return holdsLayers(r.kernels(run, ids)) }

// holdsLayers reports whether most of a sequence is repetitions of a shorter one of several
// kernels, as the layers of a model are between its embedding and its head. A layer has at least
// the four kernels of its two halves: attention and what projects its output, and two GEMMs.
func holdsLayers(names []named) bool {
	const kernels, layers, candidates = 4, 3, 64
	n := len(names)
	tried := 0
	for p := kernels; p*layers <= n && tried < candidates; p++ {
		if middle := n / 2; middle+p >= n || names[middle].name != names[middle+p].name {
			continue
		}
		tried++
		same := 0
		for i := p; i < n; i++ {
			if names[i].name == names[i-p].name {
				same++
			}
		}
		if 2*same > n {
			return true
		}
	}
	return false
}

// batchOf is what a forward pass without a mark computes, by its attention kernels. A captured
// graph with others is of decoding, as engines capture passes of one token a sequence; but llama.cpp captures prompts too,
// whose GEMMs are of many tokens.
func (r *rankOps) batchOf(run *trace.Run, ids []int32, graph bool) workload.Batch {
	var prefill, decode, attention, many bool
	for _, id := range ids {
		is := r.names[run.Spans[r.Ops[id].Span].Name]
		prefill, decode, attention = prefill || is.Prefill, decode || is.Decode, attention || is.Attention
		many = many || is.Many
	}
	switch {
	case prefill && decode:
		return workload.Batch{Phase: workload.Mixed}
	case prefill:
		return workload.Batch{Phase: workload.Prefill}
	case decode, attention && graph && !many:
		return workload.Batch{Phase: workload.Decode}
	}
	return workload.Batch{}
}
