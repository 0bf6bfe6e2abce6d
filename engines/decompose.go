package engines

import (
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// decompose cuts the communication of a pair into pieces that run beside the
// compute of others (MECHANISM section 2). What is cut, and who moves the
// pieces, is the variant's.
//
//	chunks  |G0|G1|G2|G3|      waves  |G wave|G wave|G wave|    ring  |G own|G  |G  |
//	        |  |C0|C1|C2|C3|          |    w |C0   w|C1   w|C2|       |copy |copy|
var decompose = Engine{
	Name:    "decompose",
	From:    "Wang et al. ASPLOS'23, CoCoNet, FlashOverlap",
	Saves:   "chunks are tiled anew, and may leave fewer compute units idle in the last wave",
	Summary: "the communication of one piece beside the compute of the next, on two streams",
	Detail: "variant=chunks (CoCoNet): the compute operation is cut along its rows into equal chunks; each chunk is a launch of its own, with its " +
		"own tiles and its own half-empty last wave. The collective of a chunk is enqueued on the communication stream " +
		"behind an event. It takes compute units only as they come free, holds them to its end, and costs the host a launch. " +
		"Where a gather's product feeds one whose output a collective moves, the two pairs are one pipeline: a chunk of rows goes through all of it before the next. " +
		"variant=waves (FlashOverlap) leaves the product whole, a workgroup a tile: tiles count themselves in groups of " +
		"waves, a kernel of one thread on the urgent communication stream spins on each group's counter, and behind it a plain library call sends the " +
		"group, whose tiles were stored next to each other. The product gives up slots to the library's channels, small " +
		"groups reach a fraction of the links' rate, and large ones leave head and tail exposed. What storing in " +
		"that order costs the product (under 1 %) and its readers is not counted. " +
		"variant=ring (Wang et al.) makes as many pieces as there are ranks out of an all-gather and the product behind it, or a " +
		"product and the reduce-scatter behind it: copy engines pass shards, or growing partial sums, to the next rank while the piece at hand is " +
		"multiplied, and a small kernel puts each piece in its place or adds it. both=on sends half of them the other way round.",
	Params: []Param{
		{Name: "variant", Default: "chunks", Choices: []string{"chunks", "waves", "ring"}, Doc: "chunks of rows; groups of one product's waves; a ring of copies"},
		{Name: "chunks", Default: "4", Least: 1, For: "variant=chunks|waves", Doc: "parts of each pair"},
		{Name: "group", Default: "0", For: "variant=waves", Doc: "waves: of tiles in a group; 0: as many as make so many chunks"},
		{Name: "both", Default: "off", Choices: []string{"off", "on"}, For: "variant=ring", Doc: "ring: both ways round"},
		{Name: "channels", Default: "0", For: "variant=chunks|waves", Doc: "workgroups of each collective; 0: as captured"},
		{Name: "priority", Default: "off", Choices: []string{"off", "on"}, For: "variant=chunks", Doc: "chunks: communication stream first among waiting workgroups"},
	},
	plan: planDecompose,
}

func planDecompose(pl *planner, v Values) (emitter, error) {
	n := v.Int("chunks")
	if n < 1 {
		return nil, &NotApplicable{"decompose", "chunks must be at least 1"}
	}
	why := "no pair of compute and communication was found"
	serves := map[string]func(*workload.Pair) string{
		"chunks": func(p *workload.Pair) string { return pl.tooFewRows(p, n) },
		"waves":  pl.countsWaves,
		"ring":   pl.ringPasses,
	}[v["variant"]]
	from := len(pl.pairs)
	pl.take(func(p *workload.Pair) bool {
		if p.Collective < 0 {
			return false
		}
		no := serves(p)
		if no != "" {
			why = no
		}
		return no == ""
	})
	if len(pl.pairs) == 0 {
		return nil, &NotApplicable{"decompose", why}
	}
	switch v["variant"] {
	case "waves":
		return func(r *rank, p *pair) { r.inWaves(p, v.Int("group"), n, v.Int("channels")) }, nil
	case "ring":
		t := passing{pl: pl, both: v["both"] == "on", boards: map[int]*passBoard{}}
		return t.emit, nil
	}
	for i := from; i < len(pl.pairs); i++ {
		pl.pairs[i].raced = n
	}
	pl.joinStages(from)
	return func(r *rank, p *pair) { r.inChunks(p, n, v.Int("channels"), v["priority"] == "on") }, nil
}

// joinStages makes one pipeline of a gather with its product and a product with its
// collective, of those from the given pair on, where the second product sums over
// the columns of the first: rows then go through all of them.
//
//	gather   |C0|C1|C2|C3|
//	compute     |G0 e H0|G1 e H1|G2 e H2|G3 e H3|        e: the link
//	collective          |D0|    |D1|    |D2|    |D3|
func (pl *planner) joinStages(from int) {
	next := map[int32]int32{} // by product: the one that sums over its columns
	for i := range pl.w.Pairs {
		p := &pl.w.Pairs[i]
		for k, id := range p.First {
			a, b := pl.w.Ops[id].Shape, pl.w.Ops[p.Second[k]].Shape
			if p.Collective < 0 && a.M == b.M && a.N == b.K {
				next[id] = p.Second[k]
			}
		}
	}
	by := map[int32]*pair{} // by product on the first rank of its collective
	for i := from; i < len(pl.pairs); i++ {
		if p := &pl.pairs[i]; p.Direction == workload.ComputeThenCollective {
			by[p.First[0]] = p
		}
	}
	for i := from; i < len(pl.pairs); i++ {
		p := &pl.pairs[i]
		if p.Direction != workload.CollectiveThenCompute {
			continue
		}
		feeds := func(a, b int32) bool { c, ok := next[a]; return ok && b == c }
		if second := by[next[p.Second[0]]]; second != nil && slices.EqualFunc(p.Second, second.First, feeds) {
			pl.join(p, second)
		}
	}
}

// join makes a pair, and what lies between, part of the one that it continues.
func (pl *planner) join(p, second *pair) {
	joined := *second
	for k, a := range p.Second {
		b := second.First[k]
		rank, queue := pl.w.Ops[a].Rank, pl.w.Ops[a].Queue
		delete(pl.first, b)
		for _, id := range second.pre[rank] {
			delete(pl.first, id)
		}
		for id := a + 1; id < b; id++ {
			if op := &pl.w.Ops[id]; op.Queue == queue && op.Collective < 0 && !slices.Contains(second.pre[rank], id) {
				joined.link[rank] = append(joined.link[rank], id)
				pl.skip[id] = true
			}
		}
	}
	p.rest = []*pair{&joined}
}

// inChunks writes a pair of either direction as n chunks on two streams, or two
// that are joined as stages of one pipeline.
func (r *rank) inChunks(p *pair, n, channels int, urgent bool) {
	var within []*workload.Op
	for _, l := range p.links() {
		within = append(within, r.within(l)...)
	}
	r.enter(p)
	c := r.chunked(p, 0, n, channels, urgent, within)
	if len(p.rest) == 0 {
		for k := range n {
			c.lead(k)
			c.follow(k)
		}
	} else {
		next := r.chunked(p.rest[0], 1, n, channels, urgent, within)
		for k := range n { // gathers wait for nobody
			c.lead(k)
		}
		for k := range n {
			c.follow(k)
			for _, id := range p.rest[0].link[r.id] {
				c.pass(c.onCompute, &r.pl.w.Ops[id], k)
			}
			next.lead(k)
			next.follow(k)
		}
		c.finish()
		c = next
	}
	c.finish()
	r.leave(p.last())
}

// A chunked is a pair on one rank that is written in n chunks.
type chunked struct {
	r                 *rank
	p                 *pair
	n                 int
	cut               part // of the collective
	first, second     *workload.Op
	onCompute, onComm *stream
	events            int64          // queue on which events between its streams are on their way
	done, seen        replay.Flag    // chunks of first, and those of which the other stream knows
	within            []*workload.Op // what it is part of replaces, which it need not wait for
}

func (r *rank) chunked(p *pair, stage, n, channels int, urgent bool, within []*workload.Op) chunked {
	compute, comm := r.split(p)
	c := chunked{r: r, p: p, n: n, onCompute: r.stream(compute.Queue), onComm: r.commStream(compute, comm), events: eventQueue - int64(stage), within: within}
	c.first, c.second = r.ops(p)
	if urgent {
		c.onComm.Priority = 1
	}
	c.cut = r.pl.chunks(p.coll, n, channels, compute)
	c.done = r.pl.p.NewFlag(c.first.Name + " chunks done")
	c.seen = r.pl.p.NewFlag(c.first.Name + " chunks done, seen by the other stream")
	return c
}

// on is the stream of one of the pair's operations.
func (c *chunked) on(op *workload.Op) *stream {
	if op.Collective >= 0 {
		return c.onComm
	}
	return c.onCompute
}

// lead writes chunk k of the first operation and of what lies behind it.
func (c *chunked) lead(k int) {
	r, s := c.r, c.on(c.first)
	var after []workload.Dep // the first chunk waits, and the others behind it
	if k == 0 {
		after = r.before(c.p, c.first)
	}
	gap := r.ready(s, c.first, after, c.within...)
	if k > 0 && s == c.onComm && !r.commFirst(c.p, k-1) {
		gap = duration(r.pl.m.Launch.Event.Value)
	}
	c.launch(c.first, k, gap)
	for _, id := range c.p.mid[r.id] {
		c.pass(s, &r.pl.w.Ops[id], k)
	}
	s.post(c.done, 1)
}

// follow writes chunk k of the second operation behind that of the first.
func (c *chunked) follow(k int) {
	r, s := c.r, c.on(c.second)
	// An event takes its time from the end of the chunk on, whatever the stream
	// that waits for it still does: one that comes later finds it there.
	usual := r.ready(s, c.second, r.before(c.p, c.second), c.within...)
	event := duration(r.eventGap(c.p, k))
	gap := min(event, usual, duration(r.pl.m.Launch.Gap.Value))
	events := r.stream(c.events)
	events.wait(c.done, int64(k+1), c.first.Name)
	events.delay(event-gap, replay.LaunchGap, "event")
	events.post(c.seen, 1)
	s.wait(c.seen, int64(k+1), c.first.Name)
	c.launch(c.second, k, gap)
}

// launch launches chunk k of one of the pair's operations.
func (c *chunked) launch(op *workload.Op, k int, gap trace.Time) {
	r := c.r
	if op.Collective >= 0 {
		c.cut.index = k
		c.onComm.launch(gap, launchOf(op, r.pl.collective(op, c.cut)))
		return
	}
	r.chunk(c.p, c.onCompute, op, k, c.n, gap)
}

// pass writes chunk k of an operation that rows go through.
func (c *chunked) pass(s *stream, op *workload.Op, k int) {
	l := c.r.pl.m.Launch
	s.wait(c.r.issued, c.r.issue(l.Host.Value, op.Name), "host")
	s.launch(duration(l.Gap.Value), c.r.pl.midPart(op, k, c.n))
}

// finish marks what the pair replaces as done.
func (c *chunked) finish() {
	for _, op := range c.r.within(c.p) {
		c.r.finished(c.on(op), op)
	}
}

// eventQueue is the stream on which events between chunks are on their way; a
// pipeline's second stage has the one behind it.
const eventQueue = -2001

// eventGap is the time from the end of a chunk to the start of what waits for it
// on the other stream. The next chunk is ready at the same moment (commFirst).
func (r *rank) eventGap(p *pair, k int) float64 {
	l := r.pl.m.Launch
	switch gather := p.Direction == workload.CollectiveThenCompute; {
	case r.commFirst(p, k) == gather || !l.Hop.Known():
		return l.Event.Value
	case gather: // the next one is held back
		return l.Hop.Value
	}
	return min(l.Hop.Value, l.Gap.Value/2)
}
