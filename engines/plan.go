package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A planner writes one program. It walks every rank's operations in order and
// emits them on the streams they were captured on; a strategy takes over at
// the first operation of a pair and writes both in its own way. What surrounds
// the pairs stays as captured: its order, its dependencies, the time the host
// took to issue it, and the gaps that nothing else explains.
//
//	host    |issue G|issue C|...          a Delay and a Post an operation
//	queue 7 |wait host|wait events|gap|G  Post done
//	queue 19|wait host|wait G     |gap|C  Post done
type planner struct {
	manner   // of what is being written: a strategy's, or of a pair that has its own
	w        *workload.Workload
	m        machine.Machine
	p        *replay.Program
	done     []replay.Flag // by op; reaches 1 when it, or what stands for it, has ended
	ranks    []*rank
	pairs    []pair // the ones that the strategy takes over
	first    map[int32]int
	skip     map[int32]bool // ops of those pairs
	only     map[int]bool   // rows of Workload.Pairs that a strategy may take; nil: all
	gangs    map[gangKey]*gang
	exact    bool // captured: kernels as measured, holding nothing
	anchored bool // every operation starts when it did when captured

	// Of a schedule that writes every operation by itself (oneAtATime, lanes).
	each        func(r *rank, op *workload.Op) // nil: pairs are the emitter's, others as captured
	order       [][]int32                      // by rank: in which they are written; nil: as captured
	serial      bool                           // no communication beside compute
	endedBefore []int32                        // of a serial schedule: timeOrder
	busyAt      []bool
	skews       [][]trace.Time // of captured collectives, by rank: what late draws from
}

// A manner is how a strategy has operations launched and collectives moved. It
// holds for the strategy's pairs and, unless the strategy is kept to some pairs,
// for what lies around them.
type manner struct {
	graph   bool                              // launched by a captured graph, not by the host
	way     machine.Way                       // in which the library is told to move collectives
	instead func(*workload.Op) *replay.Kernel // of a collective of the library, where not nil
}

// A rank is the streams of one GPU under construction.
type rank struct {
	pl         *planner
	id         int
	streams    []*stream
	host       *stream
	issued     replay.Flag // counts the operations that the host has issued
	count      int64
	clock      trace.Time // captured time up to which the host stream has been written
	ahead      trace.Time // how much of the captured time after clock it has used already
	syncs      []hostSync
	pace       float64           // of its host: how many times longer than the profile says it takes to issue
	where      map[int32]*stream // by op: the stream it was written to
	separation separation        // of a serial schedule
}

type stream struct {
	replay.Stream
	end  trace.Time   // captured end of the last op written
	last *workload.Op // that op; nil at first
}

// A hostSync is a call in which the host waited for the device.
type hostSync struct{ start, end trace.Time }

// A pair is a workload pair with what lies between its two operations.
type pair struct {
	*workload.Pair
	index   int
	coll    *workload.Collective
	pre     [][]int32 // by rank: fills that the library enqueues before the compute operation
	mid     [][]int32 // by rank: ops between First and Second that use First's output
	post    [][]int32 // by rank: ops behind Second that the strategy makes needless
	rest    []*pair   // that continue it: each begins with what the one before ends with, or behind its link
	link    [][]int32 // by rank: ops between what it continues and it
	grouped bool      // several products of one collective
	raced   int       // parts that race for compute units, if over 1: who gets them first varies between runs
	manner  *manner   // of a strategy that is kept to some pairs; nil: the planner's
}

// links is the pair and what continues it.
func (p *pair) links() []*pair { return append([]*pair{p}, p.rest...) }

// last is the end of the chain.
func (p *pair) last() *pair {
	if n := len(p.rest); n > 0 {
		return p.rest[n-1]
	}
	return p
}

func newPlanner(w *workload.Workload, m machine.Machine) (*planner, error) {
	if m.GPUs < w.World {
		return nil, fmt.Errorf("the trace has %d ranks and machine %s has %d GPUs (choose one with at least %d)", w.World, m.Name, m.GPUs, w.World)
	}
	pl := &planner{
		w: w, m: m, p: &replay.Program{},
		first: map[int32]int{}, skip: map[int32]bool{}, gangs: map[gangKey]*gang{},
		done: make([]replay.Flag, len(w.Ops)),
	}
	for i := range w.Ops {
		pl.done[i] = pl.p.NewFlag(fmt.Sprintf("%s done on rank %d", w.Ops[i].Name, w.Ops[i].Rank))
	}
	for id := range w.World {
		r := &rank{pl: pl, id: id, issued: pl.p.NewFlag(fmt.Sprintf("issued by the host of rank %d", id)), where: map[int32]*stream{}, separation: separation{comm: -1}}
		r.host = &stream{Stream: replay.Stream{Name: "host", Queue: -1, Host: true}}
		r.syncs, r.pace = pl.hostSyncs(id), pl.hostPace(id)
		pl.ranks = append(pl.ranks, r)
	}
	return pl, nil
}

// take hands the pairs for which ok is true to the strategy. An operation is
// part of one pair at most; the earlier pair wins.
func (pl *planner) take(ok func(*workload.Pair) bool) { pl.takeAll(ok, false) }

// takeChains is take, but where a pair begins with the operations that another
// ends with, it continues that one: a chain.
func (pl *planner) takeChains(ok func(*workload.Pair) bool) { pl.takeAll(ok, true) }

func (pl *planner) takeAll(ok func(*workload.Pair) bool, chains bool) {
	ends := map[int32]int{} // by last op of a chain on its first rank: its head in pl.pairs
	for i := range pl.w.Pairs {
		p := &pl.w.Pairs[i]
		if pl.only != nil && !pl.only[i] || !ok(p) {
			continue
		}
		pr := pl.newPair(p)
		members := pl.members(&pr)
		head, continues := ends[p.First[0]]
		if continues = continues && chains && slices.Equal(pl.pairs[head].last().Second, p.First); continues {
			members = slices.DeleteFunc(members, func(id int32) bool { return slices.Contains(p.First, id) || pl.isFill(&pl.w.Ops[id]) && pl.skip[id] })
		}
		if slices.ContainsFunc(members, func(id int32) bool { return pl.skip[id] }) {
			continue
		}
		for _, id := range members {
			pl.skip[id] = true
		}
		if continues {
			pl.pairs[head].rest = append(pl.pairs[head].rest, &pr)
			delete(ends, p.First[0])
			ends[p.Second[0]] = head
			continue
		}
		ends[p.Second[0]] = len(pl.pairs)
		for _, id := range p.First {
			pl.first[id] = pr.index
		}
		// A fill before the compute operation is where the pair begins.
		if p.Direction != workload.CollectiveThenCompute {
			for k, id := range p.First {
				if pre := pr.pre[pl.w.Ops[p.First[k]].Rank]; len(pre) > 0 {
					delete(pl.first, id)
					pl.first[pre[0]] = pr.index
				}
			}
		}
		pl.pairs = append(pl.pairs, pr)
	}
}

// newPair is a pair that the strategy takes next, of which nothing else is known.
func (pl *planner) newPair(p *workload.Pair) pair {
	byRank := func() [][]int32 { return make([][]int32, pl.w.World) }
	pr := pair{Pair: p, index: len(pl.pairs), pre: byRank(), mid: byRank(), post: byRank(), link: byRank()}
	if p.Collective >= 0 {
		pr.coll = &pl.w.Collectives[p.Collective]
	}
	return pr
}

// members fills in what surrounds a pair's two operations on every rank and lists all of it.
func (pl *planner) members(p *pair) []int32 {
	var all []int32
	for k := range p.First {
		a, b := p.First[k], p.Second[k]
		rank, queue := pl.w.Ops[a].Rank, pl.w.Ops[a].Queue
		compute := a
		if p.Direction == workload.CollectiveThenCompute {
			compute = b
		}
		p.pre[rank] = pl.fillsBefore(compute)
		for id := a + 1; id < b; id++ {
			if op := &pl.w.Ops[id]; op.Queue == queue && op.Collective < 0 && !slices.Contains(p.pre[rank], id) {
				p.mid[rank] = append(p.mid[rank], id)
			}
		}
		all = append(append(append(all, a, b), p.pre[rank]...), p.mid[rank]...)
	}
	return all
}

// fillsBefore are the memsets directly before an operation on its queue, which
// libraries use to reset the counters that hand out tiles.
func (pl *planner) fillsBefore(id int32) []int32 {
	var fills []int32
	op := &pl.w.Ops[id]
	ids := pl.w.Ranks[op.Rank]
	i, _ := slices.BinarySearchFunc(ids, id, func(a, b int32) int { return int(a - b) })
	for i--; i >= 0; i-- {
		before := &pl.w.Ops[ids[i]]
		if before.Queue != op.Queue {
			continue
		}
		if c := pl.w.Run.Copy(pl.w.Run.Spans[before.Span]); c == nil || c.Dir != trace.Fill {
			break
		}
		fills = append([]int32{before.ID}, fills...)
	}
	return fills
}

// confine makes what a strategy has set hold for the pairs that it took, those
// from the given one on, and for nothing else.
func (pl *planner) confine(from int) {
	own := pl.manner
	pl.manner = manner{}
	for i := from; i < len(pl.pairs); i++ {
		pl.pairs[i].manner = &own
	}
}

// write walks the ranks.
func (pl *planner) write(emit emitter) (*replay.Program, error) {
	for _, r := range pl.ranks {
		if pl.each != nil {
			order := pl.w.Ranks
			if pl.order != nil {
				order = pl.order
			}
			for _, id := range order[r.id] {
				pl.each(r, &pl.w.Ops[id])
			}
			continue
		}
		for _, id := range pl.w.Ranks[r.id] {
			if i, ok := pl.first[id]; ok {
				around := pl.manner
				if own := pl.pairs[i].manner; own != nil {
					pl.manner = *own
				}
				emit(r, &pl.pairs[i])
				pl.manner = around
				continue
			}
			switch {
			case pl.skip[id]:
			case pl.anchored:
				r.atCapturedStart(&pl.w.Ops[id])
			default:
				r.asCaptured(&pl.w.Ops[id])
			}
		}
	}
	for _, r := range pl.ranks {
		gpu := replay.GPU{Streams: []replay.Stream{r.host.Stream}}
		for _, s := range r.streams {
			gpu.Streams = append(gpu.Streams, s.Stream)
		}
		pl.p.GPUs = append(pl.p.GPUs, gpu)
	}
	for len(pl.p.GPUs) < pl.m.GPUs {
		pl.p.GPUs = append(pl.p.GPUs, replay.GPU{})
	}
	return pl.p, nil
}

// stream returns the rank's stream for a captured queue.
func (r *rank) stream(queue int64) *stream { return r.free(queue, trace.Never) }

// free returns a stream of the queue that is idle at the captured time:
// operations that overlap on one queue, as AMD's do, need streams of their own.
func (r *rank) free(queue int64, at trace.Time) *stream {
	for _, s := range r.streams {
		if s.Queue == queue && s.end <= at {
			return s
		}
	}
	s := &stream{Stream: replay.Stream{Name: r.streamName(queue), Queue: queue}}
	r.streams = append(r.streams, s)
	return s
}

// streamName is a captured queue's number, or which of the streams that a strategy adds it is.
func (r *rank) streamName(queue int64) string {
	if queue >= 0 {
		return fmt.Sprintf("stream %d", queue)
	}
	added := map[int64]bool{queue: true}
	for _, s := range r.streams {
		if s.Queue < 0 {
			added[s.Queue] = true
			if s.Queue == queue {
				return s.Name
			}
		}
	}
	return fmt.Sprintf("added stream %d", len(added))
}

// asCaptured emits an operation where, and after what, it was captured.
func (r *rank) asCaptured(op *workload.Op) {
	s := r.free(op.Queue, op.Start)
	after := s.end
	n, issued := r.issueAsCaptured(op)
	if n > 0 {
		s.wait(r.issued, n, "host")
		after = max(after, issued)
	}
	for _, d := range op.After {
		dep := &r.pl.w.Ops[d.Op]
		if dep.End <= op.Start && r.where[d.Op] != s {
			s.wait(r.pl.done[d.Op], 1, dep.Name)
			after = max(after, dep.End)
		}
	}
	s.launch(op.Start-after, r.pl.standsFor(op))
	r.finished(s, op)
}

// standsFor is the kernel or copy for an operation that is kept.
func (pl *planner) standsFor(op *workload.Op) replay.Command {
	switch {
	case op.Kind == trace.Copy:
		return pl.copyOf(op)
	case op.Collective >= 0 && pl.exact:
		return launchOf(op, pl.measuredCollective(op))
	case op.Collective >= 0:
		return launchOf(op, pl.communication(op, 0))
	case pl.exact:
		return launchOf(op, pl.measuredKernel(op, pl.paced(op, op.Dur())))
	}
	return launchOf(op, pl.kernel(op))
}

func launchOf(op *workload.Op, k *replay.Kernel) replay.Command {
	return replay.Command{Op: replay.Launch, Kernel: k, Name: op.Name, Origin: op.ID}
}

// copyOf keeps a copy or fill as measured.
func (pl *planner) copyOf(op *workload.Op) replay.Command {
	c := &replay.Copy{Name: op.Name, From: int32(op.Rank), Peer: int32(op.Rank), Time: op.Dur(), Free: true}
	if a := pl.w.Run.Copy(pl.w.Run.Spans[op.Span]); a != nil {
		c.Attr = *a
	}
	return replay.Command{Op: replay.Start, Copy: c, Name: op.Name, Origin: op.ID}
}

func (s *stream) launch(gap trace.Time, c replay.Command) {
	c.Delay = gap
	s.Commands = append(s.Commands, c)
}

func (s *stream) wait(f replay.Flag, n int64, name string) {
	s.Commands = append(s.Commands, replay.Command{Op: replay.Wait, Flag: f, Count: n, Name: name, Origin: -1})
}

func (s *stream) post(f replay.Flag, n int64) {
	s.Commands = append(s.Commands, replay.Command{Op: replay.Post, Flag: f, Count: n, Origin: -1})
}

func (s *stream) delay(d trace.Time, why replay.Cause, name string) {
	if d > 0 {
		s.Commands = append(s.Commands, replay.Command{Op: replay.Delay, Delay: d, Why: why, Name: name, Origin: -1})
	}
}
