package trace

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
)

// A Builder collects spans in any order and finishes them into a Run. The zero value is
// ready to use. Times passed to it are nanoseconds of one clock; Finish makes them
// relative to the first span.
type Builder struct {
	// Read, if not nil, returns the part of the input that has been read, from 0 to 1: tables grow to
	// the size that they will have at its end.
	Read func() float64

	// Run is the run so far. Rows of its tables may be read, changed and appended.
	Run Run

	names map[string]NameID
	lanes map[Lane]LaneID

	groups map[string]int32
	setups map[Setup]int32 // their numbers
	linked bool            // Link was called
	drops  bool            // there are spans of kind dropped

	order []SpanID // of all spans by start, or nil; see byStart

	entries map[entryKey]int32 // of the ledger
	noted   []notedSpan
}

type entryKey struct {
	action       Action
	file, reason string
}

// A notedSpan is a span and the entry of the ledger about it.
type notedSpan struct {
	span  SpanID
	entry int32
}

// fewRows is a table whose size says little about that at the end; many are so large that the one
// before is worth a collection.
const fewRows, manyRows = 1 << 10, 1 << 20

// Append appends to a table of the builder's input. It makes a full one as large as it will be
// at the end of the input, or doubles it if that is unknown. append itself grows large slices by
// only a quarter, which copies each element five times.
func Append[T any](b *Builder, s []T, v T) []T {
	if n := len(s); n == cap(s) {
		more := max(n, 1)
		if n >= fewRows && b.Read != nil {
			if part := b.Read(); part > 0 {
				more = min(max(int(float64(n)*(1.03/part-1)), n/4), 4*n)
			}
		}
		if n >= manyRows {
			runtime.GC()
		}
		s = append(make([]T, 0, n+more), s...) // slices.Grow rounds up, and touches all of it
	}
	return append(s, v)
}

// Intern returns the id of a name.
func (b *Builder) Intern(s string) NameID {
	b.init()
	return Memo(b.names, s, func() NameID { return NameID(Push(&b.Run.Names, s)) })
}

func (b *Builder) init() {
	if b.names == nil {
		b.setups = map[Setup]int32{}
		b.names = map[string]NameID{"": 0}
		b.lanes = map[Lane]LaneID{}
		b.groups = map[string]int32{}
		b.entries = map[entryKey]int32{}
		b.Run.Names = []string{""}
	}
}

// AddRank appends a rank and returns its row.
func (b *Builder) AddRank(r Rank) int32 {
	b.Run.Ranks = append(b.Run.Ranks, r)
	return int32(len(b.Run.Ranks) - 1)
}

// Lane returns the id of the lane, adding it if it is new. Peer must be None unless the
// lane is a link.
func (b *Builder) Lane(l Lane) LaneID {
	b.init()
	name := l.Name
	l.Name = "" // the name is no part of a lane's identity
	id := Memo(b.lanes, l, func() LaneID { return LaneID(Push(&b.Run.Lanes, l)) })
	if name != "" {
		b.Run.Lanes[id].Name = name
	}
	return id
}

// LaneOf is the inverse of Lane, including the lane's name.
func (b *Builder) LaneOf(id LaneID) Lane { return b.Run.Lanes[id] }

// Add appends a span and returns its provisional id, valid as a Parent until Finish.
func (b *Builder) Add(s Span) SpanID {
	b.Run.Spans = Append(b, b.Run.Spans, s)
	return SpanID(len(b.Run.Spans) - 1)
}

// Span gives access to a span already added.
func (b *Builder) Span(id SpanID) *Span { return &b.Run.Spans[id] }

// Len is the number of spans added so far.
func (b *Builder) Len() int { return len(b.Run.Spans) }

func addRow[T any](b *Builder, table *[]T, row T) int32 {
	*table = Append(b, *table, row)
	return int32(len(*table) - 1)
}

// AddSetup returns the number of a setup, for Kernel.Setup.
func (b *Builder) AddSetup(s Setup) int32 {
	if s == (Setup{}) {
		return 0
	}
	b.init()
	return Memo(b.setups, s, func() int32 { return Push(&b.Run.Setups, s) + 1 })
}

// AddKernel and the other Add methods append a row to a side table and return its index.
func (b *Builder) AddKernel(k Kernel) int32 { return addRow(b, &b.Run.Kernels, k) }

// NameOf is the inverse of Intern.
func (b *Builder) NameOf(id NameID) string { return b.Run.Names[id] }

// AddComm appends a row; see AddKernel.
func (b *Builder) AddComm(c Comm) int32 {
	c.Collective = None
	return addRow(b, &b.Run.Comms, c)
}

// AddCopy appends a row; see AddKernel.
func (b *Builder) AddCopy(c CopyAttr) int32 { return addRow(b, &b.Run.Copies, c) }

// AddWorkgroup appends a row; see AddKernel.
func (b *Builder) AddWorkgroup(w WorkgroupAttr) int32 { return addRow(b, &b.Run.Workgroups, w) }

// AddCall appends a row; see AddKernel.
func (b *Builder) AddCall(c Call) int32 { return addRow(b, &b.Run.Calls, c) }

// AddOperator appends a row; see AddKernel.
func (b *Builder) AddOperator(o Operator) int32 { return addRow(b, &b.Run.Operators, o) }

// AddWait appends a dependency, in the builder's time.
func (b *Builder) AddWait(w Wait) { b.Run.Waits = append(b.Run.Waits, w) }

// AddGroup returns the row of the group with this name, ranks and size, adding it if new.
func (b *Builder) AddGroup(g Group) int32 {
	b.init()
	key := fmt.Sprint(len(g.Name), g.Name, g.Size, g.Ranks == nil, g.Ranks)
	return Memo(b.groups, key, func() int32 { return Push(&b.Run.Groups, g) })
}

// Nest sets the parent of every span on a host thread or annotation lane to the
// innermost span of that lane that contains it. Call it when all spans are added and
// have their lanes.
func (b *Builder) Nest() {
	open := make([][]SpanID, len(b.Run.Lanes))
	b.eachStart(onHost, func(same []SpanID) {
		slices.SortStableFunc(same, func(x, y SpanID) int { return cmp.Compare(b.Span(y).End, b.Span(x).End) })
		for _, id := range same {
			s := b.Span(id)
			around := open[s.Lane]
			for len(around) > 0 {
				top := b.Span(around[len(around)-1])
				if top.End >= s.End && (top.End > s.Start || top.Start == s.Start) {
					s.Parent = around[len(around)-1]
					break
				}
				around = around[:len(around)-1]
			}
			open[s.Lane] = append(around, id)
		}
	})
}

func onHost(k Kind) bool { return k <= Launch }

// Note adds an event to the run's ledger.
func (b *Builder) Note(a Action, file, reason, unit string, pos int64) {
	b.note(a, file, reason, unit, pos)
}

// NoteKernel is Note for an event that is or would be a kernel or copy: see Run.Damage.
func (b *Builder) NoteKernel(a Action, file, reason, unit string, pos int64) {
	b.Run.Ledger.Entries[b.note(a, file, reason, unit, pos)].Kernels++
}

// NoteSpan is Note for an event that is a span, which may be added later. It counts as a
// kernel if it is one when the run is finished; several notes of one span count once.
func (b *Builder) NoteSpan(id SpanID, a Action, file, reason, unit string, pos int64) {
	entry := b.note(a, file, reason, unit, pos)
	if n := len(b.noted); n == 0 || b.noted[n-1].span != id {
		b.noted = append(b.noted, notedSpan{id, entry})
	}
}

// note returns the index of the entry.
func (b *Builder) note(a Action, file, reason, unit string, pos int64) int32 {
	b.init()
	l := &b.Run.Ledger
	i := Memo(b.entries, entryKey{a, file, reason}, func() int32 {
		return Push(&l.Entries, Entry{Action: a, File: file, Reason: reason, Unit: unit})
	})
	l.Entries[i].add(pos)
	return i
}

// countNoted counts the kernels and copies among the noted spans.
func (b *Builder) countNoted() {
	for _, n := range b.noted {
		if int(n.span) < b.Len() && b.Span(n.span).Kind.OnDevice() {
			b.Run.Ledger.Entries[n.entry].Kernels++
		}
	}
	b.noted = nil
}

// Options of Finish.
type Options struct {
	Name      string
	Epoch     int64 // nanoseconds since 1970 of clock value 0; 0 where unknown
	HostClock bool  // times are readings of the machine's clock since it started: see Run.Clock
	Simulated bool
	Estimated string // see Run.Estimated
	KeepZero  bool   // do not shift times so that the first span starts at 0
	Linked    bool   // the launches of all work are set
	Unmatched bool   // leave collectives to MatchCollectives: other files have more ranks
}

// Finish links calls with the work that they launched, sorts, checks and shifts the
// spans, matches collectives, and returns the run. The builder must not be used
// afterwards. A span with an end before its start is a caller's bug and panics: readers
// repair such spans and call Note.
func (b *Builder) Finish(o Options) *Run {
	b.init()
	if !b.linked && !o.Linked {
		b.Link()
	}
	b.countNoted()
	r := &b.Run
	if b.drops {
		b.removeDropped()
	}
	r.Name, r.Epoch, r.Simulated, r.Estimated = o.Name, o.Epoch, o.Simulated, o.Estimated
	if len(r.Spans) > 0 && !o.KeepZero {
		first := r.Spans[0].Start
		for _, s := range r.Spans {
			first = min(first, s.Start)
		}
		for i := range r.Spans {
			r.Spans[i].Start -= first
			r.Spans[i].End -= first
		}
		for i := range r.Ranks {
			for k := range r.Ranks[i].Memory {
				r.Ranks[i].Memory[k].At -= first
			}
		}
		for i := range r.Waits {
			r.Waits[i].Start -= first
			r.Waits[i].End -= first
		}
		if r.Epoch != 0 {
			r.Epoch += int64(first)
		}
		if o.HostClock {
			r.Clock = int64(first)
		}
	}
	for i, s := range r.Spans {
		if s.End < s.Start {
			panic(fmt.Sprintf("trace: span %d %q ends %d before it starts", i, r.Names[s.Name], s.Start-s.End))
		}
		r.End = max(r.End, s.End)
	}
	r.sortNodes()
	b.sort()
	if b.subLanes() {
		b.sort() // by the new lanes
	}
	if !o.Unmatched {
		r.MatchCollectives()
	}
	r.Ledger.Sort()
	done := *r
	*b = Builder{} // frees what the run does not need
	return &done
}
