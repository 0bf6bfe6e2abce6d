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
	from := e.lastBy(x.puts, by)
	if kernel := e.lastBy(x.kernels, by); from == trace.None || kernel != trace.None && e.run.Spans[kernel].Start > e.run.Spans[from].End {
		from = kernel
	}
	if from == trace.None || from == to {
		return
	}
	e.add(Edge{from, to, min(by, e.run.Spans[from].End), by, kind})
}

// lastBy is the last span of a list that starts by a time, or None.
func (e *edges) lastBy(ids []trace.SpanID, by trace.Time) trace.SpanID {
	at, _ := slices.BinarySearchFunc(ids, by, func(id trace.SpanID, t trace.Time) int { return upTo(e.run.Spans[id].Start, t) })
	if at == 0 {
		return trace.None
	}
	return ids[at-1]
}
