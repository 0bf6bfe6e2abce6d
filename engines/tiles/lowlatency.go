package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// lowLatency plans small collectives as one kernel of a few workgroups in which no
// rank waits for another at its start: two buffers alternate from call to call,
// and who sees the data of a call knows that its sender has left the one before
// (rule O12). Operations around the collective are unchanged.
type lowLatency struct {
	pl    *plan.Planner
	proto string
	per   int // workgroups for every rank
	calls cost.Memo[*workload.Collective, [][]program.Flag]
	slow  cost.Memo[*workload.Collective, string] // tooSlow
}

// onWire is bytes on the wire per byte of data. LL stores 4 bytes of data with 4
// of flag; the receiver sees in the data that they have come, so that no fence
// and no signal follows. A multimem store carries LL's words, once for all ranks
// of the node.
const onWire = 2

func planLowLatency(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	q := &lowLatency{
		pl: pl, proto: v["impl"], per: 1, calls: cost.Memo[*workload.Collective, [][]program.Flag]{},
		slow: cost.Memo[*workload.Collective, string]{},
	}
	if why := noMultimem(&pl.Machine); why != "" && q.proto == "multimem" {
		return nil, why
	}
	if blocks := v.Int("blocks"); blocks > 0 {
		q.per = machine.CeilDiv(blocks, pl.Workload.World)
	}
	ops := "all-gather"
	if q.proto == "ll" {
		ops = "all-gather or all-to-all"
	}
	emit, why = replaceCollectives(pl, v, ops, q.serves, q.replace, func(*workload.Pair) bool { return true })
	for i := range pl.Workload.Collectives {
		if c := &pl.Workload.Collectives[i]; why != "" && q.matches(c) && q.tooSlow(c) != "" {
			why = q.tooSlow(c)
		}
	}
	return emit, why
}

// tooSlow, of captures, is the reason why a collective is too large for the protocol: a lower bound of its time,
// the stores and copies of one workgroup, is longer than the library's whole time. "" if it is not.
func (q *lowLatency) tooSlow(c *workload.Collective) string {
	if q.pl.Workload.Run.Estimated != "" {
		return ""
	}
	return q.slow.Of(c, func() string {
		k := q.replace(&q.pl.Workload.Ops[c.Members[0]], c)
		var least trace.Time
		for i := range k.WGs {
			var sum trace.Time
			for _, p := range k.Phases(i, nil) {
				sum += p.Time
			}
			least = max(least, sum)
		}
		if library := c.TransferAlone(); least > library {
			return fmt.Sprintf("impl=%s is for small messages: one of its %d workgroups needs %.1f us for its part of the %s of %.3g MiB, the library %.1f us for all (at least blocks=%d)",
				q.proto, k.WGs, float64(least)/1e3, c.Op, float64(c.Bytes)/(1<<20), float64(library)/1e3,
				machine.CeilDiv(k.WGs*int(least), int(max(1, library))))
		}
		return ""
	})
}

// replace is the kernel in place of a collective.
func (q *lowLatency) replace(op *workload.Op, c *workload.Collective) *program.Kernel {
	if c.Op == trace.AllToAll {
		return q.allToAll(op, c)
	}
	return q.allGather(op, c)
}

// replicating are the GPUs whose switch hands one store to all.
var replicating = []string{"NVIDIA H100", "NVIDIA H200", "NVIDIA H800", "NVIDIA H20", "NVIDIA B200", "NVIDIA GB200"}

func (q *lowLatency) serves(c *workload.Collective) bool { return q.matches(c) && q.tooSlow(c) == "" }

// matches reports whether a collective is one that the protocol has.
func (q *lowLatency) matches(c *workload.Collective) bool {
	if per := min(q.pl.Machine.PerNode(), q.pl.Machine.GPUs); q.proto == "multimem" && len(c.Members)%per != 0 { // it reaches whole nodes
		return false
	}
	return len(c.Members) > 1 && c.Bytes > 0 && (c.Op == trace.AllGather || q.proto == "ll" && c.Op == trace.AllToAll)
}

// noMultimem is the reason why a machine has no multimem instructions, or "".
func noMultimem(m *machine.Machine) string {
	if m.Fabric.Topology != machine.Switch || !slices.Contains(replicating, m.GPU.Name) {
		return "impl=multimem needs a switch that adds and replicates, as that of H100 and its successors"
	}
	return ""
}

// A caller is a rank in a call.
type caller struct {
	me     int // index among the members
	ranks  []int32
	near   []bool           // by member: on this rank's node
	twin   []bool           // by member: of another node, this rank's counterpart there: as many members of its node come before it
	landed [][]program.Flag // by receiver, then sender and workgroup
	part   float64          // bytes of a workgroup
	per    int              // workgroups for every rank
}

func (q *lowLatency) caller(op *workload.Op, c *workload.Collective) caller {
	k := caller{
		me: slices.Index(c.Members, op.ID), ranks: q.pl.RanksOf(c),
		part: float64(c.Bytes) / float64(len(c.Members)*q.per), per: q.per,
	}
	k.landed = q.calls.Of(c, func() [][]program.Flag {
		return q.pl.FlagsAbout(k.ranks, len(k.ranks)*q.per, q.per, 1, func(_ int32, i int) string {
			return fmt.Sprintf("data of rank %d in %s %d", k.ranks[i/q.per], c.Op, c.Seq)
		})
	})
	var places []int // by member: members of its node before it
	before := map[int]int{}
	for _, rank := range k.ranks {
		node := q.pl.Machine.Node(int(rank))
		places = append(places, before[node])
		before[node]++
		k.near = append(k.near, node == q.pl.Machine.Node(op.Rank))
	}
	for i, place := range places {
		k.twin = append(k.twin, !k.near[i] && place == places[k.me])
	}
	return k
}

// flag is set on a member when the data of another member's workgroup has arrived.
func (k *caller) flag(to, from, wg int) program.Flag { return k.landed[to][from*k.per+wg] }

// allGather has a workgroup for every rank. This rank's packs its shard, puts it
// to its counterparts in other nodes and stores it to its node; those of the
// counterparts pass on to the node what comes from there; the others receive
// (rule O12). Every one unpacks what it has received.
func (q *lowLatency) allGather(op *workload.Op, c *workload.Collective) *program.Kernel {
	k := q.caller(op, c)
	move := func(read, write float64) program.Phase {
		return plan.Compute(q.pl.Laws().Stream(read+write, len(k.ranks)*q.per), read, write)
	}
	return q.kernel(op, c, func(i int, buf []program.Phase) []program.Phase {
		from, wg := i/q.per, i%q.per
		if from == k.me {
			buf = append(buf, move(k.part, k.part))
			for j, twin := range k.twin {
				if twin {
					buf = append(buf, plan.PutTo(k.ranks[j], k.part*onWire, k.flag(j, from, wg)))
				}
			}
			return q.broadcast(&k, from, wg, buf)
		}
		buf = append(buf, plan.Await(k.flag(k.me, from, wg), 1))
		if k.twin[from] {
			buf = q.broadcast(&k, from, wg, buf)
		}
		return append(buf, move(k.part*onWire, k.part))
	})
}

// broadcast stores a part to every other rank of the node: one store each.
func (q *lowLatency) broadcast(k *caller, from, wg int, buf []program.Phase) []program.Phase {
	bytes := k.part * onWire
	if q.proto == "multimem" && q.pl.Machine.PerNode() > 1 {
		store := q.pl.StoreTo(program.Everyone, bytes, machine.ToAll)
		store.Bytes = bytes // a packet once, whatever the pattern
		buf = append(buf, store)
	}
	for _, to := range plan.Around(len(k.ranks), k.me+1, 1)[:len(k.ranks)-1] {
		if !k.near[to] {
			continue
		}
		if q.proto != "multimem" {
			buf = append(buf, q.pl.StoreTo(k.ranks[to], bytes, machine.ToAll))
		}
		buf = append(buf, plan.Signal(k.flag(to, from, wg), ""))
	}
	return buf
}

// allToAll has a workgroup for every peer: it puts the tokens and a signal behind
// them, and waits for the peer's (rule O12).
func (q *lowLatency) allToAll(op *workload.Op, c *workload.Collective) *program.Kernel {
	k := q.caller(op, c)
	return q.kernel(op, c, func(i int, buf []program.Phase) []program.Phase {
		to, wg := (k.me+i/q.per)%len(k.ranks), i%q.per
		store, flag := plan.StoreAt(k.ranks[to], k.part), k.flag(to, k.me, wg)
		switch {
		case to == k.me:
			store.Read = k.part
			return append(buf, store)
		case k.near[to]:
			store = q.pl.StoreTo(k.ranks[to], k.part, machine.ToAll)
			store.Read = k.part
			buf = append(buf, store, q.pl.Fence(), plan.Signal(flag, "signal"))
		default:
			buf = append(buf, plan.PutTo(k.ranks[to], k.part, flag))
		}
		return append(buf, plan.Await(k.flag(k.me, to, wg), 1))
	})
}

// kernel is one of as many workgroups as ranks, times per, that stands for a
// collective of the library.
func (q *lowLatency) kernel(op *workload.Op, c *workload.Collective,
	recipe func(i int, buf []program.Phase) []program.Phase,
) *program.Kernel {
	name := fmt.Sprintf("low-latency %s (%s)", c.Op, q.proto)
	return q.pl.CommKernel(op, plan.Piece{Coll: c, Of: 1}, name, len(c.Members)*q.per, plan.SweepFootprint, recipe)
}
