package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// tilesync lets a kernel start on the tiles of the one before it while that one
// still runs (cuSync sections III to V, MECHANISM section 5).
//
//	producer |P0 P1 P2 P3 P4|          each tile posts a semaphore of its row
//	consumer |   C0....wait|C0|C1|     waits in its slot until its row is there
var tilesync = Engine{
	Name:    "tilesync",
	From:    "cuSync",
	Saves:   "compute units that are idle in the producer's last wave run the consumer",
	Summary: "dependent products side by side, tiles waiting for tiles",
	Detail: "Kernels of which each consumes the one before, two or a whole chain (attention's three), run on streams of their own. A producer's workgroup posts a semaphore when its tile is " +
		"written; a consumer's waits, in its slot, for those that its loop over K comes to: once for a whole row (row), at each " +
		"tile of it (tile), for tiles a stride apart that it needs together (strided, queries, keys and values of attention), or " +
		"at each tile of channels of a convolution (conv); kernels of a chain whose input is no such thing wait at each tile. Because nothing is preempted, consumers that take every slot before " +
		"the producer has started wait for ever: a wait kernel of one thread holds them back until the producer's first " +
		"workgroup runs. Without it (waitkernel=off, cuSync's +W) the order of the two launches decides, and a consumer that " +
		"comes first and fills the device is reported as a deadlock. reorder=on (+R) loads the first weights before waiting. " +
		"tickets=on lets workgroups draw their tiles from a counter, as any order must that the grid does not have; off is cuSync's +T. " +
		"The gain is the last wave of the producer, which the consumer's first one fills. policy=streamk is what the paper " +
		"compares with: kernels one after another, the tiles of each one's last wave split along K over all slots and summed through memory.",
	Params: []Param{
		{Name: "policy", Default: "row", Choices: []string{"row", "tile", "strided", "conv", "streamk"}, Doc: "what a consumer's workgroup waits for; streamk: the baseline"},
		{Name: "waitkernel", Default: "on", Choices: []string{"on", "off"}, Doc: "hold the consumer back until the producer has started"},
		{Name: "first", Default: "producer", Choices: []string{"producer", "consumer"}, Doc: "without a wait kernel, which is launched first"},
		{Name: "reorder", Default: "off", Choices: []string{"off", "on"}, Doc: "load the consumer's weights before waiting"},
		{Name: "order", Default: "row", Choices: []string{"row", "column"}, Doc: "order of both kernels' tiles"},
		{Name: "tickets", Default: "off", Choices: []string{"off", "on"}, Doc: "draw each tile's number from a counter"},
		{Name: "reset", Default: "off", Choices: []string{"off", "on"}, Doc: "clear the semaphores before each pair; off: they count on over the iterations"},
	},
	Inside: true,
	plan:   planTilesync,
}

func planTilesync(pl *planner, v Values) (emitter, error) {
	why, policy, served := "no two dependent matrix products were found (give their shapes)", v["policy"], false
	pl.takeChains(func(p *workload.Pair) bool {
		if p.Direction != workload.ComputeThenCompute {
			return false
		}
		for k := range p.First {
			own, no := pl.unsynchronised(&pl.w.Ops[p.First[k]], &pl.w.Ops[p.Second[k]], policy)
			if no != "" {
				why = no
			}
			if own == "" {
				return false
			}
			served = served || own == policy
		}
		return true
	})
	if !served {
		return nil, &NotApplicable{"tilesync", why}
	}
	if v["policy"] == "streamk" {
		return (*rank).streamK, nil
	}
	return func(r *rank, p *pair) { r.synchronised(p, v) }, nil
}

// unsynchronised is the policy by which two kernels meet tile by tile, "" for
// none, and why it is not the one that was asked for.
func (pl *planner) unsynchronised(first, second *workload.Op, policy string) (own, why string) {
	if name := pl.between(first, second); name != "" {
		return "", fmt.Sprintf("%s lies between the two products and reads the first one's whole output", shortName(name))
	}
	for _, op := range []*workload.Op{first, second} {
		if _, ok := coverOf(op, false); !ok {
			return "", fmt.Sprintf("the tiles of %s are not known (give them)", op.Name)
		}
	}
	c, _ := coverOf(first, false)
	_, why = semaphoresFor(policy, c, first.Shape, second.Shape)
	own = ownPolicy(policy, c, first.Shape, second.Shape)
	if _, no := semaphoresFor(own, c, first.Shape, second.Shape); no != "" {
		return "", why
	}
	return own, why
}

func (pl *planner) isFill(op *workload.Op) bool {
	c := pl.w.Run.Copy(pl.w.Run.Spans[op.Span])
	return c != nil && c.Dir == trace.Fill
}

// synchronised writes a chain, each kernel on a stream of its own.
func (r *rank) synchronised(p *pair, v Values) {
	sides := r.sides(p)
	started := r.pl.synchronisedKernels(sides, v)
	reset := v["reset"] == "on"

	r.enter(p)
	if v["waitkernel"] == "on" {
		cleared := r.lead(&sides[0], reset)
		for i := range sides[1:] {
			if reset {
				sides[i+1].on.wait(cleared, 1, "semaphores cleared")
			}
			r.behindStart(&sides[i+1], started[i])
		}
	} else {
		if v["first"] == "consumer" {
			slices.Reverse(sides)
		}
		next := r.lead(&sides[0], reset)
		for i := range sides[1:] {
			next = r.follow(&sides[i+1], next)
		}
	}
	r.leave(p.last())
}

// A side is one kernel of a chain and where it is launched.
type side struct {
	op     *workload.Op
	on     *stream
	fills  []int32        // the library's fills before it
	after  []workload.Dep // what it waits for
	within []*workload.Op // what the chain replaces, which it need not wait for
	kernel *replay.Kernel
}

// sides are the kernels of a chain, in order.
func (r *rank) sides(p *pair) []side {
	first, _ := r.ops(p)
	sides := []side{{op: first, on: r.stream(first.Queue), fills: p.pre[r.id], after: r.before(p, first)}}
	var within []*workload.Op
	for i, l := range p.links() {
		_, second := r.ops(l)
		on := r.commStream(first, second)
		if i > 0 && second.Queue == first.Queue {
			on = r.stream(-1 - int64(i)*chainQueues - second.Queue)
		}
		sides = append(sides, side{op: second, on: on, fills: l.mid[r.id], after: r.before(l, second)})
		within = append(within, r.within(l)...)
	}
	for i := range sides {
		sides[i].within = within
	}
	return sides
}

// chainQueues is how far apart the queues of a chain's streams are numbered.
const chainQueues = 10_000

// lead launches a side as soon as what it waits for has ended, and returns a
// flag that is posted when its stream has come to it and the semaphores are clear.
func (r *rank) lead(s *side, reset bool) replay.Flag {
	l := r.pl.m.Launch
	gap := r.ready(s.on, s.op, s.after, s.within...) - duration(l.Gap.Value)
	if reset {
		s.on.wait(r.issued, r.issue(l.Host.Value, "clear semaphores"), "host")
		gap += duration(l.MemsetGap.Value)
	}
	s.on.delay(gap, replay.LaunchGap, "clear semaphores")
	return r.start(s, duration(l.Gap.Value))
}

// follow launches a side an event after the stream of the one before came to that.
func (r *rank) follow(s *side, after replay.Flag) replay.Flag {
	l := r.pl.m.Launch
	r.host.delay(duration(l.HostEvent.Value*r.pace), replay.HostIssue, "event")
	r.ready(s.on, s.op, s.after, s.within...)
	s.on.wait(after, 1, "event")
	return r.start(s, duration(l.Event.Value))
}

// behindStart launches the consumer behind a kernel of one thread that waits for
// the producer's first workgroup (MECHANISM C2). Streams have no event between
// them, so that kernel may be there, and hold its slot, long before.
func (r *rank) behindStart(s *side, started replay.Flag) {
	l := r.pl.m.Launch
	r.ready(s.on, s.op, s.after, s.within...)
	s.on.launch(duration(l.Gap.Value), waitKernel(started, 1, 0))
	s.on.wait(r.issued, r.issue(l.Host.Value, s.op.Name), "host")
	r.start(s, duration(l.Gap.Value))
}

// start writes a side's fills and kernel, and returns a flag for when its stream has come to them.
func (r *rank) start(s *side, gap trace.Time) replay.Flag {
	next := r.pl.p.NewFlag(s.op.Name + " next on its stream")
	s.on.post(next, 1)
	s.on.launch(r.refill(s.on, s.fills, gap), launchOf(s.op, s.kernel))
	r.finished(s.on, s.op)
	return next
}
