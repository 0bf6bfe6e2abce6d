package workload

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A rangeKind is the meaning of a range that a framework marks on the host.
type rangeKind uint8

// The kinds, by the names in torch/distributed/fsdp/_fully_shard, torch/autograd and
// torch/optim.
const (
	noRange    rangeKind = iota
	gatherIn             // FSDP copies shards into a buffer and gathers it
	gatherOut            // FSDP copies what was gathered into parameters
	reduceOut            // FSDP copies gradients into a buffer, scatters sums, and adds them to gradients
	accumulate           // autograd adds to a parameter's gradient; DDP's hook reduces a bucket that is full
	optimize             // an optimizer changes parameters
)

// rangeKindOf reads the kind and the module: "FSDP::all_gather (blocks.0)".
func rangeKindOf(name string) (kind rangeKind, module string) {
	word, rest, _ := strings.Cut(name, " (")
	module = strings.TrimSuffix(rest, ")")
	switch {
	case word == "FSDP::all_gather":
		return gatherIn, module
	case word == "FSDP::all_gather_copy_out":
		return gatherOut, module
	case word == "FSDP::post_backward_reduce":
		return reduceOut, module
	case name == "torch::autograd::AccumulateGrad", name == "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad":
		return accumulate, ""
	case strings.HasPrefix(name, "Optimizer.step#"):
		return optimize, ""
	}
	return noRange, ""
}

// A marked is a range of a framework around a host call.
type marked struct {
	span   trace.SpanID
	kind   rangeKind
	module string
}

// markRanges finds the ranges of frameworks, by span: the innermost one around it, or
// the zero value.
func markRanges(run *trace.Run) map[trace.SpanID]marked {
	type named struct {
		kind   rangeKind
		module string
	}
	kinds := make([]named, len(run.Names))
	some := false
	for i, n := range run.Names {
		kinds[i].kind, kinds[i].module = rangeKindOf(n)
		some = some || kinds[i].kind != noRange
	}
	if !some {
		return nil
	}
	at := map[trace.SpanID]marked{}
	for i, s := range run.Spans {
		id := trace.SpanID(i)
		if s.Kind > trace.Launch {
			continue
		}
		if k := kinds[s.Name]; k.kind != noRange {
			at[id] = marked{id, k.kind, k.module}
		} else if m, ok := at[s.Parent]; ok && s.Parent != trace.None {
			at[id] = m
		}
	}
	return at
}

// An annotator follows a rank's ops in the order of their issue and finds what the
// ranges of frameworks say about ops without recorded storages.
type annotator struct {
	*source
	unknown   []bool           // by op
	gathers   map[string]int32 // by module: its last gather
	gathered  []int32          // copies of gathered parameters that no op has used yet
	inRange   trace.SpanID     // the present range
	copies    []int32          // kernels in it before its collective
	reduced   []int32          // sums of gradients since the optimizer's last step
	bucket    []int32          // gradients since the last bucket was reduced
	compute   int32            // the last op outside of ranges, or -1
	optimizer int32            // the last op of an optimizer whose result no op has used yet, or -1
	sum       int32            // the collective of the present range, or -1
}

// annotate adds the edges that frameworks' ranges show (rule V8).
func (src *source) annotate(ranges map[trace.SpanID]marked, unknown []bool, order []int32) {
	if len(ranges) == 0 {
		return
	}
	a := annotator{source: src, unknown: unknown, gathers: map[string]int32{}, inRange: trace.None, compute: -1, optimizer: -1, sum: -1}
	for _, id := range order {
		if !src.facts[id].reads {
			continue
		}
		launch := src.facts[id].launch
		m := ranges[launch]
		if launch == trace.None {
			m = marked{}
		}
		if m.kind == noRange {
			a.outside(id)
			continue
		}
		if m.span != a.inRange {
			a.inRange, a.copies, a.sum = m.span, nil, -1
		}
		a.inside(id, m)
	}
}

// reads adds an edge from what an op reads.
func (a *annotator) reads(id int32, from ...int32) {
	for _, p := range from {
		if p >= 0 && (a.unknown[id] || a.unknown[p]) && a.precedes(p, id) {
			a.addEdge(id, Edge{Op: p, Kind: ReadAfterWrite, Evidence: Annotated})
		}
	}
}

func (a *annotator) outside(id int32) {
	if a.ops[id].Kind == trace.Collective {
		return // what it communicates is not marked
	}
	a.reads(id, a.gathered...)
	a.reads(id, a.optimizer)
	a.gathered, a.optimizer, a.compute = nil, -1, id
}

// inside handles an op of a range.
//
//	all_gather            |copy-in  gather|           gather reads what the copies wrote
//	all_gather_copy_out   |copy-out|                  reads the module's last gather; the next op reads it
//	post_backward_reduce  |copy-in  reduce-scatter|   copies read what the last op computed
//	AccumulateGrad        |add  all-reduce|           the bucket's additions, which read the last op's output
//	Optimizer.step        |step|                      reads all sums of gradients
func (a *annotator) inside(id int32, m marked) {
	collective := a.ops[id].Kind == trace.Collective
	switch {
	case m.kind == optimize:
		a.reads(id, a.reduced...)
		a.reads(id, a.compute)
		a.reduced, a.bucket, a.compute, a.optimizer = nil, nil, -1, id
	case m.kind == gatherOut:
		if g, ok := a.gathers[m.module]; ok {
			a.reads(id, g)
		}
		a.gathered = append(a.gathered, id)
	case m.kind == gatherIn && collective:
		a.reads(id, a.copies...)
		a.gathers[m.module] = id
	case m.kind == accumulate && collective:
		a.reads(id, a.bucket...)
		if len(a.bucket) == 0 {
			a.reads(id, a.compute)
		}
		a.bucket, a.reduced = nil, append(a.reduced, id)
	case m.kind == accumulate:
		a.reads(id, a.compute)
		a.bucket = append(a.bucket, id)
	case collective:
		a.reads(id, a.copies...)
		a.sum, a.reduced = id, append(a.reduced, id)
	case m.kind == reduceOut && a.sum >= 0:
		a.reads(id, a.sum)
		a.reduced = append(a.reduced, id)
	default:
		if m.kind == reduceOut {
			a.reads(id, a.compute)
		} else {
			a.reads(id, a.optimizer)
		}
		a.copies = append(a.copies, id)
	}
}
