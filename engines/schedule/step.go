package schedule

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A step is the captured operations of all ranks under another schedule. Compute keeps its
// streams and, except for interleaved chains, its order. Collectives run on streams of
// their own as early as the settings allow:
//
//	captured, one stream   |copy in|AG1.....|F1......|copy in|AG2.....|F2......|
//	compute                         |F1......|F2......|
//	all-gathers     |copy in|AG1....|AG2....|
//
// A collective that already ran alongside compute when captured keeps its dependencies and
// its place in the host's order of issue. One that compute waited for at once is moved to
// where its data allow, by Workload.Flow (rules W10 and W11).
type step struct {
	stepOptions
	pl        *plan.Planner
	w         *workload.Workload
	order     [][]int32       // by rank: operations in the order in which the host issues them
	turn      []int32         // serial: by op, its place in the order of all ranks
	readers   [][]int32       // by op: ops that read what it wrote
	items     [][]*item       // by rank: compute and copies, in the order in which the host issues them
	at        []int32         // by op: its index in items; -1: a collective, a copy that prepares one, or left out
	issued    []int32         // by op: number of items that its host had issued before it when captured
	async     []bool          // by row of Collectives: ran alongside compute when captured
	preps     [][]int32       // by row of Collectives: copies of all ranks that prepare its input
	exchanges []*exchange     // in the order in which every rank runs those of one stream
	carriers  [][]*exchange   // by row of Collectives: the exchanges that carry its bytes
	fsdp      bool            // the framework marks FSDP's phases
	kept      int64           // bytes of parameters kept gathered more than captured, all iterations
	ahead     int64           // bytes of parameters gathered ahead
	moved     map[int32]int32 // by copy in preps: its row
	dropped   map[int32]bool  // ops that the schedule leaves out
	computes  cost.Memo[queueOf, bool]
}

// A queueOf is a captured queue of a rank.
type queueOf struct {
	rank  int
	queue int64
}

// An item is a kernel or copy of one rank at its place in the order of issue.
type item struct {
	op    *workload.Op
	again bool // written a second time, for parameters that are gathered again
	waits []*exchange
	done  program.Flag // of a second time; else the planner's
	end   plan.Point   // behind it, once it is written

	// Of a pipeline's micro-batch: what it waits for instead of its captured dependencies.
	deps  []*item
	piece *pipelinePiece
}

// An exchange is one collective of the schedule: a captured one, or one with the bytes of
// several or of a part.
type exchange struct {
	coll    *workload.Collective
	carries []int32  // rows of Collectives
	name    string   // of its stream, where the captured one is compute's; "": the captured stream
	members []member // by rank
	index   int      // in exchanges
	repeats bool     // added: what it carries is carried before, too
	placed  bool     // its members' places are known
	turn    int32    // serial: place in the order of all ranks
	copied  bool     // its gradients are copied into the bucket anew
	message bool     // between stages of a pipeline
}

// A member is one rank's part of an exchange.
type member struct {
	rank    int
	op      *workload.Op // the captured kernel that it stands for
	preps   []prep
	back    int64   // bytes of gradients that are copied out of the bucket; 0: none are
	place   int32   // index of the item after which the host issues it; -1: before the first
	deps    []*item // what it waits for on other streams
	after   []*exchange
	behind  *exchange        // the one before it in its line, for which it waits but its preps do not; nil: none
	runners []workload.CoRun // compute that runs alongside
	done    program.Flag
	end     plan.Point // behind it, once it is written
}

// A prep is a copy that prepares a collective's input, or the k-th of several parts of it.
type prep struct {
	op    *workload.Op
	k, of int
	bytes int64 // over 0: a copy of so many bytes that was not captured; op is the collective's
}

// newStep finds the compute and the collectives of a captured step.
func newStep(pl *plan.Planner, o stepOptions) *step {
	w := pl.Workload
	s := &step{
		stepOptions: o, pl: pl, w: w,
		readers:  make([][]int32, len(w.Ops)),
		at:       make([]int32, len(w.Ops)),
		issued:   make([]int32, len(w.Ops)),
		async:    make([]bool, len(w.Collectives)),
		preps:    make([][]int32, len(w.Collectives)),
		carriers: make([][]*exchange, len(w.Collectives)),
		moved:    map[int32]int32{},
		fsdp:     slices.ContainsFunc(w.Run.Names, func(n string) bool { return strings.HasPrefix(n, "FSDP::") }),
	}
	for i := range w.Flow {
		for _, e := range w.Flow[i] {
			if reads(e) {
				s.readers[e.Op] = append(s.readers[e.Op], int32(i))
			}
		}
	}
	if o.serial {
		s.order, s.turn = serialOrder(w)
	} else {
		for rank := range w.Ranks {
			s.order = append(s.order, w.IssueOrder(rank))
		}
	}
	for _, order := range s.order {
		all := make([]item, 0, len(order))
		items := make([]*item, 0, len(order))
		for _, id := range order {
			s.at[id], s.issued[id] = -1, int32(len(items))
			if op := &w.Ops[id]; op.Collective < 0 {
				s.at[id] = int32(len(items))
				all = append(all, item{op: op})
				items = append(items, &all[len(all)-1])
			}
		}
		s.items = append(s.items, items)
	}
	s.findAsync()
	if !o.serial && !o.loop && !o.keep {
		pl.Overlapped = s.overlapped()
		s.keep = !slices.Contains(s.async, false) && ofStep(o.values) == "" // nothing moves
	}
	if s.keep || o.serial || o.loop {
		s.async = slices.Repeat([]bool{true}, len(s.async))
	}
	return s
}

// binding reports whether an edge holds under every schedule.
func binding(e workload.Edge) bool { return e.Kind != workload.StreamOnly && !e.Reused }

// reads reports whether an operation reads what another wrote.
func reads(e workload.Edge) bool { return e.Kind == workload.ReadAfterWrite && !e.Reused }

// exchange adds a captured collective as it is.
func (s *step) exchange(row int) {
	c := &s.w.Collectives[row]
	x := &exchange{coll: c, carries: []int32{int32(row)}, name: s.streamName(c), turn: s.turnOf(c.Members[0])}
	for _, id := range c.Members {
		x.members = append(x.members, member{rank: s.w.Ops[id].Rank, op: &s.w.Ops[id]})
	}
	for _, id := range s.preps[row] {
		for k := range x.members {
			if m := &x.members[k]; m.rank == s.w.Ops[id].Rank {
				m.preps = append(m.preps, prep{op: &s.w.Ops[id], of: 1})
			}
		}
	}
	s.carriers[row] = append(s.carriers[row], x)
	s.exchanges = append(s.exchanges, x)
}

// apart reports whether a collective has another communicator than its group's: a reduce-scatter that runs beside gathers.
func (s *step) apart(c *workload.Collective) bool {
	return s.values[scatterGroupParam.Name] == ownGroup && c.Op == trace.ReduceScatter && !c.Foreign
}

// streamName is the name of the added stream for a collective that was captured on a
// stream of compute; "" if it had its own. FSDP gathers and reduces on streams of their own.
func (s *step) streamName(c *workload.Collective) string {
	if s.apart(c) {
		return c.Op.String() + " stream"
	}
	if s.serial || s.inPlace() {
		return ""
	}
	for _, id := range c.Members {
		op := &s.w.Ops[id]
		if s.computesOn(op) {
			if s.fsdp {
				return c.Op.String() + " stream"
			}
			return "collectives"
		}
	}
	return ""
}

// placedFirst is an exchange, of which it is known where the host issues it.
func (s *step) placedFirst(x *exchange) *exchange {
	if !x.placed {
		x.placed = true
		s.place(x)
	}
	return x
}

// place finds where the host issues each member of an exchange and what it waits for.
func (s *step) place(x *exchange) {
	for k := range x.members {
		m := &x.members[k]
		m.place = -1
		for _, row := range x.carries {
			id := s.memberOf(row, m.rank)
			if s.async[row] {
				m.place = max(m.place, s.issued[id]-1)
				for _, d := range s.w.Ops[id].After {
					s.wait(m, x, d.Op)
				}
				continue
			}
			s.waitForData(m, x, id)
			for _, p := range m.preps {
				s.waitForData(m, x, p.op.ID)
			}
		}
	}
}

// turnOf is the turn of an operation in a serial schedule.
func (s *step) turnOf(id int32) int32 {
	if s.serial {
		return s.turn[id]
	}
	return 0
}

// memberOf is the captured kernel of a collective on a rank.
func (s *step) memberOf(row int32, rank int) int32 {
	for _, id := range s.w.Collectives[row].Members {
		if s.w.Ops[id].Rank == rank {
			return id
		}
	}
	return -1
}

// waitForData makes a member wait for the operations whose data it needs.
func (s *step) waitForData(m *member, x *exchange, id int32) {
	for _, e := range s.w.Flow[id] {
		if binding(e) {
			s.wait(m, x, e.Op)
		}
	}
}

func (s *step) wait(m *member, x *exchange, on int32) {
	switch at, c := s.at[on], s.w.Ops[on].Collective; {
	case at >= 0:
		m.place = max(m.place, at)
		m.deps = append(m.deps, s.items[m.rank][at])
	case c >= 0:
		for _, y := range s.carriers[c] {
			if y != x && !slices.Contains(m.after, y) {
				m.after = append(m.after, y)
				if before := s.placedFirst(y).member(m.rank); before != nil {
					m.place = max(m.place, before.place)
				}
			}
		}
	}
}

// need makes compute wait for the exchanges whose results it uses.
func (s *step) need() {
	for _, items := range s.items {
		for _, it := range items {
			if !it.again {
				s.needOf(it)
			}
		}
	}
}

func (s *step) needOf(it *item) {
	for _, d := range it.op.After {
		if c := s.w.Ops[d.Op].Collective; c >= 0 && s.async[c] {
			it.waits = append(it.waits, s.carriers[c]...)
		}
	}
	for _, e := range s.w.Flow[it.op.ID] {
		if c := s.w.Ops[e.Op].Collective; c >= 0 && binding(e) {
			it.waits = append(it.waits, s.carriers[c]...)
		}
		if row, moved := s.moved[e.Op]; moved && binding(e) { // what a moved copy reads must not be overwritten before
			it.waits = append(it.waits, s.carriers[row]...)
		}
	}
	if s.loop { // no later iteration uses what the collective of a pair brings
		it.waits = slices.DeleteFunc(it.waits, func(x *exchange) bool { return s.pl.Replaced[x.members[0].op.ID] > 0 })
	}
	slices.SortFunc(it.waits, func(a, b *exchange) int { return cmp.Compare(a.index, b.index) })
	it.waits = slices.Compact(it.waits)
}

// A line is what runs one after another on a rank: the collectives of a communicator, whatever their streams
// (rule S24), else those of a stream; in a serial schedule all.
type line struct {
	rank  int
	group int32 // row of Run.Groups; -1: not known, or each pair of ranks has a communicator
	queue int64
	name  string
}

func (s *step) lineOf(x *exchange, m *member) line {
	switch {
	case s.serial:
		return line{rank: m.rank, group: -1}
	case x.coll.Group >= 0 && x.coll.Op != trace.SendRecv && !x.coll.Foreign:
		if s.apart(x.coll) {
			return line{rank: m.rank, group: x.coll.Group, name: x.name}
		}
		return line{rank: m.rank, group: x.coll.Group}
	case x.name != "":
		return line{rank: m.rank, group: -1, name: x.name}
	}
	return line{rank: m.rank, group: -1, queue: m.op.Queue}
}

// sort orders the exchanges by their place on their first rank. On the other ranks those of
// one line follow the same order, so that no two ranks wait for each other.
func (s *step) sort() {
	slices.SortStableFunc(s.exchanges, func(a, b *exchange) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.members[0].place, b.members[0].place), cmp.Compare(a.carries[0], b.carries[0]))
	})
	last := map[line]*exchange{}
	for i, x := range s.exchanges {
		x.index = i
		for k := range x.members {
			m := &x.members[k]
			on := s.lineOf(x, m)
			if before := last[on]; before != nil {
				m.place = max(m.place, before.member(m.rank).place)
				m.behind = before
			}
			last[on] = x
		}
	}
}
