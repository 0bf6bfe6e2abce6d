package plan

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What moves the bytes of collectives: workgroups of the library's kernels, or copy engines
// (NCCL 2.28 with CTA policy zero, RCCL's symmetric memory). Copy engines take no compute
// unit; they use the memory and the links as copies do.
//
//	compute units  |GGGGG GGGG|GGGGG GGGG|     copy engines  |GGGGGGGGGG|GGGGGGGGGG|
//	channels       |    CCCCCCCCC       |     engines       |    |11111|
//	                                                        |    |22222|  to each peer
const (
	AsCaptured = "captured"
	byUnits    = "cu"
	ByEngines  = "dma"
)

// carrierNames are the values of Settings.Carrier.
var carrierNames = []string{AsCaptured, byUnits, ByEngines}

// SetCarrier sets what moves collectives. It returns the reason why copy engines can move
// none of them, or "".
func (pl *Planner) SetCarrier(carrier string) string {
	if carrier == AsCaptured {
		return ""
	}
	pl.Carrier = carrier
	for i := range pl.Workload.Collectives {
		if carrier == byUnits || pl.movedByEngines(&pl.Workload.Collectives[i]) {
			return ""
		}
	}
	return "carrier=dma is for all-gathers, all-to-alls, gathers and scatters within a node: copy engines do not add"
}

// movedByEngines reports whether copy engines move a collective's bytes: as captured,
// unless the settings say otherwise and the operation allows it (rule C22).
func (pl *Planner) movedByEngines(c *workload.Collective) bool {
	switch {
	case pl.Carrier == byUnits:
		return false
	case c.Engines:
		return true
	}
	return pl.Carrier == ByEngines && pl.enginesCan(c)
}

// enginesCan reports whether copy engines can do a collective: one that only copies,
// between GPUs of one node.
func (pl *Planner) enginesCan(c *workload.Collective) bool {
	switch c.Op {
	case trace.AllGather, trace.AllToAll, trace.Gather, trace.Scatter:
		return len(c.Members) > 1 && len(c.Members) <= pl.Machine.PerNode() && pl.engineTime(c) > 0
	}
	return false
}

// Carried is one rank's kernel of a whole collective, moved by what the settings say. A
// change of carrier scales the time alone by the ratio of the two carriers' times (rule
// C22).
func (pl *Planner) Carried(op *workload.Op, p Piece) *program.Kernel {
	c := p.Coll
	whole := c.TransferAlone()
	if !pl.anchored {
		whole += c.Before
	}
	engines := pl.movedByEngines(c)
	switch {
	case c.Part && pl.anchored:
		return pl.GangFor(op, c, whole)
	case c.Part: // its time counts with the last part
		return pl.GangFor(op, c, 0)
	case engines && c.Engines:
		return pl.engineKernel(op, c, whole)
	case engines:
		return pl.engineKernel(op, c, trace.Time(float64(whole)*pl.engineTime(c)/pl.Laws().Time(c, c.Op, c.Bytes, c.Channels)))
	}
	if took := pl.engineTime(c); c.Engines && took > 0 {
		p.DurAlone = trace.Time(float64(whole) * pl.Laws().Time(c, c.Op, c.Bytes, p.Channels) / took)
	}
	return pl.Collective(op, p)
}

// engineTime is the time of a collective by copy engines, seconds; 0 where the profile has
// no rate: its copies, after a barrier and before another (rule C22).
func (pl *Planner) engineTime(c *workload.Collective) float64 {
	_, moved := pl.copies(c)
	if moved == 0 {
		return 0
	}
	return 2*pl.Machine.Launch.Barrier.Or(0) + pl.Machine.Engines.Latency.Or(0) + moved
}

// copies are the copies of a member to the others, in order: the share of each of the time
// that all take, and that time in seconds; 0 where the profile has no rate. As many run at once
// as there are engines, each at the rate of an engine and of the link between two GPUs, all
// of them together at the rate of the GPU's links (rule C22).
func (pl *Planner) copies(c *workload.Collective) (shares []float64, moved float64) {
	m := &pl.Machine
	peers, each := len(c.Members)-1, toEachPeer(c)
	egress := m.Fabric.Egress.Or(math.Inf(1))
	rate := min(m.Engines.Rate.Or(math.Inf(1)), m.Fabric.Pair.Or(math.Inf(1)), egress)
	known := !math.IsInf(rate, 1) && rate > 0
	engines := peers
	if count := int(m.Engines.Count.Or(0)); count > 0 {
		engines = min(peers, count)
	}
	for first := 0; first < peers; first += engines {
		turn, atOnce := 1.0, min(engines, peers-first)
		if known {
			turn = each * max(1/rate, float64(atOnce)/egress)
		}
		shares = append(shares, slices.Repeat([]float64{turn}, atOnce)...)
		moved += turn
	}
	for i := range shares {
		shares[i] /= moved
	}
	if !known {
		moved = 0
	}
	return shares, moved
}

// toEachPeer is the bytes that a member sends to each of the others.
func toEachPeer(c *workload.Collective) float64 { return float64(c.Bytes) / float64(len(c.Members)) }

// engineKernel is one rank's part in a collective by copy engines that lasts the given time
// alone. It holds no slot: its kernels are one thread that waits and signals, or commands
// in the engines' queues. All ranks end with the last copy (rule C22).
func (pl *Planner) engineKernel(op *workload.Op, c *workload.Collective, whole trace.Time) *program.Kernel {
	n, g := len(c.Members), pl.gangsOf(Piece{Coll: c, Index: Whole}, 1, everyone)[0]
	if n < 2 {
		return pl.GangFor(op, c, whole)
	}
	start := min(whole, Duration(2*pl.Machine.Launch.Barrier.Or(0)+pl.Machine.Engines.Latency.Or(0)))
	ranks, me := pl.RanksOf(c), slices.Index(c.Members, op.ID)
	shares, _ := pl.copies(c)
	k := pl.GangFor(op, c, start)
	arrive := k.Recipe
	k.Recipe = func(wg int, buf []program.Phase) []program.Phase {
		buf = arrive(wg, buf)
		for i, share := range shares {
			buf = append(buf, program.Phase{Op: program.Put, Peer: ranks[(me+1+i)%n], Bytes: toEachPeer(c), Time: trace.Time(float64(whole-start) * share), DMA: true, Flag: g.depart, Count: 1})
		}
		return append(buf, program.Phase{Op: program.WaitFor, Flag: g.depart, Count: int64(n * (n - 1))})
	}
	return k
}
