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
type Path struct {
	Total      trace.Time `json:"total_ns"` // the sum of all below
	Compute    trace.Time `json:"compute_ns"`
	Collective trace.Time `json:"collective_ns"` // after the last member had arrived
	Copy       trace.Time `json:"copy_ns"`
	Gaps       Causes     `json:"gaps"`
	Steps      []Step     `json:"steps"` // in time, each from where the one before ends
}

// A StepKind is the kind of a part of the critical path.
type StepKind string

// The kinds. The last five are gaps, named after Causes.
const (
	StepCompute    StepKind = "compute"
	StepCollective StepKind = "collective"
	StepCopy       StepKind = "copy"
	StepHost       StepKind = "host"
	StepSync       StepKind = "sync"
	StepLaunch     StepKind = "launch"
	StepQueued     StepKind = "queued"
	StepUnknown    StepKind = "unknown gap"
)

// A Step is one part of the critical path.
type Step struct {
	Kind  StepKind     `json:"kind"`
	Rank  int          `json:"rank"`
	Name  string       `json:"name"` // of the work, or of the work that a gap precedes
	Start trace.Time   `json:"start_ns"`
	End   trace.Time   `json:"end_ns"`
	Span  trace.SpanID `json:"-"`
}

// A walker follows the critical path back in time.
type walker struct {
	run    *trace.Run
	work   []rankWork
	byEnd  [][]trace.SpanID // by rank row; filled as ranks are entered
	orders []*orders        // by rank row, filled as ranks are entered; nil where the file has no waits
	steps  []Step           // last first
}

func criticalPath(run *trace.Run, work []rankWork) Path {
	w := walker{run: run, work: work, byEnd: make([][]trace.SpanID, len(work)), orders: make([]*orders, len(work))}
	if last := w.last(); last != trace.None {
		w.walk(last)
	}
	slices.Reverse(w.steps)
	p := Path{Steps: w.steps}
	for _, s := range p.Steps {
		*p.part(s.Kind) += s.End - s.Start
		p.Total += s.End - s.Start
	}
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

// walk takes the path up to the end of an operation. It ends: a jump to
// another rank goes back in time, and otherwise ids fall.
func (w *walker) walk(op trace.SpanID) {
	for op != trace.None {
		op = w.throughCollective(op)
		op = w.before(op)
	}
}

// throughCollective adds the operation to the path. If it is a collective that
// waited for another rank, only what came after that rank's arrival counts, and
// the path goes on at that rank's kernel, which is returned.
func (w *walker) throughCollective(op trace.SpanID) trace.SpanID {
	s := w.run.Spans[op]
	kind := [...]StepKind{trace.ClassCompute: StepCompute, trace.ClassCommunication: StepCollective, trace.ClassCopy: StepCopy}[w.run.Class(s)]
	if c := w.run.Collective(s); c != nil {
		late := c.Last()
		if late.Row != w.run.Lanes[s.Lane].Rank && c.Arrive < s.End && c.Arrive > s.Start {
			w.add(kind, op, c.Arrive, s.End)
			return late.Span
		}
	}
	w.add(kind, op, s.Start, s.End)
	return op
}

// before returns the operation of the same rank that ended last before op
// started, or trace.None, and adds the gap between.
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
	last := ended[n-1]
	if held := w.heldBack(row, op); held != trace.None {
		last = held
	}
	w.gap(row, op, interval{w.run.Spans[last].End, s.Start})
	return last
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
	return w.orders[row].heldBack(w.run, r, op)
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
func (w *walker) gap(row int32, op trace.SpanID, gap interval) {
	r := &w.work[row]
	call := spanAt(w.run, w.run.LaunchOf(w.run.Spans[op]))
	var c Causes
	c.add(gap, call, func(call *trace.Span) bool { return r.waiting(call.Lane, gap.start) })
	end := gap.end
	for _, part := range []struct {
		kind   StepKind
		length trace.Time
	}{{StepUnknown, c.Unknown}, {StepQueued, c.Queued}, {StepLaunch, c.Launch}, {StepSync, c.Sync}, {StepHost, c.Host}} {
		w.add(part.kind, op, end-part.length, end)
		end -= part.length
	}
}

// add puts a step before those added so far; one without length is no step.
func (w *walker) add(kind StepKind, op trace.SpanID, start, end trace.Time) {
	if start == end {
		return
	}
	s := w.run.Spans[op]
	w.steps = append(w.steps, Step{
		Kind: kind, Rank: w.run.Ranks[w.run.RankOf(s)].ID, Name: w.run.NameOf(s), Start: start, End: end, Span: op,
	})
}

// part returns the sum that steps of the kind add to.
func (p *Path) part(k StepKind) *trace.Time {
	switch k {
	case StepCompute:
		return &p.Compute
	case StepCollective:
		return &p.Collective
	case StepCopy:
		return &p.Copy
	case StepHost:
		return &p.Gaps.Host
	case StepSync:
		return &p.Gaps.Sync
	case StepLaunch:
		return &p.Gaps.Launch
	case StepQueued:
		return &p.Gaps.Queued
	}
	return &p.Gaps.Unknown
}
