package lift

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// maxWorld is more ranks than one job has had.
const maxWorld = 1 << 16

// spread places the captured ranks in the world, and makes room for the ops of all: each captured
// rank's lie where they stay.
func (l *lifter) spread() error {
	counts := make([]int, len(l.sources)) // of ops
	for i, s := range l.Run.Spans {
		if s.Kind.OnDevice() && !l.lead[trace.SpanID(i)] {
			counts[l.Run.RankOf(s)]++
		}
	}
	if err := l.place(); err != nil {
		return err
	}
	total := 0
	for _, row := range l.Rows {
		total += counts[row]
	}
	const lifted = 300 // bytes of an operation (TestMemoryPerEvent of package main)
	if err := l.Affordable(total, lifted); err != nil {
		return err
	}
	l.Ops, l.Flow, l.Ranks = make([]workload.Op, total), make([][]workload.Edge, total), make([][]int32, len(l.Rows))
	at := 0
	for rank, row := range l.Rows {
		next := at + counts[row]
		l.Ranks[rank] = make([]int32, counts[row])
		for i := range l.Ranks[rank] {
			l.Ranks[rank][i] = int32(at + i)
		}
		if src := &l.sources[row]; !l.Copies[rank] {
			src.Ops, l.flows[row] = l.Ops[at:at:next], l.Flow[at:next]
		}
		at = next
	}
	return nil
}

// fill copies the ops of captured ranks to those that nobody captured, and numbers all.
func (l *lifter) fill() {
	for _, copies := range []bool{true, false} { // a captured rank counts from its own first op until it has been copied
		for rank, row := range l.Rows {
			if l.Copies[rank] == copies {
				l.number(rank, l.sources[row].Ops, l.flows[row])
			}
		}
	}
	l.TimeSteps()
	l.noteCount(l.refuted, "dependency", "dependencies", "that the host's calls or captured graphs suggest: left out, as a kernel started before the one that it would wait for had ended")
}

// number gives a rank the ops and edges of a captured one, which count from its own first op.
func (l *lifter) number(rank int, ops []workload.Op, flows [][]workload.Edge) {
	var deps arena[workload.Dep]
	var edges arena[workload.Edge]
	for i, id := range l.Ranks[rank] {
		op, flow := ops[i], flows[i]
		if l.Copies[rank] {
			op.After, flow = deps.Keep(op.After), edges.Keep(flow)
		}
		base := id - op.ID
		for k := range op.After {
			op.After[k].Op += base
		}
		for k := range flow {
			flow[k].Op += base
		}
		op.ID, op.Rank = id, rank
		l.Ops[id], l.Flow[id] = op, flow
	}
}

// place decides how large the world is, which of its ranks each captured one
// is, and which captured one each of the others copies.
func (l *lifter) place() error {
	ranks := l.Run.Ranks
	if len(ranks) == 0 {
		return nil
	}
	l.World = len(ranks)
	stated := false
	for _, r := range ranks {
		l.World, stated = max(l.World, r.World, r.ID+1), stated || r.World > 1
	}
	if !stated && l.opt.World == 0 && l.communicates() {
		if compiled := l.ranksInNames(); compiled > l.World {
			l.World = compiled
			l.note("the trace does not say which ranks its collectives join: taken as %d ranks, for which a kernel is compiled, as its name says", l.World)
		} else if l.World == 1 {
			l.guessWorld(ranks[0].NodeGPUs)
		}
	}
	l.unseen = l.World > len(ranks)
	if l.opt.World > 0 {
		if l.opt.World < len(ranks) {
			return fmt.Errorf("world %d: the trace holds %d ranks (ask for at least as many)", l.opt.World, len(ranks))
		}
		if l.opt.World != l.World {
			l.note("a job of %d ranks, replayed as one of %d", l.World, l.opt.World)
		}
		l.World = l.opt.World
	}
	if l.World > maxWorld {
		return fmt.Errorf("a world of %d ranks is more than %d (ask for fewer ranks)", l.World, maxWorld)
	}
	l.Rows = make([]int32, l.World)
	l.Copies = make([]bool, l.World)
	for rank := range l.Rows {
		l.Rows[rank] = -1
	}
	l.ids = make([]int, len(ranks))
	var lost []int
	for row, r := range ranks {
		if r.ID >= 0 && r.ID < l.World && l.Rows[r.ID] < 0 {
			l.Rows[r.ID] = int32(row)
			l.ids[row] = r.ID
		} else {
			lost = append(lost, row)
		}
	}
	free := 0
	for _, row := range lost {
		for l.Rows[free] >= 0 {
			free++
		}
		l.Rows[free] = int32(row)
		l.ids[row] = free
		if l.World == 1 {
			continue
		}
		l.note("%s: taken for rank %d: %s", cmp.Or(ranks[row].Source, "a rank without a file"), free, whyLost(ranks[row], l.World))
	}
	l.copyMissing()
	return nil
}

// guessWorld sets the size of a job of which one rank was captured and nothing else is
// known: a rank with collectives is not alone. It is as many ranks as its node has GPUs: with fewer, the laws of
// another machine would hold.
func (l *lifter) guessWorld(gpus int) {
	if gpus < 2 {
		return
	}
	l.World = gpus
	l.note("the trace does not say which ranks its collectives join: taken as the %d GPUs of its node", gpus)
}

// ranksInNames is the number of ranks for which a kernel is compiled, as its name says; 0: no name says.
func (l *lifter) ranksInNames() (most int) {
	for _, name := range l.Run.Names {
		most = max(most, trace.RanksInKernel(name))
	}
	return most
}

// communicates reports whether any captured rank runs collectives.
func (l *lifter) communicates() bool {
	return slices.ContainsFunc(l.Run.Spans, func(s trace.Span) bool { return s.Kind == trace.Collective })
}

func whyLost(r trace.Rank, world int) string {
	switch {
	case r.ID < 0:
		return "the trace does not say which it is"
	case r.ID >= world:
		return fmt.Sprintf("it is rank %d", r.ID)
	}
	return fmt.Sprintf("another one is rank %d too", r.ID)
}

// copyMissing lets each rank that nobody captured copy the captured one with
// which it shares the smallest group, else one of all in turn.
func (l *lifter) copyMissing() {
	captured := slices.Clone(l.Rows)
	mates := l.smallestGroups(captured)
	var ranks []int // captured
	for rank, row := range captured {
		if row >= 0 {
			ranks = append(ranks, rank)
		}
	}
	first := ranks[0]
	var missing []int
	for rank, row := range captured {
		if row >= 0 {
			continue
		}
		missing = append(missing, rank)
		l.Copies[rank] = true
		l.Rows[rank] = captured[inTurn(ranks, rank)]
		if mate, ok := mates[rank]; ok {
			l.Rows[rank] = captured[mate]
		}
	}
	switch {
	case len(missing) == 0:
	case l.Captured == 1 && l.opt.World == 0 && l.Run.Ranks[0].World <= 1 && first == 0 &&
		trace.RankInName(l.Run.Ranks[0].Source) == trace.None:
		l.note("one of %d ranks captured, and the trace does not say which: replayed as if all were alike", l.World)
	case l.Captured == 1:
		l.note("rank %d of %d captured: replayed as if all ranks were alike", first, l.World)
	default:
		l.note("%d of %d ranks captured: the others are copies of these (rank %d of rank %d, for one)",
			l.Captured, l.World, missing[0], l.ids[l.Rows[missing[0]]])
	}
}

// inTurn is the captured rank that stands for another one: the captured ones, each with those
// up to the next, repeat.
//
//	captured 0 1 of 8    0 1 0 1 0 1 0 1
//	captured 0 4 of 16   0 0 0 0 4 4 4 4 0 0 0 0 4 4 4 4
func inTurn(ranks []int, rank int) int {
	n := len(ranks)
	if n == 1 {
		return ranks[0]
	}
	at, found := slices.BinarySearch(ranks, rank%(ranks[n-1]+ranks[1]-ranks[0]))
	if !found {
		at = max(0, at-1)
	}
	return ranks[at]
}

// smallestGroups maps uncaptured ranks to the lowest captured rank in the
// smallest group, short of the world, that they share with one.
func (l *lifter) smallestGroups(captured []int32) map[int]int {
	mates := map[int]int{}
	size := map[int]int{}
	for _, g := range l.Run.Groups {
		if len(g.Ranks) < 2 || len(g.Ranks) >= l.World {
			continue
		}
		mate := -1
		for _, r := range g.Ranks {
			if r >= 0 && r < l.World && captured[r] >= 0 && (mate < 0 || r < mate) {
				mate = r
			}
		}
		if mate < 0 {
			continue
		}
		for _, r := range g.Ranks {
			if r < 0 || r >= l.World || captured[r] >= 0 {
				continue
			}
			old, seen := size[r]
			if !seen || len(g.Ranks) < old || len(g.Ranks) == old && mate < mates[r] {
				mates[r], size[r] = mate, len(g.Ranks)
			}
		}
	}
	return mates
}

// A processGroup is the ranks that take part in a group's collectives.
type processGroup struct {
	ranks  []int  // ascending
	reason string // why these, where the trace does not say
}

// processGroupOf is the ranks with which a rank meets in a group, a row of Run.Groups or
// -1. A copy meets those that its original's group becomes when it is moved
// along: a group of ranks 0 and 1 of 8 stands for 2 and 3, 4 and 5, 6 and 7.
func (l *lifter) processGroupOf(rank int, group int32) processGroup {
	if group < 0 {
		return processGroup{l.all(), "the trace names no group: taken as all ranks"}
	}
	g := l.Run.Groups[group]
	size := max(g.Size, len(g.Ranks))
	switch {
	case slices.Contains(g.Ranks, rank):
		return processGroup{l.within(g.Ranks), ""}
	case size == 0:
		return processGroup{l.all(), "the trace does not say who is in its group: taken as all ranks"}
	case size >= l.World:
		return processGroup{l.all(), ""}
	}
	if ranks, ok := l.shifted(g.Ranks, rank); ok {
		return processGroup{ranks, "as in its original's group"}
	}
	if users := l.users(group); len(users) == size && slices.Contains(users, rank) {
		return processGroup{users, "the ranks that use the group"}
	}
	first := rank / size * size
	var block []int
	for r := first; r < min(first+size, l.World); r++ {
		block = append(block, r)
	}
	return processGroup{block, "the trace does not say who is in its group: taken as neighbours"}
}

func (l *lifter) all() []int {
	ranks := make([]int, l.World)
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

func (l *lifter) within(ranks []int) []int {
	var in []int
	for _, r := range ranks {
		if r >= 0 && r < l.World {
			in = append(in, r)
		}
	}
	slices.Sort(in)
	return slices.Compact(in)
}

// shifted is the group with equal steps between its ranks that holds rank when
// groups like it fill the world.
func (l *lifter) shifted(ranks []int, rank int) ([]int, bool) {
	n := len(ranks)
	if n < 2 {
		return nil, false
	}
	step := ranks[1] - ranks[0]
	if step <= 0 || l.World%(step*n) != 0 {
		return nil, false
	}
	base := func(r int) int { return r/(step*n)*(step*n) + r%step }
	for i, r := range ranks {
		if r != base(ranks[0])+i*step {
			return nil, false
		}
	}
	team := make([]int, n)
	for i := range team {
		team[i] = base(rank) + i*step
	}
	return team, true
}

// users are the captured ranks that communicate in a group.
func (l *lifter) users(group int32) []int {
	if l.groupUsers == nil {
		l.groupUsers = make([][]int, len(l.Run.Groups))
		for rank := range l.Rows {
			if l.Copies[rank] {
				continue
			}
			for _, id := range l.Ranks[rank] {
				c := l.Run.Comm(l.Run.Spans[l.Ops[id].Span])
				if c == nil || c.Group < 0 {
					continue
				}
				if u := &l.groupUsers[c.Group]; len(*u) == 0 || (*u)[len(*u)-1] != rank {
					*u = append(*u, rank)
				}
			}
		}
	}
	return l.groupUsers[group]
}

// peerOf is the rank that a kernel exchanges messages with; -1: none, or not known.
func (m *matcher) peerOf(rank int, op *workload.Op, c *trace.Comm) int {
	peer := int(c.Peer)
	if peer < 0 && m.World == 2 && op.Issued < trace.Infinity { // what was launched before the recording is of another number on each rank
		peer = 1 - rank
	}
	if c.Op != trace.SendRecv || peer == rank {
		return -1
	}
	return peer
}

// link matches messages by sender, receiver and direction (rule V33). A kernel of which the direction is not known does
// both.
func (m *matcher) link() {
	var messages []trace.Message
	for rank := range m.Ranks {
		for _, id := range m.Ranks[rank] {
			op := &m.Ops[id]
			c := m.Run.Comm(m.Run.Spans[op.Span])
			if op.Kind != trace.Collective || c == nil {
				continue
			}
			if peer := m.peerOf(rank, op, c); peer >= 0 {
				messages = append(messages, c.Message(id, int32(rank), int32(peer)))
			}
		}
	}
	m.links = trace.LinkMessages(messages)
}
