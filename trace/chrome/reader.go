package chrome

import (
	"bytes"
	"cmp"
	"math"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// A reader turns events into spans. Spans hold a track where a finished run
// has a lane until finish gives every track its lane.
type reader struct {
	*assemble.Session
	o      Options
	w      lex.Window
	e      event
	header header
	native *nativeReader // for a trace that Write wrote, else nil
	xla    *assemble.XLA // for a profile of XLA's, else nil
	keys   []string      // of the top-level object, for an error

	memory []memoryLevel

	sawEvents bool
	events    int64 // read

	origin  int64 // clock value at the builder's time 0
	started bool  // origin is set

	texts
	rows
	deferred
	groupTable
}

// texts caches names, keyed by the raw text with quotes and escapes.
type texts struct {
	names        map[string]trace.NameID
	processNames map[string]string
	threadNames  map[string]string // by pid, 0, tid
	key, str     []byte            // scratch
}

// rows are the tracks of the events.
type rows struct {
	tracks  []track
	trackOf map[string]int32
	recent  [numPlaces]recentTrack
	several bool // there are several processes that Kineto does not define
}

// deferred is the data that finish needs in addition to the spans.
type deferred struct {
	boundaries []boundary // B, E and asynchronous events, to be paired
	arrows     []arrow    // to be resolved
	graphs     graphs
	unread     []unread // to be noted

	operatorCalls []operatorCall // if there is an execution trace
	recorded      *recorded      // the same
	calls         []trace.SpanID // by row of Run.Calls
	kernels       []deviceInfo   // by row of Run.Kernels
	copies        []deviceInfo   // by row of Run.Copies
	launches      []launchInfo   // geometry of the launched work, from calls
	params        []param        // record_param_comms
	kernelParams  []param        // of collective kernels, from their own arguments
	waits         []waitInfo
	markerOp      map[trace.SpanID]int32
	ops           map[string]int32
}

// groupTable has the process groups, and caches collectives without sizes by their raw
// arguments.
type groupTable struct {
	comms     map[string]trace.Comm
	groups    []trace.Group
	groupRows map[groupKey][]int32 // of groups
}

func newReader(o Options) *reader {
	return &reader{
		Session: assemble.New(o.File),
		o:       o,
		header:  header{rank: trace.None},
		texts:   texts{names: map[string]trace.NameID{}, processNames: map[string]string{}, threadNames: map[string]string{}},
		rows:    rows{trackOf: map[string]int32{}},
		deferred: deferred{
			markerOp: map[trace.SpanID]int32{}, ops: map[string]int32{},
		},
		groupTable: groupTable{comms: map[string]trace.Comm{}, groupRows: map[groupKey][]int32{}},
	}
}

// Data that finish needs in addition to a row of a side table.
type (
	deviceInfo struct {
		span     trace.SpanID
		issuer   trace.SpanID // the operator or call that issued it; set by link
		external int64
		pos      int64
		param    int32 // row of reader.kernelParams: the parameters in its arguments, or None
	}
	launchInfo struct {
		call        int32
		kernel      trace.NameID // 0 if the call does not name it
		grid, block [3]int32
		shared      int32
		bytes       int64
	}
)

// A category is the cat of a Kineto event.
type category uint8

const (
	foreign category = iota
	kernel
	memcpy
	memset
	runtimeCall
	operator
	annotation
	deviceAnnotation
	deviceWait
	graphMarker // an event or a call of the host in a captured graph
	pythonFrame
	profilerWindow
)

// categoryNames are the values of cat.
var categoryNames = map[string]category{
	"kernel": kernel, "Kernel": kernel, "gpu_memcpy": memcpy, "Memcpy": memcpy, "gpu_memset": memset, "Memset": memset,
	"cuda_runtime": runtimeCall, "cuda_driver": runtimeCall, "Runtime": runtimeCall, "xpu_runtime": runtimeCall,
	"xpu_driver": runtimeCall, "mtia_runtime": runtimeCall, "privateuse1_runtime": runtimeCall, "privateuse1_driver": runtimeCall,
	"cpu_op": operator, "Operator": operator, "user_annotation": annotation, "overhead": annotation,
	"cpu_instant_event": annotation, "gpu_user_annotation": deviceAnnotation, "cuda_profiler_range": deviceAnnotation,
	"cuda_event": deviceAnnotation, "cuda_sync": deviceWait, "graph_event_node": graphMarker, "graph_host_node": graphMarker,
	"python_function": pythonFrame, "Trace": profilerWindow,
}

func categoryOf(cat []byte) category { return categoryNames[string(lex.Unquote(cat))] }

func (d *reader) note(a trace.Action, reason string, pos int64) {
	d.Builder.Note(a, d.o.File, reason, "byte", pos)
}

// noteEvent is note for an event that becomes the next span or, if it is skipped, none.
func (d *reader) noteEvent(a trace.Action, reason string, e *event) {
	switch c := categoryOf(e.cat); {
	case a == trace.Repaired:
		d.Builder.NoteSpan(trace.SpanID(d.Builder.Len()), a, d.o.File, reason, "byte", e.pos)
	case c == kernel || c == memcpy || c == memset:
		d.Builder.NoteKernel(a, d.o.File, reason, "byte", e.pos)
	case e.cat == nil:
		d.unread = append(d.unread, unread{string(lex.Unquote(e.pid)), reason, e.pos})
	default:
		d.note(a, reason, e.pos)
	}
}

// unusedPhases are the phases of events that a run has no place for.
var unusedPhases = map[byte]string{
	0: "event without a phase (ph)", 'C': "counter", 'P': "sample", 'N': "object event", 'O': "object event", 'D': "object event",
	'v': "memory dump", 'V': "memory dump", '(': "context or clock event", ')': "context or clock event", 'c': "context or clock event",
}

// event adds one event.
func (d *reader) event(e *event) error {
	if d.Builder.Len() >= math.MaxInt32-1 {
		return d.w.Syntax(d.w.Pos, "more than 2147483646 spans", "split the trace", nil)
	}
	if d.native != nil {
		d.nativeEvent(e)
		return nil
	}
	switch e.ph {
	case 'X':
		d.complete(e)
	case 'B', 'E', 'b', 'e', 'S', 'F':
		d.boundary(e)
	case 'i', 'I', 'R', 'n', 'T', 'p':
		d.instant(e)
	case 'M':
		d.metadata(e)
	case 's', 't', 'f':
		d.flow(e)
	default:
		if e.ph == 0 && e.name == nil && e.ts == nil && e.pid == nil {
			d.note(trace.Noted, "empty event", e.pos)
		} else {
			d.note(trace.Skipped, cmp.Or(unusedPhases[e.ph], "unknown phase"), e.pos)
		}
	}
	return nil
}

// name interns a raw name.
func (d *reader) name(raw []byte) trace.NameID {
	if n, ok := d.names[string(raw)]; ok {
		return n
	}
	n := d.Builder.Intern(d.string(raw))
	d.names[string(raw)] = n
	return n
}

// string returns the text of a raw string.
func (d *reader) string(raw []byte) string { return lex.ValidUTF8(lex.Text(raw, &d.str)) }

// start reads the event's time.
func (d *reader) start(e *event) (t trace.Time, ok bool) {
	ns, ok := lex.Micros(e.ts)
	if e.args.begin != nil && e.args.end != nil {
		ns, ok = lex.Integer(e.args.begin) // rocprof truncates ts to microseconds
	}
	if !ok || !trace.ValidTime(ns) {
		what := "time is not a number, or out of range"
		if e.ts == nil {
			what = "no time (ts)"
		}
		d.noteEvent(trace.Skipped, what, e)
		return 0, false
	}
	if !d.started && d.native == nil {
		d.origin = ns - ns%1e9
	}
	d.started = true
	return trace.Time(ns - d.origin), true
}

// end reads the event's duration and returns its end.
func (d *reader) end(e *event, start trace.Time) (t trace.Time, ok bool) {
	if e.args.begin != nil && e.args.end != nil {
		if ns, ok := lex.Integer(e.args.end); ok && ns >= 0 && trace.ValidTime(ns) {
			return d.notBefore(e, start, trace.Time(ns-d.origin)), true
		}
	}
	if e.dur == nil {
		d.noteEvent(trace.Repaired, "no duration: taken as 0", e)
		return start, true
	}
	ns, ok := lex.Micros(e.dur)
	if !ok || !trace.ValidTime(max(ns, 0)) || !trace.ValidTime(int64(start)+d.origin+max(ns, 0)) {
		d.noteEvent(trace.Skipped, "duration is not a number, or out of range", e)
		return 0, false
	}
	return d.notBefore(e, start, start+trace.Time(max(ns, -1))), true
}

func (d *reader) notBefore(e *event, start, end trace.Time) trace.Time {
	if end < start {
		d.noteEvent(trace.Repaired, "negative duration: taken as 0", e)
		return start
	}
	return end
}

// complete adds an X event.
func (d *reader) complete(e *event) {
	c := categoryOf(e.cat)
	if c == pythonFrame { // they can be most of a file; those of modules tell layers
		if c = annotation; !bytes.HasPrefix(lex.Unquote(e.name), []byte("nn.Module: ")) {
			d.note(trace.Skipped, "frame of a Python function", e.pos)
			return
		}
	}
	start, ok := d.start(e)
	if !ok {
		return
	}
	end, ok := d.end(e, start)
	if !ok {
		return
	}
	if d.ofXLA() {
		d.addXLA(e, start, end)
		return
	}
	if e.args.annotation != nil {
		e.args.spread()
	}
	name := d.name(e.name)
	if (c == operator || c == foreign) && strings.HasPrefix(d.Builder.NameOf(name), "ProfilerStep#") { // PyTorch of 2021
		c = annotation
	}
	s := trace.Span{
		Start:  start,
		End:    end,
		Name:   name,
		Parent: trace.None,
		Attr:   trace.None,
	}
	id := trace.SpanID(d.Builder.Len())
	switch c {
	case kernel:
		s.Kind, s.Lane = trace.Compute, d.track(e, onDevice)
		s.Attr = d.kernel(e, id, d.tracks[s.Lane].stream)
		if e.args.collective != nil || d.IsCollective(name) {
			s.Kind = trace.Collective
		}
		if d.o.Kernel != nil && e.dur != nil { // which is a part of the window
			d.o.Kernel(Timing{d.Builder.NameOf(name), number(e.args.correlation), start, end - start, d.w.At(cap(d.w.B) - cap(e.dur)), len(e.dur)})
		}
	case memcpy, memset:
		s.Kind, s.Lane = trace.Copy, d.track(e, onDevice)
		s.Attr = d.copy(e, id, c, d.tracks[s.Lane].stream)
	case runtimeCall:
		s.Kind, s.Lane = trace.HostCall, d.track(e, onHost)
		s.Attr = d.call(e, id)
		d.launch(e, s.Attr)
	case operator:
		s.Kind, s.Lane = trace.HostCall, d.track(e, onHost)
		s.Attr = d.operator(e, id)
	case annotation:
		s.Lane = d.track(e, onHost)
		if e.args.dims != nil {
			d.markerOp[id] = d.operands(e)
		}
	case deviceAnnotation, graphMarker:
		s.Lane = d.track(e, aboveDevice)
	case deviceWait:
		s.Lane = d.track(e, aboveDevice)
		d.wait(e, id)
	case profilerWindow:
		s.Lane = d.track(e, ofProfiler)
	case foreign:
		s.Lane = d.track(e, elsewhere)
	}
	if e.args.node != nil && (c == kernel || c == memcpy || c == memset || c == graphMarker) {
		d.graphNode(e, id)
	}
	d.Builder.Add(s)
}

// instant adds an instant as a span of zero duration.
func (d *reader) instant(e *event) {
	at, ok := d.start(e)
	if !ok {
		return
	}
	var on trace.LaneID
	switch {
	case e.ph == 'n' || e.ph == 'T' || e.ph == 'p':
		on, _ = d.async(e)
	case categoryOf(e.cat) == annotation:
		on = d.track(e, onHost)
	case string(e.pid) == `"Traces"` || string(e.pid) == `""`: // Kineto's "Iteration Start", "Record Window End"
		on = d.track(e, ofProfiler)
	default:
		on = d.track(e, elsewhere)
	}
	if bytes, ok := lex.Integer(e.args.allocated); ok && bytes >= 0 && string(e.args.deviceType) != "0" {
		d.memory = append(d.memory, memoryLevel{on, trace.MemoryLevel{At: at, Bytes: bytes}})
	}
	d.Builder.Add(trace.Span{
		Start: at, End: at,
		Name:   d.name(e.name),
		Lane:   on,
		Parent: trace.None,
		Attr:   trace.None,
	})
}

// metadata stores the name of a process or thread.
func (d *reader) metadata(e *event) {
	switch string(e.name) {
	case `"process_name"`:
		d.title(d.processNames, lex.Unquote(e.pid), e.args.name)
	case `"thread_name"`:
		d.key = append(append(append(d.key[:0], lex.Unquote(e.pid)...), 0), lex.Unquote(e.tid)...)
		d.title(d.threadNames, d.key, e.args.name)
	}
	d.note(trace.Noted, "metadata: names and order of rows", e.pos)
}

// title sets a name, without allocating if it is unchanged.
func (d *reader) title(names map[string]string, key, raw []byte) {
	if name := lex.Text(raw, &d.str); names[string(key)] != string(name) {
		names[string(key)] = lex.ValidUTF8(name)
	}
}
