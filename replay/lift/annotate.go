package lift

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A rangeKind is the meaning of a range that a framework marks on the host.
type rangeKind uint8

// The kinds, by the names in torch/distributed/fsdp/_fully_shard, torch/autograd and
// torch/optim.
const (
	noRange    rangeKind = iota
	gatherIn             // FSDP2 copies shards into their part of a buffer and gathers it in place (rule C30)
	gatherOut            // FSDP copies what was gathered into parameters
	reduceOut            // FSDP copies gradients into a buffer, scatters sums, and adds them to gradients
	accumulate           // autograd adds to a parameter's gradient; DDP's hook reduces a bucket that is full
	copyOut              // DDP copies a gradient out of its bucket
	useAgain             // FSDP: the backward pass reaches a module, whose parameters it uses
	optimize             // an optimizer changes parameters
	weights              // PyTorch's pipelining makes gradients of weights apart, and adds them to the parameters' itself
)

// rangeKinds are the kinds of ranges by name, without a module: "FSDP::all_gather (blocks.0)".
var rangeKinds = map[string]rangeKind{
	"FSDP::all_gather":                gatherIn,
	"FSDP::all_gather_copy_out":       gatherOut,
	"FSDP::post_backward_reduce":      reduceOut,
	"torch::autograd::AccumulateGrad": accumulate,
	"autograd::engine::evaluate_function: torch::autograd::AccumulateGrad": accumulate,
	"torch.distributed.ddp.reducer::copy_bucket_to_grad":                   copyOut,
	"FSDP::pre_backward": useAgain,
}

// backwardRanges begin the names of ranges in which PyTorch runs the backward pass.
var backwardRanges = []string{
	"autograd::engine::evaluate_function", "FSDP::pre_backward", "FSDP::post_backward",
	"FullyShardedDataParallel._pre_backward", "FullyShardedDataParallel._post_backward",
}

// transposed is in the names of JAX's operators that compute gradients: the transposition of a function's derivative.
const transposed = "transpose(jvp("

// weightsRange is an action "W" of torch/distributed/pipelining/schedules.py; stage_backward_weight of
// _backward.py runs in it.
var weightsRange = regexp.MustCompile(`^PP:\d+W\d+$`)

// A annotatedRange is what the name of a range says.
type annotatedRange struct {
	kind     rangeKind
	module   string
	backward bool
	adds     bool // the operator that adds in place
}

// annotations are the ranges of a run.
type annotations struct {
	names []annotatedRange // by name
	marks [][]trace.SpanID // by row of Run.Ranks: those that count even without an op in them, by start
}

// rangesOf reads the names of a run's ranges.
func rangesOf(run *trace.Run) annotations {
	r := annotations{names: make([]annotatedRange, len(run.Names)), marks: make([][]trace.SpanID, len(run.Ranks))}
	for i, name := range run.Names {
		word, rest, _ := strings.Cut(name, " (")
		m := annotatedRange{kind: rangeKinds[word], module: strings.TrimSuffix(rest, ")")}
		if strings.HasPrefix(name, "Optimizer.step#") {
			m.kind = optimize
		}
		if weightsRange.MatchString(name) {
			m.kind = weights
		}
		m.adds = name == "aten::add_"
		m.backward = slices.ContainsFunc(backwardRanges, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		r.names[i] = m
	}
	for i, s := range run.Spans {
		if k := r.names[s.Name].kind; (k == accumulate || k == useAgain) && run.Lanes[s.Lane].Kind == trace.HostThread {
			r.marks[run.RankOf(s)] = append(r.marks[run.RankOf(s)], trace.SpanID(i))
		}
	}
	return r
}

// around returns the innermost range of a framework around the launch of each op, or None, and notes
// which ops are in the backward pass, add to a gradient or are in an optimizer's step.
func around(run *trace.Run, r *rankOps, ranges []annotatedRange) []trace.SpanID {
	within := make([]trace.SpanID, len(r.Ops))
	for i := range r.Ops {
		op := &r.Ops[i]
		within[i] = trace.None
		if k := run.Kernel(run.Spans[op.Span]); k != nil && k.Op != trace.None {
			op.Backward = strings.Contains(run.Operators[k.Op].Name, transposed)
		}
		adds := false
		for id := r.Facts[i].Launch; id != trace.None; id = run.Spans[id].Parent {
			r := &ranges[run.Spans[id].Name]
			if adds = adds || r.adds; r.kind == weights {
				op.Gradient = op.Gradient || adds && !op.Backward
				continue
			}
			if within[i] == trace.None && r.kind != noRange && r.kind != useAgain {
				within[i] = id
				op.Gradient = r.kind == accumulate && op.Kind != trace.Collective
				op.InPlace = r.kind == gatherIn && op.Kind == trace.Collective
			}
			if !op.Backward && !op.Optimizer {
				op.Backward, op.Optimizer = r.backward, r.kind == optimize && !r.backward
			}
			if within[i] != trace.None && (op.Backward || op.Optimizer) {
				break
			}
		}
	}
	return within
}

// An annotator follows a rank's ops in the order of their issue and finds what each reads.
type annotator struct {
	*rankOps
	ranges    []annotatedRange   // by name
	marks     []trace.SpanID     // that no op has passed yet
	within    []trace.SpanID     // by op: its range
	all       [][]workload.Edge  // by op before the present one
	found     []workload.Edge    // of the present op
	known     bool               // and they are all that it reads
	gathers   map[string]int32   // by module: its last gather
	gathered  []int32            // copies of gathered parameters that no op has used yet
	copied    map[string][]int32 // by module: the copies of its parameters since the last gather
	again     []string           // modules that the backward pass has reached, and no op since
	inRange   trace.SpanID       // the present range
	copies    []int32            // kernels in it before its collective
	reduced   []int32            // sums of gradients since the optimizer's last step
	bucket    bucket
	compute   int32 // the last op outside of ranges, or -1
	optimizer int32 // the last op of an optimizer whose result no op has used yet, or -1
	sum       int32 // the collective of the present range, or -1
}

// pass handles the marks until the issue of an op.
func (a *annotator) pass(run *trace.Run, until trace.Time) {
	for len(a.marks) > 0 && run.Spans[a.marks[0]].Start <= until {
		s := run.Spans[a.marks[0]]
		a.marks = a.marks[1:]
		if a.ranges[s.Name].kind == useAgain {
			a.again = append(a.again, a.ranges[s.Name].module)
			continue
		}
		if s.Parent == trace.None || a.ranges[run.Spans[s.Parent].Name].kind != accumulate {
			a.open()
		}
		if s.Kind == trace.HostCall && s.Attr != trace.None && run.Calls[s.Attr].Op != trace.None {
			if o := &run.Operators[run.Calls[s.Attr].Op]; len(o.Dims) > 0 {
				n, _ := volume(o.Dims[0])
				a.size(n)
			}
		}
	}
}

// annotate adds the edges that a framework's range shows (rule V8).
func (a *annotator) annotate(run *trace.Run, id int32) {
	at := a.within[id]
	a.known = false
	switch {
	case !a.Facts[id].Reads:
	case at == trace.None:
		a.outside(run, id)
	default:
		if at != a.inRange {
			a.inRange, a.copies, a.sum = at, nil, -1
		}
		a.inside(run, id, &a.ranges[run.Spans[at].Name])
	}
}

// guess adds what streams and events say about ops without accesses (rule V8). A collective whose
// input is not known reads what the op before its issue wrote, and an op that waited for a collective reads what
// that received; other orders may mean nothing. An op behind a collective on its stream for which the program made that stream
// wait for compute reads what that wrote, too: autograd runs on the stream of a gather what makes gradients of its views.
func (a *annotator) guess(id int32) {
	op := &a.Ops[id]
	behind := op.Kind != trace.Collective && slices.ContainsFunc(op.After, func(d workload.Dep) bool {
		return a.Facts[d.Op].Queue == a.Facts[id].Queue && a.kindOf(id, d.Op) == workload.ReadAfterWrite
	})
	for _, d := range op.After {
		if of := a.Facts[id].Stated; of == 0 || a.Facts[d.Op].Stated != of {
			kind := a.kindOf(id, d.Op)
			if behind && d.Why == workload.HostWait && a.Ops[d.Op].Kind == trace.Compute {
				kind = workload.ReadAfterWrite
			}
			a.add(id, workload.Edge{Op: d.Op, Kind: kind, Evidence: workload.Guessed})
		}
	}
}

// kindOf is the kind of an edge of which only the order is known. The sum of a bucket is read by what
// follows in its hook, by copies out of the bucket and by the optimizer, and by no kernel behind it on its stream.
func (a *annotator) kindOf(id, on int32) workload.EdgeKind {
	if _, ok := slices.BinarySearch(a.bucket.sums, on); ok {
		return workload.StreamOnly
	}
	if a.Facts[id].Reads && !a.known && (a.Ops[id].Kind == trace.Collective) != (a.Ops[on].Kind == trace.Collective) {
		return workload.ReadAfterWrite
	}
	return workload.StreamOnly
}

// stated appends the edges that the file states: between the nodes of a captured graph, and by
// recorded events unless the accesses of both ops are recorded. One between streams is one that the
// program asked for; on one stream, it may be the order of the capture alone.
func (a *annotator) stated(id int32, found []workload.Edge) []workload.Edge {
	first, _ := slices.BinarySearchFunc(a.Stated, id, func(s statedEdge, id int32) int { return cmp.Compare(s.Op, id) })
	for _, s := range a.Stated[first:] {
		if s.Op != id {
			break
		}
		on := s.On
		kind := a.kindOf(id, on)
		switch {
		case a.Facts[id].Uses != 0 && a.Facts[on].Uses != 0:
			continue
		case a.Facts[id].Queue == a.Facts[on].Queue:
		case a.Facts[id].Reads:
			kind = workload.ReadAfterWrite
		default:
			kind = workload.WriteAfterRead
		}
		found = append(found, workload.Edge{Op: on, Kind: kind, Evidence: workload.Exact})
	}
	return found
}

// add adds an edge unless there is one to the same op, or the accesses of both are recorded.
func (a *annotator) add(id int32, e workload.Edge) {
	if at, ok := edgeTo(a.found, e.Op); !ok && (a.Facts[id].Uses == 0 || a.Facts[e.Op].Uses == 0) {
		a.found = slices.Insert(a.found, at, e)
	}
}

// reads adds an edge from what an op reads.
func (a *annotator) reads(id int32, from ...int32) {
	for _, p := range from {
		if p >= 0 && a.precedes(p, id) {
			a.add(id, workload.Edge{Op: p, Kind: workload.ReadAfterWrite, Evidence: workload.Annotated})
		}
	}
}

func (a *annotator) outside(run *trace.Run, id int32) {
	if a.Ops[id].Kind == trace.Collective {
		a.outsideSums(run, id) // what others communicate is not marked
		return
	}
	for _, module := range a.again {
		a.reads(id, a.copied[module]...)
	}
	a.reads(id, a.gathered...)
	a.reads(id, a.optimizer)
	a.follows(id)
	a.gathered, a.again, a.optimizer, a.compute = nil, nil, -1, id
}

// inside handles an op of a range.
//
//	all_gather            |copy-in  gather|           gather reads what the copies wrote
//	all_gather_copy_out   |copy-out|                  reads the module's last gather; the next op reads it
//	pre_backward          ||                          the next op reads what was copied out for the module
//	post_backward_reduce  |copy-in  reduce-scatter|   copies read what the last op computed
//	AccumulateGrad        |add  all-reduce|           the bucket's additions, which read the last op's output
//	copy_bucket_to_grad   |copy|                      reads the next bucket's all-reduce
//	Optimizer.step        |step|                      reads all sums of gradients
func (a *annotator) inside(run *trace.Run, id int32, m *annotatedRange) {
	collective := a.Ops[id].Kind == trace.Collective
	switch {
	case m.kind == optimize:
		a.reads(id, a.reduced...)
		a.reads(id, a.compute)
		a.reduced, a.bucket, a.compute, a.optimizer = nil, bucket{}, -1, id
	case m.kind == gatherOut:
		if g, ok := a.gathers[m.module]; ok {
			a.reads(id, g)
		}
		a.gathered = append(a.gathered, id)
		a.copied[m.module] = append(a.copied[m.module], id)
	case m.kind == gatherIn && collective:
		a.reads(id, a.copies...)
		a.gathers[m.module] = id
		delete(a.copied, m.module)
	case m.kind == accumulate && collective:
		a.hooked(run, id)
		a.sum = id
	case m.kind == accumulate:
		a.makes(id)
	case m.kind == copyOut:
		a.copiedOut(id)
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
