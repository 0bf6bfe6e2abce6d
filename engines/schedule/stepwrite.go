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
	channels limits        // of each collective
	priority bool          // of the collectives' streams
	leaves   occupancy     // of compute that it fits; the others stay as captured
	ran      []plan.Queued // by op of the ranks that are written
	own      plan.Settings // of operations of no pair, or of one that the strategy is not limited to
}

// write has the planner write the step instead of the captured schedule.
func (sw *stepWriter) write() {
	for _, x := range sw.exchanges {
		for k := range x.members {
			m := &x.members[k]
			if m.done = sw.pl.Done[m.op.ID]; !sw.inPlace() {
				m.done = sw.pl.FlagOf(m.rank, x.coll.Op.String()+" done")
			}
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
	sw.ran = make([]plan.Queued, len(sw.w.Ops))
	sw.own = sw.pl.Settings
	sw.pl.WriteRank = sw.rank
	if sw.pl.Measured && !sw.w.Unprofiled && !sw.pl.Graph && sw.w.Origins == nil { // at the captured pace
		return
	}
	order, issued := make([][]int32, len(sw.w.Ranks)), make([]bool, len(sw.w.Ops))
	for rank := range order {
		add := func(op *workload.Op) {
			if !issued[op.ID] {
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

// A rankWriter is the state of writing one rank.
type rankWriter struct {
	*stepWriter
	*plan.Rank
	heard map[[2]*plan.Stream]int // of two streams: up to which command of the second the first has waited for it
	last  []*item                 // serial: the last item of each stream since the last communication
	comm  *exchange               // serial: the last exchange
	copy  *item                   // serial: the last copy between ranks

	delays    map[streamOf]*delay
	regrouped bool // a collective runs on another number of channels than captured
}

func (sw *stepWriter) rank(r *plan.Rank) {
	rw := &rankWriter{stepWriter: sw, Rank: r, heard: map[[2]*plan.Stream]int{}}
	plan.FindQueued(sw.w, sw.w.Ranks[r.ID], sw.ran)
	rw.findDelays()
	sw.walk(r.ID, rw.item, rw.exchange)
	sw.pl.Settings = sw.own
}

func (x *exchange) member(rank int) *member {
	at, ok := slices.BinarySearchFunc(x.members, rank, func(m member, rank int) int { return cmp.Compare(m.rank, rank) })
	if !ok {
		return nil
	}
	return &x.members[at]
}

// queued is where an operation ran.
func (rw *rankWriter) queued(op *workload.Op) plan.Queued { return rw.ran[op.ID] }

// stream is the stream of an operation: the captured one.
func (rw *rankWriter) stream(op *workload.Op) *plan.Stream {
	return rw.Lane(op.Queue, rw.queued(op).Lane)
}

// keepsGap reports whether the captured gap before an operation holds: what keeps its place waited for the same in the capture,
// and so did what runs behind another stream there and in a serial schedule. event: it waits for another stream.
func (rw *rankWriter) keepsGap(op *workload.Op, event bool) bool {
	return rw.inPlace() || rw.serial && (!event || rw.queued(op).Event)
}

// issue makes a stream wait until the host has issued an operation. It returns the gap on the
// device before it. event: it waits for another stream.
func (rw *rankWriter) issue(s *plan.Stream, op *workload.Op, event bool) trace.Time {
	rw.WaitIssued(s, op)
	before, keeps := rw.queued(op).Before, rw.keepsGap(op, event)
	if event && keeps {
		return rw.pl.GapOf(op, before, true, true)
	}
	gap := rw.pl.GapOf(op, before, false, keeps)
	if before != nil && rw.dropped[before.ID] { // the captured gap is one behind an operation that does not run
		gap = min(gap, plan.Duration(rw.pl.Machine.Launch.Gap.Value))
	}
	if gap = max(0, gap+rw.delay(op)); event {
		gap = max(gap, rw.pl.EventGap(op))
	}
	return gap
}

// ranBeside reports whether an operation that keeps its place started in the capture before one ended that it depends on:
// it does not wait for that one as a whole.
func (rw *rankWriter) ranBeside(op, dep *workload.Op) bool { return rw.inPlace() && dep.End > op.Start }

// pair sets the settings of an operation, and has the strategy write the pair that begins with it. It reports whether the
// strategy writes the operation.
func (rw *rankWriter) pair(op *workload.Op) bool {
	rw.pl.Settings = rw.own
	i := rw.pl.Replaced[op.ID]
	if i == 0 || i > len(rw.pl.Pairs) { // a schedule of the whole step has taken pairs, and serves none
		return false
	}
	p := &rw.pl.Pairs[i-1]
	if p.Settings != nil {
		rw.pl.Settings = *p.Settings
	}
	if _, begins := rw.pl.First[op.ID]; begins && p.Emit != nil {
		p.Emit(rw.Rank, p)
		for _, link := range p.Links() {
			rw.paired(link)
		}
	}
	return p.Emit != nil
}

// paired notes where the operations of a pair ended that a strategy has written.
func (rw *rankWriter) paired(p *plan.Pair) {
	for _, op := range rw.ReplacedOps(p) {
		if op.Collective < 0 {
			rw.items[rw.ID][rw.at[op.ID]].end = rw.pl.Where(op)
		} else {
			rw.carriers[op.Collective][0].member(rw.ID).end = rw.pl.Where(op)
		}
	}
}

// item writes a kernel or copy of compute.
func (rw *rankWriter) item(it *item) {
	op := it.op
	if rw.pair(op) {
		return
	}
	s := rw.stream(op)
	event := rw.waitForDeps(s, it)
	for _, x := range it.waits {
		if m := x.member(rw.ID); m != nil && !rw.ranBeside(op, m.op) {
			event = rw.waitFor(s, x) || event
		}
	}
	event = rw.separate(s, op) || event
	if it.piece == nil {
		rw.afterIdle(s, op)
	}
	gap := rw.issue(s, op, event)
	if it.piece != nil {
		rw.issuePiece(s, it)
		gap = min(gap, rw.pl.EventGap(op)) // pauses of the captured pipeline are none of the planned one
	}
	command := rw.commandOfItem(it)
	if n := rw.pl.Programs; n > 0 && op.Tiling.Persistent {
		command = plan.LaunchOf(op, rw.pl.AsLaunched(op, rw.pl.WithPrograms(op, rw.pl.GridOf(op, op.DurAlone()), n)))
	}
	if rw.leaves != (occupancy{}) && op.Kind == trace.Compute && rw.leaves.refuses(rw.pl, op) == "" {
		command = plan.LaunchOf(op, rw.pl.AsLaunched(op, shaped(rw.pl, op, rw.leaves)))
	}
	s.Launch(gap, command)
	rw.wrote(s, it)
}

// waitForDeps makes a stream wait for the compute and copies that an item depends on. It reports whether another stream's
// counts as an event: captured gaps have those of captured dependencies.
func (rw *rankWriter) waitForDeps(s *plan.Stream, it *item) (event bool) {
	for _, d := range it.deps {
		event = rw.waitForItem(s, d) || event
	}
	if it.piece != nil || it.again {
		return event
	}
	for _, d := range it.op.After {
		if at := rw.at[d.Op]; at >= 0 && !rw.ranBeside(it.op, &rw.w.Ops[d.Op]) {
			event = rw.waitForItem(s, rw.items[it.op.Rank][at]) && rw.inPlace() || event
		}
	}
	return event
}

// afterIdle makes a stream wait for what ended last before a pause of a host that the trace
// does not show: the pause begins there (rule S14).
func (rw *rankWriter) afterIdle(s *plan.Stream, op *workload.Op) {
	if rw.pl.Measured || op.Issued != trace.Infinity || rw.pl.HostIdle(op) == 0 {
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
	it.end = plan.Point{On: s, At: len(s.Commands)}
	switch {
	case communicates(rw.pl, it.op):
		rw.last, rw.copy = nil, it
	case it.op.Kind == trace.Compute:
		rw.last = append(slices.DeleteFunc(rw.last, func(x *item) bool { return x.end.On == s }), it)
	}
}

// separate makes a stream wait, in a serial schedule, so that an operation does not run alongside
// communication or, if it communicates, alongside anything.
func (rw *rankWriter) separate(s *plan.Stream, op *workload.Op) (event bool) {
	comm := communicates(rw.pl, op)
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
	return rw.wait(s, it.end, it.done, it.op.Name)
}

// waitFor makes a stream wait for an exchange; false if it needs not.
func (rw *rankWriter) waitFor(s *plan.Stream, x *exchange) bool {
	m := x.member(rw.ID)
	return m != nil && rw.wait(s, m.end, m.done, m.op.Name)
}

// wait makes a stream wait for what was written to another one; false if it already has waited for that or for something later of it.
func (rw *rankWriter) wait(s *plan.Stream, p plan.Point, done program.Flag, name string) bool {
	if p.On == nil || p.On == s || rw.heard[[2]*plan.Stream{s, p.On}] >= p.At {
		return false
	}
	rw.heard[[2]*plan.Stream{s, p.On}] = p.At
	s.Wait(done, 1, name)
	return true
}

// exchange writes one rank's part of a collective.
func (rw *rankWriter) exchange(x *exchange) {
	m := x.member(rw.ID)
	if rw.pair(m.op) {
		return
	}
	s := rw.Stream(m.op.Queue)
	if rw.inPlace() {
		s = rw.stream(m.op)
	}
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
	event := rw.waitForAll(first, s, m)
	if x.message {
		rw.exchangeMessage(s, x, m)
		return
	}
	rw.afterIdle(s, m.op)
	gap := max(rw.pl.EventGap(m.op), rw.pl.HostIdle(m.op))
	for _, p := range m.preps {
		rw.issue(first, p.op, false)
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
	keeps := len(m.preps) == 0 && rw.keepsGap(m.op, event)
	if own := rw.issue(s, m.op, event && keeps); keeps || m.op.Graph && !rw.pl.Graph { // it stays in its graph
		gap = own
	}
	rw.AwaitUnseen(s, m.op, x.coll)
	command := rw.pl.CommandOf(m.op)
	if !rw.pl.Measured {
		channels := rw.leaves.channels(rw.pl, m.op, cmp.Or(rw.channels.of(x.coll), rw.pl.Channels))
		command = plan.LaunchOf(m.op, rw.pl.Regrouped(m.op, x.coll, channels, m.runners))
	}
	s.Launch(gap, command)
	rw.WriteTail(s, m.op)
	if m.back > 0 {
		s.Launch(plan.Duration(rw.pl.Machine.Launch.Gap.Value), plan.LaunchOf(m.op, rw.pl.Sweep("copy of gradients out of a bucket", float64(m.back), float64(m.back))))
	}
	if m.done != rw.pl.Done[m.op.ID] {
		s.Post(m.done, 1)
	}
	rw.Written(s, m.op)
	m.end = rw.pl.Where(m.op)
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
	return m.behind != nil && !rw.ranBeside(m.op, m.behind.member(rw.ID).op) && rw.waitFor(s, m.behind)
}

// waitForAll makes the first stream of a collective, that of its copies or its own, wait for what its data depend on. It
// reports whether anything of that is on another stream.
func (rw *rankWriter) waitForAll(s, own *plan.Stream, m *member) (event bool) {
	event = rw.separate(s, m.op)
	for _, it := range m.deps {
		if !rw.ranBeside(m.op, it.op) {
			event = rw.waitForItem(s, it) || event
		}
	}
	for _, y := range m.after {
		if on := y.member(rw.ID); on != nil && !rw.ranBeside(m.op, on.op) {
			event = rw.waitFor(s, y) || event
		}
	}
	if s == own {
		event = rw.waitForLine(s, m) || event
	}
	return event
}

// communicates reports whether an operation moves bytes between ranks, as defined by
// package overlap.
func communicates(pl *plan.Planner, op *workload.Op) bool {
	if op.Kind != trace.Copy {
		return op.Collective >= 0 || op.Kind == trace.Collective
	}
	c := pl.Workload.Run.Copy(pl.Workload.Run.Spans[op.Span])
	return c != nil && c.Dir == trace.PeerToPeer
}
