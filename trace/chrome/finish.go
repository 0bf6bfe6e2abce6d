package chrome

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
)

// finish resolves references between parts of the file.
func (d *reader) finish() *trace.Run {
	d.pair()
	d.recognise()
	if d.native == nil {
		d.b.DropDoubled(d.o.File)
	}
	d.lanes()
	d.b.Nest()
	d.follow()
	d.addWaits()
	d.complement()
	d.link()
	d.groupUses()
	d.collectives()
	return d.b.Finish(trace.Options{Name: d.o.File, Epoch: d.epoch()})
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

// lanes assigns a lane to every track and to every span the lane of its track. Tracks
// are sorted first, so that lanes do not depend on the order of events.
func (d *reader) lanes() {
	rows := d.ranks()
	first := slices.IndexFunc(d.tracks, func(t track) bool { return t.place == elsewhere })
	d.several = slices.ContainsFunc(d.tracks, func(t track) bool { return t.place == elsewhere && t.pid != d.tracks[first].pid })
	used := make([]bool, len(d.tracks))
	for i := range d.b.Len() {
		used[d.b.Span(trace.SpanID(i)).Lane] = true
	}
	var order []int
	for i := range d.tracks {
		if d.tracks[i].lane = trace.None; used[i] {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &d.tracks[a], &d.tracks[b]
		return cmp.Or(
			cmp.Compare(rows[a], rows[b]),
			cmp.Compare(x.place, y.place),
			cmp.Compare(x.device, y.device),
			cmp.Compare(x.stream, y.stream),
			strings.Compare(x.pid, y.pid),
			strings.Compare(x.tid, y.tid),
			strings.Compare(x.category, y.category))
	})
	var subs subLanes
	for _, i := range order {
		t := &d.tracks[i]
		l := d.lane(t, rows[i])
		if t.place == onHost || t.place == elsewhere {
			l.Sub = subs.of(l, t)
		}
		t.lane = d.b.Lane(l)
	}
	for i := range d.b.Len() {
		s := d.b.Span(trace.SpanID(i))
		s.Lane = d.tracks[s.Lane].lane
	}
}

// subLanes distinguishes threads that have the same lane id: threads of different
// processes may have the same number, and rows of two places may be one thread.
type subLanes struct {
	threads map[subThread]int32
	next    map[trace.Lane]int32
}

type subThread struct {
	lane               trace.Lane
	pid, tid, category string
}

// of returns the sub-lane of the track's thread.
func (u *subLanes) of(l trace.Lane, t *track) int32 {
	if u.threads == nil {
		u.threads, u.next = map[subThread]int32{}, map[trace.Lane]int32{}
	}
	l.Name = ""
	thread := subThread{l, t.pid, t.tid, t.category}
	sub, ok := u.threads[thread]
	if !ok {
		sub = u.next[l]
		u.next[l]++
		u.threads[thread] = sub
	}
	return sub
}

// lane returns the lane of the track.
func (d *reader) lane(t *track, row int32) trace.Lane {
	l := trace.Lane{Rank: row, Peer: trace.None, Name: d.laneName(t)}
	switch t.place {
	case onDevice, aboveDevice:
		l.Kind, l.Device, l.ID = trace.Queue, max(t.device, 0), t.stream
		if t.place == aboveDevice {
			l.Kind = trace.Annotation
		}
	case ofProfiler:
		l.Kind, l.ID = trace.Annotation, trace.None
	default:
		l.Kind = trace.HostThread
		if n, ok := integer([]byte(t.tid)); ok {
			l.ID = n
		}
		if t.category != "" {
			l.Kind = trace.Annotation
		}
	}
	return l
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
	if _, isNumber := integer([]byte(t.tid)); thread == "" && !isNumber {
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
	_, isNumber := integer([]byte(t.pid))
	switch {
	case !isNumber:
		return pid
	case d.several:
		return "process " + pid
	}
	return ""
}

// ranks adds the rank rows and returns the row of every track. A file has one rank,
// except for TraceLens' fused files.
func (d *reader) ranks() []int32 {
	rows := make([]int32, len(d.tracks))
	row := map[int32]int32{}
	var ids []int32
	for _, t := range d.tracks {
		if _, ok := row[t.rank]; !ok && t.rank != trace.None {
			row[t.rank] = 0
			ids = append(ids, t.rank)
		}
	}
	devices := d.devices()
	if len(ids) == 0 {
		id := d.header.rank
		if id == trace.None {
			id = names.RankInName(d.o.File)
		}
		d.b.AddRank(trace.Rank{
			ID:     id,
			World:  d.header.world,
			Source: d.o.File,
			Host:   d.header.host,
			Device: d.header.device(devices[trace.None]),
		})
		return rows
	}
	slices.Sort(ids)
	for _, id := range ids {
		row[id] = d.b.AddRank(trace.Rank{
			ID:     int(id),
			World:  max(d.header.world, int(ids[len(ids)-1])+1),
			Source: d.o.File,
			Device: d.header.device(devices[id]),
		})
	}
	for i, t := range d.tracks {
		if t.rank != trace.None {
			rows[i] = row[t.rank]
		}
	}
	return rows
}

// devices returns the device that ran most of each rank's work; the lowest on a tie.
func (d *reader) devices() map[int32]int32 {
	type device struct{ rank, number int32 }
	work := map[device]int{}
	for i := range d.b.Len() {
		if s := d.b.Span(trace.SpanID(i)); s.Kind.OnDevice() {
			t := &d.tracks[s.Lane]
			work[device{t.rank, t.device}]++
		}
	}
	chosen := map[int32]int32{}
	for v, n := range work {
		best, ok := chosen[v.rank]
		if m := work[device{v.rank, best}]; !ok || n > m || n == m && v.number < best {
			chosen[v.rank] = v.number
		}
	}
	return chosen
}
