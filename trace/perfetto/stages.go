package perfetto

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// stages is the work of GPUs that is written as render stages, as PyTorch's CUPTI exporter does
// (torch/csrc/profiler/cuspy/cuspy_pftrace.cpp), and what is known of it only at the end.
type stages struct {
	all     []stage
	byID    map[uint64]int32
	calls   map[uint64]int64 // by id of a stage: correlation of the call that launched it
	invalid int64            // correlations that were made up, which are negative
}

// A stage is a render stage that became a span.
type stage struct {
	span   trace.SpanID
	marker bool
	id     uint64
	waits  []uint64 // ids of stages
	trace.Node
}

// A rawStage is the fields of a render stage.
type rawStage struct {
	stage
	duration, gpu, queue  uint64
	context, kind, kernel uint64
	name                  string
	launch                []byte
	extra                 map[string]string
}

// submitted stores what a call launched and returns its correlation, which is made up if the file
// has none.
func (s *stages) submitted(ids []uint64, correlation int64) int64 {
	if len(ids) == 0 {
		return correlation
	}
	if correlation == 0 {
		s.invalid--
		correlation = s.invalid
	}
	if s.calls == nil {
		s.calls = map[uint64]int64{}
	}
	for _, id := range ids {
		s.calls[id] = correlation
	}
	return correlation
}

// stage takes in a render stage: a kernel, a copy, a range above them, or an event of a graph.
func (d *reader) stage(s *sequence, p *packet, at int64) {
	d.raw, d.of = rawStage{extra: map[string]string{}}, s
	d.readStage(p.stage)
	g, name, kind, extra := d.raw.stage, d.raw.name, d.raw.kind, d.raw.extra
	start, ok := d.time(s, p, at)
	if !ok {
		return
	}
	if d.raw.duration > maxNanoseconds-uint64(start) {
		d.Builder.NoteKernel(trace.Skipped, d.Name, "a duration out of range", "byte", at)
		return
	}
	end := start + trace.Time(d.raw.duration)
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(extra[key], 10, 64)
		return n
	}
	stream, err := strconv.ParseInt(extra["stream id"], 10, 64) // the queue may be a row for display
	if err != nil {
		stream = int64(min(d.raw.queue, math.MaxInt64))
	}
	process := d.process(s.pids[d.raw.context])
	agent := d.Agent(process, "GPU "+strconv.Itoa(int(min(d.raw.gpu, math.MaxInt32))))
	label := d.Builder.Intern(cmp.Or(s.kernels[d.raw.kernel], name, s.kinds[kind]))
	what := s.kinds[kind]
	switch {
	case what == "Memcpy" || what == "Memset" || what == "" && strings.HasPrefix(name, "Mem"):
		c := assemble.Copy{
			Name: label, From: agent, To: trace.None, Dir: trace.Direction(name + extra["copy kind"]), Stream: stream,
			Correlation: number("correlation"), Bytes: number("bytes"), Start: start, End: end, OnQueue: true,
		}
		if strings.HasPrefix(cmp.Or(what, name), "Memset") {
			c.Dir = trace.Fill
		}
		d.AddCopy(process, &c)
	case what == "" || s.compute[kind] || d.raw.kernel != 0 || d.raw.launch != nil:
		k := assemble.Dispatch{Agent: agent, Queue: stream, Name: label, Start: start, End: end, Correlation: number("correlation"), Setup: trace.Setup{
			Stream: stream, Priority: int32(max(math.MinInt32, min(number("priority"), math.MaxInt32))),
		}}
		s.launch(&k.Setup, d.raw.launch)
		k.Comm = d.comm(extra)
		d.AddKernel(process, &k)
	default: // a range, an event that is recorded, a call of the host
		d.AddMark(process, agent, stream, label, start, end)
		g.marker = true
	}
	g.span = trace.SpanID(d.Builder.Len() - 1)
	g.Graph, g.Number = uint32(number("graph id")), uint32(number("graph node id"))
	d.stages.all = append(d.stages.all, g)
}

// launch reads grid, block and what a workgroup takes.
func (s *sequence) launch(k *trace.Setup, message []byte) {
	triple := func(message []byte) (t [3]int32) {
		for f := (lex.Field{Rest: message}); f.Next(); {
			if f.ID >= 1 && f.ID <= 3 {
				t[f.ID-1] = assemble.Narrow(int64(min(f.Number, math.MaxInt64)))
			}
		}
		return t
	}
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 1: // grid
			k.Grid = triple(f.Bytes)
		case 2: // block
			k.Block = triple(f.Bytes)
		case 3: // arg
			var name string
			var value int32
			for f := (lex.Field{Rest: f.Bytes}); f.Next(); {
				switch f.ID {
				case 1: // name ID
					name = s.arguments[f.Number]
				case 2: // name
					name = string(f.Bytes)
				case 3, 4: // int, uint
					value = assemble.Narrow(int64(min(f.Number, math.MaxInt64)))
				}
			}
			switch name {
			case "registers_per_thread":
				k.Registers = value
			case "shared_mem_dynamic", "shared_mem_static":
				k.Shared = assemble.Narrow(int64(k.Shared) + int64(value))
			}
		}
	}
}

// comm is the collective that the arguments of a kernel state, or nil.
func (d *reader) comm(extra map[string]string) *trace.Comm {
	if extra["Collective name"] == "" {
		return nil
	}
	c, g := assemble.Collective(func(key string) string { return extra[key] })
	c.In = assemble.Elements([]byte(extra["In msg nelems"])) * int64(c.ElemSize)
	c.Out = assemble.Elements([]byte(extra["Out msg nelems"])) * int64(c.ElemSize)
	if g.Size > 0 {
		c.Group = d.Builder.AddGroup(g)
	}
	return &c
}

// joinStages joins the stages with the calls that launched them, and with what they waited for.
func (d *reader) joinStages() {
	t := &d.stages
	t.byID = make(map[uint64]int32, len(t.all))
	var graph assemble.Graph
	for i, g := range t.all {
		t.byID[g.id] = int32(i)
		graph.Add(g.span, g.marker)
		s := d.Builder.Span(g.span)
		switch {
		case s.Kind == trace.Copy:
			c := &d.Builder.Run.Copies[s.Attr]
			c.Correlation = cmp.Or(c.Correlation, t.calls[g.id])
		case !g.marker:
			k := &d.Builder.Run.Kernels[s.Attr]
			k.Correlation = cmp.Or(k.Correlation, t.calls[g.id])
		}
		if g.Number != 0 && !g.marker {
			g.Span = g.span
			d.Builder.Run.Nodes = append(d.Builder.Run.Nodes, g.Node)
		}
	}
	for i, g := range t.all {
		for _, id := range g.waits {
			if from, ok := t.byID[id]; ok && from != int32(i) {
				graph.Depend(int32(i), from)
			}
		}
	}
	graph.State(&d.Builder)
}
