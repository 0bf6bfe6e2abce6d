package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Rank is the streams of one GPU while they are written.
type Rank struct {
	Planner    *Planner
	ID         int
	Streams    []*Stream
	byQueue    map[int64][]*Stream
	Host       *Stream
	HostIssued program.Flag // number of operations that the host has issued
	count      int64
	clock      trace.Time // captured time up to which the host stream has been written
	syncs      []workload.HostSync
	lead       int                  // place in order of the last operation of the first iteration; devices begin when it is issued
	latency    trace.Time           // of a launch, which writeHost includes
	order      []int32              // ops in the order in which the host issues them
	costs      []trace.Time         // to issue them
	calls      []hostCall           // issues, in the order in which they were asked for
	at         int                  // place of the last issue
	from, to   int                  // least and greatest place of the issues of the pair that is being written
	pairs      map[int]int          // by place of a pair's first issue: that of its last
	HostPace   float64              // host's issue time relative to the profile's host
	unseen     *workload.Collective // of the pair that begins, until its first operation has waited for what it depends on
}

// A Stream is a stream of the program while it is written.
type Stream struct {
	program.Stream
	End  trace.Time // captured end of the last op written, ns
	held trace.Time // how much later its first op started than its launch and what it reads allow: work before the capture
}

// A Point is behind the first so many commands of a stream; the zero value is nowhere.
type Point struct {
	On *Stream
	At int
}

// Where is behind an operation that was written.
func (pl *Planner) Where(op *workload.Op) Point { return pl.where[op.ID] }

// Stream returns the rank's stream for a captured queue.
func (r *Rank) Stream(queue int64) *Stream { return r.Lane(queue, 0) }

// Lane returns the n-th stream of a captured queue, or adds it behind those that there are. Operations that overlap on one queue
// (AMD) need several.
func (r *Rank) Lane(queue int64, n int) *Stream {
	if on := r.byQueue[queue]; n < len(on) {
		return on[n]
	}
	return r.newStream(fmt.Sprintf("stream %d", queue), queue)
}

// Added returns the stream of that name that a strategy adds to the captured ones. Its
// queue number is below the host's.
func (r *Rank) Added(name string) *Stream {
	added := int64(0)
	for _, s := range r.Streams {
		switch {
		case s.Queue >= hostQueue:
		case s.Name == name:
			return s
		default:
			added++
		}
	}
	return r.newStream(name, hostQueue-1-added)
}

// hostQueue is the queue number of the host's stream; captured queues are not negative.
const hostQueue = -1

func (r *Rank) newStream(name string, queue int64) *Stream {
	s := &Stream{Stream: program.Stream{Name: name, Queue: queue}}
	if before := r.Planner.before; len(r.Streams)+1 < len(before) { // ranks are mostly alike
		s.Commands = make([]program.Command, 0, len(before[len(r.Streams)+1].Commands))
	}
	r.Streams, r.byQueue[queue] = append(r.Streams, s), append(r.byQueue[queue], s)
	return s
}

// Queued is where an operation ran in the capture.
type Queued struct {
	Before *workload.Op // the one before it on its stream; nil: none
	Lane   int          // which of its queue's streams: operations of one queue may overlap (AMD)
	Event  bool         // it waited for an operation of another stream, behind the one before it
}

// atOnce is how many operations of a queue run at once: it runs them in order, and only the next one may begin early.
const atOnce = 2

// FindQueued sets, by op, where operations of one rank ran in the capture: in the first stream of their queue that was idle, of at most
// atOnce.
func FindQueued(w *workload.Workload, ids []int32, ran []Queued) {
	last := map[int64][]*workload.Op{} // by queue and lane
	for _, id := range ids {
		op := &w.Ops[id]
		lanes := last[op.Queue]
		n := slices.IndexFunc(lanes, func(before *workload.Op) bool { return before.End <= op.Start })
		switch {
		case n >= 0:
		case len(lanes) < atOnce:
			n, lanes = len(lanes), append(lanes, nil)
		default: // their times are wrong
			n = slices.Index(lanes, slices.MinFunc(lanes, func(a, b *workload.Op) int { return cmp.Compare(a.End, b.End) }))
		}
		ended := trace.Time(0)
		if lanes[n] != nil {
			ended = lanes[n].End
		}
		ran[id] = Queued{lanes[n], n, waitedFor(w, op, ended)}
		lanes[n], last[op.Queue] = op, lanes
	}
}

// Launch adds a kernel or copy that starts gap ns after the previous command.
func (s *Stream) Launch(gap trace.Time, c program.Command) {
	s.Delay(s.held-gap, program.FlagWait, "work before the capture")
	s.held = 0
	c.Delay = gap
	s.Commands = append(s.Commands, c)
}

// Wait holds the stream until a flag reaches n. The name is the reason shown.
func (s *Stream) Wait(f program.Flag, n int64, name string) {
	s.Commands = append(s.Commands, program.Command{Op: program.Wait, Flag: f, Count: n, Name: name, Origin: -1})
}

// Post adds n to a flag when all previous commands have ended.
func (s *Stream) Post(f program.Flag, n int64) {
	s.Commands = append(s.Commands, program.Command{Op: program.Post, Flag: f, Count: n, Origin: -1})
}

// Delay holds the stream for d ns, which count as idle time of the given cause.
func (s *Stream) Delay(d trace.Time, why program.Cause, name string) {
	if d > 0 {
		s.Commands = append(s.Commands, program.Command{Op: program.Delay, Delay: d, Why: why, Name: name, Origin: -1})
	}
}
