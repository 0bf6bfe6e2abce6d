package chrome

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// nativeVersion is the version of nativeHeader. A reader of a lower version must reject
// it.
const nativeVersion = 1

// A nativeHeader is the value of the key "overlapse" in a trace written by this
// package, before its events: the parts of a run that are not spans. In the events,
// pid-1 is then a row of Ranks, tid-1 a row of Lanes, and args.parent the number of an
// earlier X event.
type nativeHeader struct {
	Version   int
	trace.Run // Depends and Nodes by numbers of X events
}

// categories are the values of cat, by kind: Kineto's words if there are any. The
// category of a fill is below.
var categories = [...]string{
	trace.Marker:       "user_annotation",
	trace.HostCall:     "cpu_op",
	trace.Launch:       "cuda_runtime",
	trace.Compute:      "kernel",
	trace.Collective:   "kernel",
	trace.Copy:         "gpu_memcpy",
	trace.Workgroup:    "workgroup",
	trace.PhaseCompute: "phase_compute",
	trace.PhaseStore:   "phase_store",
	trace.PhasePut:     "phase_put",
	trace.PhaseWait:    "phase_wait",
	trace.Transfer:     "transfer",
}

const fillCategory = "gpu_memset"

// callCategory is that of a call of the runtime that launches nothing.
const callCategory = "cuda_driver"

// A Flow is a further arrow between two spans, such as from a put to the wait that it ends.
type Flow struct {
	From, To   trace.SpanID
	Left, Came trace.Time // where the arrow begins and ends, within the spans
	Name       string
}

// A Counter is a quantity of a rank over time. Each value holds until the next.
type Counter struct {
	Rank   int32 // row of Run.Ranks
	Name   string
	At     []trace.Time
	Values []float64
}

// Write writes the run as Chrome trace events, which Perfetto and chrome://tracing
// open: a process per rank, a thread per lane, an arrow from each launch to the
// launched work. Times are exact. Read returns the same run, except for its ledger, and
// skips the further arrows and the counters.
//
// of, if not nil, knows the operators of a simulated run. Other tools find in the file what
// PyTorch's profiler writes: devices, process groups, the number of each kernel's operator. A
// file of several ranks goes by the first of them.
func Write(w io.Writer, run *trace.Run, of *Operators, flows []Flow, counters []Counter) error {
	foreign, err := json.Marshal(newKinetoHeader(run, 0, of))
	if err != nil {
		return err
	}
	head, err := json.Marshal(nativeHeader{nativeVersion, *run})
	if err != nil {
		return err
	}
	out := writer{run: run, of: of, w: bufio.NewWriterSize(w, 64<<10), operators: operatorsOf(run, 0)}
	out.b = append(out.b, foreign[:len(foreign)-1]...)
	out.b = append(out.b, `,"displayTimeUnit":"ns","overlapse":`...)
	out.b = append(out.b, head...)
	out.b = append(out.b, `,"traceEvents":[`...)
	out.rows()
	for i := range run.Spans {
		out.span(trace.SpanID(i))
		out.arrow(trace.SpanID(i))
	}
	for i, d := range run.Depends {
		from, to := run.Spans[d.From], run.Spans[d.To]
		out.end("s", "ac2g", "ac2g", firstGraphFlow+i, from, from.End)
		out.end("f", "ac2g", "ac2g", firstGraphFlow+i, to, to.Start)
	}
	for i, f := range flows {
		out.end("s", "overlapse", f.Name, len(run.Spans)+i, run.Spans[f.From], f.Left)
		out.end("f", "overlapse", f.Name, len(run.Spans)+i, run.Spans[f.To], f.Came)
	}
	for _, c := range counters {
		for i, at := range c.At {
			out.value(c.Rank, c.Name, at, c.Values[i])
		}
	}
	out.b = append(out.b, "\n]}\n"...)
	out.flush()
	return out.w.Flush()
}

type writer struct {
	run   *trace.Run
	of    *Operators // of a simulated run; nil: none, or the run's own
	w     *bufio.Writer
	b     []byte
	comma bool
	at    func(trace.Span) (pid, tid int64) // nil: rows of the run, from 1

	row       int32          // of the rank whose operators other tools see
	operators map[int64]bool // of it, by number: PyTorch's readers want one event for each that a kernel names
}

func (w *writer) flush() {
	_, _ = w.w.Write(w.b) // bufio keeps the error for Flush
	w.b = w.b[:0]
}

// next begins an event.
func (w *writer) next() {
	w.flush()
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
	w.b = append(w.b, '\n')
}

func (w *writer) str(s string) { w.b = lex.AppendString(w.b, s) }

func (w *writer) raw(parts ...string) {
	for _, s := range parts {
		w.b = append(w.b, s...)
	}
}

func (w *writer) int(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

// field writes a further member with an integer value.
func (w *writer) field(name string, n int64) {
	w.raw(`,"`, name, `":`)
	w.int(n)
}

// optional is field for an index that may be None.
func (w *writer) optional(name string, n int32) {
	if n != trace.None {
		w.field(name, int64(n))
	}
}

// rows writes the names and order of processes and threads.
func (w *writer) rows() {
	for i, r := range w.run.Ranks {
		label := w.run.RankLabel(int32(i))
		if r.Run != "" {
			label = r.Run + " · " + label
		}
		w.named("process", i, 0, label, i)
	}
	order := make([]int, len(w.run.Lanes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := w.run.Lanes[a], w.run.Lanes[b]
		return cmp.Or(
			cmp.Compare(x.Rank, y.Rank),
			cmp.Compare(height(x.Kind), height(y.Kind)),
			cmp.Compare(x.Device, y.Device),
			cmp.Compare(x.ID, y.ID),
			cmp.Compare(x.Sub, y.Sub))
	})
	for at, i := range order {
		l := w.run.Lanes[i]
		w.named("thread", int(l.Rank), i+1, w.run.LaneLabel(trace.LaneID(i)), at)
	}
}

// height returns the position of a lane within its rank: annotations, host threads,
// device queues, inside kernels, transfers.
func height(k trace.LaneKind) int {
	switch k {
	case trace.Annotation:
		return 0
	case trace.HostThread:
		return 1
	case trace.Queue:
		return 2
	case trace.Persistent, trace.Slot:
		return 3
	}
	return 4
}

// named writes the name and the place of a process or thread.
func (w *writer) named(what string, rank, tid int, name string, index int) {
	for _, argument := range [...]string{"name", "sort_index"} {
		w.next()
		w.raw(`{"ph":"M","name":"`, what, "_", argument, `"`)
		w.field("pid", int64(rank+1))
		w.field("tid", int64(tid))
		if w.raw(`,"args":{"`, argument, `":`); argument == "name" {
			w.str(name)
		} else {
			w.int(int64(index))
		}
		w.raw(`}}`)
	}
}

// span writes an event of phase X. An event has args.stream, bytes, External id
// or workgroup if and only if the span has a row in the side table of its kind.
func (w *writer) span(id trace.SpanID) {
	s := w.run.Spans[id]
	w.begin(categoryFor(w.run, s), w.run.NameOf(s), s, w.run.Lanes[s.Lane].Device)
	w.optional("parent", int32(s.Parent))
	if s.Kind == trace.Compute || s.Kind == trace.Collective || s.Kind == trace.Copy {
		w.external(s, w.launched(id, s))
	}
	if s.Attr != trace.None {
		switch {
		case s.Kind == trace.HostCall || s.Kind == trace.Launch:
			w.call(s, &w.run.Calls[s.Attr])
		case s.Kind == trace.Compute || s.Kind == trace.Collective:
			w.kernel(&w.run.Kernels[s.Attr])
		case s.Kind == trace.Copy || s.Kind == trace.Transfer:
			w.copy(&w.run.Copies[s.Attr])
		case s.Kind.InKernel():
			w.workgroup(&w.run.Workgroups[s.Attr])
		}
	}
	if k := w.run.Kernel(s); s.Kind == trace.Collective && (k == nil || k.Comm == trace.None) {
		w.raw(`,"Collective name":null`)
	}
	w.raw("}}")
}

// begin begins an event of phase X, up to its first argument.
func (w *writer) begin(category, name string, s trace.Span, device int32) {
	w.next()
	w.raw(`{"ph":"X","cat":"`, category, `","name":`)
	w.str(name)
	w.place(s)
	w.raw(`,"ts":`)
	w.b = lex.AppendMicros(w.b, s.Start)
	w.raw(`,"dur":`)
	w.b = lex.AppendMicros(w.b, s.Dur())
	w.raw(`,"args":{"device":`)
	w.int(int64(device))
}

func categoryFor(run *trace.Run, s trace.Span) string {
	if c := run.Copy(s); c != nil && s.Kind == trace.Copy && c.Dir == trace.Fill {
		return fillCategory
	}
	if s.Kind == trace.HostCall && s.Attr != trace.None && run.Calls[s.Attr].Correlation != 0 {
		return callCategory
	}
	return categories[s.Kind]
}

// place writes process and thread.
func (w *writer) place(s trace.Span) {
	pid, tid := int64(w.run.RankOf(s)+1), int64(s.Lane)+1
	if w.at != nil {
		pid, tid = w.at(s)
	}
	w.field("pid", pid)
	w.field("tid", tid)
}

// arrow links device work to the call that launched it.
func (w *writer) arrow(id trace.SpanID) {
	s := w.run.Spans[id]
	from := w.run.LaunchOf(s)
	if from == trace.None {
		return
	}
	call := w.run.Spans[from]
	w.end("s", "ac2g", "ac2g", int(id), call, call.Start)
	w.end("f", "ac2g", "ac2g", int(id), s, s.Start)
}

// end writes one end of an arrow, which must lie before the end of its slice.
func (w *writer) end(phase, category, name string, id int, s trace.Span, at trace.Time) {
	w.next()
	w.raw(`{"ph":"`, phase, `","bp":"e","cat":"`, category, `","name":`)
	w.str(name)
	w.field("id", int64(id)+1)
	w.place(s)
	w.raw(`,"ts":`)
	w.b = lex.AppendMicros(w.b, max(s.Start, min(at, s.End-1)))
	w.raw(`}`)
}

// value writes a point of a counter.
func (w *writer) value(rank int32, name string, at trace.Time, value float64) {
	w.next()
	w.raw(`{"ph":"C","name":`)
	w.str(name)
	w.field("pid", int64(rank)+1)
	w.raw(`,"ts":`)
	w.b = lex.AppendMicros(w.b, at)
	w.raw(`,"args":{"value":`)
	w.b = strconv.AppendFloat(w.b, value, 'g', 6, 64)
	w.raw(`}}`)
}
