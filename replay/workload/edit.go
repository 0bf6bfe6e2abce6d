package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// An Edit is a workload in the making, of other operations than another one has: parts, repetitions or replacements of
// them. It is written in rows; Done alone numbers operations and collectives, by rank and start, and everything that
// names them follows.
type Edit struct {
	Of          *Workload
	Rows        []Row             // of a rank in the order in which its host issues them
	Collectives []Collective      // Members are rows, in any order; without Depart, Done sets Arrive and Depart by the members' times
	Pairs       []Pair            // First and Second are rows, Collective one of Collectives
	CoRunners   map[int32][]CoRun // by row of Collectives; Op is a row
	Steps       []Step            // Done sets their times
}

// A Row is an operation of an edit. Done sets its ID; what it waits for and its Collective are rows.
type Row struct {
	Op
	Flow   []Edge
	Origin int32 // operation of Edit.Of that it stands for
	Issue  int32 // operation of Edit.Of that costs the host as much as it does; -1: it costs nothing
}

// Add appends a row and returns its number. A member of a collective joins it.
func (e *Edit) Add(r Row) int32 {
	at := int32(len(e.Rows))
	if r.Collective >= 0 {
		c := &e.Collectives[r.Collective]
		c.Members = append(c.Members, at)
	}
	e.Rows = append(e.Rows, r)
	return at
}

// AddPair adds a pair of Edit.Of with the rows that its operations became; a negative one is gone, and the pair with it.
func (e *Edit) AddPair(p Pair, row func(id int32) int32) {
	step := e.Of.Ops[p.First[0]].Step
	for _, ids := range []*[]int32{&p.First, &p.Second} {
		*ids = slices.Clone(*ids)
		for i, id := range *ids {
			(*ids)[i] = row(id)
		}
		if slices.Min(*ids) < 0 {
			return
		}
	}
	first, second := &e.Rows[p.First[0]], &e.Rows[p.Second[0]]
	if p.Step += first.Step - step; p.Collective >= 0 {
		p.Collective = max(first.Collective, second.Collective)
	}
	e.Pairs = append(e.Pairs, p)
}

// Done is the workload. Its origins are captured operations; scales of durations are gone.
func (e *Edit) Done() *Workload {
	w := e.Of.Copy()
	w.Ops, w.Ranks, w.Origins = make([]Op, len(e.Rows)), make([][]int32, len(e.Of.Ranks)), make([]int32, len(e.Rows))
	w.Hosts, w.Scale = nil, nil
	ids, rows := e.number(w)
	byID := func(of []int32) {
		for i := range of {
			of[i] = ids[of[i]]
		}
	}
	if w.Flow = nil; e.Of.Flow != nil || slices.ContainsFunc(e.Rows, func(r Row) bool { return r.Flow != nil }) {
		w.Flow = make([][]Edge, len(w.Ops))
	}
	for id, row := range rows {
		r := &e.Rows[row]
		op := &w.Ops[id]
		*op, w.Origins[id] = r.Op, e.Of.Origin(r.Origin)
		op.ID = int32(id)
		for i := range op.After {
			op.After[i].Op = ids[op.After[i].Op]
		}
		slices.SortFunc(op.After, func(a, b Dep) int { return cmp.Compare(a.Op, b.Op) })
		if w.Flow == nil {
			continue
		}
		for i := range r.Flow {
			r.Flow[i].Op = ids[r.Flow[i].Op]
		}
		slices.SortStableFunc(r.Flow, func(a, b Edge) int { return cmp.Compare(a.Op, b.Op) })
		w.Flow[id] = r.Flow
	}
	for i := range e.Collectives {
		byID(e.Collectives[i].Members)
	}
	at := e.collectives(w)
	w.Pairs = e.Pairs
	for i := range w.Pairs {
		p := &w.Pairs[i]
		byID(p.First)
		byID(p.Second)
		if p.Collective >= 0 {
			p.Collective = at[p.Collective]
		}
	}
	if w.Steps = e.Steps; w.Isolation != nil {
		isolation := *w.Isolation
		isolation.CoRunners, isolation.Memo = make([][]CoRun, len(w.Collectives)), &Memo{}
		for c, with := range e.CoRunners {
			for i := range with {
				with[i].Op = ids[with[i].Op]
			}
			isolation.CoRunners[at[c]] = with
		}
		w.Isolation = &isolation
	}
	w.TimeSteps()
	w.Order = make([][]int32, len(w.Ranks))
	for row := range e.Rows {
		rank := &w.Order[e.Rows[row].Rank]
		*rank = append(*rank, ids[row])
	}
	for rank, host := range e.Of.Hosts {
		w.Hosts = append(w.Hosts, e.host(w, rank, host, rows))
	}
	return w
}

// number lists the ranks' new operations by start, and gives the id of each row and the row of each id.
func (e *Edit) number(w *Workload) (ids, rows []int32) {
	ids = make([]int32, len(e.Rows))
	for row := range e.Rows {
		rows = append(rows, int32(row))
	}
	slices.SortStableFunc(rows, func(a, b int32) int {
		x, y := &e.Rows[a], &e.Rows[b]
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Start, y.Start))
	})
	for id, row := range rows {
		ids[row] = int32(id)
		rank := &w.Ranks[e.Rows[row].Rank]
		*rank = append(*rank, int32(id))
	}
	return ids, rows
}

// collectives orders the new collectives by start, and gives the place of each row.
func (e *Edit) collectives(w *Workload) (at []int32) {
	at = make([]int32, len(e.Collectives))
	order := make([]int32, len(e.Collectives))
	for i := range e.Collectives {
		order[i] = int32(i)
		c := &e.Collectives[i]
		slices.Sort(c.Members)
		if c.Depart != 0 {
			continue
		}
		c.Arrive, c.Depart = 0, trace.Infinity
		for _, id := range c.Members {
			op := &w.Ops[id]
			c.Arrive, c.Depart = max(c.Arrive, min(op.Start+c.Late, op.End)), min(c.Depart, op.End)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(w.StartOf(&e.Collectives[a]), w.StartOf(&e.Collectives[b]))
	})
	w.Collectives = nil
	for now, row := range order {
		at[row] = int32(now)
		w.Collectives = append(w.Collectives, e.Collectives[row])
		for _, id := range e.Collectives[row].Members {
			w.Ops[id].Collective = int32(now)
		}
	}
	return at
}

// host has a rank's host issue the new operations, each at the cost of a captured one.
func (e *Edit) host(w *Workload, rank int, old *Host, rows []int32) *Host {
	h := &Host{Latency: old.Latency, Issues: make([]Issue, len(w.Ranks[rank])), Syncs: old.Syncs}
	for _, id := range w.Order[rank] {
		if w.Ops[id].Issued == trace.Infinity {
			continue
		}
		i := id - w.Ranks[rank][0]
		h.Order = append(h.Order, i)
		if of := e.Rows[rows[id]].Issue; of >= 0 {
			was := of - e.Of.Ranks[rank][0]
			h.Issues[i] = old.Issues[was]
			if sets := old.Sets[was]; sets > 0 {
				if h.Sets == nil {
					h.Sets = map[int32]trace.Time{}
				}
				h.Sets[i] = sets
			}
		}
	}
	return h
}
