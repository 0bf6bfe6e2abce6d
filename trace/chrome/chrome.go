// Package chrome reads and writes Chrome trace events, and reads the dialect
// that PyTorch's Kineto writes.
//
// A file is decoded in one pass, event by event, in a window of fixed size:
//
//	bytes ── window ──▶ event (raw values) ──▶ spans with provisional tracks ── finish ──▶ trace.Run
//
// Thread names, the rank, the time base and links between events may be anywhere in a
// file. finish resolves them at the end: first the pairs of B and E, then ranks and
// lanes, then the calls that launched kernels, then the collectives.
//
//	chrome.go, header.go      the file; event.go, an event
//	reader.go, rows.go        spans and side rows of events; track.go, where they are; xla.go, events of XLA's
//	finish.go                 resolves what is left, in this order:
//	pair.go, arrow.go         B and E, and flows; graph.go, arrows between nodes of graphs
//	companion.go, uses.go     what an execution trace knows
//	link.go, collective.go    operators and calls behind kernels, and collectives
//	write.go, writeargs.go    writes; native.go reads that; kineto.go writes as Kineto does
package chrome

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// defaultLimit is the maximum number of bytes of JSON, so that a small archive cannot
// fill the memory.
const defaultLimit = 8 << 30

// Options of Read. The zero value is ready to use.
type Options struct {
	File  string // name of the input in errors and the ledger; the rank may be read from it
	Limit int64  // maximum bytes of JSON; 0: defaultLimit

	Unmatched bool // see trace.Options.Unmatched

	Events *atomic.Int64  // if not nil: events read are added while Read works
	Part   func() float64 // if not nil: the part of the file that r has given, from 0 to 1

	// Kernel, if not nil, is called for every kernel, in the order of the file.
	Kernel func(Timing)

	// Companion, if not nil, returns the execution trace of a rank, which may be
	// trace.None, or of a process of the file; or nil if there is none.
	Companion func(rank int, hasProcess func(pid int64) bool) *assemble.Execution
}

// A Timing is a kernel of a file, and where the file has its duration.
type Timing struct {
	Name        string
	Correlation int64
	Start, Dur  trace.Time // by the file's clock
	At          int64      // position of the text of the duration
	Len         int        // bytes of this text
}

// Read reads one uncompressed trace. An error is a *trace.SyntaxError or, if r fails,
// wraps the error of r.
func Read(r io.Reader, o Options) (*trace.Run, error) {
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	d := newReader(o)
	d.Builder.Read = o.Part
	d.w = lex.New(r, o.File, o.Limit)
	err := d.documents()
	d.count(d.events % countEvery)
	if err != nil {
		return nil, err
	}
	if d.native != nil {
		return d.finishNative(), nil
	}
	if d.xla != nil {
		return d.finishXLA()
	}
	return d.finish(), nil
}

// documents reads the file: one array or object, or several of them one after another.
func (d *reader) documents() error {
	c, ok := d.w.Peek()
	if ok && c == 0xEF && len(d.w.B) >= 3 && string(d.w.B[:3]) == "\xEF\xBB\xBF" {
		d.w.Pos += 3 // a byte order mark
		c, ok = d.w.Peek()
	}
	switch {
	case !ok && d.w.Err != io.EOF:
		return d.w.Ended("cannot read")
	case !ok:
		return d.whole("the file is empty", "was the profiler stopped before it wrote?")
	case c == '<':
		return d.whole("this is a web page, not a trace", "download the raw file instead of the web page")
	case c != '{' && c != '[':
		found := lex.Quote(string(d.w.B[d.w.Pos:min(len(d.w.B), d.w.Pos+12)]))
		return d.w.Syntax(d.w.Pos, "a Chrome trace starts with { or [, not with "+found,
			"give a trace of PyTorch's profiler or any Chrome trace", nil)
	}
	for ; ok; c, ok = d.w.Peek() {
		var err error
		switch c {
		case '[':
			err = d.list()
		case '{':
			err = d.object()
		default:
			err = d.w.Unexpected(d.w.Pos)
		}
		if err != nil {
			return err
		}
	}
	if d.w.Err != io.EOF {
		return d.w.Ended("read failed")
	}
	if !d.sawEvents {
		return &trace.SyntaxError{
			File: d.o.File,
			Msg:  "keys " + cmp.Or(strings.Join(d.keys, ", "), "none"),
			Cure: "give a trace of PyTorch's profiler or any Chrome trace",
			Err:  trace.NoTrace("no traceEvents"),
		}
	}
	return nil
}

// whole returns an error about the file as a whole.
func (d *reader) whole(msg, cure string) error {
	return &trace.SyntaxError{File: d.o.File, Msg: msg, Cure: cure}
}

// list reads an array of events, whose opening bracket is next. The end may be
// missing: a crashed program cannot write it.
func (d *reader) list() error {
	d.sawEvents = true
	d.w.Pos++
	for {
		c, ok := d.w.Peek()
		switch {
		case !ok && d.w.Err == io.EOF:
			d.note(trace.Noted, "the list of events has no end: the program may have died", d.w.At(d.w.Pos))
			return nil
		case !ok:
			return d.w.Ended("read failed")
		case c == ']':
			d.w.Pos++
			return nil
		case c == '{':
			if err := d.one(); err != nil {
				return err
			}
		default:
			d.note(trace.Skipped, "not an event", d.w.At(d.w.Pos))
			if err := d.w.Skip(); err != nil {
				return err
			}
		}
		if c, ok = d.w.Peek(); ok && c == ',' {
			d.w.Pos++
		} else if ok && c != ']' {
			return d.w.Unexpected(d.w.Pos)
		}
	}
}

// countEvery is how many events are counted at once: other files may be read at the same time.
const countEvery = 1024

func (d *reader) count(events int64) {
	if d.o.Events != nil {
		d.o.Events.Add(events)
	}
}

// one reads the event whose opening bracket is next.
func (d *reader) one() error {
	for {
		j := d.e.decode(d.w.B, d.w.Pos)
		if j >= 0 {
			d.e.pos = d.w.At(d.w.Pos)
			d.w.Pos = j
			if d.events++; d.events%countEvery == 0 {
				d.count(countEvery)
			}
			return d.event(&d.e)
		}
		if j != lex.Short {
			return d.w.Unexpected(lex.BadAt(j))
		}
		if !d.w.More() {
			return d.w.Ended("the file ends inside an event")
		}
	}
}

// object reads a top-level object, whose opening bracket is next: a trace, or an event
// in files with one object per line.
func (d *reader) object() error {
	if key := d.firstKey(); isEventKey(key) {
		if len(d.keys) == 0 {
			d.keys = append(d.keys, string(key))
		}
		err := d.one()
		d.sawEvents = d.sawEvents || d.e.ph != 0
		return err
	}
	d.w.Pos++
	for {
		key, err := d.w.Key()
		if err != nil || key == nil {
			return err
		}
		if len(d.keys) < 8 {
			d.keys = append(d.keys, lex.Quote(d.string(key)))
		}
		if err := d.member(d.string(key)); err != nil {
			return err
		}
		switch c, ok := d.w.Peek(); {
		case !ok && d.w.Err == io.EOF && d.sawEvents:
			return nil // the list of events has no end either, and that is noted
		case !ok:
			return d.w.Ended("the file ends inside an object")
		case c == ',':
			d.w.Pos++
		case c != '}':
			return d.w.Unexpected(d.w.Pos)
		}
	}
}

// firstKey returns the first key, with its quotes, of the object whose opening bracket is next, or nil.
func (d *reader) firstKey() []byte {
	for {
		key, j := lex.NextKey(d.w.B, d.w.Pos+1)
		if j != lex.Short || !d.w.More() {
			return key
		}
	}
}

// isEventKey reports whether an object that begins with the key may be an event.
func isEventKey(key []byte) bool {
	return slices.Contains([]string{`"ph"`, `"name"`, `"cat"`, `"pid"`, `"tid"`, `"ts"`}, string(key))
}

// member reads one value of a top-level object.
func (d *reader) member(key string) error {
	c, ok := d.w.Peek()
	if !ok {
		return d.w.Ended("the file ends inside an object")
	}
	set := d.header.members()[key]
	switch {
	case key == "traceEvents" && c == '[':
		return d.list()
	case key == "traceEvents" && c == '{': // some files nest the object form in itself
		return d.object()
	case key != "overlapse" && set == nil:
		return d.w.Skip()
	}
	v, err := d.w.Value()
	if err != nil {
		return err
	}
	if key == "overlapse" {
		if err := d.setOwn(v); err != nil {
			return d.w.Syntax(d.w.Pos, "the header that overlapse wrote", "write it again with this version", err)
		}
		return nil
	}
	if !set(v) {
		d.note(trace.Skipped, key+" is not as expected", d.w.At(d.w.Pos))
	}
	return nil
}
