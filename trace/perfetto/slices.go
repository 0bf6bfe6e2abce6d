package perfetto

import (
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// notes are the debug annotations of rocprofv3's slices that a run keeps.
type notes struct {
	correlation, queue, stream int64
	lds, vgprs, accumVGPRs     int64
	workgroup, grid, bytes     int64
	agent, from, to, operation string
	external                   int64  // of PyTorch's operators, as are dims and types
	dims, types                string // lists in JSON
}

// annotate takes in an annotation of the event.
func (d *reader) annotate(message []byte) {
	n, s := &d.e.notes, d.of
	var key, text string
	var number int64
	whole := message
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 1:
			key = s.keys[f.Number]
		case 10:
			key = string(f.Bytes)
		case 2, 3, 4, 7:
			number = int64(f.Number)
		case 6:
			text = string(f.Bytes)
		case 17:
			text = s.values[f.Number]
		}
	}
	if text != "" {
		if v, err := strconv.ParseInt(text, 0, 64); err == nil {
			number = v
		}
	}
	key = strings.ToLower(key)
	if to := d.annotations[key]; to != nil {
		*to = number
		return
	}
	switch key {
	case "input dims":
		n.dims = string(appendJSON(nil, s, whole, 0))
	case "input type":
		n.types = string(appendJSON(nil, s, whole, 0))
	case "agent":
		n.agent = word(text, number)
	case "src_agent":
		n.from = word(text, number)
	case "dst_agent":
		n.to = word(text, number)
	case "operation":
		n.operation = text
	}
}

// appendJSON appends the value of an annotation in JSON.
func appendJSON(b []byte, s *sequence, message []byte, depth int) []byte {
	const deep = 8
	before, list := len(b), false
	for f := (lex.Field{Rest: message}); f.Next() && depth < deep; {
		switch f.ID {
		case 2, 3, 4:
			return strconv.AppendInt(b, int64(f.Number), 10)
		case 6:
			return lex.AppendString(b, string(f.Bytes))
		case 17:
			return lex.AppendString(b, s.values[f.Number])
		case 12:
			if !list {
				b = append(b, '[')
			} else {
				b = append(b, ',')
			}
			list = true
			b = appendJSON(b, s, f.Bytes, depth+1)
		}
	}
	if !list {
		return append(b[:before], "[]"...)
	}
	return append(b, ']')
}

// word is a value that some versions write as a number.
func word(text string, number int64) string {
	if text == "" {
		return strconv.FormatInt(number, 10)
	}
	return text
}

// add adds a slice to the session as what its category says it is.
func (d *reader) add(uuid uint64, s *slice, end trace.Time) {
	t := trace.Memo(d.tracks, uuid, func() *track { return &track{number: int64(trace.Push(&d.order, uuid))} })
	process := d.process(d.pid(t))
	name := d.Builder.Intern(s.name)
	d.Record.At = s.at
	switch category := s.category; category {
	case "kernel_dispatch":
		d.AddKernel(process, d.kernel(process, name, s, end))
	case "memory_copy":
		c := assemble.Copy{
			Name: name, From: d.agent(process, s.notes.from), To: d.agent(process, s.notes.to),
			Dir:    trace.Direction(s.name + s.notes.operation),
			Stream: s.notes.stream, Correlation: s.notes.correlation, Bytes: s.notes.bytes, Start: s.start, End: end,
		}
		d.AddCopy(process, &c)
	default:
		c := assemble.Call{
			Name: name, Thread: t.tid, Correlation: s.notes.correlation,
			External: s.notes.external, Start: s.start, End: end,
		}
		c.Collective = category == "rccl_api"
		c.Marker = category == "marker_api" || !strings.HasSuffix(category, "_api")
		switch category { // of PyTorch
		case "cpu_op":
			c.Marker, c.Op = false, d.operator(s)
		case "cuda_runtime", "cuda_driver":
			c.Marker = false
			c.Correlation = d.stages.submitted(s.submits, c.Correlation)
		}
		if !t.thread {
			c.Thread, c.ThreadName = t.number, t.name
		}
		d.AddCall(process, &c)
	}
}

// operator is the number of the operator with a slice's name and inputs; 0 without inputs.
func (d *reader) operator(s *slice) int32 {
	if s.notes.dims == "" {
		return 0
	}
	key := s.name + "\x00" + s.notes.dims + s.notes.types
	return trace.Memo(d.operators, key, func() int32 {
		return d.Builder.AddOperator(assemble.OperatorOf(s.name, []byte(s.notes.dims), []byte(s.notes.types), nil)) + 1
	})
}

func (d *reader) kernel(process int32, name trace.NameID, s *slice, end trace.Time) *assemble.Dispatch {
	n := &s.notes
	k := assemble.Dispatch{
		Agent: d.agent(process, n.agent), Queue: n.queue, Name: name, Start: s.start, End: end,
		Correlation: n.correlation,
		Setup:       trace.Setup{Stream: n.stream, Shared: assemble.Narrow(n.lds), Registers: assemble.Narrow(n.vgprs + n.accumVGPRs)},
	}
	if k.Agent == trace.None {
		k.Agent = d.Agent(process, "GPU")
	}
	if n.grid > 0 && n.workgroup > 0 {
		k.Grid = [3]int32{assemble.Narrow((n.grid-1)/n.workgroup + 1), 1, 1}
		k.Block = [3]int32{assemble.Narrow(n.workgroup), 1, 1}
	}
	return &k
}

// agent returns the agent of a name, or trace.None for none.
func (d *reader) agent(process int32, name string) int32 {
	if name == "" {
		return trace.None
	}
	return d.Agent(process, "Agent "+name)
}

// process is the row of a process.
func (d *reader) process(pid int64) int32 {
	return d.Process(strconv.FormatInt(pid, 10), pid, d.Name)
}

// pid is the process of a track, which one of its ancestors may name.
func (d *reader) pid(t *track) int64 {
	const deep = 32
	for range deep {
		if t.thread || t.process {
			return t.pid
		}
		parent := d.tracks[t.parent]
		if parent == nil {
			return 0
		}
		t = parent
	}
	return 0
}
