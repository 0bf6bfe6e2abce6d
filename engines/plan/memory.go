package plan

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Memory is the most memory that a rank holds at a time, as a difference to that of the captured
// schedule (rule W20).
type Memory struct {
	Bytes  int64    // may be negative
	Lacks  []string // what it does not count, since the trace does not tell: it is a lower bound then
	staged int64    // the part of Bytes for buffers (Stage)
}

// Lack notes something that is not counted, once.
func (m *Memory) Lack(what string) { m.Lacks = once(m.Lacks, what) }

// Stage counts a buffer as large as a collective, which all that need one use one after another.
func (pl *Planner) Stage(c *workload.Collective) {
	if c.Guessed || c.Bytes == 0 {
		pl.Memory.Lack("buffers of collectives of unknown size")
		return
	}
	more := max(0, c.Bytes-pl.Memory.staged)
	pl.Memory.Bytes, pl.Memory.staged = pl.Memory.Bytes+more, pl.Memory.staged+more
}

// pool counts the memory of a graph that a strategy captures: what a step allocates beyond what it
// begins with stays the graph's own, beside what the steps before it took.
func (pl *Planner) pool() {
	if !pl.Graph || !slices.ContainsFunc(pl.Workload.Ops, func(op workload.Op) bool { return !op.Graph && op.Kind == trace.Compute }) {
		return
	}
	grows := int64(-1)
	for _, ids := range pl.Workload.Ranks {
		if from, _, ok := pl.levels(ids); ok {
			grows = max(grows, CapturedPeak(pl.Workload)-from)
		}
	}
	if grows < 0 {
		pl.Memory.Lack("the graph's pool")
		return
	}
	pl.Memory.Bytes += grows
}

// CapturedPeak is the most memory that a captured rank held, as its framework's allocator recorded;
// 0: not recorded.
func CapturedPeak(w *workload.Workload) (most int64) {
	for i := range w.Run.Ranks {
		for _, x := range w.Run.Ranks[i].Memory {
			most = max(most, x.Bytes)
		}
	}
	return most
}

// levels are the recorded memory of a rank when its host has issued what is in front of some
// operations, and the last of them; false if nothing was recorded meanwhile.
func (pl *Planner) levels(ids []int32) (from, to int64, ok bool) {
	if len(ids) == 0 || len(pl.Workload.Rows) <= pl.Workload.Ops[ids[0]].Rank {
		return 0, 0, false
	}
	op, last := &pl.Workload.Ops[ids[0]], &pl.Workload.Ops[ids[len(ids)-1]]
	all := pl.Workload.Run.Ranks[pl.Workload.Rows[op.Rank]].Memory
	if len(all) == 0 || op.Issued == trace.Infinity || last.Issued == trace.Infinity {
		return 0, 0, false
	}
	at := func(t trace.Time) int { // the last level by a time
		i, _ := slices.BinarySearchFunc(all, t+1, func(x trace.MemoryLevel, t trace.Time) int { return cmp.Compare(x.At, t) })
		return max(0, i-1)
	}
	before := trace.Time(0)
	for _, id := range pl.Workload.Ranks[op.Rank] {
		if t := pl.Workload.Ops[id].Issued; t < op.Issued {
			before = max(before, t)
		}
	}
	i, k := at(before), at(last.Issued)
	return all[i].Bytes, all[k].Bytes, i < k
}

// Saved is what forward of a micro-batch keeps for its backward, by what is read of each operation
// or, where sizes are not recorded, by the memory that grows meanwhile; in order of issue. It is not
// all where all is false.
func (pl *Planner) Saved(ahead, back []int32) (bytes int64, all bool) {
	w, largest, all := pl.Workload, map[int32]int64{}, true
	known := false
	for _, id := range back {
		for _, e := range w.Edges(id) {
			if !e.Recorded() || e.Reused || !slices.Contains(ahead, e.Op) {
				continue
			}
			largest[e.Op] = max(largest[e.Op], e.Bytes)
			known = true
		}
	}
	for _, n := range largest {
		bytes, all = bytes+n, all && n > 0
	}
	if known && all {
		return bytes, true
	}
	if from, to, ok := pl.levels(ahead); ok {
		return max(0, to-from), true
	}
	return bytes, false
}
