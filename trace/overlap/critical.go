package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Path is the chain of device work and gaps that decided when the run ended.
// It starts from what ended last and goes back in time: work is preceded by
// what ended last before it on the same rank, a collective by the arrival of
// its latest member on that member's rank. Where two things ended before a
// start, a trace does not show which one was waited for; the later is taken.
// If the file has synchronizations (cuda_sync events), work is preceded by what it waited
// for: the work before it on its stream, an event of another stream, or what
// its thread had waited for.
//
// In a simulated run, work is also preceded by what posted the flag that its stream, or a
// workgroup of it, waited for.
type Path struct {
	Total      trace.Time `json:"total_ns"` // the sum of all below
	Compute    trace.Time `json:"compute_ns"`
	Collective trace.Time `json:"collective_ns"` // after the last member had arrived
	Copy       trace.Time `json:"copy_ns"`
	Flag       trace.Time `json:"flag_ns,omitempty"` // from the post of a flag to the end of the wait for it
	Gaps       Causes     `json:"gaps"`
	Steps      []step     `json:"steps"` // in time, each from where the one before ends
}

// A stepKind is the kind of a part of the critical path.
type stepKind string

// The kinds. The last six are gaps; the last five are named after Causes.
const (
	stepCompute    stepKind = "compute"
	stepCollective stepKind = "collective"
	stepCopy       stepKind = "copy"
	stepFlag       stepKind = "flag"
	stepHost       stepKind = "host"
	stepSync       stepKind = "sync"
	stepLaunch     stepKind = "launch"
	stepQueued     stepKind = "queued"
	stepUnknown    stepKind = "unknown gap"
)

// A step is one part of the critical path.
type step struct {
	Kind  stepKind     `json:"kind"`
	Rank  int          `json:"rank"`
	Name  string       `json:"name"` // of the work, or of the work that a gap precedes
	Start trace.Time   `json:"start_ns"`
	End   trace.Time   `json:"end_ns"`
	Span  trace.SpanID `json:"-"`
	Cause string       `json:"cause,omitempty"` // of a gap whose kind is unknown, as a simulation recorded it
}

// Gap reports whether no work of the path ran during the step: its span is the next work.
func (s step) Gap() bool {
	return s.Kind != stepCompute && s.Kind != stepCollective && s.Kind != stepCopy
}

// Label is the kind of the step, or the recorded cause of a gap.
func (s step) Label() string { return cmp.Or(s.Cause, string(s.Kind)) }

// A walker follows the critical path back in time.
type walker struct {
	run    *trace.Run
	work   []rankWork
	byEnd  [][]trace.SpanID // by rank row; filled as ranks are entered
	orders []*orders        // by rank row, filled as ranks are entered; nil where the file has no waits
	flags  *flags           // nil: of no use
	steps  []step           // last first
}

// CriticalPath finds the critical path of a run from the first to the last end of device
// work: before its first operation it has gaps. reasons, of a simulation, may be nil.
func CriticalPath(run *trace.Run, reasons []Reason) Path {
	work := collect(run)
	w := newWalker(run, work)
	if run.Simulated {
		w.flags = newFlags(run, reasons)
	}
	first := trace.Infinity
	for _, r := range work {
		if len(r.ops) > 0 {
			first = min(first, r.first)
		}
	}
	op := w.walk(w.last())
	if op != trace.None {
		w.gap(int32(run.RankOf(run.Spans[op])), op, Interval{first, w.from(op)})
	}
	return w.path()
}

func criticalPath(run *trace.Run, work []rankWork) Path {
	w := newWalker(run, work)
	w.walk(w.last())
	return w.path()
}

func newWalker(run *trace.Run, work []rankWork) *walker {
	return &walker{run: run, work: work, byEnd: make([][]trace.SpanID, len(work)), orders: make([]*orders, len(work))}
}

// from is where the path so far begins, which goes back to an operation.
func (w *walker) from(op trace.SpanID) trace.Time {
	if n := len(w.steps); n > 0 {
		return w.steps[n-1].Start
	}
	return w.run.Spans[op].Start
}

func (w *walker) path() Path {
	slices.Reverse(w.steps)
	p, sum := Path{Steps: w.steps}, map[stepKind]trace.Time{}
	for _, s := range p.Steps {
		sum[s.Kind] += s.End - s.Start
		p.Total += s.End - s.Start
	}
	p.Compute, p.Collective, p.Copy, p.Flag = sum[stepCompute], sum[stepCollective], sum[stepCopy], sum[stepFlag]
	p.Gaps = Causes{sum[stepHost], sum[stepSync], sum[stepLaunch], sum[stepQueued], sum[stepUnknown]}
	return p
}

// last returns the operation that ended last, of several the first to start.
func (w *walker) last() trace.SpanID {
	last := trace.SpanID(trace.None)
	for _, r := range w.work {
		for _, id := range r.ops {
			if last == trace.None || cmp.Or(
				cmp.Compare(w.run.Spans[id].End, w.run.Spans[last].End),
				cmp.Compare(last, id)) > 0 {
				last = id
			}
		}
	}
	return last
}

// walk takes the path up to the end of an operation and returns the first one on it. It
// ends: a jump to another rank, or along a flag, goes back in time, and otherwise ids fall.
func (w *walker) walk(last trace.SpanID) (first trace.SpanID) {
	if last == trace.None {
		return last
	}
	at := place{op: last, lane: trace.None, until: w.run.Spans[last].End}
	for {
		if post, landed, ok := w.flags.inside(at); ok {
			w.add(w.kindOf(at.op), at.op, landed, at.until) // from the end of a workgroup's wait on, and the flag before that
			w.add(stepFlag, at.op, post.until, landed)
			at = post
			continue
		}
		at = w.throughCollective(at)
		before := w.before(at.op)
		if post, landed, ok := w.flags.before(at.op); ok && (before == trace.None || landed > w.run.Spans[before].End) {
			w.gap(int32(w.run.RankOf(w.run.Spans[at.op])), at.op, Interval{landed, w.run.Spans[at.op].Start})
			w.add(stepFlag, at.op, post.until, landed)
			at = post
			continue
		}
		if before == trace.None {
			return at.op
		}
		end := w.run.Spans[before].End
		w.gap(int32(w.run.RankOf(w.run.Spans[at.op])), at.op, Interval{end, w.run.Spans[at.op].Start})
		at = place{op: before, lane: trace.None, until: end}
	}
}

// A place is a point of the path: an operation at a time, and the lane of the workgroup
// that did what the path is about, or None.
type place struct {
	op    trace.SpanID
	lane  trace.LaneID
	until trace.Time
}

func (w *walker) kindOf(op trace.SpanID) stepKind {
	return [...]stepKind{
		trace.ClassCompute: stepCompute, trace.ClassCommunication: stepCollective,
		trace.ClassCopy: stepCopy,
	}[w.run.Class(w.run.Spans[op])]
}

// throughCollective adds the operation to the path. If it is a collective that
// waited for another rank, only what came after that rank's arrival counts, and
// the path goes on at that rank's kernel, which is returned.
func (w *walker) throughCollective(at place) place {
	s := w.run.Spans[at.op]
	if c := w.run.Collective(s); c != nil {
		late := c.Last()
		if late.Row != w.run.Lanes[s.Lane].Rank && c.Arrive < at.until && c.Arrive > s.Start {
			w.add(w.kindOf(at.op), at.op, c.Arrive, at.until)
			return place{op: late.Span, lane: trace.None, until: c.Arrive}
		}
	}
	w.add(w.kindOf(at.op), at.op, s.Start, at.until)
	return at
}

// before returns the operation of the same rank that ended last before op
// started, or what the file says that it waited for, or trace.None.
func (w *walker) before(op trace.SpanID) trace.SpanID {
	s := w.run.Spans[op]
	row := w.run.Lanes[s.Lane].Rank
	ended := w.ended(row)
	n, _ := slices.BinarySearchFunc(ended, s.Start, func(id trace.SpanID, t trace.Time) int {
		if w.run.Spans[id].End <= t {
			return -1
		}
		return 1
	})
	for n > 0 && w.run.Spans[ended[n-1]].Start == s.Start && ended[n-1] >= op {
		n-- // of no length, and later in order
	}
	if n == 0 {
		return trace.None
	}
	if held := w.heldBack(row, op); held != trace.None {
		return held
	}
	return ended[n-1]
}

// heldBack returns what the file says that an operation waited for, or trace.None.
func (w *walker) heldBack(row int32, op trace.SpanID) trace.SpanID {
	r := &w.work[row]
	if len(r.waits) == 0 {
		return trace.None
	}
	if w.orders[row] == nil {
		w.orders[row] = ordersOf(w.run, r)
	}
	return w.orders[row].heldBack(w.run, op)
}

// ended returns the operations of a rank by end, then id.
func (w *walker) ended(row int32) []trace.SpanID {
	if w.byEnd[row] == nil {
		w.byEnd[row] = slices.Clone(w.work[row].ops)
		slices.SortFunc(w.byEnd[row], func(a, b trace.SpanID) int {
			return cmp.Or(cmp.Compare(w.run.Spans[a].End, w.run.Spans[b].End), cmp.Compare(a, b))
		})
	}
	return w.byEnd[row]
}

// gap adds the steps between an operation and the one before it.
func (w *walker) gap(row int32, op trace.SpanID, gap Interval) {
	if w.recorded(op, gap) {
		return
	}
	r := &w.work[row]
	call := spanAt(w.run, w.run.LaunchOf(w.run.Spans[op]))
	var c Causes
	c.add(r, gap, call)
	end := gap.End
	for _, part := range []struct {
		kind   stepKind
		length trace.Time
	}{{stepUnknown, c.Unknown}, {stepQueued, c.Queued}, {stepLaunch, c.Launch}, {stepSync, c.Sync}, {stepHost, c.Host}} {
		w.add(part.kind, op, end-part.length, end)
		end -= part.length
	}
}

// recorded adds a gap whose causes a simulation recorded.
func (w *walker) recorded(op trace.SpanID, gap Interval) bool {
	reasons := w.flags.idle(op)
	n, _ := slices.BinarySearchFunc(reasons, gap.End, func(r Reason, t trace.Time) int { return upTo(r.Start, t-1) })
	end := gap.End
	for n--; n >= 0 && reasons[n].End > gap.Start; n-- {
		w.add(stepUnknown, op, min(end, reasons[n].End), end)
		end = min(end, reasons[n].End)
		start := max(gap.Start, reasons[n].Start)
		if w.add(stepUnknown, op, start, end); start < end {
			w.steps[len(w.steps)-1].Cause = reasons[n].Cause
		}
		end = min(end, start)
	}
	if end == gap.End {
		return false
	}
	w.add(stepUnknown, op, gap.Start, end)
	return true
}

// add puts a step before those added so far; one without length is no step.
func (w *walker) add(kind stepKind, op trace.SpanID, start, end trace.Time) {
	if start == end {
		return
	}
	s := w.run.Spans[op]
	w.steps = append(w.steps, step{
		Kind: kind, Rank: w.run.Ranks[w.run.RankOf(s)].ID, Name: w.run.NameOf(s), Start: start, End: end, Span: op,
	})
}
