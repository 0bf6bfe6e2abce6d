package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Planner is what one program is written with. Package schedule walks every rank's operations
// in the order of issue (WriteRank). At the first operation of a pair a strategy takes
// over and writes both operations.
//
//	host    |issue G|issue C|...          a Delay and a Post an operation
//	queue 7 |wait host|wait events|gap|G  Post done
//	queue 19|wait host|wait G     |gap|C  Post done
type Planner struct {
	Settings // of the strategy; those of a pair replace them while it is written
	Workload *workload.Workload
	Machine  machine.Machine
	Scenario Scenario
	Lookups  machine.Questions // measured times that the plan looked up in the profile
	Program  *program.Program
	Pairs    []Pair        // pairs that the strategy serves
	First    map[int32]int // by op that begins a pair: the pair's index
	Replaced map[int32]int // by op of those pairs: index of the first pair of its chain, plus 1
	Only     map[int]bool  // rows of Workload.Pairs that a strategy may serve; nil: all
	Memory   Memory        // against the captured schedule
	Measured bool          // kernels last their measured times and hold no slots
	told                   // of the plan
	hostPlan               // how the hosts issue
	writing                // until Write has ended

	iterationOf []int32                   // by op (workload.IterationsOf), once asked for
	rounds      int                       // iterations, likewise
	blocked     cost.Memo[int, *Blocked]  // by rank
	groups      cost.Memo[*int32, *group] // by the first of the members
}

// What is told of a plan.
type told struct {
	Runs       []int8               // by op: how often the schedule runs it; nil: once
	Never      []string             // reasons for which nothing like it has run on hardware (NeverRun)
	Notes      []string             // on what the plan did (Note)
	Overlapped []trace.CollectiveOp // whose collectives all run beside compute in the captured schedule: only settings change them
	OwnGroup   bool                 // channels are those of a process group of its own, whose stream delays none (rule S23)
}

// A hostPlan is how the hosts issue operations.
type hostPlan struct {
	Ahead       bool           // they run ahead of the devices as in a loop (runAhead)
	IssueShares []float64      // by op: of the captured time to issue it, what it takes as planned; nil: all of it
	HostPeriod  trace.Time     // of the slowest rank (Rank.period); 0 unless Ahead
	once        bool           // IssueAhead: there is one iteration
	oneGraph    bool           // IssueAhead: a captured graph launches all, not only some pairs
	calm        [][]trace.Time // result of undisturbed
	without     float64        // of hostsWithout; 0: not known yet
	inGraph     *trace.Time    // graphGap; nil: not yet known
	onlyPairs   *bool          // OnlyPairs; nil: not yet known
	held        *int           // result of mostHeld; nil: not yet known
}

// A writing is what only writing needs.
type writing struct {
	WriteRank   func(r *Rank)  // writes all operations of a rank
	anchored    bool           // AtCapturedStarts
	Done        []program.Flag // by op; reaches 1 when the op, or its replacement, has ended
	ranks       []*Rank
	before      []program.Stream // of the rank written last
	hostOrder   [][]int32        // of IssueAhead, by rank; nil: the host's part is written with each operation
	place       []int32          // by op: its place in its host's order, plus 1; 0: the trace does not know when its host issued it
	called      []int32          // by op: its first issue: index in the rank's calls, plus 1
	where       []Point          // by op: behind its post
	endedBefore []int32          // result of timeOrder, once it is asked for
	busy        []bool
	costs       cost.Laws // by Laws
	gangs       cost.Memo[gangKey, []gang]
	kernels     map[trace.SpanID][]sharedKernel // of ranks with copies
}

// Settings are how a strategy launches operations and moves collectives. They hold for the
// strategy's pairs and, unless the strategy is limited to some pairs, for all other
// operations.
type Settings struct {
	Graph            bool                               // launched by a captured graph instead of by the host
	AlgoProto        machine.AlgoProto                  // algorithm and protocol that the collective library is set to
	Carrier, Sums    string                             // what moves collectives that copy (carrierNames), and those that add (sumNames)
	CollectiveKernel func(*workload.Op) *program.Kernel // kernel that replaces the library's for a collective; nil: the library's
	ChangesOnly      func(*workload.Collective) bool    // the collectives that a strategy without pairs changes; nil: all
	CollectiveTail   func(*workload.Op) *program.Kernel // kernel behind such a kernel on its stream; nil: none
	Channels         int                                // of collectives; 0: as captured
	Programs         int                                // persistent workgroups of kernels that have them; 0: as captured
}

// A Pair is a workload pair and the operations around its two operations.
type Pair struct {
	*workload.Pair
	Index       int
	Coll        *workload.Collective
	FillsBefore [][]int32 // by rank: fills that the library enqueues before the compute operation
	Between     [][]int32 // by rank: ops between First and Second that use First's output
	Dropped     [][]int32 // by rank: ops after Second that the strategy makes unnecessary
	Continued   []*Pair   // next pairs of the chain: each begins with the last operation of the one before, or after its link
	OpsBefore   [][]int32 // by rank: ops between the previous pair of the chain and this one
	Racing      int       // number of parts that race for compute units, if over 1: their dispatch order varies between runs
	Settings    *Settings // of a strategy limited to some pairs; nil: the planner's
	Emit        Emitter   // writes it; nil: its operations keep their places
}

// Links returns the pair and the pairs that continue it.
func (p *Pair) Links() []*Pair { return append([]*Pair{p}, p.Continued...) }

// last returns the last pair of the chain.
func (p *Pair) last() *Pair {
	if n := len(p.Continued); n > 0 {
		return p.Continued[n-1]
	}
	return p
}

// simulated is the memory that planning and simulating an operation takes, in bytes: 1,024 ranks
// of a DDP step, of which classes are simulated and whose runs are dropped, take 2,900 of the process
// at its largest under all strategies.
const simulated = 3000

// Affordable returns a *workload.TooLargeError if a workload is too large to simulate.
func Affordable(w *workload.Workload) error { return w.Affordable(len(w.Ops), simulated) }

// NewPlanner begins a program for a workload. It returns an error if the machine has fewer
// GPUs than the workload has ranks, or if the workload is too large to simulate.
func NewPlanner(w *workload.Workload, m machine.Machine, sc Scenario) (*Planner, error) {
	if m.GPUs < w.World {
		return nil, fmt.Errorf("the trace has %d ranks and machine %s has %d GPUs (choose one with at least %d)", w.World, m.Name, m.GPUs, w.World)
	}
	if err := Affordable(w); err != nil {
		return nil, err
	}
	pl := &Planner{
		Workload: w, Machine: m, Scenario: sc, Program: &program.Program{},
		First: map[int32]int{}, Replaced: map[int32]int{},
	}
	pl.where = make([]Point, len(w.Ops))
	pl.countRereads()
	pl.Done = make([]program.Flag, len(w.Ops))
	for id, ops := range w.Ranks {
		for i, f := range pl.Program.NewFlagsOf(ofRank(id), len(ops), func(i int) string { return fmt.Sprintf("%s done on rank %d", w.Ops[ops[i]].Name, id) }) {
			pl.Done[ops[i]] = f
		}
	}
	for id := range w.World {
		r := &Rank{Planner: pl, ID: id, HostIssued: pl.FlagOf(id, fmt.Sprintf("issued by the host of rank %d", id)), byQueue: map[int64][]*Stream{}}
		r.Host = &Stream{Stream: program.Stream{Name: "host", Queue: hostQueue, Host: true}}
		r.HostPace = w.HostPace(id, m.Launch.Call.Or(0))
		if id < len(w.Hosts) {
			r.syncs = w.Hosts[id].Syncs
		}
		pl.ranks = append(pl.ranks, r)
	}
	return pl, nil
}

// Take assigns the pairs for which ok is true to the strategy. An operation belongs to at
// most one pair; the earlier pair wins.
func (pl *Planner) Take(ok func(*workload.Pair) bool) { pl.takeAll(ok, false) }

// TakeChains is Take, but a pair whose first operations are another pair's second ones
// continues that pair: a chain.
func (pl *Planner) TakeChains(ok func(*workload.Pair) bool) { pl.takeAll(ok, true) }

func (pl *Planner) takeAll(ok func(*workload.Pair) bool, chains bool) {
	ends := map[int32]int{} // by last op of a chain on its first rank: index of the chain's head in Pairs
	for i := range pl.Workload.Pairs {
		p := &pl.Workload.Pairs[i]
		if pl.Only != nil && !pl.Only[i] || !ok(p) {
			continue
		}
		pr := pl.newPair(p)
		members := pl.members(&pr)
		head, continues := ends[p.First[0]]
		if continues = continues && chains && slices.Equal(pl.Pairs[head].last().Second, p.First); continues {
			members = slices.DeleteFunc(members, func(id int32) bool {
				return slices.Contains(p.First, id) || pl.Workload.IsFill(&pl.Workload.Ops[id]) && pl.Replaced[id] > 0
			})
		}
		if slices.ContainsFunc(members, func(id int32) bool { return pl.Replaced[id] > 0 }) {
			continue
		}
		if !continues {
			head = len(pl.Pairs)
		}
		for _, id := range members {
			pl.Replaced[id] = head + 1
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
		// The pair begins at a fill before the compute operation.
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

// newPair returns the next pair that the strategy serves, with empty lists.
func (pl *Planner) newPair(p *workload.Pair) Pair {
	byRank := func() [][]int32 { return make([][]int32, pl.Workload.World) }
	pr := Pair{Pair: p, Index: len(pl.Pairs), FillsBefore: byRank(), Between: byRank(), Dropped: byRank(), OpsBefore: byRank()}
	if p.Collective >= 0 {
		pr.Coll = &pl.Workload.Collectives[p.Collective]
	}
	return pr
}

// Note adds a sentence on what the plan did, or why a setting did nothing, each once, for those who
// ask why.
func (pl *Planner) Note(format string, args ...any) {
	pl.Notes = once(pl.Notes, fmt.Sprintf(format, args...))
}

func once(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// NeverRun notes a reason for which nothing like the plan has run on hardware, each once. A
// prediction counts it as a setting that was never run.
func (pl *Planner) NeverRun(why string) { pl.Never = once(pl.Never, why) }

// Write writes all ranks (WriteRank) and returns the program. Afterwards the planner does not hold what only
// writing needs: kernels refer to it for as long as the program is simulated.
func (pl *Planner) Write() *program.Program {
	if pl.Graph {
		pl.notOneGraph()
	}
	pl.Program.GPUs = make([]program.GPU, max(pl.Machine.GPUs, len(pl.ranks)))
	if pl.Scenario.Shared {
		replay.Share(&pl.Machine, pl.Program, len(pl.ranks), pl.alike, pl.writeRank)
	} else {
		for rank := range pl.ranks {
			pl.writeRank(rank)
		}
	}
	pl.writing = writing{}
	pl.nameOrigins()
	return pl.Program
}

// writeRank writes a rank's streams.
func (pl *Planner) writeRank(rank int) {
	r := pl.ranks[rank]
	pl.Program.Writing = ofRank(rank)
	pl.WriteRank(r)
	if pl.hostOrder != nil {
		if pl.before != nil {
			r.Host.Commands = slices.Grow(r.Host.Commands, len(pl.before[0].Commands))
		}
		r.writeHost()
	}
	streams := []program.Stream{r.Host.Stream}
	for _, s := range r.Streams {
		streams = append(streams, s.Stream)
	}
	pl.Program.GPUs[rank].Streams, pl.before, pl.Program.Writing = streams, streams, nil
	*r = Rank{Planner: pl, ID: r.ID, HostIssued: r.HostIssued}
}

// ofRank are the owners of flags of one rank.
func ofRank(rank int) *program.Owners {
	return &program.Owners{GPUs: []int32{int32(rank)}, Each: math.MaxInt32}
}

// FlagOf is a new flag of one rank.
func (pl *Planner) FlagOf(rank int, name string) program.Flag {
	return pl.Program.NewFlagsOf(ofRank(rank), 1, func(int) string { return name })[0]
}

// CommonFlag is a new flag that some ranks have in common.
func (pl *Planner) CommonFlag(ranks []int32, name string) program.Flag {
	return pl.commonFlags(ranks, nil, 1, func(int) string { return name })[0]
}

// commonFlags are n new flags that some ranks have in common. Those of one family are in each other's place on
// different ranks; nil: it is none.
func (pl *Planner) commonFlags(ranks []int32, family any, n int, name func(i int) string) []program.Flag {
	var of *program.Owners
	if len(ranks) < pl.Workload.World {
		of = &program.Owners{GPUs: ranks, Family: family}
	}
	return pl.Program.NewFlagsOf(of, n, name)
}

// alike reports whether ranks and their images do the same in the capture: all are copies of one that was
// captured, or such a one, and communicate with ranks whose images are in one group.
func (pl *Planner) alike(to []int32) bool {
	w := pl.Workload
	if len(w.Rows) != w.World || w.Captured == w.World {
		return false
	}
	for rank, row := range w.Rows {
		if row != w.Rows[to[rank]] || len(w.Ranks[rank]) != len(w.Ranks[to[rank]]) {
			return false
		}
	}
	for i := range w.Collectives {
		group := int32(-1)
		for _, id := range w.Collectives[i].Members {
			rank := w.Ops[id].Rank
			at, _ := slices.BinarySearch(w.Ranks[rank], id)
			is := w.Ops[w.Ranks[to[rank]][at]].Collective
			if group = max(group, is); is != group {
				return false
			}
		}
	}
	return true
}

// nameOrigins lets commands stand for captured operations if the workload was changed
// before it was planned.
func (pl *Planner) nameOrigins() {
	for _, gpu := range pl.Program.GPUs {
		for _, s := range gpu.Streams {
			for i := range s.Commands {
				s.Commands[i].Origin = pl.Workload.Origin(s.Commands[i].Origin)
			}
		}
	}
}

// gapHere is a captured gap on the machine of the plan. Of a gap, at most launch.gap of the
// machine of the capture is the device's launch, and follows that of the plan's machine
// (rule S2).
func (pl *Planner) gapHere(gap trace.Time) trace.Time {
	r := pl.Workload.Rescaled
	if r == nil || r.On.Launch.Gap.Value <= 0 {
		return gap
	}
	launch := max(0, min(gap, Duration(r.On.Launch.Gap.Value)))
	return gap - launch + trace.Time(float64(launch)*pl.Machine.Launch.Gap.Value/r.On.Launch.Gap.Value+0.5)
}

// CommandOf is the kernel or copy of an operation that no strategy replaces.
func (pl *Planner) CommandOf(op *workload.Op) program.Command {
	switch {
	case op.Kind == trace.Copy:
		return pl.CopyOf(op)
	case op.Collective >= 0 && pl.Measured: // from the last arrival to this rank's end
		c := &pl.Workload.Collectives[op.Collective]
		return LaunchOf(op, pl.GangFor(op, c, workload.Scaled(op.End-pl.Workload.Met(op), c.Scale)))
	case op.Collective >= 0:
		return LaunchOf(op, pl.communication(op))
	case pl.Measured:
		return LaunchOf(op, pl.MeasuredKernel(op, pl.Paced(op, pl.Workload.Lasts(op))))
	}
	return LaunchOf(op, pl.kernel(op))
}

// LaunchOf launches a kernel that stands for an operation.
func LaunchOf(op *workload.Op, k *program.Kernel) program.Command {
	return program.Command{Op: program.Launch, Kernel: k, Name: op.Name, Origin: op.ID}
}

// CopyOf is a copy or fill with its measured duration.
func (pl *Planner) CopyOf(op *workload.Op) program.Command {
	c := &program.Copy{Name: op.Name, From: int32(op.Rank), Peer: int32(op.Rank), Time: pl.Workload.Lasts(op), Free: true}
	if a := pl.Workload.Run.Copy(pl.Workload.Run.Spans[op.Span]); a != nil {
		c.Attr = *a
	}
	return program.Command{Op: program.Start, Copy: c, Name: op.Name, Origin: op.ID}
}

// AtCapturedStarts has the planner write some operations, each at its captured time regardless of all
// others.
func (pl *Planner) AtCapturedStarts(some []bool) {
	ran := make([]Queued, len(pl.Workload.Ops))
	pl.anchored, pl.WriteRank = true, func(r *Rank) {
		ids := slices.DeleteFunc(slices.Clone(pl.Workload.Ranks[r.ID]), func(id int32) bool { return !some[id] })
		FindQueued(pl.Workload, ids, ran)
		for _, id := range ids {
			op := &pl.Workload.Ops[id]
			s := r.Lane(op.Queue, ran[id].Lane)
			r.Host.Delay(op.Start-r.clock, program.HostIssue, op.Name)
			r.clock = max(r.clock, op.Start)
			s.Wait(r.HostIssued, r.postIssued(), "captured start")
			s.Launch(0, pl.CommandOf(op))
			r.Written(s, op)
		}
	}
}
