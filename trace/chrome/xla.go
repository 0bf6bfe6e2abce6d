package chrome

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// ofXLA reports whether the events are those of XLA's profiler (JAX), which names processes after devices before any event.
func (d *reader) ofXLA() bool {
	if d.xla == nil && d.Builder.Len() == 0 {
		for _, name := range d.processNames {
			if strings.HasPrefix(name, "/device:GPU:") {
				d.xla = &assemble.XLA{Session: d.Session}
				break
			}
		}
	}
	return d.xla != nil
}

// addXLA adds an event of XLA's profiler: processes are planes, threads their lines.
func (d *reader) addXLA(e *event, start, end trace.Time) {
	x := assemble.XLAEvent{Name: d.Builder.NameOf(d.name(e.name)), Start: start, End: end, At: e.pos}
	d.key = append(append(append(d.key[:0], lex.Unquote(e.pid)...), 0), lex.Unquote(e.tid)...)
	x.Plane, x.Line = d.processNames[string(lex.Unquote(e.pid))], d.threadNames[string(d.key)]
	x.Thread, _ = lex.Integer(e.tid)
	membersOf(e.rawArgs, func(key, value []byte) { x.Stats = append(x.Stats, [2]string{d.string(key), d.string(value)}) })
	d.xla.Add(x)
}

// finishXLA returns the run of a profile of XLA's.
func (d *reader) finishXLA() (*trace.Run, error) {
	if run := d.xla.Finish(); run != nil {
		return run, nil
	}
	return nil, d.whole("no stream of a GPU has an event", "profile a program on GPUs")
}
