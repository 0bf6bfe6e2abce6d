package schedule

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A stepWriter writes a step's program.
type stepWriter struct {
	*step
	channels int       // of each collective; 0: as captured
	priority bool      // of the collectives' streams
	leaves   occupancy // of compute that it fits; the others stay as captured
	ran      []queued  // by op of the ranks that are written
}

// write has the planner write the step instead of the captured schedule.
func (sw *stepWriter) write() {
	for _, x := range sw.exchanges {
		for k := range x.members {
			x.members[k].done = sw.pl.FlagOf(x.members[k].rank, x.coll.Op.String()+" done")
		}
	}
	sw.beside()
	for rank := range sw.items {
		for _, it := range sw.items[rank] {
			it.done = sw.pl.Done[it.op.ID]
			if it.again {
				it.done = sw.pl.FlagOf(rank, it.op.Name+" again")
			}
		}
	}
	sw.ran = make([]queued, len(sw.w.Ops))
	own := sw.pl.Settings // also where the strategy is limited to some pairs
	sw.pl.WriteRank = func(r *plan.Rank) {
		sw.pl.Settings = own
		sw.rank(r)
	}
	if sw.paced {
		return
	}
	order, issued := make([][]int32, len(sw.w.Ranks)), make([]bool, len(sw.w.Ops))
	for rank := range order {
		add := func(op *workload.Op) {
			if sw.w.Ops[op.ID].Rank == rank && op.Issued != trace.Infinity && !issued[op.ID] {
				issued[op.ID] = true
				order[rank] = append(order[rank], op.ID)
			}
		}
		sw.walk(rank, func(it *item) { add(it.op) }, func(x *exchange) {
			m := x.member(rank)
			for _, p := range m.preps {
				add(p.op)
			}
			if !x.message {
				add(m.op)
			}
		})
	}
	sw.pl.IssueAhead(order)
}

// walk visits the items and exchanges of a rank in the order in which its host issues them.
func (sw *stepWriter) walk(rank int, visitItem func(*item), visitExchange func(*exchange)) {
	var mine []*exchange
	for _, x := range sw.exchanges {
		if x.member(rank) != nil {
			mine = append(mine, x)
		}
	}
	slices.SortStableFunc(mine, func(a, b *exchange) int { return cmp.Compare(a.member(rank).place, b.member(rank).place) })
	for i := int32(-1); int(i) < len(sw.items[rank]); i++ {
		if i >= 0 {
			visitItem(sw.items[rank][i])
		}
		for len(mine) > 0 && mine[0].member(rank).place <= i {
			visitExchange(mine[0])
			mine = mine[1:]
		}
	}
}

// beside estimates what computes alongside each exchange, which decides how it is slowed
// (rule L5): compute runs back to back, and the exchanges of a line run one after another,
// each from its place on. What waits for an exchange does not run alongside it.
func (sw *stepWriter) beside() {
	if sw.loop { // the next iteration
		for i := range sw.pl.Pairs {
			p := &sw.pl.Pairs[i]
			for _, x := range sw.carriers[p.Collective] {
				for k := range x.members {
					x.members[k].runners = []workload.CoRun{{Op: p.First[k], Time: sw.w.Ops[p.First[k]].DurAlone()}}
				}
			}
		}
	}
	if sw.serial || sw.loop {
		return
	}
	busy := map[line]trace.Time{}
	type during struct{ from, to trace.Time }
	placed := make([]map[int32][]*exchange, len(sw.items)) // by rank and item that the host issues it before
	for _, x := range sw.exchanges {
		for k := range x.members {
			m := &x.members[k]
			if placed[m.rank] == nil {
				placed[m.rank] = map[int32][]*exchange{}
			}
			placed[m.rank][m.place+1] = append(placed[m.rank][m.place+1], x)
		}
	}
	for rank, items := range sw.items { // compute starts behind what it waits for, collectives behind those of their stream
		starts, runs, at := make([]trace.Time, len(items)), map[*exchange]during{}, trace.Time(0)
		for i := range len(items) + 1 {
			for _, x := range placed[rank][int32(i)] {
				on := sw.lineOf(x, x.member(rank))
				from := max(at, busy[on])
				alone, _ := sw.pl.Laws().Collective(x.coll, x.coll.Bytes, sw.channels)
				busy[on] = from + alone
				runs[x] = during{from, busy[on]}
			}
			if i < len(items) {
				for _, x := range items[i].waits {
					at = max(at, runs[x].to)
				}
				starts[i] = at
				at += items[i].op.DurAlone()
			}
		}
		for x, r := range runs {
			m := x.member(rank)
			i, _ := slices.BinarySearch(starts, r.from+1)
			for i = max(0, i-1); i < len(items) && starts[i] < r.to; i++ {
				it := items[i]
				if slices.Contains(it.waits, x) {
					break
				}
				if t := min(starts[i]+it.op.DurAlone(), r.to) - max(starts[i], r.from); it.op.Kind == trace.Compute && t > 0 {
					m.runners = append(m.runners, workload.CoRun{Op: it.op.ID, Time: t})
				}
			}
		}
	}
}

// A rankWriter is the state of writing one rank.
type rankWriter struct {
	*stepWriter
	*plan.Rank
	heard map[[2]*plan.Stream]int // of two streams: up to which command of the second the first has waited for it
	last  []*item                 // serial: the last item of each stream since the last communication
	comm  *exchange               // serial: the last exchange
	copy  *item                   // serial: the last copy between ranks

	delays map[streamOf]*delay
}

// queued is where an operation ran when captured.
type queued struct {
	before *workload.Op // on its queue; nil: none
	lane   int          // which of the queue's streams: operations of one queue may overlap (AMD)
}

func (sw *stepWriter) rank(r *plan.Rank) {
	rw := &rankWriter{stepWriter: sw, Rank: r, heard: map[[2]*plan.Stream]int{}}
	rw.captured(sw.w.Ranks[r.ID])
	rw.findDelays()
	sw.walk(r.ID, rw.item, rw.exchange)
}

func (x *exchange) member(rank int) *member {
	at, ok := slices.BinarySearchFunc(x.members, rank, func(m member, rank int) int { return cmp.Compare(m.rank, rank) })
	if !ok {
		return nil
	}
	return &x.members[at]
}

// captured finds where every operation ran.
func (rw *rankWriter) captured(ids []int32) {
	ends := map[int64][]trace.Time{}
	last := map[int64]*workload.Op{}
	for _, id := range ids {
		op := &rw.w.Ops[id]
		lane := slices.IndexFunc(ends[op.Queue], func(end trace.Time) bool { return end <= op.Start })
		if lane < 0 {
			lane = len(ends[op.Queue])
			ends[op.Queue] = append(ends[op.Queue], 0)
		}
		ends[op.Queue][lane] = op.End
		rw.ran[id] = queued{last[op.Queue], lane}
		last[op.Queue] = op
	}
}

// queued is where an operation ran; the zero value if that was on another rank.
func (rw *rankWriter) queued(op *workload.Op) queued {
	if op.Rank != rw.ID {
		return queued{}
	}
	return rw.ran[op.ID]
}

// stream is the stream of an item: the captured one.
func (rw *rankWriter) stream(op *workload.Op) *plan.Stream {
	n := rw.queued(op).lane
	if on := rw.OnQueue(op.Queue); n < len(on) {
		return on[n]
	}
	return rw.NewStream(op.Queue)
}

// issue makes a stream wait until the host has issued an operation. It returns the gap on the
// device before it, if it waits for no other stream.
func (rw *rankWriter) issue(s *plan.Stream, op *workload.Op) trace.Time {
	if rw.paced {
		return rw.IssueAtPace(s, op)
	}
	rw.WaitIssued(s, op)
	return max(0, rw.pl.GapOf(op, rw.queued(op).before)+rw.delay(op))
}

// item writes a kernel or copy of compute.
func (rw *rankWriter) item(it *item) {
	op := it.op
	s := rw.stream(op)
	gap, event := rw.issue(s, op), false
	if it.piece != nil {
		gap = rw.issuePiece(s, it, gap)
		for _, d := range it.deps {
			event = rw.waitForItem(s, d) || event
		}
	} else if !it.again {
		for _, d := range op.After {
			if at := rw.at[d.Op]; at >= 0 {
				event = rw.waitForItem(s, rw.items[op.Rank][at]) && rw.paced || event
			}
		}
	}
	for _, x := range it.waits {
		event = rw.waitFor(s, x) || event
	}
	event = rw.separate(s, op) || event
	if it.piece == nil {
		rw.afterIdle(s, op)
	}
	if event {
		gap = max(gap, rw.pl.EventGap(op))
	}
	command := rw.commandOfItem(it)
	if n := rw.values.Int("programs"); n > 0 && op.Tiling.Persistent {
		command = plan.LaunchOf(op, rw.pl.AsLaunched(op, rw.pl.WithPrograms(op, rw.pl.GridOf(op, op.DurAlone()), n)))
	}
	if rw.leaves != (occupancy{}) && op.Kind == trace.Compute && rw.leaves.refuses(rw.pl, op) == "" {
		command = plan.LaunchOf(op, rw.pl.AsLaunched(op, shaped(rw.pl, op, rw.leaves)))
	}
	s.Launch(gap, command)
	rw.wrote(s, it)
}

// afterIdle makes a stream wait for what ended last before a pause of a host that the trace
// does not show: the pause begins there (rule S14).
func (rw *rankWriter) afterIdle(s *plan.Stream, op *workload.Op) {
	if rw.paced || op.Issued != trace.Infinity || rw.pl.HostIdle(op) == 0 {
		return
	}
	before, _ := rw.pl.Before(op)
	if at := rw.at[before]; at >= 0 {
		rw.waitForItem(s, rw.items[op.Rank][at])
	} else if row := rw.w.Ops[before].Collective; row >= 0 {
		for _, x := range rw.carriers[row] {
			rw.waitFor(s, x)
		}
	}
}

// wrote records where an item was written.
func (rw *rankWriter) wrote(s *plan.Stream, it *item) {
	if it.again {
		s.Post(it.done, 1)
	} else {
		rw.Written(s, it.op)
	}
	it.written = written{s, len(s.Commands)}
	switch {
	case rw.pl.Communicates(it.op):
		rw.last, rw.copy = nil, it
	case it.op.Kind == trace.Compute:
		rw.last = append(slices.DeleteFunc(rw.last, func(x *item) bool { return x.on == s }), it)
	}
}

// separate makes a stream wait, in a serial schedule, so that an operation does not run alongside
// communication or, if it communicates, alongside anything.
func (rw *rankWriter) separate(s *plan.Stream, op *workload.Op) (event bool) {
	comm := rw.pl.Communicates(op)
	if !rw.serial || op.Kind == trace.Copy && !comm {
		return false
	}
	if rw.comm != nil {
		event = rw.waitFor(s, rw.comm)
	}
	if rw.copy != nil {
		event = rw.waitForItem(s, rw.copy) || event
	}
	for _, it := range rw.last {
		event = comm && rw.waitForItem(s, it) || event
	}
	return event
}

// waitForItem makes a stream wait for compute or a copy on another one; false if it needs not.
func (rw *rankWriter) waitForItem(s *plan.Stream, it *item) bool {
	return rw.wait(s, it.written, it.done, it.op.Name)
}

// waitFor makes a stream wait for an exchange; false if it needs not.
func (rw *rankWriter) waitFor(s *plan.Stream, x *exchange) bool {
	m := x.member(rw.ID)
	return m != nil && rw.wait(s, m.written, m.done, m.op.Name)
}

// wait makes a stream wait for what was written to another one; false if it already has waited for that or for something later of it.
func (rw *rankWriter) wait(s *plan.Stream, w written, done program.Flag, name string) bool {
	if w.on == nil || w.on == s || rw.heard[[2]*plan.Stream{s, w.on}] >= w.at {
		return false
	}
	rw.heard[[2]*plan.Stream{s, w.on}] = w.at
	s.Wait(done, 1, name)
	return true
}

// exchange writes one rank's part of a collective.
func (rw *rankWriter) exchange(x *exchange) {
	m := x.member(rw.ID)
	s := rw.Stream(m.op.Queue)
	if x.name != "" {
		s = rw.Added(x.name)
	}
	if rw.priority {
		s.Priority = 1
	}
	first := s // stream that waits for the data: that of the copies in front, if there are any
	if len(m.preps) > 0 && !rw.serial {
		first = rw.Added("copies for " + cmp.Or(x.name, x.coll.Op.String()))
	}
	rw.ArriveLate(first, x.index)
	gap := rw.waitForAll(first, s, m)
	if x.message {
		rw.exchangeMessage(s, x, m)
		return
	}
	rw.afterIdle(s, m.op)
	for _, p := range m.preps {
		rw.issue(first, p.op)
		first.Launch(gap, rw.commandOf(p))
		gap = plan.Duration(rw.pl.Machine.Launch.Gap.Value)
		first.Post(rw.pl.Done[p.op.ID], 1) // a host may wait for it
	}
	if first != s {
		copied := rw.pl.Program.NewFlag("copies for " + m.op.Name)
		first.Post(copied, 1)
		s.Wait(copied, 1, "copies for "+m.op.Name)
		rw.waitForLine(s, m)
		gap = rw.pl.EventGap(m.op)
	}
	if own := rw.issue(s, m.op); gap < 0 || m.op.Graph && !rw.pl.Graph { // it stays in its graph
		gap = own
	}
	rw.AwaitUnseen(s, m.op, x.coll)
	s.Launch(gap, plan.LaunchOf(m.op, rw.pl.Regrouped(m.op, x.coll, rw.leaves.channels(rw.pl, m.op, rw.channels), m.runners)))
	if m.back > 0 {
		s.Launch(plan.Duration(rw.pl.Machine.Launch.Gap.Value), plan.LaunchOf(m.op, rw.pl.Sweep("copy of gradients out of a bucket", float64(m.back), float64(m.back))))
	}
	s.Post(m.done, 1)
	s.Post(rw.pl.Done[m.op.ID], 1)
	m.written = written{s, len(s.Commands)}
	rw.comm, rw.last = x, nil
}

// commandOf is the kernel or copy of a prep.
func (rw *rankWriter) commandOf(p prep) program.Command {
	switch {
	case p.bytes > 0:
		return plan.LaunchOf(p.op, rw.pl.Sweep("copy of gradients into a bucket", float64(p.bytes), float64(p.bytes)))
	case p.of > 1:
		return rw.pl.MidPart(p.op, p.k, p.of)
	}
	return rw.pl.CommandOf(p.op)
}

// waitForLine makes the stream of a collective wait for the one before it in its line; false if it needs not.
func (rw *rankWriter) waitForLine(s *plan.Stream, m *member) bool {
	return m.behind != nil && rw.waitFor(s, m.behind)
}

// waitForAll makes the first stream of a collective, that of its copies or its own, wait for what its data depend on. It
// returns the gap behind that; -1 in a serial schedule if nothing ran on another stream.
func (rw *rankWriter) waitForAll(s, own *plan.Stream, m *member) trace.Time {
	event := rw.separate(s, m.op)
	for _, it := range m.deps {
		event = rw.waitForItem(s, it) || event
	}
	for _, y := range m.after {
		event = rw.waitFor(s, y) || event
	}
	if s == own {
		event = rw.waitForLine(s, m) || event
	}
	if (rw.serial || rw.inPlace()) && !event && len(m.preps) == 0 {
		return -1
	}
	if rw.paced {
		return rw.pl.EventGap(m.op)
	}
	return max(rw.pl.EventGap(m.op), rw.pl.HostIdle(m.op))
}
