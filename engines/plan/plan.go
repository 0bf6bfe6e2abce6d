package plan

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Planner writes one program. It walks every rank's operations in order and
// emits them on the streams they were captured on; a strategy takes over at
// the first operation of a pair and writes both in its own way. What surrounds
// the pairs stays as captured: its order, its dependencies, the time the host
// took to issue it, and the gaps that nothing else explains.
//
//	host    |issue G|issue C|...          a Delay and a Post an operation
//	queue 7 |wait host|wait events|gap|G  Post done
//	queue 19|wait host|wait G     |gap|C  Post done
type Planner struct {
	Settings // of what is being written: a strategy's, or of a pair that has its own
	Workload *workload.Workload
	Machine  machine.Machine
	Scenario Scenario
	Lookups  machine.Questions // measured times that the plan asked the profile for
	Program  *program.Program
	Done     []program.Flag // by op; reaches 1 when it, or what stands for it, has ended
	ranks    []*Rank
	Pairs    []Pair // the ones that the strategy takes over
	First    map[int32]int
	Replaced map[int32]bool // ops of those pairs
	Only     map[int]bool   // rows of Workload.Pairs that a strategy may take; nil: all
	gangs    map[gangKey]*Gang
	Measured bool // captured: kernels as measured, holding nothing
	Anchored bool // every operation starts when it did when captured

	// Of a schedule that writes every operation by itself (oneAtATime, lanes).
	WriteOp     func(r *Rank, op *workload.Op) // nil: pairs are the emitter's, others as captured
	Order       [][]int32                      // by rank: in which they are written; nil: as captured
	Serial      bool                           // no communication alongside compute
	EndedBefore []int32                        // of a serial schedule: timeOrder
	BusyAt      []bool
	skews       [][]trace.Time // of captured collectives, by rank: what late draws from
}

// A Settings is how a strategy has operations launched and collectives moved. It
// holds for the strategy's pairs and, unless the strategy is kept to some pairs,
// for what lies around them.
type Settings struct {
	Graph            bool                               // launched by a captured graph, not by the host
	AlgoProto        machine.AlgoProto                  // in which the library is told to move collectives
	CollectiveKernel func(*workload.Op) *program.Kernel // of a collective of the library, where not nil
}

// A Rank is the streams of one GPU under construction.
type Rank struct {
	Planner    *Planner
	ID         int
	Streams    []*Stream
	Host       *Stream
	HostIssued program.Flag // counts the operations that the host has issued
	count      int64
	clock      trace.Time // captured time up to which the host stream has been written
	ahead      trace.Time // how much of the captured time after clock it has used already
	syncs      []workload.HostSync
	HostPace   float64           // of its host: how many times longer than the profile says it takes to issue
	where      map[int32]*Stream // by op: the stream it was written to
	Separation separation        // of a serial schedule
}

// A Stream is one under construction.
type Stream struct {
	program.Stream
	End  trace.Time   // captured end of the last op written
	last *workload.Op // that op; nil at first
}

// A Pair is a workload pair with what lies between its two operations.
type Pair struct {
	*workload.Pair
	Index       int
	Coll        *workload.Collective
	FillsBefore [][]int32 // by rank: fills that the library enqueues before the compute operation
	Between     [][]int32 // by rank: ops between First and Second that use First's output
	Dropped     [][]int32 // by rank: ops behind Second that the strategy makes needless
	Continued   []*Pair   // that continue it: each begins with what the one before ends with, or behind its link
	OpsBefore   [][]int32 // by rank: ops between what it continues and it
	Grouped     bool      // several GEMMs of one collective
	Racing      int       // parts that race for compute units, if over 1: who gets them first varies between runs
	Settings    *Settings // of a strategy that is kept to some pairs; nil: the planner's
}

// Links is the pair and what continues it.
func (p *Pair) Links() []*Pair { return append([]*Pair{p}, p.Continued...) }

// Last is the end of the chain.
func (p *Pair) Last() *Pair {
	if n := len(p.Continued); n > 0 {
		return p.Continued[n-1]
	}
	return p
}

// NewPlanner begins a program for a workload. It is an error if the machine has
// fewer GPUs than the workload has ranks.
func NewPlanner(w *workload.Workload, m machine.Machine, sc Scenario) (*Planner, error) {
	if m.GPUs < w.World {
		return nil, fmt.Errorf("the trace has %d ranks and machine %s has %d GPUs (choose one with at least %d)", w.World, m.Name, m.GPUs, w.World)
	}
	pl := &Planner{
		Workload: w, Machine: m, Scenario: sc, Program: &program.Program{},
		First: map[int32]int{}, Replaced: map[int32]bool{}, gangs: map[gangKey]*Gang{},
		Done: make([]program.Flag, len(w.Ops)),
	}
	for i := range w.Ops {
		pl.Done[i] = pl.Program.NewFlag(fmt.Sprintf("%s done on rank %d", w.Ops[i].Name, w.Ops[i].Rank))
	}
	for id := range w.World {
		r := &Rank{Planner: pl, ID: id, HostIssued: pl.Program.NewFlag(fmt.Sprintf("issued by the host of rank %d", id)), where: map[int32]*Stream{}, Separation: separation{comm: -1}}
		r.Host = &Stream{Stream: program.Stream{Name: "host", Queue: hostQueue, Host: true}}
		r.syncs, r.HostPace = workload.HostSyncs(w, id), pl.hostPace(id)
		pl.ranks = append(pl.ranks, r)
	}
	return pl, nil
}

// Take hands the pairs for which ok is true to the strategy. An operation is
// part of one pair at most; the earlier pair wins.
func (pl *Planner) Take(ok func(*workload.Pair) bool) { pl.takeAll(ok, false) }

// TakeChains is take, but where a pair begins with the operations that another
// ends with, it continues that one: a chain.
func (pl *Planner) TakeChains(ok func(*workload.Pair) bool) { pl.takeAll(ok, true) }

func (pl *Planner) takeAll(ok func(*workload.Pair) bool, chains bool) {
	ends := map[int32]int{} // by last op of a chain on its first rank: its head in pl.pairs
	for i := range pl.Workload.Pairs {
		p := &pl.Workload.Pairs[i]
		if pl.Only != nil && !pl.Only[i] || !ok(p) {
			continue
		}
		pr := pl.NewPair(p)
		members := pl.members(&pr)
		head, continues := ends[p.First[0]]
		if continues = continues && chains && slices.Equal(pl.Pairs[head].Last().Second, p.First); continues {
			members = slices.DeleteFunc(members, func(id int32) bool {
				return slices.Contains(p.First, id) || pl.Workload.IsFill(&pl.Workload.Ops[id]) && pl.Replaced[id]
			})
		}
		if slices.ContainsFunc(members, func(id int32) bool { return pl.Replaced[id] }) {
			continue
		}
		for _, id := range members {
			pl.Replaced[id] = true
		}
		if continues {
			pl.Pairs[head].Continued = append(pl.Pairs[head].Continued, &pr)
			delete(ends, p.First[0])
			ends[p.Second[0]] = head
			continue
		}
		ends[p.Second[0]] = len(pl.Pairs)
		for _, id := range p.First {
			pl.First[id] = pr.Index
		}
		// A fill before the compute operation is where the pair begins.
		if p.Direction != workload.CollectiveThenCompute {
			for k, id := range p.First {
				if pre := pr.FillsBefore[pl.Workload.Ops[p.First[k]].Rank]; len(pre) > 0 {
					delete(pl.First, id)
					pl.First[pre[0]] = pr.Index
				}
			}
		}
		pl.Pairs = append(pl.Pairs, pr)
	}
}

// NewPair is a pair that the strategy takes next, of which nothing else is known.
func (pl *Planner) NewPair(p *workload.Pair) Pair {
	byRank := func() [][]int32 { return make([][]int32, pl.Workload.World) }
	pr := Pair{Pair: p, Index: len(pl.Pairs), FillsBefore: byRank(), Between: byRank(), Dropped: byRank(), OpsBefore: byRank()}
	if p.Collective >= 0 {
		pr.Coll = &pl.Workload.Collectives[p.Collective]
	}
	return pr
}

// members fills in what surrounds a pair's two operations on every rank and lists all of it.
func (pl *Planner) members(p *Pair) []int32 {
	var all []int32
	for k := range p.First {
		a, b := p.First[k], p.Second[k]
		rank, queue := pl.Workload.Ops[a].Rank, pl.Workload.Ops[a].Queue
		compute := a
		if p.Direction == workload.CollectiveThenCompute {
			compute = b
		}
		p.FillsBefore[rank] = pl.fillsBefore(compute)
		for id := a + 1; id < b; id++ {
			if op := &pl.Workload.Ops[id]; op.Queue == queue && op.Collective < 0 && !slices.Contains(p.FillsBefore[rank], id) {
				p.Between[rank] = append(p.Between[rank], id)
			}
		}
		all = append(append(append(all, a, b), p.FillsBefore[rank]...), p.Between[rank]...)
	}
	return all
}

// fillsBefore are the memsets directly before an operation on its queue, which
// libraries use to reset the counters that hand out tiles.
func (pl *Planner) fillsBefore(id int32) []int32 {
	var fills []int32
	op := &pl.Workload.Ops[id]
	ids := pl.Workload.Ranks[op.Rank]
	i, _ := slices.BinarySearchFunc(ids, id, func(a, b int32) int { return int(a - b) })
	for i--; i >= 0; i-- {
		before := &pl.Workload.Ops[ids[i]]
		if before.Queue != op.Queue {
			continue
		}
		if c := pl.Workload.Run.Copy(pl.Workload.Run.Spans[before.Span]); c == nil || c.Dir != trace.Fill {
			break
		}
		fills = append([]int32{before.ID}, fills...)
	}
	return fills
}

// LimitToPairs makes what a strategy has set hold for the pairs that it took, those
// from the given one on, and for nothing else.
func (pl *Planner) LimitToPairs(from int) {
	own := pl.Settings
	pl.Settings = Settings{}
	for i := from; i < len(pl.Pairs); i++ {
		pl.Pairs[i].Settings = &own
	}
}

// Write walks the ranks.
func (pl *Planner) Write(emit Emitter) *program.Program {
	for _, r := range pl.ranks {
		if pl.WriteOp != nil {
			order := pl.Workload.Ranks
			if pl.Order != nil {
				order = pl.Order
			}
			for _, id := range order[r.ID] {
				pl.WriteOp(r, &pl.Workload.Ops[id])
			}
			continue
		}
		for _, id := range pl.Workload.Ranks[r.ID] {
			if i, ok := pl.First[id]; ok {
				around := pl.Settings
				if own := pl.Pairs[i].Settings; own != nil {
					pl.Settings = *own
				}
				emit(r, &pl.Pairs[i])
				pl.Settings = around
				continue
			}
			switch {
			case pl.Replaced[id]:
			case pl.Anchored:
				r.atCapturedStart(&pl.Workload.Ops[id])
			default:
				r.writeCaptured(&pl.Workload.Ops[id])
			}
		}
	}
	for _, r := range pl.ranks {
		gpu := program.GPU{Streams: []program.Stream{r.Host.Stream}}
		for _, s := range r.Streams {
			gpu.Streams = append(gpu.Streams, s.Stream)
		}
		pl.Program.GPUs = append(pl.Program.GPUs, gpu)
	}
	for len(pl.Program.GPUs) < pl.Machine.GPUs {
		pl.Program.GPUs = append(pl.Program.GPUs, program.GPU{})
	}
	return pl.Program
}

// Stream returns the rank's stream for a captured queue.
func (r *Rank) Stream(queue int64) *Stream { return r.free(queue, trace.Infinity) }

// free returns a stream of the queue that is idle at the captured time:
// operations that overlap on one queue, as AMD's do, need streams of their own.
func (r *Rank) free(queue int64, at trace.Time) *Stream {
	for _, s := range r.Streams {
		if s.Queue == queue && s.End <= at {
			return s
		}
	}
	return r.newStream(fmt.Sprintf("stream %d", queue), queue)
}

// Added returns a stream that a strategy adds to the captured ones, by its name.
// Its queue is numbered below that of the host.
func (r *Rank) Added(name string) *Stream {
	added := int64(0)
	for _, s := range r.Streams {
		switch {
		case s.Queue >= hostQueue:
		case s.Name == name:
			return s
		default:
			added++
		}
	}
	return r.newStream(name, hostQueue-1-added)
}

// hostQueue is the queue number of the host's stream; captured queues are not negative.
const hostQueue = -1

func (r *Rank) newStream(name string, queue int64) *Stream {
	s := &Stream{Stream: program.Stream{Name: name, Queue: queue}}
	r.Streams = append(r.Streams, s)
	return s
}

// writeCaptured emits an operation where, and after what, it was captured.
func (r *Rank) writeCaptured(op *workload.Op) {
	s := r.free(op.Queue, op.Start)
	after := s.End
	n, issued := r.issueAsCaptured(op)
	if n > 0 {
		s.Wait(r.HostIssued, n, "host")
		after = max(after, issued)
	}
	for _, d := range op.After {
		dep := &r.Planner.Workload.Ops[d.Op]
		if dep.End <= op.Start && r.where[d.Op] != s {
			s.Wait(r.Planner.Done[d.Op], 1, dep.Name)
			after = max(after, dep.End)
		}
	}
	s.Launch(op.Start-after, r.Planner.commandOf(op))
	r.Written(s, op)
}

// commandOf is the kernel or copy for an operation that is kept.
func (pl *Planner) commandOf(op *workload.Op) program.Command {
	switch {
	case op.Kind == trace.Copy:
		return pl.CopyOf(op)
	case op.Collective >= 0 && pl.Measured:
		return LaunchOf(op, pl.measuredCollective(op))
	case op.Collective >= 0:
		return LaunchOf(op, pl.communication(op, 0))
	case pl.Measured:
		return LaunchOf(op, pl.MeasuredKernel(op, pl.Paced(op, op.Dur())))
	}
	return LaunchOf(op, pl.kernel(op))
}

// LaunchOf launches a kernel that stands for an operation.
func LaunchOf(op *workload.Op, k *program.Kernel) program.Command {
	return program.Command{Op: program.Launch, Kernel: k, Name: op.Name, Origin: op.ID}
}

// CopyOf keeps a copy or fill as measured.
func (pl *Planner) CopyOf(op *workload.Op) program.Command {
	c := &program.Copy{Name: op.Name, From: int32(op.Rank), Peer: int32(op.Rank), Time: op.Dur(), Free: true}
	if a := pl.Workload.Run.Copy(pl.Workload.Run.Spans[op.Span]); a != nil {
		c.Attr = *a
	}
	return program.Command{Op: program.Start, Copy: c, Name: op.Name, Origin: op.ID}
}

// Launch adds a kernel or copy that starts a gap after what is before it.
func (s *Stream) Launch(gap trace.Time, c program.Command) {
	c.Delay = gap
	s.Commands = append(s.Commands, c)
}

// Wait holds the stream until a flag reaches n. The name is what is waited for.
func (s *Stream) Wait(f program.Flag, n int64, name string) {
	s.Commands = append(s.Commands, program.Command{Op: program.Wait, Flag: f, Count: n, Name: name, Origin: -1})
}

// Post adds n to a flag when all before it has ended.
func (s *Stream) Post(f program.Flag, n int64) {
	s.Commands = append(s.Commands, program.Command{Op: program.Post, Flag: f, Count: n, Origin: -1})
}

// Delay holds the stream for a time, which is lost to a cause.
func (s *Stream) Delay(d trace.Time, why program.Cause, name string) {
	if d > 0 {
		s.Commands = append(s.Commands, program.Command{Op: program.Delay, Delay: d, Why: why, Name: name, Origin: -1})
	}
}

// atCapturedStart emits an operation that starts when it did, whatever others do.
func (r *Rank) atCapturedStart(op *workload.Op) {
	s := r.free(op.Queue, op.Start)
	r.Host.Delay(op.Start-r.clock, program.HostIssue, op.Name)
	r.clock = max(r.clock, op.Start)
	s.Wait(r.HostIssued, r.postIssued(), "captured start")
	s.Launch(0, r.Planner.commandOf(op))
	r.Written(s, op)
}
