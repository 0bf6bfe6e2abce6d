package schedule

import (
	"cmp"
	"iter"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Parameters that are sharded over ranks are gathered before they are used (ZeRO-3, FSDP).
// Their all-gathers depend on nothing in the same iteration, so that only memory limits how
// early they run: prefetch is how many may be gathered ahead of the one in use.

// limitPrefetch makes moved all-gathers wait until the parameters gathered some places before
// them are in use (rule W11). With ahead 0, fully_shard's own limits hold: in forward the
// host issues a gather in front of the compute that uses it, and two are in flight; in
// backward it issues the next one behind the copy of this one. A captured gather that is issued in front of its use, behind the
// reduction of the block before (FSDP1 without backward_prefetch: its hooks prefetch only on request), is issued where ahead says. It reports
// whether it limits any gather.
func (s *step) limitPrefetch(ahead int) (limited bool) {
	type key struct {
		rank  int
		group int32
	}
	gathers := map[key][]*exchange{}
	var keys []key
	for _, x := range s.exchanges {
		if x.coll.Op != trace.AllGather {
			continue
		}
		for k := range x.members {
			id := key{x.members[k].rank, x.coll.Group}
			if len(gathers[id]) == 0 {
				keys = append(keys, id)
			}
			gathers[id] = append(gathers[id], x)
		}
	}
	for _, id := range keys {
		limited = s.limitOf(id.rank, gathers[id], ahead) || limited
	}
	if limited && ahead > 1 { // each one more than one ahead is a block's parameters
		largest := int64(0)
		for _, x := range gathers[keys[0]] {
			largest = max(largest, x.coll.Bytes)
		}
		s.ahead = int64(ahead-1) * largest
	}
	return limited
}

func (s *step) limitOf(rank int, gathers []*exchange, ahead int) (limited bool) {
	used := map[*exchange]int32{} // index of the first item that waits for it
	for i, it := range s.items[rank] {
		for _, x := range it.waits {
			if _, before := used[x]; !before {
				used[x] = int32(i)
			}
		}
	}
	gathers = slices.DeleteFunc(slices.Clone(gathers), func(x *exchange) bool {
		m := x.member(rank)
		if _, waited := used[x]; !waited {
			return true
		}
		ofStep := !s.async[x.carries[0]] && m.place >= 0 && s.sameStep(rank, m.place, used[x]) // its data are made in the same iteration
		return ofStep && !x.repeats
	})
	slices.SortStableFunc(gathers, func(a, b *exchange) int { return cmp.Compare(used[a], used[b]) })
	for i, x := range gathers {
		if s.async[x.carries[0]] && ahead == 0 && !x.repeats {
			continue
		}
		m, in := x.member(rank), s.items[rank][used[x]].op
		if s.async[x.carries[0]] && !x.repeats && i >= ahead && m.place >= used[gathers[i-ahead]] { // captured so, or later
			at, notAhead := used[gathers[i-ahead]], m.place == used[x]-1 // as hooks of FSDP1 issue it
			if notAhead && s.sameStep(rank, at, used[x]) && s.issuesBetween(rank, at, m.place, x) {
				m.place = at
			}
			limited = true
			continue
		}
		n := ahead
		switch {
		case ahead > 0:
		case !s.fsdp:
			n = 1
		case !in.Backward && !x.repeats:
			n = 2
			m.place = max(m.place, used[x]-1)
		default:
			n = 1
			if i == 0 || !s.items[rank][used[gathers[i-1]]].op.Backward && !gathers[i-1].repeats {
				m.place = max(m.place, used[x]-1)
			}
		}
		if i >= n {
			s.waitForUse(m, gathers[i-n], used[gathers[i-n]])
		} else {
			m.place = max(m.place, s.firstOf(rank, used[x])-1)
		}
		limited = true
	}
	return limited
}

// issuesBetween reports whether the host issues a collective behind one item and not behind another one, besides x. Without one the
// device runs x at the same time wherever between them the host issues it: hosts are ahead of it, and the collectives of a
// communicator keep their order (rule S24).
func (s *step) issuesBetween(rank int, from, to int32, x *exchange) bool {
	return slices.ContainsFunc(s.exchanges, func(other *exchange) bool {
		k := slices.IndexFunc(other.members, func(m member) bool { return m.rank == rank })
		return other != x && !other.coll.Earlier && k >= 0 && other.members[k].place > from && other.members[k].place <= to
	})
}

// waitForUse makes a gather wait until the parameters of another one are in use: copied out
// of its buffer or, if compute reads them in place, when that begins.
func (s *step) waitForUse(m *member, other *exchange, at int32) {
	m.place = max(m.place, at)
	if s.readsOnly(s.items[m.rank][at].op.ID, other.member(m.rank).op.ID) {
		m.deps = append(m.deps, s.items[m.rank][at])
		return
	}
	m.after = append(m.after, other)
	if at > 0 {
		m.deps = append(m.deps, s.items[m.rank][at-1])
	}
}

// limitReductions keeps one reduce-scatter in flight, as fully_shard does: the copy that
// prepares the next one waits for the one before (rule W11).
func (s *step) limitReductions() {
	last := map[int]*exchange{}
	for _, x := range s.exchanges {
		if !s.fsdp || x.coll.Op != trace.ReduceScatter || s.async[x.carries[0]] {
			continue
		}
		for k := range x.members {
			m := &x.members[k]
			if before := last[m.rank]; before != nil && m.place >= 0 {
				it := s.items[m.rank][m.place]
				it.waits = append(it.waits, before)
			}
			last[m.rank] = x
		}
	}
}

// sameStep reports whether two items of a rank belong to the same iteration.
func (s *step) sameStep(rank int, a, b int32) bool {
	return s.items[rank][a].op.Step == s.items[rank][b].op.Step
}

// firstOf is the first item of the iteration of an item.
func (s *step) firstOf(rank int, at int32) int32 {
	for at > 0 && s.sameStep(rank, at-1, at) {
		at--
	}
	return at
}

// keepGathered leaves out the gathers of backward, whose parameters forward has gathered
// already, with the copies in front of and behind them (rule W11). The parameters stay in
// memory. It reports whether there are any.
func (s *step) keepGathered() bool {
	out := map[int32]bool{}
	for row, c := range s.gathers() {
		if c.Earlier || s.gatheredBefore(row) == 0 { // parts go with the last one
			continue
		}
		s.kept += c.Bytes
		s.async[row] = false
		for _, id := range c.Members {
			out[id] = true
			for _, prep := range s.copiesFor(id, s.partsOf(row, s.w.Ops[id].Rank)...) {
				out[prep] = true
			}
			for _, reader := range s.readers[id] {
				if s.readsOnly(reader, id) {
					out[reader] = true
					for _, table := range s.tablesOf(reader) {
						out[table] = true
					}
				}
			}
		}
		s.preps[row] = nil
	}
	s.dropped = out
	for id := range out {
		s.runs(id, 0)
	}
	s.leaveOut(func(it *item) bool { return out[it.op.ID] })
	return len(out) > 0
}

// partsOf are a rank's operations that are earlier parts of a collective by copy engines.
func (s *step) partsOf(row, rank int) (parts []int32) {
	c := &s.w.Collectives[row]
	for row--; row >= 0; row-- {
		switch d := &s.w.Collectives[row]; {
		case d.Op != c.Op || d.Group != c.Group:
		case !d.Earlier:
			return parts
		default:
			for _, id := range d.Members {
				if s.w.Ops[id].Rank == rank {
					parts = append(parts, id)
				}
			}
		}
	}
	return parts
}

// runs notes that the schedule runs an operation so often.
func (s *step) runs(id int32, times int8) {
	if s.pl.Runs == nil {
		s.pl.Runs = slices.Repeat([]int8{1}, len(s.w.Ops))
	}
	s.pl.Runs[id] = times
}

// gathersAgain reports whether backward gathers parameters that forward has gathered.
func (s *step) gathersAgain() bool {
	for row := range s.gathers() {
		if s.gatheredBefore(row) > 0 {
			return true
		}
	}
	return false
}

// gathers are the all-gathers, by row of Collectives.
func (s *step) gathers() iter.Seq2[int, *workload.Collective] {
	return func(yield func(int, *workload.Collective) bool) {
		for row := range s.w.Collectives {
			if c := &s.w.Collectives[row]; c.Op == trace.AllGather && !yield(row, c) {
				return
			}
		}
	}
}

// keepsGathered reports whether backward uses parameters that only forward gathers.
func (s *step) keepsGathered() bool {
	for _, c := range s.gathers() {
		if _, use := s.useInBackward(c.Members[0]); use != nil {
			return true
		}
	}
	return false
}

// gatheredBefore is how many gathers of the same size forward did in the iteration of a gather of
// backward; 0 for one of forward.
func (s *step) gatheredBefore(row int) int {
	c, n := &s.w.Collectives[row], 0
	if !s.w.Ops[c.Members[0]].Backward || s.ofProducts(c.Members[0]) {
		return 0
	}
	for other := range row {
		d := &s.w.Collectives[other]
		if d.Op == c.Op && d.Bytes == c.Bytes && s.w.Ops[d.Members[0]].Step == s.w.Ops[c.Members[0]].Step && !s.w.Ops[d.Members[0]].Backward {
			n++
		}
	}
	return n
}

// ofProducts reports whether recorded data show that what a collective sends was computed in its iteration by a GEMM: it is no
// parameter.
func (s *step) ofProducts(id int32) bool {
	return s.reaches(id, func(at int32, visit func(int32)) {
		for _, e := range s.w.Flow[at] {
			if reads(e) && e.Evidence == workload.Exact {
				visit(e.Op)
			}
		}
	}, func(op *workload.Op) bool { return op.Matrix() })
}

// forProducts reports whether recorded data show that a GEMM of the backward pass reads what a collective receives in its
// iteration: it is no gradient of a parameter.
func (s *step) forProducts(id int32) bool {
	return s.reaches(id, func(at int32, visit func(int32)) {
		for _, reader := range s.readers[at] {
			if slices.ContainsFunc(s.w.Flow[reader], func(e workload.Edge) bool { return e.Op == at && e.Evidence == workload.Exact }) {
				visit(reader)
			}
		}
	}, func(op *workload.Op) bool { return op.Matrix() && op.Backward })
}

// reaches reports whether a walk from an operation within its iteration comes to one.
func (s *step) reaches(id int32, next func(at int32, visit func(int32)), found func(*workload.Op) bool) bool {
	seen, list := map[int32]bool{id: true}, []int32{id}
	for i := 0; i < len(list); i++ {
		if i > 0 && found(&s.w.Ops[list[i]]) {
			return true
		}
		next(list[i], func(op int32) {
			if !seen[op] && s.w.Ops[op].Step == s.w.Ops[id].Step {
				seen[op], list = true, append(list, op)
			}
		})
	}
	return false
}

// readsOnly reports whether all that an operation reads, of what this iteration wrote, was
// written by the given one: a copy out of a gather's buffer.
func (s *step) readsOnly(reader, from int32) bool {
	for _, e := range s.w.Flow[reader] {
		if reads(e) && e.Op != from && s.w.Ops[e.Op].Kind == trace.Compute {
			return false
		}
	}
	op := &s.w.Ops[reader]
	return !op.Matrix()
}

// tablesOf are the copies whose result only the given operation reads: of the host's tables that say where parameters lie.
func (s *step) tablesOf(reader int32) (tables []int32) {
	for _, e := range s.w.Flow[reader] {
		if reads(e) && s.w.Ops[e.Op].Kind == trace.Copy && s.onlyFor(e.Op, reader, nil) {
			tables = append(tables, e.Op)
		}
	}
	return tables
}

// gatherAgain adds the gathers of backward to a capture that keeps parameters gathered: for
// each gather of forward whose parameters backward reads, one more with the same copies
// (rule W11). In between they take no memory. It reports whether there are any.
func (s *step) gatherAgain() bool {
	var added []regather // all are found before the first is added: that moves the items behind it
	for row, c := range s.gathers() {
		if c.Earlier {
			continue
		}
		if x, ok := s.regatherOf(int32(row), c); ok {
			added = append(added, x)
			s.kept -= c.Bytes
		}
	}
	for _, x := range added {
		s.regather(x)
	}
	s.number()
	return len(added) > 0
}

// A regather is a gather that is added.
type regather struct {
	*exchange
	uses [][2]*item // by member: the copy behind the gather, nil if compute reads it in place, and the item of backward that first reads it
}

func (s *step) regatherOf(row int32, c *workload.Collective) (x regather, ok bool) {
	again := *c
	x.exchange = &exchange{coll: &again, carries: []int32{row}, name: s.streamName(c), repeats: true}
	for _, id := range c.Members {
		op := &s.w.Ops[id]
		copyOut, use := s.useInBackward(id)
		if use == nil {
			return x, false
		}
		m := member{rank: op.Rank, op: op}
		parts := s.partsOf(int(row), op.Rank)
		for _, p := range s.copiesFor(id, parts...)[len(parts):] {
			m.preps = append(m.preps, prep{op: &s.w.Ops[p], of: 1})
		}
		x.members = append(x.members, m)
		x.uses = append(x.uses, [2]*item{copyOut, use})
	}
	return x, true
}

// regather adds a gather and the copy behind it in front of what reads them in backward.
func (s *step) regather(x regather) {
	for k, u := range x.uses {
		m := &x.members[k]
		s.runs(m.op.ID, 2)
		for _, p := range m.preps {
			s.runs(p.op.ID, 2)
		}
		waiting := u[1]
		if u[0] != nil {
			waiting = &item{op: u[0].op, again: true}
			s.runs(u[0].op.ID, 2)
			at := slices.Index(s.items[m.rank], u[1])
			for _, table := range s.tablesOf(u[0].op.ID) {
				s.items[m.rank] = slices.Insert(s.items[m.rank], at, &item{op: &s.w.Ops[table], again: true})
				s.runs(table, 2)
				at++
			}
			s.items[m.rank] = slices.Insert(s.items[m.rank], at, waiting)
		}
		waiting.waits = append(waiting.waits, x.exchange)
	}
	s.exchanges = append(s.exchanges, x.exchange)
}

// useInBackward finds the copy that reads a gather's output, nil if compute reads it in
// place, and the first item of backward that reads the parameters; nil: none does, or
// backward gathers them already.
func (s *step) useInBackward(id int32) (copyOut, use *item) {
	rank := s.w.Ops[id].Rank
	from := []int32{id}
	for _, r := range s.readers[id] {
		if s.at[r] >= 0 && s.readsOnly(r, id) {
			copyOut = s.items[rank][s.at[r]]
			from = append(from, r)
		}
	}
	if s.w.Ops[id].Backward {
		return nil, nil
	}
	best := int32(-1)
	for _, f := range from {
		for _, r := range s.readers[f] {
			if at := s.at[r]; at >= 0 && s.w.Ops[r].Backward && (best < 0 || at < best) {
				best = at
			}
		}
	}
	if best < 0 {
		return nil, nil
	}
	return copyOut, s.items[rank][best]
}
