package plan

import (
	"math"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

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
	best := math.Inf(1)
	choose := func(bytes, latency, factor, peak float64, most int) {
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
			best, seconds, workgroups = counts, took(w)/1e6, w
		}
	}
	choose(flagFactor*all, flags, 1, law.peak, symmetricMost)
	choose(ring, latency, 1, law.peak, symmetricMost)
	if m.Library.Switch.Value > 0 && ranks > 2 {
		choose(switched, latency, multicast, peak, machine.CeilDiv(law.switched, ranks))
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
