package lift

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Chain is operations through which rows pass on their way into and out of a collective,
// so that any number of parts of the rows can be computed and sent one after another:
//
//	compute  |a0 b0|a1 b1|a2 b2|...  |d0|d1|d2|     Before: a b, After: d
//	comm.          |C0   |C1   |C2   |              Collectives: C0 C1 C2
//
// A program may run it as one part, or decomposed into several equal ones.
type Chain struct {
	Collectives []int32     // by captured part: row of Workload.Collectives
	Before      [][][]int32 // by rank, part: ops whose output is sent, in stream order
	After       [][][]int32 // by rank, part: ops that rearrange what was received; may be empty
	Evidence    []string

	heavy int // operations of a part that compute, such as lookups
}

// Parts is the number of captured parts.
func (c *Chain) Parts() int { return len(c.Collectives) }

// maxChain bounds the operations of one part on one rank.
const maxChain = 4096

// Chains finds the chains of a workload in order of their collectives: those captured in
// several parts, and those of several lookups whose outputs one collective sends together
// (rule V20). A single kernel and its collective, captured whole, is a Pair instead.
func Chains(w *workload.Workload) []Chain {
	if len(w.Steps) <= 1 && workload.Loop(w) { // rounds are iterations, not parts
		return nil
	}
	f := &chainFinder{newFinder(w), map[int32]bool{}, filled(len(w.Ops))}
	for i := range w.Ops {
		first(f.following, f.queued(int32(i)), int32(i))
	}
	var all []Chain
	for row := range w.Collectives {
		part, ok := f.partOf(int32(row))
		if !ok {
			continue
		}
		if n := len(all); n == 0 || !f.continues(&all[n-1], &part) {
			clear(f.member)
			all = append(all, part)
		} else {
			all[n-1].append(&part)
		}
		for r := range part.Before {
			for _, ids := range part.Before[r] {
				for _, id := range ids {
					f.member[id] = true
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(c Chain) bool { return c.Parts() == 1 && c.heavy <= 1 })
	for i := range all {
		c := &all[i]
		f.follow(c)
		if n := c.Parts(); n > 1 {
			c.Evidence = append(c.Evidence, fmt.Sprintf("captured in %d parts: the same kernels and an equal collective %d times, and no part waits for another's collective", n, n))
		}
	}
	return all
}

// append adds the only part of another chain.
func (c *Chain) append(part *Chain) {
	c.Collectives = append(c.Collectives, part.Collectives[0])
	for r := range c.Before {
		c.Before[r] = append(c.Before[r], part.Before[r]...)
	}
}

// A chainFinder finds the chains of one workload.
type chainFinder struct {
	*finder
	member    map[int32]bool // ops of the last chain found
	following []int32        // by op: the first that followed it on its stream, or -1
}

// partOf is the chain of one collective in one part.
func (f *chainFinder) partOf(row int32) (Chain, bool) {
	c := &f.Collectives[row]
	if len(c.Members) < 2 || c.In <= 0 || c.Earlier {
		return Chain{}, false
	}
	part := Chain{Collectives: []int32{row}, Before: make([][][]int32, f.World), After: make([][][]int32, f.World)}
	for _, id := range c.Members {
		op := &f.Ops[id]
		before, n, why := f.producers(op, c.In)
		if before == nil {
			return Chain{}, false
		}
		part.Before[op.Rank], part.heavy = [][]int32{before}, max(part.heavy, n)
		if part.Evidence == nil {
			part.Evidence = []string{why}
		}
	}
	return part, f.alike(&part, 0, &part)
}

// producers are the ops whose outputs together have the size of what a collective sends,
// those that prepare or pass them on included, and how many compute; nil if there are none.
func (f *chainFinder) producers(c *workload.Op, sent int64) (ops []int32, heavies int, why string) {
	at, _ := f.sent(c)
	var found []int32
	sum := int64(0)
	f.walk(at, c, maxChain, f.queuedAlone, func(op *workload.Op, r opRole) bool {
		ops = append(ops, op.ID)
		if r == heavy {
			out := output(op).bytes
			if out <= 0 || len(found) > 0 && (op.Shape != f.Ops[found[0]].Shape || op.Shape.Kind != workload.Embedding) {
				return false
			}
			found = append(found, op.ID)
			sum += out
		}
		return sum < sent
	})
	if sum != sent || len(found) == 0 {
		return nil, 0, ""
	}
	ops = f.withPreparation(ops, found)
	slices.Reverse(ops)
	if n := len(found); n > 1 {
		return ops, n, fmt.Sprintf("outputs of %d lookups together are as large as what is sent: %d bytes", n, sent)
	}
	return ops, 1, fmt.Sprintf("its output is as large as what is sent: %d bytes", sent)
}

// queuedAlone is queued, but -1 if the op waited for a collective too.
func (f *chainFinder) queuedAlone(id int32) int32 {
	if f.waitsForCollective(id) {
		return -1
	}
	return f.queued(id)
}

// withPreparation adds to ops, latest first, the fills before the first heavy one, or the
// light ones if they are those before the second heavy one too.
func (f *chainFinder) withPreparation(ops, heavies []int32) []int32 {
	first := heavies[len(heavies)-1]
	if f.waitsForCollective(first) {
		return ops
	}
	at := f.queued(first)
	if len(heavies) < 2 {
		for ; at >= 0 && f.IsFill(&f.Ops[at]); at = f.queued(at) {
			ops = append(ops, at)
		}
		return ops
	}
	var found []int32
	for same := f.queued(heavies[len(heavies)-2]); same != first; same = f.queued(same) {
		if at < 0 || f.Ops[at].Name != f.Ops[same].Name || len(found) > 0 && f.waitsForCollective(found[len(found)-1]) {
			return ops
		}
		found = append(found, at)
		at = f.queued(at)
	}
	return append(ops, found...)
}

// follow sets After: the light ops behind a chain's collectives that rewrite all of what
// was received, equally many for each part.
func (f *chainFinder) follow(c *Chain) {
	parts := c.Parts()
	for r := range c.Before {
		if len(c.Before[r]) == 0 {
			continue
		}
		ops := f.rearranging(c, r)
		n := len(ops) / parts
		c.After[r] = make([][]int32, parts)
		for p := range parts {
			c.After[r][p] = ops[p*n : (p+1)*n]
		}
		if n*parts < len(ops) || !f.alike(c, parts-1, c) {
			c.After = make([][][]int32, f.World)
			for r := range c.Before {
				c.After[r] = make([][]int32, len(c.Before[r]))
			}
			return
		}
	}
}

// rearranging are the ops of all parts on a rank, those before the first known reader
// included: if several of the collectives had ended, the host's calls do not show which
// one an op waits for.
func (f *chainFinder) rearranging(c *Chain, rank int) (ops []int32) {
	at := int32(-1)
	own := map[int32]bool{}
	for _, row := range c.Collectives {
		for _, id := range f.Collectives[row].Members {
			if f.Ops[id].Rank == rank {
				own[id] = true
				if next := f.reader[id]; next >= 0 && (at < 0 || next < at) {
					at = next
				}
			}
		}
	}
	parts := c.Before[rank]
	first, last := &f.Ops[parts[0][0]], parts[len(parts)-1][len(parts[0])-1]
	is := func(id int32) bool {
		op := &f.Ops[id]
		others := slices.ContainsFunc(op.After, func(d workload.Dep) bool { return f.Ops[d.Op].Kind == trace.Collective && !own[d.Op] })
		return f.role(op) != heavy && output(op).bytes == f.Collectives[c.Collectives[0]].Out && op.Queue == first.Queue &&
			(op.Step == first.Step || op.Step < 0 || first.Step < 0) && !others
	}
	for at >= 0 && is(at) && f.queued(at) > last && is(f.queued(at)) {
		at = f.queued(at)
	}
	for ; at >= 0 && len(ops) < len(parts)*maxSteps && is(at); at = f.following[at] {
		ops = append(ops, at)
	}
	return ops
}

// continues reports whether a part is the next one of a chain: on every rank its ops
// follow those of the last part with nothing between, and all is alike.
func (f *chainFinder) continues(c, part *Chain) bool {
	last := c.Parts() - 1
	a, b := &f.Collectives[c.Collectives[last]], &f.Collectives[part.Collectives[0]]
	if a.Op != b.Op || a.Group != b.Group || a.In != b.In || a.Out != b.Out || len(a.Members) != len(b.Members) || !f.alike(c, last, part) {
		return false
	}
	for r := range c.Before {
		if len(c.Before[r]) == 0 {
			continue
		}
		if f.reads(part.Before[r][0]) {
			return false
		}
		ids := c.Before[r][last]
		first := part.Before[r][0][0]
		if f.following[ids[len(ids)-1]] != first || f.waitsForCollective(first) || f.Ops[first].Step != f.Ops[ids[0]].Step {
			return false
		}
	}
	return true
}

// reads reports whether the dataflow, if known, has ops read what earlier parts of the last
// chain wrote: they are layers, not parts.
func (f *chainFinder) reads(ops []int32) bool {
	return slices.ContainsFunc(ops, func(id int32) bool {
		return slices.ContainsFunc(f.Edges(id), func(e workload.Edge) bool {
			return e.Kind == workload.ReadAfterWrite && !e.Reused && e.Evidence > workload.Guessed && f.member[e.Op]
		})
	})
}

// alike reports whether a chain's part i and another chain's first part run the same
// kernels on all ranks.
func (f *chainFinder) alike(a *Chain, i int, b *Chain) bool {
	same, lead := f.Workload.Alike, -1
	for r := range a.Before {
		if len(a.Before[r]) == 0 != (len(b.Before[r]) == 0) {
			return false
		}
		if len(a.Before[r]) == 0 {
			continue
		}
		if lead < 0 {
			lead = r
		}
		if !slices.EqualFunc(a.Before[lead][i], b.Before[r][0], same) {
			return false
		}
		if len(a.After[lead]) > i && len(b.After[r]) > 0 && !slices.EqualFunc(a.After[lead][i], b.After[r][0], same) {
			return false
		}
	}
	return lead >= 0
}
