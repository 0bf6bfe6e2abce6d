package format

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// Timelines of workgroups
//
// liftStamps lifts the timelines of profilers that look inside kernels to
// workgroups and their phases. They write Chrome or Perfetto traces whose
// tracks are named after blocks and warps:
//
//	intra-kernel profiler   "sm 128 · block 0 warp 3"              time stamps are nanoseconds
//	Triton Proton           "matmul Core0 CTA7 · warp 0 (line 0)"
//	FlashInfer, and others  "block 3 ...", "... cta_3"
//	NPKit                   slices NPKIT_EVENT_..., a process a rank

// A place is the workgroup and warp of a track.
type place struct {
	kernel string // "" where the track does not name it
	rank   int    // trace.None where the track does not name it
	cu     int32  // or trace.None
	block  int32
	warp   int32 // or trace.None
}

// A dialect is one way to name tracks.
type dialect struct {
	name        string
	pattern     *regexp.Regexp // groups named as the fields of place
	slices      string         // what names of slices begin with; "" if that says nothing
	nanoseconds bool           // time stamps are nanoseconds, which the reader took for microseconds
}

func dialects() []dialect {
	return []dialect{
		{
			name: "intra-kernel profiler", pattern: regexp.MustCompile(`^sm (?P<cu>\d+) · block (?P<block>\d+) warp (?P<warp>\d+)$`),
			nanoseconds: true,
		},
		{name: "Triton Proton", pattern: regexp.MustCompile(`^(?P<kernel>.+) Core(?P<cu>\d+) CTA(?P<block>\d+) · warp (?P<warp>\d+)\b`)},
		{name: "NPKit", pattern: regexp.MustCompile(`^process (?P<rank>\d+)$`), slices: "NPKIT_EVENT_"},
		{name: "blocks", pattern: regexp.MustCompile(`(?i)^(?:sm[ _]?(?P<cu>\d+)\b.*)?\b(?:block|cta|wg|workgroup)[ _]?(?P<block>\d+)(?:[ _.,·-]+(?:warp|wave|group)[ _]?(?P<warp>\d+))?$`)},
	}
}

// liftStamps returns the run with the slices of workgroups as such: a kernel for each
// that the tracks name, a workgroup from its first slice to its last, and
// slices as phases, with warps side by side. A slice around all others of its
// workgroup is the workgroup. What a phase does is read from its
// name: load and wait wait, store and put store, everything else computes.
// A run of another kind is returned as it is.
func liftStamps(run *trace.Run) *trace.Run {
	for _, d := range dialects() {
		if places := d.places(run); places != nil {
			l := lifter{run: run, dialect: d, places: places, unit: 1}
			return l.lift()
		}
	}
	return run
}

// places returns the workgroup and warp of each lane, or nil if most spans are on lanes
// that are not named in the dialect, or are no slices of it.
func (d *dialect) places(run *trace.Run) []*place {
	places := make([]*place, len(run.Lanes))
	for i, l := range run.Lanes {
		if l.Kind == trace.HostThread {
			places[i] = d.place(l)
		}
	}
	in := 0
	for _, s := range run.Spans {
		if s.Kind != trace.Marker {
			return nil // already resolved by the reader
		}
		if places[s.Lane] != nil && strings.HasPrefix(run.NameOf(s), d.slices) {
			in++
		}
	}
	if in == 0 || 2*in < len(run.Spans) {
		return nil
	}
	return places
}

func (d *dialect) place(l trace.Lane) *place {
	m := d.pattern.FindStringSubmatch(l.Name)
	if m == nil {
		return nil
	}
	p := place{rank: trace.None, cu: trace.None, block: int32(min(max(l.ID, 0), 1<<30)), warp: trace.None}
	for i, name := range d.pattern.SubexpNames() {
		n, err := strconv.ParseInt(m[i], 10, 31)
		switch {
		case name == "kernel":
			p.kernel = m[i]
		case err != nil:
		case name == "rank":
			p.rank = int(n)
		case name == "cu":
			p.cu = int32(n)
		case name == "block":
			p.block = int32(n)
		case name == "warp":
			p.warp = int32(n)
		}
	}
	return &p
}

type lifter struct {
	run     *trace.Run
	dialect dialect
	places  []*place   // by lane
	unit    trace.Time // what times are divided by
	b       trace.Builder
	ranks   map[int]int32 // rows in the new run
	kernels map[kernelKey]*kernel
	order   []kernelKey
	comms   map[int][]int32 // of collectives, by device
}

type kernelKey struct {
	rank int32
	name string
}

// A kernel is one launch, put together from its workgroups.
type kernel struct {
	start, end trace.Time
	groups     map[groupKey]*group
	order      []groupKey
	blocks     map[int32]bool
}

// A groupKey names a row of the timeline: a workgroup, or one warp of it.
type groupKey struct{ cu, block, warp int32 }

type group struct {
	start, end trace.Time
	phases     []trace.Span
}

func (l *lifter) lift() *trace.Run {
	l.ranks, l.kernels, l.comms = map[int]int32{}, map[kernelKey]*kernel{}, map[int][]int32{}
	l.setUnit()
	for _, s := range l.run.Spans {
		if p := l.places[s.Lane]; p != nil {
			l.gather(s, p)
		}
	}
	for _, key := range l.order {
		l.addKernel(key, l.kernels[key])
	}
	l.addOthers()
	l.match()
	for _, e := range l.run.Ledger.Entries {
		for i := range e.Count {
			l.b.Note(e.Action, e.File, e.Reason, e.Unit, e.Positions[min(i, len(e.Positions)-1)])
		}
	}
	run := l.b.Finish(trace.Options{Name: l.run.Name})
	run.Epoch, run.Clock = l.run.Epoch, l.run.Clock
	return run
}

// nsysRow begins the names of rows that the intra-kernel profiler took from a report of Nsight
// Systems (its ikp_nsys_merge.py): NCCL by device, GPU Kernels and Memory Ops by stream, CUDA API and NVTX.
const nsysRow = "[NSys] "

// setUnit undoes the reader's microseconds where time stamps were nanoseconds.
func (l *lifter) setUnit() {
	if !l.dialect.nanoseconds {
		return
	}
	const thousand = 1000
	merged := slices.ContainsFunc(l.run.Lanes, func(l trace.Lane) bool { return strings.HasPrefix(l.Name, nsysRow) })
	for _, s := range l.run.Spans {
		if merged { // with a report of Nsight Systems, whose times its own are scaled to
			break
		}
		if s.Start%thousand != 0 || s.End%thousand != 0 {
			l.b.Note(trace.Noted, l.run.Name, "time stamps have decimals: assumed to be microseconds", "", 0)
			return
		}
	}
	l.unit = thousand
	l.b.Note(trace.Noted, l.run.Name, "time stamps are nanoseconds, as "+l.dialect.name+" writes them", "", 0)
}

// gather puts a slice into its workgroup.
func (l *lifter) gather(s trace.Span, p *place) {
	s.Start, s.End = s.Start/l.unit, s.End/l.unit
	key := kernelKey{l.rank(l.run.Lanes[s.Lane].Rank, p.rank), p.kernel}
	k := trace.Memo(l.kernels, key, func() *kernel {
		l.order = append(l.order, key)
		return &kernel{start: s.Start, groups: map[groupKey]*group{}, blocks: map[int32]bool{}}
	})
	k.start, k.end = min(k.start, s.Start), max(k.end, s.End)
	k.blocks[p.block] = true
	in := groupKey{p.cu, p.block, p.warp}
	g := trace.Memo(k.groups, in, func() *group {
		k.order = append(k.order, in)
		return &group{start: s.Start}
	})
	g.start, g.end = min(g.start, s.Start), max(g.end, s.End)
	g.phases = append(g.phases, s)
}

// rank returns the row of a rank, which the track names or the old run has.
func (l *lifter) rank(old int32, named int) int32 {
	r := l.run.Ranks[old]
	key := int(old)
	if named != trace.None {
		r.ID, key = named, named
	}
	return trace.Memo(l.ranks, key, func() int32 { return l.b.AddRank(r) })
}

func (l *lifter) addKernel(key kernelKey, k *kernel) {
	name := cmp.Or(key.name, "kernel")
	kind, comm := trace.Compute, int32(trace.None)
	if l.dialect.slices != "" { // NPKit looks into collectives only
		kind = trace.Collective
		comm = l.b.AddComm(trace.Comm{Op: l.operation(k), Group: trace.None, Peer: trace.None})
	}
	id := l.b.Add(trace.Span{
		Start: k.start, End: k.end, Name: l.b.Intern(name), Parent: trace.None, Kind: kind,
		Lane: l.b.Lane(trace.Lane{Kind: trace.Queue, Rank: key.rank, Peer: trace.None}),
		Attr: l.b.AddKernel(trace.Kernel{
			Setup: l.b.AddSetup(trace.Setup{Grid: [3]int32{int32(len(k.blocks)), 1, 1}}), Comm: comm,
			Op: trace.None, Origin: trace.None,
		}),
	})
	slices.SortFunc(k.order, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.warp, b.warp), cmp.Compare(a.cu, b.cu))
	})
	for _, in := range k.order {
		l.addGroup(id, key.rank, in, k.groups[in])
	}
}

// operation is what most names of a collective's slices say.
func (l *lifter) operation(k *kernel) trace.CollectiveOp {
	for _, in := range k.order {
		for _, s := range k.groups[in].phases {
			if op := trace.CollectiveOpIn(l.run.NameOf(s)); op != trace.UnknownOp {
				return op
			}
		}
	}
	return trace.UnknownOp
}

// addGroup adds a workgroup, or one of its warps on a row of its own.
func (l *lifter) addGroup(kernel trace.SpanID, rank int32, in groupKey, g *group) {
	lane := trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(in.block), Sub: max(in.warp, 0), Peer: trace.None}
	s := trace.Span{
		Start: g.start, End: g.end, Name: l.b.Span(kernel).Name, Lane: l.b.Lane(lane), Parent: kernel, Kind: trace.Workgroup,
		Attr: l.b.AddWorkgroup(trace.WorkgroupAttr{
			ID: in.block, Persistent: trace.None, CU: in.cu, Peer: trace.None,
			Row: trace.None, Col: trace.None,
		}),
	}
	slices.SortStableFunc(g.phases, func(a, b trace.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	if first := g.phases[0]; len(g.phases) > 1 && first.End == g.end { // a slice around all others is the workgroup
		s.Name = l.b.Intern(l.run.NameOf(first))
		g.phases = g.phases[1:]
	}
	open := []trace.SpanID{l.b.Add(s)} // slices of one warp nest
	for _, p := range g.phases {
		name := l.run.NameOf(p)
		for len(open) > 1 && l.b.Span(open[len(open)-1]).End < p.End {
			open = open[:len(open)-1]
		}
		phase := trace.Span{
			Start: p.Start, End: p.End, Name: l.b.Intern(name), Lane: s.Lane, Parent: open[len(open)-1], Attr: s.Attr, Kind: phaseOf(name),
		}
		open = append(open, l.b.Add(phase))
	}
}

// phaseOf reads from the words in the name of a slice what it does.
func phaseOf(name string) trace.Kind {
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' }) {
		switch {
		case hasPrefix(word, "wait", "load", "sync", "recv", "barrier"):
			return trace.PhaseWait
		case hasPrefix(word, "store", "write"):
			return trace.PhaseStore
		case hasPrefix(word, "send", "put"):
			return trace.PhasePut
		}
	}
	return trace.PhaseCompute
}

func hasPrefix(word string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
}

// addOthers keeps the other slices: markers on lanes of their own.
func (l *lifter) addOthers() {
	ids := make([]trace.SpanID, len(l.run.Spans))
	for i, s := range l.run.Spans {
		ids[i] = trace.None
		if l.places[s.Lane] != nil {
			continue
		}
		lane := l.run.Lanes[s.Lane]
		lane.Rank = l.rank(lane.Rank, trace.None)
		lane.Peer = trace.None
		if s.Parent != trace.None {
			s.Parent = ids[s.Parent]
		}
		s.Start, s.End = s.Start/l.unit, s.End/l.unit
		name := l.run.NameOf(s)
		if strings.HasPrefix(lane.Name, nsysRow) {
			name, _, _ = strings.Cut(name, "  ") // its duration or rate
		}
		s.Name = l.b.Intern(name)
		switch row, at, _ := strings.Cut(lane.Name, " · "); {
		case row == nsysRow+"NCCL" && strings.HasPrefix(at, "device "):
			lane = l.collective(&s, at[len("device "):])
		case row == nsysRow+"GPU Kernels" && (lane.Device > 0 || !l.seen(s)):
			lane.Rank = l.ofDevice(lane.Rank, lane.Device)
			s.Kind, s.Attr = trace.Compute, l.b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None})
			lane.Kind, s.Parent = trace.Queue, trace.None
		case row == nsysRow+"Memory Ops":
			c := trace.CopyAttr{Peer: trace.None, Op: trace.None, Origin: trace.None, Dir: trace.Direction(name)}
			if strings.HasPrefix(name, "memset") {
				c.Dir = trace.Fill
			}
			s.Kind, s.Attr, lane.Kind, s.Parent = trace.Copy, l.b.AddCopy(c), trace.Queue, trace.None
			lane.Rank = l.ofDevice(lane.Rank, lane.Device)
		case row == nsysRow+"CUDA API":
			s.Kind, s.Attr = trace.HostCall, l.b.AddCall(trace.Call{Op: trace.None})
		}
		s.Lane = l.b.Lane(lane)
		ids[i] = l.b.Add(s)
	}
}

// match numbers the collectives of the devices, the last of each alike: a report may begin after the first of a device.
//
//	device 0  | A0   A1 |
//	device 1  |      A1 |
func (l *lifter) match() {
	if len(l.comms) < 2 {
		return
	}
	devices, most := slices.Sorted(maps.Keys(l.comms)), 0
	for _, rows := range l.comms {
		most = max(most, len(rows))
	}
	group := l.b.AddGroup(trace.Group{Name: "devices", Ranks: devices, Size: len(devices)})
	for _, rows := range l.comms {
		for i, row := range rows {
			c := &l.b.Run.Comms[row]
			c.Group, c.Seq = group, int64(most-len(rows)+i)
		}
	}
}

// ofDevice is the row of a device, each of which is a rank. The workgroups are of device 0, which is on the given row.
func (l *lifter) ofDevice(row, device int32) int32 {
	if device == 0 {
		return row
	}
	rank := l.rank(0, int(device))
	l.b.Run.Ranks[rank].ID = int(device)
	return rank
}

// seen reports whether the profiler looked into a kernel of device 0: its workgroups ran during it.
func (l *lifter) seen(s trace.Span) bool {
	return slices.ContainsFunc(l.order, func(key kernelKey) bool { return s.Start < l.kernels[key].end && l.kernels[key].start < s.End })
}

// collective makes a collective kernel of a slice on the row of a device, and returns its
// lane. Each device is a rank; the workgroups are of device 0.
func (l *lifter) collective(s *trace.Span, device string) trace.Lane {
	n, _ := strconv.ParseUint(device, 10, 8) // 0 if it is no number
	row := l.b.AddComm(trace.Comm{Op: trace.CollectiveOpIn(l.b.NameOf(s.Name)), Group: trace.None, Peer: trace.None})
	s.Kind, s.Parent = trace.Collective, trace.None
	s.Attr = l.b.AddKernel(trace.Kernel{Comm: row, Op: trace.None, Origin: trace.None})
	l.comms[int(n)] = append(l.comms[int(n)], row)
	rank := l.rank(0, int(n))
	l.b.Run.Ranks[rank].ID = int(n)
	return trace.Lane{Kind: trace.Queue, Rank: rank, ID: 1, Peer: trace.None}
}
