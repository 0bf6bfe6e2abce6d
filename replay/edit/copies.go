package edit

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Pinned returns a copy of a workload whose copies from pageable memory of the host come from pinned memory, at the rate of
// copies of the profile and no slower than captured, without a wait of the host for them (rule W29). It is the workload itself
// where it has no such copies of known bytes, or the profile no rate.
func Pinned(w *workload.Workload, m *machine.Machine) *workload.Workload {
	rate, scale := m.Engines.Host.Or(0), slices.Clone(w.Scale)
	if scale == nil {
		scale = slices.Repeat([]float64{1}, len(w.Ops))
	}
	pinned := make([]bool, len(w.Ops))
	for i := range w.Ops {
		op := &w.Ops[i]
		if rate <= 0 || !fromHost(w, op) || workload.HostMemory(op.Name) != workload.Pageable {
			continue
		}
		if bytes := w.Run.Copy(w.Run.Spans[op.Span]).Bytes; bytes > 0 && op.Dur() > 0 {
			takes := 1e9 * (m.Engines.Queued.Or(0) + float64(bytes)/rate)
			if seen := float64(op.Dur()) * scale[i]; takes < seen {
				pinned[i], scale[i] = true, scale[i]*takes/seen
			}
		}
	}
	if !slices.Contains(pinned, true) {
		return w
	}
	p := withoutWaits(w, func(id int32, _ workload.HostSync) bool { return pinned[id] })
	p.Scale = scale
	return p
}

// withoutWaits is a copy of a workload without some waits of hosts, each behind the issue of an operation.
func withoutWaits(w *workload.Workload, goes func(behind int32, wait workload.HostSync) bool) *workload.Workload {
	p := w.Copy()
	p.Hosts = slices.Clone(w.Hosts)
	for rank, h := range p.Hosts {
		if h == nil {
			continue
		}
		host := *h
		host.Syncs = nil
		for i, n := range w.IssuedBefore(rank) {
			if n == 0 || !goes(w.Ranks[rank][h.Order[n-1]], h.Syncs[i]) {
				host.Syncs = append(host.Syncs, h.Syncs[i])
			}
		}
		p.Hosts[rank] = &host
	}
	return p
}

// Ahead returns a copy of a workload in which the copies from the host that ran among kernels on a stream of compute have a
// stream of their own, each group of them one ahead of the kernels that use it (rule W28): the host issues it before the kernels
// of the group before, and it waits for those before that, which free the other of two buffers. They stay in their iteration.
//
//	captured  |H0.....|C0.|H1.....|C1.|H2.....|C2.|
//	copies    |H0.....|H1.....|H2.....|
//	compute           |C0.|   |C1.|   |C2.|
//
// With batch a group is what an iteration copies before it computes. The first group stands for that of the iteration behind the
// last one, so that every iteration has one beside it.
//
//	copies    |H1.....|H2.....|H0.....|
//	compute   |C0.|   |C1.|   |C2.|
//
// It is the workload itself where it has no such copies. Beside collectives only batches move.
func Ahead(w *workload.Workload, batch bool) *workload.Workload {
	messages := func(c workload.Collective) bool { return c.Sender > 0 } // whose members end apart
	if !batch && len(w.Collectives) > 0 || slices.ContainsFunc(w.Collectives, messages) || batch && len(w.Steps) < 2 {
		return w
	}
	var ranks []*ahead
	for rank := range w.Ranks {
		ranks = append(ranks, aheadOn(w, rank, batch))
	}
	if !slices.ContainsFunc(ranks, func(a *ahead) bool { return a.copies != nil }) {
		return w
	}
	// The line for it copies without waiting. A call that copies and waits itself stays: how much of it prepares the copy is not known.
	w = withoutWaits(w, func(behind int32, wait workload.HostSync) bool {
		_, moves := ranks[w.Ops[behind].Rank].copies[behind]
		return moves && wait.Start > w.Ops[behind].Issued
	})
	e, rows := &workload.Edit{Of: w, Steps: slices.Clone(w.Steps), Collectives: slices.Clone(w.Collectives)}, make([]int32, len(w.Ops))
	for i := range e.Collectives {
		c := &e.Collectives[i]
		c.Members, c.Depart, c.Scale = nil, 0, 0
	}
	if !addTogether(e, ranks, rows) {
		return w
	}
	if w.Isolation != nil {
		e.CoRunners = map[int32][]workload.CoRun{}
		for i, with := range w.Isolation.CoRunners {
			for _, run := range with {
				e.CoRunners[int32(i)] = append(e.CoRunners[int32(i)], workload.CoRun{Op: rows[run.Op], Time: run.Time})
			}
		}
	}
	for _, p := range w.Pairs {
		e.AddPair(p, func(id int32) int32 { return rows[id] })
	}
	return e.Done()
}

// addTogether writes the operations of all ranks, each rank's in its order, and members of a collective when all have come to it.
// It reports whether they all come to each.
func addTogether(e *workload.Edit, ranks []*ahead, rows []int32) bool {
	w := e.Of
	missing, met := make([]int, len(w.Collectives)), make([]trace.Time, len(w.Collectives)) // members, and their last start
	for i := range w.Collectives {
		missing[i] = len(w.Collectives[i].Members)
	}
	next, came := make([]int, len(ranks)), make([]bool, len(ranks)) // came: to the collective that is next
	for moves := true; moves; {
		moves = false
		for rank, a := range ranks {
			for ; next[rank] < len(a.order); next[rank], came[rank], moves = next[rank]+1, false, true {
				id := a.order[next[rank]]
				r := a.row(e, id, rows)
				if c := r.Collective; c >= 0 {
					if !came[rank] {
						came[rank], moves = true, true
						missing[c], met[c] = missing[c]-1, max(met[c], r.Start)
					}
					if missing[c] > 0 {
						break
					}
					was := &w.Collectives[c]
					took := was.Transfer()
					if was.Scale > 0 {
						took = workload.Scaled(took, was.Scale)
					}
					r.End = max(r.Start, met[c]+was.Late+took+w.Ops[id].End-was.Depart)
				}
				rows[id] = e.Add(r)
				a.ends[r.Queue] = r.End
			}
		}
	}
	for rank, a := range ranks {
		if next[rank] < len(a.order) {
			return false
		}
	}
	return true
}

// An ahead is a rank whose copies move.
type ahead struct {
	w      *workload.Workload
	order  []int32         // in which the host issues the operations now
	copies map[int32]int32 // the copies that move, by op: what frees their buffer; -1: nothing
	behind map[int32]int32 // the step of those that stand for the iteration behind the last one
	queue  int64           // of compute that they ran on
	free   int64           // that they run on now
	begins trace.Time      // of the rank's first operation
	ends   map[int64]trace.Time
}

// aheadOn finds the copies from the host of a rank that wait on the stream of compute which has most of them, in groups that
// kernels follow, and the new order: each group in front of the kernels of the group before.
func aheadOn(w *workload.Workload, rank int, batch bool) *ahead {
	a := &ahead{w: w, order: w.IssueOrder(rank), ends: map[int64]trace.Time{}}
	computes, took := map[int64]bool{}, map[int64]trace.Time{}
	if len(w.Ranks[rank]) > 0 {
		a.begins = w.Ops[w.Ranks[rank][0]].Start
	}
	for _, id := range a.order {
		op := &w.Ops[id]
		a.free = max(a.free, op.Queue+1)
		computes[op.Queue] = computes[op.Queue] || op.Kind == trace.Compute
		if fromHost(w, op) {
			took[op.Queue] += op.Dur()
		}
	}
	most := trace.Time(0)
	for _, id := range a.order {
		if q := w.Ops[id].Queue; computes[q] && took[q] > most {
			a.queue, most = q, took[q]
		}
	}
	switch {
	case most == 0:
	case batch:
		a.byBatches()
	default:
		a.byLayers()
	}
	return a
}

// byLayers moves groups of copies with kernels between them.
func (a *ahead) byLayers() {
	w := a.w
	a.copies = map[int32]int32{}
	var order, waiting, now []int32               // operations behind the group of copies before, and behind the last one
	last, computed := [3]int32{-1, -1, -1}, false // the last operations of compute in these groups, and of the one before
	of, _ := workload.IterationsOf(w)
	round := int32(-1)
	for _, id := range a.order {
		op := &w.Ops[id]
		if op.Queue == a.queue && fromHost(w, op) {
			if of[id] != round { // nothing is copied before its iteration begins
				order, waiting, now, computed, round = slices.Concat(order, waiting, now), nil, nil, false, of[id]
				last = [3]int32{max(last[1], last[2]), max(last[1], last[2]), -1}
			}
			if computed { // the next group
				order, waiting, now, computed = append(order, waiting...), now, nil, false
				last = [3]int32{last[1], last[2], -1}
			}
			if a.hostLate(id) || slices.ContainsFunc(op.After, func(d workload.Dep) bool { // on another stream
				return w.Ops[d.Op].Queue != a.queue && (slices.Contains(now, d.Op) || slices.Contains(waiting, d.Op))
			}) {
				order, waiting, now = slices.Concat(order, waiting, now), nil, nil
			}
			order, a.copies[id] = append(order, id), last[0]
			continue
		}
		now = append(now, id)
		if op.Queue == a.queue {
			last[2], computed = id, computed || op.Kind == trace.Compute
		}
	}
	a.order = slices.Concat(order, waiting, now)
}

// byBatches moves the copies with which iterations begin; none where the host makes what it copies, or another stream does.
func (a *ahead) byBatches() {
	w := a.w
	first, last, computed := make([][]int32, len(w.Steps)), make([]int32, len(w.Steps)), make([]bool, len(w.Steps))
	rest := make([][]int32, len(w.Steps)) // operations by iteration, without the copies that it begins with
	for _, id := range a.order {
		op := &w.Ops[id]
		switch at := op.Step; {
		case at < 0:
			return
		case op.Queue == a.queue && fromHost(w, op) && !computed[at]:
			if a.hostLate(id) || slices.ContainsFunc(op.After, func(d workload.Dep) bool { return w.Ops[d.Op].Queue != a.queue }) {
				return
			}
			first[at] = append(first[at], id)
		default:
			rest[at] = append(rest[at], id)
			if op.Queue == a.queue {
				last[at], computed[at] = id, computed[at] || op.Kind == trace.Compute
			}
		}
	}
	if slices.Contains(computed, false) || slices.ContainsFunc(first, func(ids []int32) bool { return len(ids) == 0 }) {
		return
	}
	a.order, a.copies, a.behind = nil, map[int32]int32{}, map[int32]int32{}
	for at, ids := range rest {
		next, frees := (at+1)%len(rest), int32(-1)
		if at > 0 {
			frees = last[at-1]
		}
		for _, id := range first[next] {
			if a.copies[id] = frees; next == 0 {
				a.behind[id] = int32(at)
			}
		}
		a.order = slices.Concat(a.order, first[next], ids)
	}
}

// row is an operation, as early as the stream that it runs on and what it waits for let it start behind its captured gap.
func (a *ahead) row(e *workload.Edit, id int32, rows []int32) workload.Row {
	r := workload.Row{Op: a.w.Ops[id], Origin: id, Issue: id}
	frees, moves := a.copies[id]
	behind, last := a.behind[id]
	if last {
		r.Step = behind
	}
	r.After = nil
	gone := func(dep int32) bool { // the stream's order, in front of a copy; and copies of the iteration behind the last one
		_, late := a.behind[dep]
		return late || moves && a.w.Ops[dep].Queue == a.queue
	}
	for _, d := range a.w.Ops[id].After {
		if !gone(d.Op) {
			r.After = append(r.After, workload.Dep{Op: rows[d.Op], Why: d.Why})
		}
	}
	if len(a.w.Ops[id].After) == 0 { // its gap counts from time 0
		r.Gap = r.Start - a.begins
	}
	if moves {
		r.Queue = a.free // its gap, which its host takes, stays
		if frees >= 0 {
			r.After = append(r.After, workload.Dep{Op: rows[frees], Why: workload.HostWait})
		}
	}
	if a.w.Flow != nil {
		for _, edge := range a.w.Flow[id] {
			if !gone(edge.Op) {
				edge.Op = rows[edge.Op]
				r.Flow = append(r.Flow, edge)
			}
		}
	}
	from, took := max(a.begins, a.ends[r.Queue]), r.Dur()
	if a.w.Scale != nil {
		took = workload.Scaled(took, a.w.Scale[id])
	}
	for _, d := range r.After {
		from = max(from, e.Rows[d.Op].End)
	}
	r.Start = from + r.Gap
	r.End = r.Start + took
	return r
}

// hostLate reports whether the host worked longer before it issued a copy than the copy takes, as to make what is copied: then
// it is issued no earlier.
func (a *ahead) hostLate(id int32) bool {
	op := &a.w.Ops[id]
	if op.Rank >= len(a.w.Hosts) || a.w.Hosts[op.Rank] == nil {
		return false
	}
	i := int(id - a.w.Ranks[op.Rank][0])
	return i < len(a.w.Hosts[op.Rank].Issues) && a.w.Hosts[op.Rank].Issues[i].Work > op.Dur()
}

func fromHost(w *workload.Workload, op *workload.Op) bool {
	c := w.Run.Copy(w.Run.Spans[op.Span])
	return op.Kind == trace.Copy && c != nil && c.Dir == trace.HostToDevice
}

// Eager is the workload with every operation of captured graphs launched by the host, at the profile's costs and the pace
// of the captured host (rules H1 and H3); the workload itself if no graph was captured.
func Eager(w *workload.Workload, m machine.Machine) *workload.Workload {
	if !slices.ContainsFunc(w.Ops, func(op workload.Op) bool { return op.Graph }) {
		return w
	}
	e := w.Copy()
	e.Hosts, e.Origins = make([]*workload.Host, len(w.Ranks)), make([]int32, len(w.Ops))
	for i := range e.Ops {
		e.Origins[i] = w.Origin(int32(i))
	}
	laws := cost.Laws{Machine: &m, Workload: w}
	for rank, ids := range w.Ranks {
		h := workload.Host{Latency: nanoseconds(m.Launch.Gap.Or(0))}
		if rank < len(w.Hosts) && w.Hosts[rank] != nil {
			h = *w.Hosts[rank]
		}
		h.Issues, h.Order = append(slices.Clone(h.Issues), make([]workload.Issue, len(ids)-len(h.Issues))...), nil
		pace := w.HostPace(rank, m.Launch.Call.Or(0))
		for i, id := range ids {
			if op := &e.Ops[id]; op.Graph {
				launch := laws.Launch(op, op.Collective >= 0 && !w.Collectives[op.Collective].Foreign)
				op.Graph, op.Issued, h.Issues[i] = false, min(op.Issued, op.Start), workload.Issue{Work: nanoseconds(launch * pace)}
			}
			if e.Ops[id].Issued != trace.Infinity {
				h.Order = append(h.Order, int32(i))
			}
		}
		slices.SortStableFunc(h.Order, func(a, b int32) int { return cmp.Compare(e.Ops[ids[a]].Issued, e.Ops[ids[b]].Issued) })
		e.Hosts[rank] = &h
	}
	return e
}
