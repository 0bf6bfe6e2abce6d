package overlap

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Edge is a span that another one waited for: the call that launched it, or what
// posted the flag that ended its wait.
type Edge struct {
	From, To     trace.SpanID
	Left, Landed trace.Time // when From let go of it, and when To was allowed to go on
	Kind         edgeKind
}

// An edgeKind is what an edge stands for.
type edgeKind uint8

// The kinds of edges.
const (
	Launched edgeKind = iota // a host call, and the kernel or copy that it launched
	posted                   // a kernel, copy or put, and the kernel whose stream waited for its flag
	released                 // the same, and the wait of a workgroup
)

func (k edgeKind) String() string { return [...]string{"launch", "flag", "put"}[k] }

// Edges finds the edges of a run in order of To, at most most of each kind. Of a simulated
// run the waits say who posted the flag: the span is the last of that stream or kernel
// that let go by the end of the wait, and of a kernel whose puts were recorded the put.
// reasons, of streams, may be nil.
func Edges(run *trace.Run, reasons []Reason, most int) []Edge {
	e := edges{run: run, most: most, posters: map[poster]*posts{}}
	for i, s := range run.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		if call := run.LaunchOf(s); call != trace.None {
			from := run.Spans[call]
			e.add(Edge{call, trace.SpanID(i), from.Start, s.Start, Launched})
		}
	}
	e.index()
	for _, r := range reasons {
		if r.Rank < 0 || int(r.Rank) >= len(run.Ranks) {
			continue
		}
		if who, ok := e.whoPosted(r.Note, r.Rank); ok {
			e.land(who, e.nextOn(r), r.End, posted)
		}
	}
	if run.Simulated {
		for i, s := range run.Spans {
			if s.Kind != trace.PhaseWait || s.Vacant() {
				continue
			}
			if who, ok := e.whoPosted(run.Names[s.Name], run.Lanes[s.Lane].Rank); ok {
				e.land(who, trace.SpanID(i), s.End, released)
			}
		}
	}
	slices.SortStableFunc(e.list, func(a, b Edge) int { return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From)) })
	return e.list
}

// A poster is a stream, or the kernels of a name, of a rank.
type poster struct {
	rank   int32
	stream bool
	name   string
}

// posts are the spans of a poster.
type posts struct {
	kernels []trace.SpanID // and copies, by start
	puts    []trace.SpanID // of the kernels' workgroups, by start
}

type edges struct {
	run     *trace.Run
	most    int
	counts  [released + 1]int
	posters map[poster]*posts
	queues  map[[2]int64][]trace.SpanID // by rank and queue
	parsed  map[string]poster
	list    []Edge
}

func (e *edges) add(x Edge) {
	if e.counts[x.Kind]++; e.counts[x.Kind] <= e.most {
		e.list = append(e.list, x)
	}
}

func (e *edges) of(p poster) *posts {
	return trace.Memo(e.posters, p, func() *posts { return &posts{} })
}

// index lists device work by stream and name, and the puts of kernels.
func (e *edges) index() {
	e.queues, e.parsed = map[[2]int64][]trace.SpanID{}, map[string]poster{}
	if !e.run.Simulated {
		return
	}
	for i := range e.run.Spans {
		s, id := &e.run.Spans[i], trace.SpanID(i)
		lane := &e.run.Lanes[s.Lane]
		switch {
		case s.Kind.OnDevice():
			for _, p := range []poster{{lane.Rank, true, lane.Name}, {lane.Rank, false, e.run.Names[s.Name]}} {
				x := e.of(p)
				x.kernels = append(x.kernels, id)
			}
			key := [2]int64{int64(lane.Rank), lane.ID}
			e.queues[key] = append(e.queues[key], id)
		case s.Kind == trace.PhasePut && s.Parent != trace.None:
			w := &e.run.Spans[s.Parent]
			x := e.of(poster{lane.Rank, false, e.run.Names[w.Name]})
			x.puts = append(x.puts, id)
		}
	}
}

// whoPosted reads the poster from the note of a wait of a rank: `flag, posted by GPU 1
// "kernel"`, or `stream "name"`. GPUs are numbered within the rank's run.
func (e *edges) whoPosted(note string, rank int32) (poster, bool) {
	p := trace.Memo(e.parsed, note, func() poster { return e.parse(note) })
	if p.rank == trace.None {
		return p, false
	}
	name := e.run.Ranks[rank].Run
	first := int32(slices.IndexFunc(e.run.Ranks, func(r trace.Rank) bool { return r.Run == name }))
	p.rank += first
	return p, int(p.rank) < len(e.run.Ranks) && e.run.Ranks[p.rank].Run == name
}

func (e *edges) parse(note string) poster {
	_, who, ok := strings.Cut(note, "posted by GPU ")
	number, name, ok2 := strings.Cut(who, " ")
	if ok && ok2 {
		rest, stream := strings.CutPrefix(name, "stream ")
		row, err1 := strconv.Atoi(number)
		text, err2 := strconv.Unquote(rest)
		if err1 == nil && err2 == nil && row >= 0 && row < len(e.run.Ranks) {
			return poster{int32(row), stream, text}
		}
	}
	return poster{rank: trace.None}
}

// nextOn is the span that a stream's idle time ends with, or None.
func (e *edges) nextOn(r Reason) trace.SpanID {
	q := e.queues[[2]int64{int64(r.Rank), r.Queue}]
	at, _ := slices.BinarySearchFunc(q, r.End, func(id trace.SpanID, t trace.Time) int { return cmp.Compare(e.run.Spans[id].Start, t) })
	if at == len(q) {
		return trace.None
	}
	return q[at]
}

// land adds the edge from what the poster did last by a time.
func (e *edges) land(who poster, to trace.SpanID, by trace.Time, kind edgeKind) {
	x := e.posters[who]
	if x == nil || to == trace.None {
		return
	}
	start := func(id trace.SpanID) trace.Time { return e.run.Spans[id].Start }
	from := lastBy(x.puts, by, start)
	if kernel := lastBy(x.kernels, by, start); from == trace.None || kernel != trace.None && start(kernel) > e.run.Spans[from].End {
		from = kernel
	}
	if from == trace.None || from == to {
		return
	}
	e.add(Edge{from, to, min(by, e.run.Spans[from].End), by, kind})
}

// lastBy is the last span of a list whose time is not after one, or None.
func lastBy(ids []trace.SpanID, by trace.Time, at func(trace.SpanID) trace.Time) trace.SpanID {
	n, _ := slices.BinarySearchFunc(ids, by, func(id trace.SpanID, t trace.Time) int { return upTo(at(id), t) })
	if n == 0 {
		return trace.None
	}
	return ids[n-1]
}

// mostFlags bounds the memory that the flags of a run take.
const mostFlags = 1 << 20

// flags are the edges of a simulated run by what they released.
type flags struct {
	run     *trace.Run
	streams []Edge                  // by To: the operation that started
	waits   map[laneOf][]Edge       // by Landed: waits that took time
	last    map[trace.SpanID]laneOf // of an operation: the lane of the workgroup that ended last
	idles   [][][]Reason            // by rank row, queue and time
}

// laneOf is the lane of workgroups of an operation.
type laneOf struct {
	op   trace.SpanID
	lane trace.LaneID
}

func newFlags(run *trace.Run, reasons []Reason) *flags {
	f := &flags{run: run, waits: map[laneOf][]Edge{}, last: map[trace.SpanID]laneOf{}, idles: byQueue(reasons, len(run.Ranks))}
	ends := map[trace.SpanID]trace.Time{}
	for _, e := range Edges(run, reasons, mostFlags) {
		switch e.Kind {
		case posted:
			f.streams = append(f.streams, e)
		case released:
			if s := run.Spans[e.To]; s.Start < s.End {
				key := laneOf{f.operation(e.To), s.Lane}
				f.waits[key] = append(f.waits[key], e)
			}
		}
	}
	for _, list := range f.waits {
		slices.SortStableFunc(list, func(a, b Edge) int { return cmp.Compare(a.Landed, b.Landed) })
	}
	for i, s := range run.Spans {
		if s.Kind != trace.Workgroup || s.Parent == trace.None {
			continue
		}
		if end, ok := ends[s.Parent]; !ok || s.End > end {
			ends[s.Parent] = s.End
			f.last[s.Parent] = laneOf{f.operation(trace.SpanID(i)), s.Lane}
		}
	}
	return f
}

// operation is the kernel that a workgroup or a phase is a part of; other spans are
// their own.
func (f *flags) operation(id trace.SpanID) trace.SpanID {
	for f.run.Spans[id].Kind.InKernel() && f.run.Spans[id].Parent != trace.None {
		id = f.run.Spans[id].Parent
	}
	return id
}

// inside finds the last wait of a workgroup for a flag up to a place, where the path comes
// from: what posted the flag, and when the wait ended. Without a lane it is the workgroup
// that ended last, if the place is the operation's end.
func (f *flags) inside(at place) (post place, landed trace.Time, ok bool) {
	if f == nil {
		return place{}, 0, false
	}
	key := laneOf{at.op, at.lane}
	if at.lane == trace.None {
		if at.until != f.run.Spans[at.op].End {
			return place{}, 0, false
		}
		key = f.last[at.op]
	}
	list := f.waits[key]
	n, _ := slices.BinarySearchFunc(list, at.until, func(e Edge, t trace.Time) int { return upTo(e.Landed, t) })
	for n--; n >= 0; n-- {
		if post, ok := f.post(list[n]); ok && post.until < at.until {
			return post, list[n].Landed, true
		}
	}
	return place{}, 0, false
}

// idle is why the stream of an operation was idle, by start.
func (f *flags) idle(op trace.SpanID) []Reason {
	if f == nil {
		return nil
	}
	lane := &f.run.Lanes[f.run.Spans[op].Lane]
	for _, q := range f.idles[lane.Rank] {
		if lane.Kind == trace.Queue && q[0].Queue == lane.ID {
			return q
		}
	}
	return nil
}

// before finds what posted the last flag that the stream of an operation waited for before
// it started.
func (f *flags) before(op trace.SpanID) (post place, landed trace.Time, ok bool) {
	if f == nil {
		return place{}, 0, false
	}
	n, _ := slices.BinarySearchFunc(f.streams, op, func(e Edge, id trace.SpanID) int { return cmp.Compare(e.To, id) })
	start := f.run.Spans[op].Start
	for ; n < len(f.streams) && f.streams[n].To == op; n++ {
		e := f.streams[n]
		if p, good := f.post(e); good && p.until < start && e.Landed <= start && (!ok || e.Landed > landed) {
			post, landed, ok = p, e.Landed, true
		}
	}
	return post, landed, ok
}

// post is where an edge comes from, if that is device work.
func (f *flags) post(e Edge) (place, bool) {
	at := place{op: f.operation(e.From), lane: trace.None, until: e.Left}
	if from := f.run.Spans[e.From]; from.Kind.InKernel() {
		at.lane = from.Lane
	}
	s := f.run.Spans[at.op]
	return at, f.run.Class(s) != trace.NoClass && s.Start <= e.Left && e.Left <= s.End
}
