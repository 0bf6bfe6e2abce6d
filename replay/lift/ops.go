package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A rankOps is one captured rank while it is lifted. Its op ids count from its own first
// op.
type rankOps struct {
	Ops    []workload.Op
	Facts  []fact       // by op
	Stated []statedEdge // by op, then by the earlier op
	*room               // for one rank at a time
	queues int
	waits  []trace.SpanID // host calls that made a stream wait, by start
	events []trace.Wait   // of streams for events, whose calls the file names
	marks  []mark         // iterations marked on the host or above the device, by start
	ends   []mark         // ranges of optimizers on the host, by start, joined where no backward pass is between
	calls  []trace.Time   // driver time of kernel launches

	backward bool             // autograd ran since the last range of an optimizer
	unmarked bool             // the program marked no iteration
	results  []trace.Time     // when the host began to wait for an event, as for the tokens of a pass
	Batches  []workload.Batch // by iteration that cutSteps found
}

// A room is memory that the ranks use one after another.
type room struct {
	launched []uint8 // by span: number of ops that the host call launched, at most 2
	facts    []fact
	near     []int32
	running  []int32
	issues   []issue
	issued   []int32
	opAt     []int32    // by span
	names    []hostCall // by name
}

// again is a list of n zeros in memory that was used before.
func again[T any](list *[]T, n int) []T {
	*list = slices.Grow((*list)[:0], n)[:n]
	clear(*list)
	return *list
}

// A fact is data about an op that only the lift needs.
type fact struct {
	Launch   trace.SpanID // the host call, or None
	Operator int32        // row of Run.Operators, or None
	Queue    int32        // 0 .. Rank.queues-1
	shared   bool         // other ops have the same launch (a graph)
	Reads    bool         // it reads memory of a device: no fill, no copy from the host
	before   int32        // previous op of its queue, or -1
	Stated   int64        // correlation of the graph launch that it is of, if the file states what the graph's nodes wait for; else 0
	Uses     int32        // number in Run.Uses; 0: its accesses are not recorded
}

// gatherOps collects every rank's device operations but those of a Lead, and the host calls for them.
func gatherOps(run *trace.Run, ranks []rankOps, lead map[trace.SpanID]bool) {
	names := readCalls(run.Names)
	shared := &room{launched: make([]uint8, len(run.Spans)), names: names}
	for i := range ranks {
		ranks[i].room = shared
	}
	for i, s := range run.Spans {
		id := trace.SpanID(i)
		r := &ranks[run.RankOf(s)]
		switch {
		case lead[id]:
		case s.Kind.OnDevice():
			r.Ops = append(r.Ops, newOp(run, id))
			if l := launchOf(run, s); l != trace.None && !names[run.Spans[l].Name].Waits {
				shared.launched[l] = min(2, shared.launched[l]+1)
			}
		case s.Kind == trace.Marker:
			switch name := &names[s.Name]; {
			case name.Step != "":
				r.addMark(run, s, name.Step)
			case name.Updates && run.Lanes[s.Lane].Kind == trace.HostThread:
				r.addEnd(s)
			}
		case names[s.Name].Waits:
			r.waits = append(r.waits, id)
		case s.Kind == trace.Launch && names[s.Name].Kernel:
			if r.calls == nil {
				r.calls = make([]trace.Time, 0, cap(r.Ops))
			}
			r.calls = append(r.calls, s.Dur())
		case names[s.Name].Results:
			r.results = append(r.results, s.Start)
		case names[s.Name].Backward:
			r.backward = true
		}
	}
	for _, w := range run.Waits {
		if w.Stream != trace.None && w.On != trace.None && w.Record != 0 && w.Correlation != 0 {
			r := &ranks[w.Rank]
			r.events = append(r.events, w)
		}
	}
}

// launchOf is the call of the rank's own host that launched a device span, or None.
func launchOf(run *trace.Run, s trace.Span) trace.SpanID {
	launch := trace.SpanID(trace.None)
	if k := run.Kernel(s); k != nil && k.Correlation != 0 {
		launch = k.Launch
	} else if c := run.Copy(s); c != nil && c.Correlation != 0 {
		launch = c.Launch
	}
	if launch != trace.None && run.RankOf(run.Spans[launch]) != run.RankOf(s) {
		return trace.None
	}
	return launch
}

func newOp(run *trace.Run, id trace.SpanID) workload.Op {
	s := run.Spans[id]
	return workload.Op{
		Span:       id,
		Kind:       s.Kind,
		Start:      s.Start,
		End:        s.End,
		Issued:     trace.Infinity,
		Collective: -1,
		Step:       -1,
	}
}

// settle numbers the queues, orders ops with equal start, and joins ops with their
// launches.
func (r *rankOps) settle(run *trace.Run) {
	queueOf, numbers := r.numberQueues(run)
	r.queues = len(numbers)
	r.Facts = again(&r.facts, len(r.Ops))
	r.orderTies(run, queueOf) // which of two that began together overlaps the other
	r.endOverlaps(run, queueOf)
	r.orderTies(run, queueOf)
	operators := false
	for i := range r.Ops {
		op, f := &r.Ops[i], &r.Facts[i]
		s := run.Spans[op.Span]
		op.ID = int32(i)
		f.Queue, f.Uses = queueOf[s.Lane], run.UsesOf(s)
		op.Queue = numbers[f.Queue]
		_, f.Operator = joins(run, s)
		f.Reads = s.Kind != trace.Copy || run.Copy(s) == nil || run.Copy(s).Dir != trace.HostToDevice && run.Copy(s).Dir != trace.Fill
		f.Launch, f.before = trace.None, -1
		if launch := launchOf(run, s); launch != trace.None && r.launched[launch] > 0 {
			f.Launch, f.shared = launch, r.launched[launch] > 1
			op.Issued, op.Graph = run.Spans[launch].Start, f.shared
			if f.Operator == trace.None {
				f.Operator = enclosingOperator(run, launch)
			}
		}
		operators = operators || f.Operator != trace.None
	}
	r.findStated(run)
	r.findEvents(run)
	for i := range r.Facts {
		f := &r.Facts[i]
		r.Ops[i].Compiled = operators && f.Operator == trace.None && f.Launch != trace.None && !f.shared && r.Ops[i].Kind == trace.Compute
	}
}

// joins returns the correlation and the operator's row of a device span.
func joins(run *trace.Run, s trace.Span) (correlation int64, operator int32) {
	if k := run.Kernel(s); k != nil {
		return k.Correlation, k.Op
	}
	if c := run.Copy(s); c != nil {
		return c.Correlation, c.Op
	}
	return 0, trace.None
}

// enclosingOperator is the innermost framework operator around a host call, or None. Older
// files number calls and operators separately, so only nesting joins them.
func enclosingOperator(run *trace.Run, id trace.SpanID) int32 {
	for p := run.Spans[id].Parent; p != trace.None; p = run.Spans[p].Parent {
		s := run.Spans[p]
		if (s.Kind == trace.HostCall || s.Kind == trace.Launch) && s.Attr != trace.None && run.Calls[s.Attr].Op != trace.None {
			return run.Calls[s.Attr].Op
		}
	}
	return trace.None
}

// numberQueues assigns rows from 0 to the lanes of ops. Sub-lanes of a queue share a row.
// Each row has the number that Op.Queue shows.
func (r *rankOps) numberQueues(run *trace.Run) (queueOf []int32, numbers []int64) {
	queueOf = make([]int32, len(run.Lanes)) // by lane
	var lanes []trace.LaneID
	var queues []trace.Lane
	for i := range r.Ops {
		lane := run.Spans[r.Ops[i].Span].Lane
		if queueOf[lane] == 0 {
			queueOf[lane] = -1
			lanes, queues = append(lanes, lane), append(queues, wholeQueue(run.Lanes[lane]))
		}
	}
	slices.SortFunc(queues, compareQueues)
	queues = slices.Compact(queues)
	for _, lane := range lanes {
		row, _ := slices.BinarySearchFunc(queues, wholeQueue(run.Lanes[lane]), compareQueues)
		queueOf[lane] = int32(row)
	}
	used := map[int64]bool{}
	next := int64(0)
	for _, q := range queues {
		next = max(next, q.ID)
	}
	for _, q := range queues {
		n := q.ID
		if used[n] {
			next++
			n = next
		}
		used[n] = true
		numbers = append(numbers, n)
	}
	return queueOf, numbers
}

func wholeQueue(l trace.Lane) trace.Lane {
	l.Sub, l.Name = 0, ""
	return l
}

func compareQueues(a, b trace.Lane) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Peer, b.Peer))
}

// endOverlaps counts the time of a kernel that began before the end of the one in front of it on its stream from that end on.
// From compute capability 9.0 on such a kernel may be launched programmatically: what precedes its wait for the
// other's results overlaps, and the results come later (CUDA C++ programming guide, programmatic dependent launch). One that
// ended first waited for nothing: it is of another branch of a graph (rule V7).
func (r *rankOps) endOverlaps(run *trace.Run, queueOf []int32) {
	const hopper = 9
	if len(r.Ops) == 0 || run.Ranks[run.RankOf(run.Spans[r.Ops[0].Span])].Device.ComputeMajor < hopper {
		return
	}
	ends := make([]trace.Time, r.queues)
	for i := range r.Ops {
		op := &r.Ops[i]
		end := &ends[queueOf[run.Spans[op.Span].Lane]]
		if op.Kind != trace.Copy && op.Start < *end && *end < op.End {
			op.Start = *end
		}
		*end = max(*end, op.End)
	}
	slices.SortStableFunc(r.Ops, func(a, b workload.Op) int { return cmp.Compare(a.Start, b.Start) })
}

// orderTies orders ops with equal start by their properties, independent of the order of
// recording.
func (r *rankOps) orderTies(run *trace.Run, queueOf []int32) {
	for i := 0; i < len(r.Ops); {
		j := i + 1
		for j < len(r.Ops) && r.Ops[j].Start == r.Ops[i].Start {
			j++
		}
		if j > i+1 {
			slices.SortStableFunc(r.Ops[i:j], func(a, b workload.Op) int {
				x, y := run.Spans[a.Span], run.Spans[b.Span]
				cx, _ := joins(run, x)
				cy, _ := joins(run, y)
				return cmp.Or(
					cmp.Compare(a.End, b.End),
					cmp.Compare(queueOf[x.Lane], queueOf[y.Lane]),
					cmp.Compare(run.NameOf(x), run.NameOf(y)),
					cmp.Compare(cx, cy))
			})
		}
		i = j
	}
}

// resetsCounter reports whether the op before on the same stream, of the same
// operator, is a fill: the library resets the counter that hands out tiles.
func (r *rankOps) resetsCounter(run *trace.Run, op int) bool {
	f := &r.Facts[op]
	if f.before < 0 || r.Facts[f.before].Operator != f.Operator {
		return false
	}
	c := run.Copy(run.Spans[r.Ops[f.before].Span])
	return c != nil && c.Dir == trace.Fill
}
