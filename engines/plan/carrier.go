package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What moves the bytes of collectives: workgroups of the library's kernels, workgroups of its kernels over symmetric windows, or
// copy engines (NCCL 2.28 with CTA policy zero, RCCL's symmetric memory, copies of PyTorch's symmetric memory). Copy engines take
// no compute unit; they use the memory and the links as copies do. They do not add: behind the copies of a sum a kernel adds.
//
//	compute units  |GGGGG GGGG|GGGGG GGGG|     copy engines  |GGGGGGGGGG|GGGGGGGGGG|
//	channels       |    CCCCCCCCC       |     engines       |    |11111|
//	                                                        |    |22222|  to each peer
const (
	AsCaptured  = "captured"
	ByUnits     = "cu"
	ByEngines   = "dma"
	bySymmetric = "symmetric"
)

// carrierNames and sumNames are the values of Settings.Carrier and Settings.Sums.
var (
	carrierNames = []string{AsCaptured, ByUnits, ByEngines, bySymmetric}
	sumNames     = []string{AsCaptured, ByEngines, bySymmetric}
)

// CarrierParams are what moves the bytes of collectives that copy, and of those that add.
var CarrierParams = [...]Param{
	{
		Name: "carrier", Default: AsCaptured, Choices: carrierNames, Keep: true, Replaces: true, Ops: copyOps,
		// FSDP2 with NCCL's and with copy-engine gathers; GEMMs with RCCL's all-gathers and with zero-CTA ones (Z-Y00/ROCM-sdma-rccl-test).
		Measured: []string{AsCaptured, ByEngines}, ranOn: []string{"NVIDIA H200", "AMD Instinct MI300X"}, ranWith: OnlyGathers,
		Doc: "what moves the bytes of all-gathers and all-to-alls within a node: workgroups on compute units (cu), copy engines (dma), " +
			"or the few workgroups of NCCL's kernels over symmetric windows (symmetric)",
		Costs: "dma and symmetric need registered buffers; dma takes memory bandwidth instead of compute units",
	},
	{
		Name: "sums", Default: AsCaptured, Choices: sumNames, Replaces: true, Experimental: true, Ops: sumOps,
		Doc: "what moves the bytes of reduce-scatters and all-reduces within a node: copy engines, and a kernel adds behind them (dma), " +
			"or NCCL's kernels over symmetric windows, which add in the switch where it can (symmetric)",
		Costs: "registered buffers; dma: memory for a part from each rank, for an all-reduce for the bytes of each other rank",
	},
}

// sumOps are the collectives that add.
var sumOps = []trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter}

// SetCarrier sets what moves collectives. It returns the reason why that can move
// none of them, or "".
func (pl *Planner) SetCarrier(v Values) string {
	pl.Carrier, pl.Sums = cmp.Or(v["carrier"], AsCaptured), cmp.Or(v["sums"], AsCaptured)
	switch {
	case pl.Sums != ByEngines:
	case v.Int("bucket_mb") > 0:
		return "sums=dma and bucket_mb are not planned together"
	case pl.CollectiveTail == nil:
		pl.CollectiveTail = pl.sumOfCopies
	}
	for _, set := range []struct{ name, mover, why string }{
		{"carrier", pl.Carrier, "all-gathers, all-to-alls, gathers and scatters within a node: copy engines do not add"},
		{"sums", pl.Sums, "reduce-scatters and all-reduces within a node"},
	} {
		if set.mover == bySymmetric {
			set.why = "all-gathers, reduce-scatters and all-reduces of NCCL between GPUs that a switch joins"
		}
		moves := func(c workload.Collective) bool {
			return adds(c.Op) == (set.name == "sums") && pl.moverOf(&c) == set.mover
		}
		if set.mover != AsCaptured && set.mover != ByUnits && !slices.ContainsFunc(pl.Workload.Collectives, moves) {
			return set.name + "=" + set.mover + " is for " + set.why
		}
	}
	return ""
}

// adds reports whether a collective adds.
func adds(op trace.CollectiveOp) bool { return slices.Contains(sumOps, op) }

// capturedMover is what moved a collective's bytes in the capture.
func (pl *Planner) capturedMover(c *workload.Collective) string {
	symmetric := func(id int32) bool { // ncclSymkDevKernel_AllGather_ST
		k := pl.Workload.Ops[id].Kernel
		return k != nil && strings.HasPrefix(k.Name, "ncclSym")
	}
	switch {
	case c.Engines:
		return ByEngines
	case len(c.Members) > 0 && symmetric(c.Members[0]) && pl.timeBy(bySymmetric, c, 0) > 0:
		return bySymmetric
	}
	return ByUnits
}

// moverOf is what moves a collective's bytes: as captured, unless the settings say otherwise and that can do it (rule C22).
func (pl *Planner) moverOf(c *workload.Collective) string {
	set := pl.Carrier
	if adds(c.Op) {
		set = pl.Sums
	}
	if set != ByUnits && pl.timeBy(set, c, 0) <= 0 {
		return pl.capturedMover(c)
	}
	return set
}

// timeBy is the seconds that a mover takes for a collective by its law; 0 where it cannot move it. channels are those of the
// library's kernel, 0: its own choice.
func (pl *Planner) timeBy(mover string, c *workload.Collective, channels int) float64 {
	n := len(c.Members)
	switch within := n > 1 && n <= pl.Machine.PerNode(); {
	case mover == ByUnits:
		return pl.Laws().Time(c, c.Op, c.Bytes, channels)
	case mover == ByEngines && within && (adds(c.Op) || slices.Contains(copyOps, c.Op)):
		return pl.engineTime(c)
	case mover == bySymmetric && within:
		seconds, _ := symmetricKernel(&pl.Machine, c.Op, float64(c.Bytes), n)
		return seconds
	}
	return 0
}

// carried is one rank's kernel of a whole collective, moved by what the settings say. A
// change of carrier scales the time alone by the ratio of the two carriers' times (rule
// C22).
func (pl *Planner) carried(op *workload.Op, p Piece) *program.Kernel {
	c := p.Coll
	whole := c.TransferAlone()
	if !pl.anchored {
		whole += c.Before
	}
	mover, was := pl.moverOf(c), pl.capturedMover(c)
	switch {
	case c.Earlier && pl.anchored:
		return pl.GangFor(op, c, whole)
	case c.Earlier: // its time counts with the last part
		return pl.GangFor(op, c, 0)
	case mover == ByEngines && was == ByEngines:
		return pl.engineKernel(op, c, whole)
	case mover == ByEngines:
		return pl.engineKernel(op, c, trace.Time(float64(whole)*pl.timeBy(mover, c, 0)/pl.timeBy(was, c, c.Channels)))
	}
	if took := pl.engineTime(c); mover != was && was == ByEngines && took > 0 {
		by := pl.timeBy(mover, c, p.Channels)
		p.DurAlone = trace.Time(float64(whole) * by / took)
	}
	return pl.Collective(op, p)
}

// sumOfCopies is the kernel that adds what copy engines brought, nil where they moved no sum: of a reduce-scatter it reads a part
// from each rank, of an all-reduce, to which every rank sends all that it has, it adds the buffer of each other rank
// (torch.ops.symm_mem._low_contention_reduce_scatter, _low_contention_all_reduce).
func (pl *Planner) sumOfCopies(op *workload.Op) *program.Kernel {
	c := &pl.Workload.Collectives[op.Collective]
	if !adds(c.Op) || c.Earlier || pl.moverOf(c) != ByEngines || c.Engines {
		return nil
	}
	n, bytes := float64(len(c.Members)), float64(c.Bytes)
	read, write := bytes, bytes/n
	if c.Op == trace.AllReduce {
		read, write = 2*(n-1)*bytes, (n-1)*bytes
	}
	return pl.Sweep("sum of copied parts", read, write)
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

// toEachPeer is the bytes that a member sends to each of the others: a part, or for the sum of an all-reduce all.
func toEachPeer(c *workload.Collective) float64 {
	if c.Op == trace.AllReduce {
		return float64(c.Bytes)
	}
	return float64(c.Bytes) / float64(len(c.Members))
}

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
			buf = append(buf, program.Phase{
				Op: program.Put, Peer: ranks[(me+1+i)%n], Bytes: toEachPeer(c), Time: trace.Time(float64(whole-start) * share),
				DMA: true, Flag: g.depart, Count: 1,
			})
		}
		return append(buf, program.Phase{Op: program.WaitFor, Flag: g.depart, Count: int64(n * (n - 1))})
	}
	return k
}

// A symmetricLaw has the constants of NCCL's model of its kernels over symmetric windows on one architecture (src/sym_kernels.cc,
// commit 01050a1). Times are microseconds, rates GiB a second.
type symmetricLaw struct {
	latency, sums   float64 // of gathers and reduce-scatters; of all-reduces
	flags, sumFlags float64 // latency of kernels whose words carry flags, of gathers; of sums
	unit, sumUnit   float64 // rate of a workgroup; of all-reduces
	peak, sumPeak   float64 // of all workgroups; of all-reduces that the switch adds
	switched        int     // most workgroups of all ranks that use multicast
}

var (
	symmetricHopper = symmetricLaw{
		latency: 7.8, sums: 7.8, flags: 4.5, sumFlags: 4.5,
		unit: 44, sumUnit: 65, peak: 320, sumPeak: 480, switched: 16,
	}
	symmetricBlackwell = symmetricLaw{
		latency: 13, sums: 19.5, flags: 8.5, sumFlags: 11,
		unit: 55, sumUnit: 55, peak: 600, sumPeak: 1000, switched: 32,
	}
)

const (
	symmetricMost    = 64    // workgroups (ncclSymkMaxBlocks)
	flagFactor       = 9     // bytes on the bus for a byte where words carry flags
	multicastFactor  = 0.55  // of the ranks: what one workgroup sends by multicast, over what it sends one by one
	symmetricNear    = 1.025 // fewest workgroups whose time is that near to the best
	symmetricPenalty = 0.025 // in the choice of a kernel a workgroup counts as so much more time

	// How many times as long as in NCCL's model the bytes take of kernels that add what they load from their peers: of
	// reduce-scatters and all-reduces of 16 to 512 MiB on two H200 without multicast, whose gathers took what the model says.
	loadedScatter = 1.9
	loadedSum     = 1.44
)

// symmetricKernel is the time, in seconds, and the number of workgroups of the kernel that NCCL chooses for a collective whose
// buffers lie in symmetric windows; 0 where it has none: on GPUs that no switch joins, or of other vendors (rule C31).
func symmetricKernel(m *machine.Machine, op trace.CollectiveOp, bytes float64, ranks int) (seconds float64, workgroups int) {
	if VendorOf(m.GPU.Name) != NVIDIA || m.Fabric.Topology != machine.Switch || !adds(op) && op != trace.AllGather {
		return 0, 0
	}
	law, n := symmetricHopper, float64(ranks)
	if strings.Contains(m.GPU.Name, "B200") {
		law = symmetricBlackwell
	}
	latency, flags, unit := law.latency, law.flags, law.unit
	if adds(op) {
		flags = law.sumFlags
	}
	ring, all, multicast, peak := bytes*(n-1)/n, bytes, multicastFactor*n, law.peak
	switched := bytes * (n - 1) / n
	if op == trace.AllReduce {
		latency, unit = law.sums, law.sumUnit
		ring, all, multicast, peak, switched = 2*ring, bytes*n, n, law.sumPeak, bytes/n+bytes
	}
	best, loaded := math.Inf(1), 1.0 // loaded: of kernels of loads and stores alone
	switch op {
	case trace.AllReduce:
		loaded = loadedSum
	case trace.ReduceScatter:
		loaded = loadedScatter
	}
	choose := func(bytes, latency, factor, peak, longer float64, most int) {
		took := func(workgroups int) float64 {
			return symmetricTime(bytes, latency, float64(workgroups)*unit*factor, unit, peak)
		}
		w := most
		for i := 1; i < most; i++ {
			if took(i) <= symmetricNear*took(most) {
				w = i
				break
			}
		}
		if counts := took(w) * (1 + symmetricPenalty*float64(w)); counts < best {
			best, seconds, workgroups = counts, (latency+(took(w)-latency)*longer)/1e6, w
		}
	}
	choose(flagFactor*all, flags, 1, law.peak, 1, symmetricMost)
	choose(ring, latency, 1, law.peak, loaded, symmetricMost)
	if m.Library.Switch.Value > 0 && ranks > 2 {
		choose(switched, latency, multicast, peak, 1, machine.CeilDiv(law.switched, ranks))
	}
	return seconds, workgroups
}

// symmetricTime is the time of a kernel in microseconds: a smooth maximum of its latency and its bytes at the smooth minimum of
// the rates of its workgroups and of the links.
func symmetricTime(bytes, latency, rate, unit, peak float64) float64 {
	const perMicrosecond = (1 << 30) / 1e6
	at := peak - unit*math.Log1p((math.Exp(peak/unit)-1)*math.Exp(-rate/unit))
	z := bytes/(at*perMicrosecond) - 1
	if z < 100 {
		z = math.Log1p(math.Exp(z))
	}
	return latency + z
}
