package recut

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Batch returns a copy of a workload whose iterations have up/down times the rows, in n parts
// that do not depend on each other (rule V24): two batches of half the tokens, or a batch of
// another size. Every operation becomes n, and every collective. What an operation waited for
// when captured, its parts wait for in their own part.
//
//	captured   |A      |R      |B      |          R: collective
//	2 parts    |A0 |A1 |R0 |R1 |B0 |B1 |          a strategy orders them anew
func Batch(w *workload.Workload, up, down, n int, c Cutter) *workload.Workload {
	b := *w
	b.Ops, b.Ranks, b.Origins, b.Scale = make([]workload.Op, 0, n*len(w.Ops)), nil, nil, nil
	now := make([]int32, n*len(w.Ops)) // by captured op and part
	for _, ids := range w.Ranks {
		first := len(b.Ops)
		for _, id := range ids {
			for k := range n {
				b.Ops = append(b.Ops, partOf(&w.Ops[id], k, n))
				b.Ops[len(b.Ops)-1].ID = id*int32(n) + int32(k)
			}
		}
		ops := b.Ops[first:]
		slices.SortStableFunc(ops, func(a, b workload.Op) int { return cmp.Compare(a.Start, b.Start) })
		var list []int32
		for i := range ops {
			now[ops[i].ID] = int32(first + i)
			list = append(list, int32(first+i))
		}
		b.Ranks = append(b.Ranks, list)
	}
	b.Flow, b.Collectives, b.Pairs = make([][]workload.Edge, len(b.Ops)), nil, nil
	for i := range w.Ops {
		for k := range n {
			op := &b.Ops[now[i*n+k]]
			op.ID = now[i*n+k]
			if op.Collective < 0 {
				p := c.Part(slices.Repeat([]*workload.Op{&w.Ops[i]}, up), 0, down*n)
				op.Kernel, op.Read, op.Write, op.Alone = p.Kernel, p.Read, p.Write, p.Alone
			}
			op.After = nil
			for _, d := range w.Ops[i].After {
				d.Op = now[int(d.Op)*n+k]
				op.After = append(op.After, d)
				b.Flow[op.ID] = append(b.Flow[op.ID], workload.Edge{Op: d.Op, Kind: workload.ReadAfterWrite})
			}
			if w.Flow != nil {
				for _, e := range w.Flow[i] {
					e.Op = now[int(e.Op)*n+k]
					b.Flow[op.ID] = append(b.Flow[op.ID], e)
				}
			}
			b.Flow[op.ID] = oncePerOp(b.Flow[op.ID])
		}
	}
	for i := range w.Collectives {
		for k := range n {
			part := c.Collective(slices.Repeat([]*workload.Collective{&w.Collectives[i]}, up), down*n)
			part.Seq, part.Members, part.Arrive, part.Depart, part.Shortest = part.Seq*int64(n)+int64(k), nil, 0, trace.Infinity, 0
			if w.Ops[w.Collectives[i].Members[0]].Graph { // a host launches each part, as late as the whole
				part.Late /= trace.Time(n)
			}
			for _, id := range w.Collectives[i].Members {
				op := &b.Ops[now[int(id)*n+k]]
				op.Collective, op.Alone = int32(len(b.Collectives)), 0
				part.Members = append(part.Members, op.ID)
				part.Arrive, part.Depart = max(part.Arrive, min(op.Start+part.Late, op.End)), min(part.Depart, op.End)
			}
			b.Collectives = append(b.Collectives, part)
		}
	}
	for _, p := range w.Pairs {
		for k := range n {
			part := p
			part.First, part.Second = partIDs(p.First, now, k, n), partIDs(p.Second, now, k, n)
			if p.Collective >= 0 {
				part.Collective = p.Collective*int32(n) + int32(k)
			}
			b.Pairs = append(b.Pairs, part)
		}
	}
	b.Steps = slices.Clone(w.Steps)
	for i := range b.Steps {
		b.Steps[i].Batch.Tokens = b.Steps[i].Batch.Tokens * int64(up) / int64(down)
	}
	b.TimeSteps()
	if w.Isolation != nil {
		isolation := *w.Isolation
		isolation.CoRunners, isolation.Memo = make([][]workload.CoRun, len(b.Collectives)), &workload.Memo{}
		b.Isolation = &isolation
	}
	b.Origins = make([]int32, len(b.Ops))
	for at, id := range now {
		b.Origins[id] = w.Origin(int32(at / n))
	}
	if n == 1 { // the captured schedule, of other durations
		b.Origins, b.Scale = nil, make([]float64, len(b.Ops))
		for i := range b.Ops {
			b.Scale[i] = float64(b.Ops[i].Alone) / float64(max(1, w.Ops[i].DurAlone()))
		}
		for i := range b.Collectives {
			b.Collectives[i].Scale = float64(b.Collectives[i].Alone) / float64(max(1, w.Collectives[i].TransferAlone()))
		}
	}
	b.Hosts = nil
	for rank, host := range w.Hosts {
		b.Hosts = append(b.Hosts, hostOf(w, &b, rank, host, now, n))
	}
	return &b
}

// partOf is the k-th of n parts of an op at its place in the captured one's time.
func partOf(op *workload.Op, k, n int) workload.Op {
	part := *op
	part.Batch = uint8(k)
	part.Start, part.End = op.Start+op.Dur()*trace.Time(k)/trace.Time(n), op.Start+op.Dur()*trace.Time(k+1)/trace.Time(n)
	if k > 0 {
		part.Gap = 0
	}
	return part
}

func partIDs(ids, now []int32, k, n int) (parts []int32) {
	for _, id := range ids {
		parts = append(parts, now[int(id)*n+k])
	}
	return parts
}

// oncePerOp keeps the first edge to each op; what an op waited for comes first.
func oncePerOp(edges []workload.Edge) []workload.Edge {
	slices.SortStableFunc(edges, func(a, b workload.Edge) int { return cmp.Compare(a.Op, b.Op) })
	return slices.CompactFunc(edges, func(a, b workload.Edge) bool { return a.Op == b.Op })
}

// hostOf has a rank's host issue every part at the cost of the captured op, and a captured graph with
// the parts of all of its ops in one launch.
func hostOf(w, b *workload.Workload, rank int, old *workload.Host, now []int32, n int) *workload.Host {
	h := &workload.Host{Latency: old.Latency, Syncs: old.Syncs, Issues: make([]workload.Issue, len(b.Ranks[rank]))}
	if len(b.Ranks[rank]) == 0 {
		return h
	}
	first, was := b.Ranks[rank][0], w.Ranks[rank]
	for _, at := range old.Order {
		for k := range n {
			place := now[int(was[at])*n+k] - first
			if k == 0 || !w.Ops[was[at]].Graph {
				h.Issues[place] = old.Issues[at]
			}
			h.Order = append(h.Order, place)
		}
	}
	return h
}
