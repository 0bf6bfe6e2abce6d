// Package perfetto reads Perfetto's protobuf traces (.pftrace,
// .perfetto-trace): those of rocprofv3, whose slices become kernels, copies and
// calls, those of PyTorch, whose render stages of GPUs do, and any other, whose slices become
// markers on the tracks they have.
//
//	bytes ── packets ──▶ interned names, tracks, clocks ──▶ begin and end ──▶ slices ──▶ session ──▶ trace.Run
//	                                                    └──────────────────▶ stages ──┘
//
// Numbers of fields are those of protos/perfetto/trace; the name of each stands beside it.
package perfetto

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"io"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// noSlices is the cause of an error about a trace without anything of a timeline.
const noSlices = trace.NoTrace("no slices")

const (
	maxPacket   = 256 << 20 // bytes of a packet; Perfetto's own are under 1 MiB
	packetField = 1         // the one field of a trace: a packet
)

// Read reads a trace. Times are nanoseconds of the machine's boot time, or
// whatever clock the trace was written with.
//
// Events become slices. Others, such as counters, are counted in the ledger. Grids of rocprofv3 are in work-items and
// have one number for all
// three axes.
//
// Packets may be compressed in packets: bound returns the reader of what those
// of a size inflate to, which may fail where that is too much.
func Read(r io.Reader, file string, bound func(r io.Reader, size int) io.Reader) (*trace.Run, error) {
	d := &reader{
		Session: assemble.New(file), bound: bound, clocks: clocks{}, sequences: map[uint64]*sequence{},
		tracks: map[uint64]*track{}, open: map[uint64][]slice{}, operators: map[string]int32{},
	}
	d.setFields()
	if err := lex.Messages(r, file, "packet", maxPacket, packetField, d.packet); err != nil {
		return nil, err
	}
	d.closeAll()
	d.joinStages()
	if d.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{
			File: file, Msg: "nothing to show", Err: noSlices,
			Cure: "record track events or render stages: with rocprofv3, --kernel-trace or --sys-trace",
		}
	}
	return d.Finish(0), nil
}

type reader struct {
	*assemble.Session
	bound     func(r io.Reader, size int) io.Reader
	clocks    clocks
	sequences map[uint64]*sequence
	tracks    map[uint64]*track
	order     []uint64           // of tracks, as they were described
	open      map[uint64][]slice // by track: begun and not ended
	stages    stages
	operators map[string]int32 // numbers of rows of the builder's, from 1
	last      trace.Time
	depth     int // of compressed packets in each other
	inHand
}

// An inHand is the packet in hand, its event or render stage, and what reads their fields.
type inHand struct {
	now         packet
	e           slice
	of          *sequence
	kind, uuid  uint64
	raw         rawStage
	annotations map[string]*int64 // where the numbers of the event go

	readPacket, readEvent, readStage func(message []byte) (whole bool)
}

// A sequence is a writer of packets, which interns its strings.
type sequence struct {
	events, categories, keys, values map[uint64]string
	kinds, kernels, arguments        map[uint64]string // of stages and queues, kernels, arguments of launches
	compute                          map[uint64]bool   // kinds of stages that are kernels
	pids                             map[uint64]int64  // by context
	clock                            uint64            // of timestamps that name none; 0: boot time
	track                            uint64            // of events that name none
}

// A track is where events happen: a thread, or what the writer made up.
type track struct {
	name     string
	parent   uint64
	pid, tid int64
	thread   bool
	process  bool
	number   int64 // in order of description
}

// A slice is an event that has begun.
type slice struct {
	name     string
	category string
	start    trace.Time
	notes    notes
	submits  []uint64 // stages of a GPU that it launched
	at       int64    // in the file
}

func (d *reader) sequence(id uint64) *sequence {
	return trace.Memo(d.sequences, id, func() *sequence {
		s := &sequence{}
		s.clear()
		return s
	})
}

func (s *sequence) clear() {
	for _, table := range []*map[uint64]string{&s.events, &s.categories, &s.keys, &s.values, &s.kinds, &s.kernels, &s.arguments} {
		*table = map[uint64]string{}
	}
	s.compute, s.pids = map[uint64]bool{}, map[uint64]int64{}
}

// A packet is what its fields say, gathered before any of it is acted on: the
// sequence that the others depend on may come last.
type packet struct {
	time, clock, sequence                             uint64
	hasTime, hasClock, cleared, dropped               bool
	event, interned, defaults, track, clocks, squeeze []byte
	stage                                             []byte
}

// setFields says where the fields of packets, events and render stages go.
func (d *reader) setFields() {
	p, n, r := &d.now, &d.e.notes, &d.raw
	d.readPacket = lex.Fields{
		6:  &p.clocks,                                                    // clock_snapshot
		8:  func(f lex.Field) { p.time, p.hasTime = f.Number, true },     // timestamp
		10: &p.sequence,                                                  // trusted_packet_sequence_id
		11: &p.event,                                                     // track_event
		12: &p.interned,                                                  // interned_data
		13: func(f lex.Field) { p.cleared = f.Number&1 != 0 },            // sequence_flags: bit 0 clears the state
		41: func(f lex.Field) { p.cleared = p.cleared || f.Number != 0 }, // incremental_state_cleared
		42: &p.dropped,                                                   // previous_packet_dropped
		50: &p.squeeze,                                                   // compressed_packets
		53: &p.stage,                                                     // gpu_render_stage_event
		58: func(f lex.Field) { p.clock, p.hasClock = f.Number, true },   // timestamp_clock_id
		59: &p.defaults,                                                  // trace_packet_defaults
		60: &p.track,                                                     // track_descriptor
	}.Often()
	d.readEvent = lex.Fields{
		3:    func(f lex.Field) { d.e.category = d.of.categories[f.Number] },  // category ID
		4:    func(f lex.Field) { d.annotate(f.Bytes) },                       // annotations
		9:    &d.kind,                                                         // type
		10:   func(f lex.Field) { d.e.name = d.of.events[f.Number] },          // name ID
		11:   &d.uuid,                                                         // track
		22:   &d.e.category,                                                   // category
		23:   &d.e.name,                                                       // name
		3000: func(f lex.Field) { lex.Fields{1: &d.e.submits}.Read(f.Bytes) }, // gpu_correlation: ids of stages that the event launched
	}.Often()
	d.annotations = map[string]*int64{
		"corr_id": &n.correlation, "correlation": &n.correlation, "external id": &n.external,
		"queue": &n.queue, "stream_id": &n.stream, "stream": &n.stream, "lds_block_size": &n.lds, "vgpr_count": &n.vgprs,
		"accum_vgpr_count": &n.accumVGPRs, "workgroup_size": &n.workgroup, "grid_size": &n.grid, "copy_bytes": &n.bytes,
	}
	d.readStage = lex.Fields{
		1: &r.id, 2: &r.duration, 5: &r.context, 11: &r.gpu, 13: &r.queue, 14: &r.kind,
		17: &r.name, 18: &r.waits, 19: &r.kernel, 21: &r.launch,
		6: func(f lex.Field) { // extra
			r.extra[string(lex.Last(f.Bytes, 1).Bytes)] = string(lex.Last(f.Bytes, 2).Bytes)
		},
		15: func(f lex.Field) { // a mask of subpasses, which has no bytes; some writers put the name there
			r.name = cmp.Or(r.name, string(f.Bytes))
		},
		20: func(f lex.Field) { r.name = d.of.events[f.Number] }, // name ID
	}.Often()
}

func (d *reader) packet(message []byte, at int64) error {
	d.now = packet{}
	p := &d.now
	if !d.readPacket(message) {
		return &trace.SyntaxError{
			File: d.Name, Pos: at, Unit: "byte", Msg: "a packet is not a protobuf message",
			Cure: "is this a Perfetto trace?",
		}
	}
	if p.squeeze != nil {
		return d.inflate(p.squeeze, at)
	}
	s := d.sequence(p.sequence)
	if p.cleared {
		s.clear()
	}
	if p.dropped {
		d.Builder.Note(trace.Noted, d.Name, "packets were dropped before: the recording buffer was full", "byte", at)
	}
	if p.clocks != nil {
		d.clocks.snapshot(p.sequence, p.clocks)
	}
	s.setDefaults(p.defaults)
	s.intern(p.interned)
	if p.track != nil {
		d.describe(p.track)
	}
	if p.event != nil {
		d.event(s, p, at)
	}
	if p.stage != nil {
		d.stage(s, p, at)
	}
	return nil
}

// inflate reads packets that are compressed in one.
func (d *reader) inflate(squeezed []byte, at int64) error {
	fail := func(msg string, err error) error {
		return &trace.SyntaxError{File: d.Name, Pos: at, Unit: "byte", Msg: msg, Err: err}
	}
	if d.depth > 0 {
		return fail("compressed packets in compressed packets", nil)
	}
	z, err := zlib.NewReader(bytes.NewReader(squeezed))
	if err != nil {
		return fail("compressed packets that cannot be decompressed", err)
	}
	d.depth++
	defer func() { d.depth-- }()
	return lex.Messages(d.bound(z, len(squeezed)), d.Name, "packet", maxPacket, packetField,
		func(p []byte, _ int64) error { return d.packet(p, at) })
}

func (s *sequence) setDefaults(message []byte) {
	if len(message) > 0 {
		event := func(f lex.Field) { lex.Fields{11: &s.track}.Read(f.Bytes) }
		lex.Fields{58: &s.clock, 11: event}.Read(message) // timestamp_clock_id, and track_event_defaults: track_uuid
	}
}

// intern takes in strings that later packets refer to by number.
func (s *sequence) intern(message []byte) {
	if len(message) == 0 {
		return // most packets have none
	}
	// Of InternedData: names of categories, events and annotations, strings; GPU specifications, kernels, arguments.
	tables := map[protowire.Number]map[uint64]string{
		1: s.categories, 2: s.events, 3: s.keys, 29: s.values, 24: s.kinds, 1000: s.kernels, 1001: s.arguments,
	}
	for f := (lex.Field{Rest: message}); f.Next(); {
		id, entry := lex.Last(f.Bytes, 1).Number, lex.Last(f.Bytes, 2) // iid, and name, string or pid
		text := string(entry.Bytes)
		const compute = 2
		switch f.ID {
		case 23: // graphics_contexts
			s.pids[id] = int64(int32(entry.Number))
		case 24: // gpu_specifications
			s.compute[id] = lex.Last(f.Bytes, 4).Number == compute // category
		case 1000: // names of kernels
			text = cmp.Or(string(lex.Last(f.Bytes, 3).Bytes), text) // demangled
		}
		if table := tables[f.ID]; table != nil {
			table[id] = text
		}
	}
}

// describe takes in the description of a track. It may come again, with more.
func (d *reader) describe(message []byte) {
	var uuid uint64
	var t track
	lex.Fields{
		1: &uuid, 5: &t.parent, 2: &t.name, 10: &t.name, // UUID, parent, name, static name
		3: func(f lex.Field) { // process: PID
			t.process = true
			lex.Fields{1: &t.pid}.Read(f.Bytes)
		},
		4: func(f lex.Field) { // thread: PID, TID, name
			t.thread = true
			var name string
			lex.Fields{1: &t.pid, 2: &t.tid, 5: &name}.Read(f.Bytes)
			t.name = cmp.Or(t.name, name)
		},
	}.Read(message)
	t.pid, t.tid = int64(int32(t.pid)), int64(int32(t.tid))
	if old := d.tracks[uuid]; old != nil {
		t.number = old.number
	} else {
		t.number = int64(len(d.order))
		d.order = append(d.order, uuid)
	}
	d.tracks[uuid] = &t
}

// Types of track events.
const (
	begin   = 1
	end     = 2
	instant = 3
)

// event takes in one event of a track.
func (d *reader) event(s *sequence, p *packet, at int64) {
	d.e, d.of, d.kind, d.uuid = slice{at: at}, s, 0, s.track
	d.readEvent(p.event)
	e, uuid := d.e, d.uuid
	var ok bool
	if e.start, ok = d.time(s, p, at); !ok {
		return
	}
	d.last = max(d.last, e.start)
	switch d.kind {
	case begin:
		d.open[uuid] = append(d.open[uuid], e)
	case end:
		stack := d.open[uuid]
		if len(stack) == 0 {
			d.Builder.Note(trace.Skipped, d.Name, "an end without a beginning", "byte", at)
			return
		}
		first := stack[len(stack)-1]
		d.open[uuid] = stack[:len(stack)-1]
		if first.notes == (notes{}) { // they stand at the end
			first.notes = e.notes
		}
		d.add(uuid, &first, e.start)
	case instant:
		d.add(uuid, &e, e.start)
	default:
		d.Builder.Note(trace.Skipped, d.Name, "counters and other events that are no slices", "byte", at)
	}
}

// time is the time of a packet; a packet without one is noted.
func (d *reader) time(s *sequence, p *packet, at int64) (t trace.Time, ok bool) {
	number := s.clock
	if p.hasClock {
		number = p.clock
	}
	ns, ok := d.clocks.boot(p.sequence, number, p.time)
	if !p.hasTime || !ok {
		d.Builder.Note(trace.Skipped, d.Name, "an event without a time", "byte", at)
		return 0, false
	}
	return trace.Time(ns), true
}

// closeAll ends what never ended at the end of the trace.
func (d *reader) closeAll() {
	for _, uuid := range slices.Sorted(maps.Keys(d.open)) {
		for _, s := range slices.Backward(d.open[uuid]) {
			d.Builder.NoteSpan(trace.SpanID(d.Builder.Len()), trace.Repaired, d.Name,
				"a beginning without an end: ends with the trace", "byte", s.at)
			d.add(uuid, &s, d.last)
		}
	}
}
