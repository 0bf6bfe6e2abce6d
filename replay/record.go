package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// spanRef is an index of a recorded span, or none.
type spanRef = trace.SpanID

// A recorder builds the simulated run:
//
//	queue      |kernel_______________|copy__|   Kernels
//	CU 3.0     |wg 3________|wg 19___|          Workgroups; tiles on lanes of
//	            compute|wait|compute__          their workgroup if persistent
//	                                            Phases
type recorder struct {
	trace.Builder
	program *program.Program
	options Options
	whose   func(poster) string      // name of a poster
	deep    []bool                   // ranks recorded beyond kernels
	sending map[trace.LaneID]spanRef // where phases are not recorded: the last stretch of puts
	full    bool                     // reached Options.Most
	vacant  []vacancies              // by rank, for ranks recorded beyond kernels
	posters []poster                 // by workgroup: poster of its last wait, if phases are recorded
	waits   map[wait]trace.NameID
	seqs    []int64 // by rank: number of collectives so far
	group   int32   // of all ranks
}

func newRecorder(m *machine.Machine, p *program.Program, o Options) recorder {
	r := recorder{program: p, options: o, group: trace.None, waits: map[wait]trace.NameID{}, sending: map[trace.LaneID]spanRef{}}
	r.deep = make([]bool, len(p.GPUs))
	r.seqs = make([]int64, len(p.GPUs))
	r.vacant = make([]vacancies, len(p.GPUs))
	ranks := make([]int, len(p.GPUs))
	for g := range p.GPUs {
		ranks[g] = g
		r.deep[g] = o.Level > Kernels && (o.Ranks == nil || slices.Contains(o.Ranks, g))
		r.AddRank(trace.Rank{ID: g, World: len(p.GPUs), Device: trace.Device{
			Name:           m.GPU.Name,
			CUs:            int(m.GPU.CUs.Value),
			ThreadsPerCU:   int(m.GPU.Threads.Value),
			RegistersPerCU: int(m.GPU.Registers.Value),
			SharedPerCU:    int(m.GPU.Shared.Value),
		}})
	}
	r.group = r.AddGroup(trace.Group{Name: "all", Ranks: ranks, Size: len(ranks)})
	return r
}

func (r *recorder) lane(l trace.Lane) trace.LaneID {
	l.Device = l.Rank
	if l.Kind != trace.Link {
		l.Peer = trace.None
	}
	return r.Lane(l)
}

// command opens the span of a launch of wgs workgroups, or of a copy.
func (r *recorder) command(gpu int32, st *program.Stream, c *program.Command, wgs int, now program.Time) spanRef {
	on := r.lane(trace.Lane{Kind: trace.Queue, Rank: gpu, ID: st.Queue, Name: st.Name})
	if c.Copy != nil {
		return r.copy(gpu, st, c, on, now)
	}
	k := c.Kernel
	row, setup := k.Attr, k.Setup
	row.Origin = c.Origin
	row.Op, row.Comm, row.Uses = trace.None, trace.None, 0
	setup.Stream, setup.Priority = st.Queue, -int32(st.Priority)
	if setup.Grid == [3]int32{} {
		setup.Grid = [3]int32{int32(wgs), 1, 1}
	}
	row.Setup = r.AddSetup(setup)
	if k.Comm != nil {
		comm := *k.Comm
		if comm.Group = r.group; comm.Seq >= trace.None { // else the program says which kernels belong together
			comm.Seq = r.seqs[gpu]
			r.seqs[gpu]++
		}
		row.Comm = r.AddComm(comm)
	}
	if n := r.shown(k); n < k.WGs && r.deep[gpu] {
		r.Note(trace.Noted, "", fmt.Sprintf("%s: the first %d of %d workgroups are recorded", k.Name, n, k.WGs), "rank", int64(gpu))
	}
	kind := trace.Compute
	if k.Kind == trace.Collective {
		kind = trace.Collective
	}
	return r.Add(trace.Span{
		Start: now, End: now, Kind: kind, Name: r.Intern(k.Name),
		Lane: on, Parent: trace.None, Attr: r.AddKernel(row),
	})
}

// end closes a span.
func (r *recorder) end(id spanRef, now program.Time) {
	if id != none {
		r.Span(id).End = now
	}
}

// copy opens the span of a stream's copy.
func (r *recorder) copy(gpu int32, st *program.Stream, cmd *program.Command, on trace.LaneID, now program.Time) spanRef {
	c := cmd.Copy
	row := c.Attr
	row.Stream, row.Origin, row.Op, row.Uses = st.Queue, cmd.Origin, trace.None, 0
	row.Peer = trace.None
	row.Bytes = cmp.Or(row.Bytes, int64(c.Bytes))
	if c.Peer != c.From {
		row.Peer = c.Peer
		if c.Peer == gpu {
			row.Peer = c.From
		}
	}
	if row.Dir == trace.UnknownDir {
		row.Dir = trace.PeerToPeer
		if c.Peer == c.From {
			row.Dir = trace.DeviceToDevice
		}
	}
	return r.Add(trace.Span{
		Start: now, End: now, Kind: trace.Copy, Name: r.Intern(c.Label()),
		Lane: on, Parent: trace.None, Attr: r.AddCopy(row),
	})
}

// moves opens the span of a copy on its engine, if it is recorded.
func (r *recorder) moves(st *stream, now program.Time) spanRef {
	if !r.watched(st.gpu, now) {
		return none
	}
	span := *r.Span(st.span)
	span.Kind = trace.Transfer
	span.Lane = r.lane(trace.Lane{Kind: trace.Engine, Rank: st.gpu, ID: int64(st.engine)})
	return r.Add(span)
}

// transfer opens the span of a put's bytes. Where phases of the rank's workgroups are not recorded, puts that follow each
// other with no more than the time of a message between them are one span.
func (r *recorder) transfer(from, to int32, p *put, engine int32, message, now program.Time) spanRef {
	if r.options.Level == Kernels || now < r.options.From || r.afterWindow(now) {
		return none
	}
	lane := trace.Lane{Kind: trace.Link, Rank: from, Peer: to}
	dir := trace.PeerToPeer
	if from == to {
		dir = trace.DeviceToDevice
	}
	if from == to || engine != none {
		lane = trace.Lane{Kind: trace.Engine, Rank: from, ID: int64(engine)}
	}
	on, name := r.lane(lane), r.Intern(p.from.kernel.Name)
	if id, ok := r.sending[on]; ok {
		last := r.Span(id)
		if copied := &r.Run.Copies[last.Attr]; last.Name == name && copied.Peer == to && now <= last.End+message {
			copied.Bytes += int64(p.bytes)
			return id
		}
	}
	id := r.Add(trace.Span{
		Start: now, End: now, Kind: trace.Transfer, Name: name, Lane: on, Parent: trace.None,
		Attr: r.AddCopy(trace.CopyAttr{Bytes: int64(p.bytes), Peer: to, Op: trace.None, Origin: trace.None, Dir: dir}),
	})
	if r.options.Level < Phases || !r.deep[from] {
		r.sending[on] = id
	}
	return id
}

// tooMany reports whether Options.Most is exceeded.
func (r *recorder) tooMany() bool {
	r.full = r.full || r.options.Most > 0 && r.options.Level > Kernels && r.Len() > r.options.Most
	return r.full
}

// leastShown is the number of workgroups in Figure 11 of the fused operators' paper.
const leastShown = 32

// shown is the number of a kernel's workgroups that are recorded.
func (r *recorder) shown(k *program.Kernel) int {
	if r.options.Tiles <= 0 || k.Tiles <= r.options.Tiles {
		return k.WGs
	}
	return min(k.WGs, max(leastShown, int(int64(r.options.Tiles)*int64(k.WGs)/int64(k.Tiles))))
}

// tile opens the span of a workgroup's tile, prologue or epilogue.
func (r *recorder) tile(w *workgroup, l *launch, c *cu, now program.Time) {
	if !r.watched(l.gpu, now) || l.kernel.Merged || int(w.index) >= r.shown(l.kernel) {
		return
	}
	attr := trace.WorkgroupAttr{
		ID: w.tile, Persistent: trace.None, CU: w.cu,
		Peer: trace.None, Row: trace.None, Col: trace.None,
	}
	lane := trace.Lane{Kind: trace.Slot, Rank: l.gpu, ID: int64(w.cu), Sub: w.slot}
	if l.kernel.Tiles > 0 {
		attr.Persistent = w.index
		lane = trace.Lane{Kind: trace.Persistent, Rank: l.gpu, ID: int64(w.index), Sub: l.laneSet}
	}
	if l.kernel.Peer != nil && w.tile != none {
		attr.Peer = int32(l.kernel.Peer(int(w.tile)))
	}
	on := r.lane(lane)
	r.vacant[l.gpu].residencies[c.slots[w.slot]].lane = on
	w.span = r.Add(trace.Span{
		Start: now, End: now, Kind: trace.Workgroup, Name: r.Intern(l.kernel.Name),
		Lane: on, Parent: l.span, Attr: r.AddWorkgroup(attr),
	})
}

var phaseKinds = [...]struct {
	kind trace.Kind
	name string
}{
	program.Work:    {trace.PhaseCompute, "compute"},
	program.Store:   {trace.PhaseStore, "store"},
	program.Put:     {trace.PhasePut, "put"},
	program.WaitFor: {trace.PhaseWait, "wait"},
	program.PostTo:  {trace.PhasePut, "post"},
	program.Sleep:   {trace.PhaseWait, "latency"},
}

// phase records a phase from w.since to now.
func (r *recorder) phase(id int32, w *workgroup, l *launch, p *program.Phase, now program.Time) {
	if r.options.Level < Phases {
		return
	}
	is := phaseKinds[p.Op]
	name := r.Intern(is.name)
	if p.Op == program.WaitFor {
		name = r.waitName(id, p.Flag)
	}
	r.inTile(w, l, p, is.kind, name, w.since, now)
}

// A wait is the key of a wait phase's name.
type wait struct {
	flag program.Flag
	from poster
}

// released records the poster that ended a workgroup's wait.
func (r *recorder) released(id int32, from poster) {
	if need := int(id) + 1 - len(r.posters); need > 0 {
		r.posters = append(r.posters, make([]poster, need)...)
	}
	r.posters[id] = from
}

// waitName is the name of a wait: the flag and its poster.
func (r *recorder) waitName(id int32, f program.Flag) trace.NameID {
	w := wait{f, r.posters[id]}
	return trace.Memo(r.waits, w, func() trace.NameID {
		return r.Intern(fmt.Sprintf("%s, %s", r.program.Flags.Name(f), r.whose(w.from)))
	})
}

// mark records an instant: a put, or the mark at the end of a phase.
func (r *recorder) mark(w *workgroup, l *launch, p *program.Phase, now program.Time) {
	if r.options.Level < Phases || p.Op != program.Put && p.Mark == "" {
		return
	}
	r.inTile(w, l, p, trace.PhasePut, r.Intern(cmp.Or(p.Mark, phaseKinds[program.Put].name)), now, now)
}

func (r *recorder) inTile(w *workgroup, l *launch, p *program.Phase, kind trace.Kind, name trace.NameID, start, end program.Time) {
	tile := r.Span(w.span)
	attr := tile.Attr
	if p.Op == program.Store || p.Op == program.Put {
		row := trace.WorkgroupAttr{
			ID: w.tile, Persistent: trace.None, CU: w.cu,
			Peer: max(trace.None, p.Peer), Row: trace.None, Col: trace.None,
		}
		if l.kernel.Tiles > 0 {
			row.Persistent = w.index
		}
		attr = r.AddWorkgroup(row)
	}
	r.Add(trace.Span{Start: start, End: end, Kind: kind, Name: name, Lane: tile.Lane, Parent: w.span, Attr: attr})
}
