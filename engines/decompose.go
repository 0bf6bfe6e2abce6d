package engines

import (
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
	Summary: "the communication of one piece beside the compute of the next, on two streams",
	Detail: "variant=chunks (CoCoNet): the compute operation is cut along its rows into equal chunks; each chunk is a launch of its own, with its " +
		"own tiles and its own half-empty last wave. The collective of a chunk is enqueued on the communication stream " +
		"behind an event. It takes compute units only as they come free, holds them to its end, and costs the host a launch. " +
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
		{Name: "chunks", Default: "4", For: "variant=chunks|waves", Doc: "parts of each pair"},
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
		"chunks": func(*workload.Pair) string { return "" },
		"waves":  pl.countsWaves,
		"ring":   pl.ringPasses,
	}[v["variant"]]
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
	return func(r *rank, p *pair) { r.inChunks(p, n, v.Int("channels"), v["priority"] == "on") }, nil
}

// inChunks writes a pair of either direction as n chunks on two streams.
func (r *rank) inChunks(p *pair, n, channels int, urgent bool) {
	first, second := r.ops(p)
	compute, comm := r.split(p)
	onCompute, onComm := r.stream(compute.Queue), r.commStream(compute, comm)
	if urgent {
		onComm.Priority = 1
	}
	cut := r.pl.chunks(p.coll, n, channels, compute)
	r.enter(p)
	on := func(op *workload.Op) *stream {
		if op == comm {
			return onComm
		}
		return onCompute
	}
	chunk := func(k int, op *workload.Op, gap trace.Time) {
		if op == comm {
			cut.index = k
			onComm.launch(gap, launchOf(op, r.pl.collective(op, cut)))
			return
		}
		kernel := r.pl.chunkOf(op, n)
		if kernel.Owned > 0 {
			gap = r.refill(onCompute, p.pre[r.id], gap)
		}
		onCompute.launch(gap, launchOf(op, kernel))
	}
	between := r.pl.p.NewFlag(first.Name + " chunks done")
	seen := r.pl.p.NewFlag(first.Name + " chunks done, seen by the other stream")
	events, launch := r.stream(eventQueue), r.pl.m.Launch
	for k := range n {
		s := on(first)
		var after []workload.Dep // the first chunk waits, and the others behind it
		if k == 0 {
			after = r.before(p, first)
		}
		gap := r.ready(s, first, after)
		if k > 0 && first == comm && !r.commFirst(p, k-1) {
			gap = duration(launch.Event.Value)
		}
		chunk(k, first, gap)
		for _, id := range p.mid[r.id] {
			mid := &r.pl.w.Ops[id]
			s.wait(r.issued, r.issue(launch.Host.Value, mid.Name), "host")
			s.launch(duration(launch.Gap.Value), r.pl.midPart(mid, k, n))
		}
		s.post(between, 1)

		s = on(second)
		// An event takes its time from the end of the chunk on, whatever the stream
		// that waits for it still does: one that comes later finds it there.
		usual := r.ready(s, second, r.before(p, second), r.within(p)...)
		event := duration(r.eventGap(p, k))
		gap = min(event, usual, duration(launch.Gap.Value))
		events.wait(between, int64(k+1), first.Name)
		events.delay(event-gap, replay.LaunchGap, "event")
		events.post(seen, 1)
		s.wait(seen, int64(k+1), first.Name)
		chunk(k, second, gap)
	}
	for _, op := range r.within(p) {
		r.finished(on(op), op)
	}
	r.leave(p)
}

// eventQueue is the stream on which events between chunks are on their way.
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
