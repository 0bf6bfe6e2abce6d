package trace

import (
	"cmp"
	"fmt"
	"slices"
)

// Action says what a reader did with an input event that did not become an unchanged
// span.
type Action uint8

// The actions.
const (
	Skipped  Action = iota // it did not become a span
	Repaired               // it became a span with changed values
	Noted                  // information about the input; nothing was changed
)

func (a Action) String() string {
	return [...]string{"skipped", "repaired", "noted"}[a]
}

// A Ledger records every input event that did not become an unchanged span.
// Nothing is dropped or changed silently.
type Ledger struct {
	Entries []Entry // by file, then reason
}

// An Entry is one reason in one file.
type Entry struct {
	Action    Action
	File      string
	Reason    string  // "negative duration", "counter"
	Count     int     // events it applied to
	Kernels   int     // of these, kernels and copies on devices
	Positions []int64 // byte offset or line of the first few
	Unit      string  // what Positions count: "byte", "line", "row"
}

// EndsEarly is the reason of an Entry for a span that ended before it started.
const EndsEarly = "ends before it starts: clamped to zero duration"

// WholeGraph is a part of the reason of an Entry for kernels of a graph that the profiler recorded only as a whole.
const WholeGraph = "a whole CUDA graph"

// GraphName begins the name of a kernel that stands for a whole CUDA graph, before the number of the graph.
const GraphName = "CUDA graph "

// maxPositions is the number of positions an Entry keeps; Count is always exact.
const maxPositions = 1000

// Add counts one event. It is for single notes about a finished run: Builder.Note does not
// search.
func (l *Ledger) Add(a Action, file, reason, unit string, pos int64) {
	for i := range l.Entries {
		if e := &l.Entries[i]; e.Action == a && e.Reason == reason && e.File == file {
			e.add(pos)
			return
		}
	}
	l.Entries = append(l.Entries, Entry{Action: a, File: file, Reason: reason, Count: 1, Positions: []int64{pos}, Unit: unit})
}

func (e *Entry) add(pos int64) {
	e.Count++
	if len(e.Positions) < maxPositions {
		e.Positions = append(e.Positions, pos)
	}
}

// Count is the number of events with the action.
func (l *Ledger) Count(a Action) int {
	n := 0
	for _, e := range l.Entries {
		if e.Action == a {
			n += e.Count
		}
	}
	return n
}

// Sort sorts the entries by file, action and reason.
func (l *Ledger) Sort() {
	slices.SortFunc(l.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Reason, b.Reason))
	})
}

// A SyntaxError is the position and cause of input that cannot be read.
type SyntaxError struct {
	File string
	Pos  int64
	Unit string // "byte", "line", "row"; "" if the position is the whole file
	Col  int64  // column of the line Pos, from 1; 0 if it is not known
	Msg  string // the error, with the value
	Cure string // what the user can do; may be ""
	Err  error  // cause; may be nil
}

func (e *SyntaxError) Error() string {
	s := e.File
	switch {
	case e.Col > 0:
		s += fmt.Sprintf(":%d:%d", e.Pos, e.Col)
	case e.Unit != "":
		s += fmt.Sprintf(":%s %d", e.Unit, e.Pos)
	}
	s += ": " + e.Msg
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Cure != "" {
		s += " (" + e.Cure + ")"
	}
	return s
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// NoTrace is the cause of an error about a file that has nothing of a timeline, or is of no known format.
type NoTrace string

func (e NoTrace) Error() string { return string(e) }
