package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Decompose cuts a GEMM and its collective into pieces, and runs the communication of one alongside the compute of
// others (Wang et al., ASPLOS'23; CoCoNet; FlashOverlap; rules W1, W3 and W5). The variant says what is cut and what moves
// the pieces.
//
//	chunks  |G0|G1|G2|G3|      waves  |G wave|G wave|G wave|    ring  |G own|G  |G  |
//	        |  |C0|C1|C2|C3|          |    w |C0   w|C1   w|C2|       |copy |copy|
var Decompose = plan.Strategy{
	Name:    "decompose",
	Plainly: "chunks side by side",
	From:    "Wang et al. ASPLOS'23, CoCoNet, FlashOverlap",
	Saves:   "chunks are tiled anew, and may leave fewer compute units idle in the last wave",
	Summary: "the communication of one piece alongside the compute of the next, on two streams",
	Params: []plan.Param{
		{
			Name: "variant", Default: "chunks", Choices: []string{"chunks", "waves", "ring"},
			Doc: "chunks of rows; groups of one GEMM's waves; a ring of copies",
		},
		{
			Name: "chunks", Default: "4", Least: 1, Most: 1024, For: "variant=chunks|waves",
			Doc:  "parts of each pair; waves: groups of whole waves",
			Tune: []int{1, 2, 4, 8, 16}, Measured: []string{plan.AnyNumber},
			Costs: "chunks: a launch, an event and a tail for each, and all of B is read for each",
		},
		plan.ChannelsParam.Only("variant=chunks|waves"),
		plan.PriorityParam.Only("variant=chunks"),
	},
	DependsOn: []string{"launch.event"},
	Rows:      map[string]string{"comm_priority": "priority=on"},
	Rebuild: func(w *workload.Workload, m machine.Machine, v plan.Values) *workload.Workload {
		if v["variant"] == "chunks" {
			w, _ = edit.Recut(w, m, v.Int("chunks"), v.Int("channels"), nil)
		}
		return w
	},
	Plan: planDecompose,
}

func planDecompose(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	n := v.Int("chunks")
	if n < 1 {
		return nil, "chunks must be at least 1"
	}
	serves := map[string]func(*workload.Pair) string{
		"chunks": func(p *workload.Pair) string { return edit.TooFewRows(pl.Workload, p, n) },
		"waves":  func(p *workload.Pair) string { return countsWaves(pl, p) },
		"ring":   func(p *workload.Pair) string { return ringPasses(pl, p) },
	}[v["variant"]]
	from, whole := len(pl.Pairs), false
	uncut := v["variant"] == "chunks" && n == 1 && v.Int("channels") == 0 && v["priority"] == "off"
	why = pl.Serve("no pair of compute and communication was found", func(p *workload.Pair) (bool, string) {
		if p.Collective < 0 {
			return false, ""
		}
		why := serves(p)
		if why == "" && uncut { // the pair stays as captured
			whole = true
			return false, ""
		}
		return why == "", why
	})
	if why != "" && pl.Workload.Origins == nil && !whole {
		return nil, why
	}
	if n > 1 { // what arrives in parts is put together behind them; sums and messages stay in place
		stageFrom(pl, from, trace.AllReduce, trace.SendRecv)
	}
	switch v["variant"] {
	case "waves":
		return func(r *plan.Rank, p *plan.Pair) { inWaves(r, p, n, v.Int("channels")) }, ""
	case "ring":
		return inRing(), ""
	}
	for i := from; i < len(pl.Pairs); i++ {
		pl.Pairs[i].Racing = n
	}
	joinStages(pl, from)
	return func(r *plan.Rank, p *plan.Pair) { inChunks(r, p, n, v.Int("channels"), v["priority"] == "on") }, ""
}

// joinStages makes one pipeline of a gather with its GEMM and a GEMM with its
// collective, of those from the given pair on, where the second GEMM sums over
// the columns of the first: rows then go through all of them.
//
//	gather   |C0|C1|C2|C3|
//	compute     |G0 e H0|G1 e H1|G2 e H2|G3 e H3|        e: the link
//	collective          |D0|    |D1|    |D2|    |D3|
func joinStages(pl *plan.Planner, from int) {
	next := map[int32]int32{} // by GEMM: the one that sums over its columns
	for i := range pl.Workload.Pairs {
		p := &pl.Workload.Pairs[i]
		for k, id := range p.First {
			a, b := pl.Workload.Ops[id].Shape, pl.Workload.Ops[p.Second[k]].Shape
			if p.Collective < 0 && a.M == b.M && a.N == b.K {
				next[id] = p.Second[k]
			}
		}
	}
	by := map[int32]*plan.Pair{} // by GEMM on the first rank of its collective
	for i := from; i < len(pl.Pairs); i++ {
		if p := &pl.Pairs[i]; p.Direction == workload.ComputeThenCollective {
			by[p.First[0]] = p
		}
	}
	for i := from; i < len(pl.Pairs); i++ {
		p := &pl.Pairs[i]
		if p.Direction != workload.CollectiveThenCompute {
			continue
		}
		feeds := func(a, b int32) bool { c, ok := next[a]; return ok && b == c }
		if second := by[next[p.Second[0]]]; second != nil && slices.EqualFunc(p.Second, second.First, feeds) {
			join(pl, p, second)
		}
	}
}

// join makes a pair, and the operations between, part of the pair that it continues.
func join(pl *plan.Planner, p, second *plan.Pair) {
	joined := *second
	for k, a := range p.Second {
		b := second.First[k]
		rank, queue := pl.Workload.Ops[a].Rank, pl.Workload.Ops[a].Queue
		delete(pl.First, b)
		for _, id := range second.FillsBefore[rank] {
			delete(pl.First, id)
		}
		for id := a + 1; id < b; id++ {
			if op := &pl.Workload.Ops[id]; op.Queue == queue && op.Collective < 0 && !slices.Contains(second.FillsBefore[rank], id) {
				joined.OpsBefore[rank] = append(joined.OpsBefore[rank], id)
				pl.Replaced[id] = p.Index + 1
			}
		}
	}
	p.Continued = []*plan.Pair{&joined}
}

// inChunks writes a pair of either direction as n chunks on two streams, or two
// that are joined as stages of one pipeline.
func inChunks(r *plan.Rank, p *plan.Pair, n, channels int, urgent bool) {
	var within []*workload.Op
	for _, l := range p.Links() {
		within = append(within, r.ReplacedOps(l)...)
	}
	r.BeginPair(p)
	c := newChunked(r, p, 0, n, channels, urgent, within)
	if len(p.Continued) == 0 {
		for k := range n {
			c.lead(k)
			c.follow(k)
		}
	} else {
		next := newChunked(r, p.Continued[0], 1, n, channels, urgent, within)
		for k := range n { // gathers have no predecessors
			c.lead(k)
		}
		for k := range n {
			c.follow(k)
			for _, id := range p.Continued[0].OpsBefore[r.ID] {
				c.pass(c.onCompute, &r.Planner.Workload.Ops[id], k)
			}
			next.lead(k)
			next.follow(k)
		}
		c.finish()
		c = next
	}
	c.finish()
	r.EndPair()
}

// A chunked is a pair on one rank that is written in n chunks.
type chunked struct {
	r                 *plan.Rank
	p                 *plan.Pair
	n                 int
	cut               plan.Piece // of the collective
	first, second     *workload.Op
	onCompute, onComm *plan.Stream
	events            string         // name of the stream on which events between its streams are on their way
	done, seen        program.Flag   // chunks of first; chunks that the other stream has waited for
	within            []*workload.Op // operations that the pair replaces; it does not wait for them
}

func newChunked(r *plan.Rank, p *plan.Pair, stage, n, channels int, urgent bool, within []*workload.Op) chunked {
	compute, comm := r.Split(p)
	first, second := compute, comm
	if p.Direction == workload.CollectiveThenCompute {
		first, second = comm, compute
	}
	c := chunked{
		r: r, p: p, n: n, first: first, second: second, onCompute: r.Stream(compute.Queue), onComm: r.CommStream(compute, comm),
		events: fmt.Sprintf("events of stage %d", stage+1), within: within,
	}
	if urgent {
		c.onComm.Priority = 1
	}
	c.cut = r.Planner.Chunks(p.Coll, n, channels, compute)
	c.done = r.Planner.Program.NewFlag(c.first.Name + " chunks done")
	c.seen = r.Planner.Program.NewFlag(c.first.Name + " chunks done, seen by the other stream")
	return c
}

// on is the stream of one of the pair's operations.
func (c *chunked) on(op *workload.Op) *plan.Stream {
	if op.Collective >= 0 {
		return c.onComm
	}
	return c.onCompute
}

// lead writes chunk k of the first operation and of the operations behind it.
func (c *chunked) lead(k int) {
	r, s := c.r, c.on(c.first)
	var after []workload.Dep // the first chunk waits, and the others behind it
	if k == 0 {
		after = r.Dependencies(c.p, c.first)
	}
	gap := r.WaitUntilReady(s, c.first, after, c.within...)
	if k > 0 && s == c.onComm && !r.CommFirst(c.p, k-1) {
		gap = plan.Duration(r.Planner.Machine.Launch.Event.Value)
	}
	c.launch(c.first, k, gap)
	if !c.byRows() {
		c.between(s, k)
	}
	s.Post(c.done, 1)
}

// byRows reports whether the kernels between permute gathered rows for a GEMM of several rows a
// token: they run in front of its chunks, on its stream.
func (c *chunked) byRows() bool { return c.p.Experts > 1 && c.second.Collective < 0 }

// between writes chunk k of the operations between the pair's two.
func (c *chunked) between(s *plan.Stream, k int) {
	for _, id := range c.p.Between[c.r.ID] {
		c.pass(s, &c.r.Planner.Workload.Ops[id], k)
	}
}

// follow writes chunk k of the second operation behind that of the first.
func (c *chunked) follow(k int) {
	r, s := c.r, c.on(c.second)
	// An event takes its time from the end of the chunk on, whatever the stream
	// that waits for it still does: one that comes later finds it there.
	usual := r.WaitUntilReady(s, c.second, r.Dependencies(c.p, c.second), c.within...)
	event := plan.Duration(eventGap(r, c.p, k))
	gap := min(event, usual, plan.Duration(r.Planner.Machine.Launch.Gap.Value))
	events := r.Added(c.events)
	events.Wait(c.done, int64(k+1), c.first.Name)
	events.Delay(event-gap, program.LaunchGap, "event")
	events.Post(c.seen, 1)
	s.Wait(c.seen, int64(k+1), c.first.Name)
	if c.byRows() {
		c.between(s, k)
	}
	c.launch(c.second, k, gap)
}

// launch launches chunk k of one of the pair's operations.
func (c *chunked) launch(op *workload.Op, k int, gap trace.Time) {
	r := c.r
	if op.Collective >= 0 {
		c.cut.Index = k
		c.onComm.Launch(gap, plan.LaunchOf(op, r.Planner.Collective(op, c.cut)))
		return
	}
	r.WriteChunk(c.p, c.onCompute, op, k, c.n, gap)
}

// pass writes chunk k of an operation that rows go through.
func (c *chunked) pass(s *plan.Stream, op *workload.Op, k int) {
	l := c.r.Planner.Machine.Launch
	c.r.IssueOne(s, l.Host.Value, op.Name)
	s.Launch(plan.Duration(l.Gap.Value), c.r.Planner.MidPart(op, k, c.n))
}

// finish marks the operations that the pair replaces as done.
func (c *chunked) finish() {
	for _, op := range c.r.ReplacedOps(c.p) {
		c.r.Written(c.on(op), op)
	}
}

// eventGap is the time from the end of a chunk to the start of what waits for it
// on the other stream. The next chunk is ready at the same time (commFirst).
func eventGap(r *plan.Rank, p *plan.Pair, k int) float64 {
	l := r.Planner.Machine.Launch
	switch gather := p.Direction == workload.CollectiveThenCompute; {
	case r.CommFirst(p, k) == gather || !l.Hop.Known():
		return l.Event.Value
	case gather: // the next one is held back
		return l.Hop.Value
	}
	return min(l.Hop.Value, l.Gap.Value/2)
}
