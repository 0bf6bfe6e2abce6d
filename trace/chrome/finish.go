package chrome

import (
	"cmp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// finish resolves references between parts of the file.
func (d *reader) finish() *trace.Run {
	if d.header.annotated {
		d.note(trace.Noted, "kernels of captured graphs have what the program recorded during the capture", 0)
	}
	d.nanoseconds()
	d.pair()
	d.recognise()
	d.place()
	d.placeMemory()
	d.Builder.Nest()
	d.follow()
	d.graphEdges()
	d.addWaits()
	d.complement()
	d.link()
	d.groupUses()
	d.collectives()
	d.deferred = deferred{}
	if d.Builder.Len() > 1<<20 {
		runtime.GC() // the spans need memory in one piece
	}
	return d.Builder.Finish(trace.Options{Name: d.o.File, Epoch: d.epoch(), Unmatched: d.o.Unmatched})
}

// nanoseconds undoes the reader's microseconds where times are nanoseconds: whole numbers throughout, and not
// one of many calls that launch a kernel took less than a millisecond, which takes a host some microseconds.
func (d *reader) nanoseconds() {
	const thousand, least, calls = 1000, trace.Time(1_000_000), 10
	n, spans := 0, d.Builder.Run.Spans
	for _, s := range spans {
		launch := !s.Kind.OnDevice() && strings.Contains(d.Builder.NameOf(s.Name), "LaunchKernel")
		if s.Start%thousand != 0 || s.End%thousand != 0 || launch && s.Dur() < least {
			return
		}
		if launch {
			n++
		}
	}
	if n < calls {
		return
	}
	d.note(trace.Noted, "times are nanoseconds: no call took less than a millisecond to launch a kernel", 0)
	d.origin /= thousand
	for i := range spans {
		spans[i].Start, spans[i].End = spans[i].Start/thousand, spans[i].End/thousand
	}
	for i := range d.boundaries {
		d.boundaries[i].at /= thousand
	}
	for i := range d.arrows {
		d.arrows[i].at /= thousand
	}
	for i := range d.graphs.arrows {
		d.graphs.arrows[i].at /= thousand
	}
	for i := range d.memory {
		d.memory[i].At /= thousand
	}
}

// A memoryLevel is a level of the allocator's memory, on the track of the thread that allocated.
type memoryLevel struct {
	on trace.LaneID
	trace.MemoryLevel
}

// placeMemory hands levels of memory to the ranks of their tracks.
func (d *reader) placeMemory() {
	for _, x := range d.memory {
		rank := &d.Builder.Run.Ranks[d.Builder.Run.Lanes[d.tracks[x.on].lane].Rank]
		rank.Memory = append(rank.Memory, x.MemoryLevel)
	}
	for i := range d.Builder.Run.Ranks {
		slices.SortStableFunc(d.Builder.Run.Ranks[i].Memory, func(a, b trace.MemoryLevel) int { return cmp.Compare(a.At, b.At) })
	}
}

// epoch returns the builder's time 0 in nanoseconds since 1970, or 0. Kineto writes
// times either relative to a base or, before 2024, since 1970.
func (d *reader) epoch() int64 {
	const year2001 = 1e18
	if d.header.base != 0 || d.origin > year2001 {
		return d.header.base + d.origin
	}
	return 0
}

// place gives every track its row of the timeline, and every span its lane.
func (d *reader) place() {
	processes := d.processes()
	first := slices.IndexFunc(d.tracks, func(t track) bool { return t.place == elsewhere })
	d.several = slices.ContainsFunc(d.tracks, func(t track) bool { return t.place == elsewhere && t.pid != d.tracks[first].pid })
	d.Tracks = make([]assemble.Track, len(d.tracks))
	for i := range d.Builder.Len() {
		at := d.Builder.Span(trace.SpanID(i)).Lane
		if t := &d.Tracks[at]; t.Kind == 0 {
			*t = d.row(&d.tracks[at], processes[d.tracks[at].rank])
		}
	}
	for i, lane := range d.Place() {
		d.tracks[i].lane = lane
	}
}

// row returns the row of the timeline that a track becomes.
func (d *reader) row(t *track, process int32) assemble.Track {
	r := assemble.Track{Process: process, Agent: trace.None, Name: d.laneName(t)}
	switch t.place {
	case onDevice, aboveDevice:
		r.Kind, r.ID = assemble.QueueTrack, t.stream
		if t.place == aboveDevice {
			r.Kind = assemble.AnnotationTrack
		}
		r.Agent = d.Agent(process, strconv.Itoa(int(max(t.device, 0))))
	case ofProfiler:
		r.Kind, r.ID = assemble.AnnotationTrack, trace.None
	default:
		if r.Kind = assemble.ThreadTrack; t.category != "" {
			r.Kind = assemble.AnnotationTrack
		}
		r.ID, _ = lex.Integer([]byte(t.tid))
		r.Device = max(t.device, 0)
		r.Thread = t.pid + "\x00" + t.tid + "\x00" + t.category
	}
	return r
}

func (d *reader) laneName(t *track) string {
	switch {
	case t.category != "":
		return d.string([]byte(t.category))
	case t.place == ofProfiler:
		return "profiler"
	case t.place == onDevice || t.place == aboveDevice:
		return ""
	}
	process, thread := d.processName(t), strings.TrimSpace(d.threadNames[t.pid+"\x00"+t.tid])
	if _, isNumber := lex.Integer([]byte(t.tid)); thread == "" && !isNumber {
		thread = d.string([]byte(t.tid))
	}
	switch {
	case thread == "":
		return process
	case process == "" || t.place != elsewhere || thread == process:
		return thread
	}
	return process + " · " + thread
}

// processName returns the name of a track's process: its name, a word in place of a
// number, or its number if there are several processes.
func (d *reader) processName(t *track) string {
	if name := strings.TrimSpace(d.processNames[t.pid]); name != "" || t.place != elsewhere {
		return name
	}
	pid := d.string([]byte(t.pid))
	_, isNumber := lex.Integer([]byte(t.pid))
	switch {
	case !isNumber:
		return pid
	case d.several:
		return "process " + pid
	}
	return ""
}

// processes adds a process for each rank, and returns them by rank. A file has one rank, except
// for TraceLens' fused files and those that SGLang merged, where what has no rank belongs to the first.
func (d *reader) processes() map[int32]int32 {
	processes := map[int32]int32{trace.None: 0}
	var ids []int32
	for _, t := range d.tracks {
		if _, ok := processes[t.rank]; !ok {
			processes[t.rank] = 0
			ids = append(ids, t.rank)
		}
	}
	slices.Sort(ids)
	h := &d.header
	for i, id := range ids {
		processes[id] = d.Process(strconv.Itoa(int(id)), 0, d.o.File)
		p := &d.Processes[processes[id]]
		p.Rank, p.World, p.Device = int(id), max(h.world, int(ids[len(ids)-1])+1), h.device
		if h.world > 0 && p.World > h.world { // blocks of mergedPid
			p.Rank, p.World = i, max(h.world, len(ids))
		}
	}
	if len(ids) == 0 {
		p := &d.Processes[d.Process("", 0, d.o.File)]
		p.World, p.Host, p.Device = h.world, h.host, h.device
		if h.rank != trace.None {
			p.Rank = h.rank
		}
	}
	return processes
}
