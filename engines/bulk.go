package engines

import (
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// bulk runs producer, collective and consumer one after another
// (MECHANISM section 1): the baseline of every paper.
var bulk = Engine{
	Name:    "bulk",
	From:    "all",
	Summary: "compute, then communicate, then compute: nothing overlaps",
	Detail: "Nothing runs beside a collective: each starts when its data is ready and the compute before it has ended, " +
		"and compute goes on when it has ended, whatever the capture overlapped. Collectives hold one workgroup a channel on every rank from the arrival of the first rank to the " +
		"departure of the last, as the library's kernels do. Another algorithm or protocol scales the captured time by what " +
		"the library's own tuner expects of it over what it would choose (good to 10 or 20 %), sends to the peers that it " +
		"sends to, and twice the bytes with ll, 128 for 120 with ll128; pairs whose collective has no such algorithm stay as captured.",
	Params: []Param{
		{Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured"},
		{Name: "algorithm", Default: "library", Choices: append([]string{"library"}, machine.Algorithms...), Doc: "of the collectives that have it; library: as captured"},
		{Name: "protocol", Default: "library", Choices: append([]string{"library"}, machine.Protocols...), Doc: "the same of the library's protocols"},
		{Name: "programs", Default: "0", Doc: "persistent workgroups of kernels that have them; 0: as captured"},
		{Name: "graph", Default: "off", Choices: []string{"off", "on"}, Doc: "launched by a captured graph: the host costs nothing"},
	},
	Plain: true,
	plan: func(pl *planner, v Values) (emitter, error) {
		pl.way = machine.Way{Algorithm: unlessLibrary(v["algorithm"]), Protocol: unlessLibrary(v["protocol"])}
		why := "no collective was found"
		pl.take(func(p *workload.Pair) bool {
			if !withCollective(p) {
				return false
			}
			no := pl.m.Library.Refuses(pl.w.Collectives[p.Collective].Op, pl.m.Fabric.Topology, pl.way)
			if no != "" {
				why = no
			}
			return no == ""
		})
		if pl.way != (machine.Way{}) && len(pl.pairs) == 0 {
			return nil, &NotApplicable{"bulk", why}
		}
		pl.graph = v["graph"] == "on"
		if pl.only == nil { // else it is kept to some pairs, and the rest stays as captured
			pl.oneAtATime(v.Int("channels"), v.Int("programs"))
		}
		return func(r *rank, p *pair) { r.oneAfterAnother(p, v.Int("channels"), v.Int("programs")) }, nil
	},
}

func unlessLibrary(word string) string {
	if word == "library" {
		return ""
	}
	return word
}

// oneAtATime has every rank write its operations in a serial schedule: those of
// pairs as the library would run them, the others as captured.
func (pl *planner) oneAtATime(channels, programs int) {
	pl.order = serialOrder(pl.w)
	pl.endedBefore, pl.busyAt = timeOrder(pl.w)
	pl.serial = true
	of := pl.pairOf()
	pl.each = func(r *rank, op *workload.Op) {
		i, ok := of[op.ID]
		switch {
		case ok:
			r.inPair(&pl.pairs[i], op, channels, programs)
		case pl.skip[op.ID]:
			return // a fill that its kernel writes
		default:
			r.inTurn(op)
		}
		r.separation.wrote(r, op)
	}
}

// pairOf is the pair in which an operation is written, by op.
func (pl *planner) pairOf() map[int32]int {
	of := map[int32]int{}
	for i := range pl.pairs {
		p := &pl.pairs[i]
		for _, ids := range slices.Concat([][]int32{p.First, p.Second}, p.mid) {
			for _, id := range ids {
				of[id] = i
			}
		}
	}
	return of
}

// inPair writes one operation of a pair of which the others are written in their own turn.
func (r *rank) inPair(p *pair, op *workload.Op, channels, programs int) {
	first, second := r.ops(p)
	if op == first {
		r.enter(p)
	}
	r.step(p, op, channels, programs)
	if op == second {
		r.leave(p)
	}
}

// withCollective are the pairs of compute and communication.
func withCollective(p *workload.Pair) bool { return p.Collective >= 0 }

// oneAfterAnother writes a pair as two operations with an event between them.
func (r *rank) oneAfterAnother(p *pair, channels, programs int) {
	first, second := r.ops(p)
	r.enter(p)
	r.step(p, first, channels, programs)
	for _, id := range p.mid[r.id] {
		r.step(p, &r.pl.w.Ops[id], channels, programs)
	}
	r.step(p, second, channels, programs)
	r.leave(p)
}

// step writes one operation of a pair in one piece.
func (r *rank) step(p *pair, op *workload.Op, channels, programs int) {
	s := r.stream(op.Queue)
	after := r.before(p, op)
	if r.pl.serial {
		after = append(after, r.apart(op)...)
	}
	gap := r.ready(s, op, after)
	c := r.pl.standsFor(op)
	if compute, comm := r.split(p); op == comm {
		c = launchOf(op, r.pl.communication(op, channels))
	} else if op == compute {
		gap = r.refill(s, p.pre[r.id], gap)
		if programs > 0 && op.Tiling.Persistent {
			c = launchOf(op, r.pl.asLaunched(op, r.pl.withPrograms(op, r.pl.gridOf(op, op.DurAlone()), programs)))
		}
	}
	s.launch(gap, c)
	r.finished(s, op)
}

// communication is what moves the bytes of a collective: the library's kernel, or
// the one that a strategy has instead.
func (pl *planner) communication(op *workload.Op, channels int) *replay.Kernel {
	if pl.instead != nil {
		if k := pl.instead(op); k != nil {
			return k
		}
	}
	return pl.collective(op, pl.chunks(&pl.w.Collectives[op.Collective], 1, channels, pl.besideIn(op.Collective)))
}

// ready makes a stream wait for the host and for an operation's predecessors,
// and returns the gap before it then starts.
func (r *rank) ready(s *stream, op *workload.Op, after []workload.Dep, except ...*workload.Op) trace.Time {
	l := r.pl.m.Launch
	cost := l.Host
	switch {
	case op.Collective >= 0 && r.pl.instead == nil:
		cost = l.HostCollective
	case op.Own:
		cost = l.Compiled
	}
	if r.pl.graph {
		r.waitFor(s, after, except...)
		return duration(l.Graph.Or(l.Gap.Value))
	}
	r.notBefore(op)
	s.wait(r.issued, r.issue(cost.Value, op.Name), "host")
	if r.waitFor(s, after, except...) {
		return duration(l.Event.Value)
	}
	return duration(l.Gap.Value)
}
