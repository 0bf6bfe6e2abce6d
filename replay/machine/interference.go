package machine

import (
	"math"

	"github.com/overlapse/overlapse/trace"
)

// A CoRunKind is the kind of compute that runs on the same GPUs alongside a collective.
type CoRunKind uint8

// The kinds.
const (
	CoRunLibrary CoRunKind = iota // GEMMs of the matrix library: persistent, one workgroup a CU
	CoRunTiles                    // GEMMs of compiled tiles, attention, convolutions
	CoRunMemory                   // all other kernels: limited by the memory
)

// A CoRunner is compute alongside a collective.
type CoRunner struct {
	Kind CoRunKind
	Load float64 // of CoRunMemory: its traffic over what the memory moves in its time alone; 0: unknown
}

// weight is how much the co-runner delays a collective, relative to compute of its kind
// that saturates the memory. Requests queue in front of a memory that is nearly saturated,
// so the delay falls with the fourth power of the load (rule I9). Two H200, collectives of
// 256 MiB through 8 to 24 channels, delay relative to an addition of 180 MB: normalisation
// (load 0.81) 0.33, multi-tensor addition (0.78) 0.38, sum over rows (0.77) 0.22, softmax
// (0.58) 0.27, strided product (0.50) 0.06, SiLU (0.33) 0.03. Kernels whose traffic a trace
// does not show: multi-tensor 0.3, embedding gradient 0.3, strided concatenation 0.15.
func (r CoRunner) weight() float64 {
	switch {
	case r.Kind != CoRunMemory:
		return 1
	case r.Load <= 0:
		return unknownLoad
	}
	return math.Pow(min(1, r.Load), 4)
}

// unknownLoad is the weight of a kernel of unknown traffic.
const unknownLoad = 0.3

// CoRun is the slowdown of a collective, at least 1, while compute of the given kind is resident on the same GPUs, in parts:
// the factor on the whole time; onset, the share of the added time that one workgroup of the compute causes (rule I3); and
// latency, the seconds added once, independent of size. Compute delays channels, not the link, so the slowdown depends on
// the share of the time for which channels limit:
//
//	1 + w·K·x^q + D/Time,  x = time in channels alone ÷ Time alone
//
// with K the profile's CoRun value of that kind, w the co-runner's weight and D its CoRunLatency. q is 1 alongside
// memory-bound kernels, whose delays add up, and 2 alongside compute-bound kernels, whose
// delays partly hide behind the link. Both exponents were measured with collectives of 4
// to 32 channels alongside kernels that run without end (rule I1).
func (l *Library) CoRun(op trace.CollectiveOp, bytes int64, ranks, channels int, beside CoRunner) (factor, onset, latency float64) {
	if ranks < 2 || bytes <= 0 {
		return 1, 0, 0
	}
	if channels <= 0 {
		channels = l.ChannelsFor(op, bytes)
	}
	channels = l.Runs(op, channels)
	c := l.Of(op)
	alone := l.Time(op, bytes, ranks, channels)
	x := min(1, c.InChannels(op, float64(ranks), float64(channels), float64(bytes))/alone)
	k := c.CoRunSlowdown(beside.Kind).Or(0) * beside.weight()
	if beside.Kind != CoRunMemory && k > 0 {
		onset = min(1, l.Onset.Or(0)/k)
	}
	return 1 + k*math.Pow(x, beside.Kind.Exponent()), onset, c.CoRunLatency.Or(0)
}

// Interference is the co-run slowdown alongside compute that uses only a share, 0 to 1, of
// the CUs that the collective leaves. factor is the slowdown at share 1; onset, 0 to 1, is
// the part of the added time that the first workgroup causes. Delays of memory and
// interconnect follow the requests in flight, which grow with the CUs that issue them
// (rule I1).
func Interference(slowdown, onset, share float64) float64 {
	return 1 + (slowdown-1)*(onset+(1-onset)*share)
}

// saturationLoad is the share of the memory's rate from which a kernel's time is the memory's.
// Streaming kernels of PyTorch reach 0.77 to 0.81 of the rate (rules I10 and Y4).
const saturationLoad = 0.7

// MemoryDelay is the duration, relative to alone, of a streaming kernel that uses a share
// load of the memory's rate, if channels that move bytes held every CU; n of N CUs add n/N
// of the excess. Its reads wait behind the requests of the channels, in addition to the CUs
// that it loses to them. Near saturation the kernel rather shares the memory with them,
// which max-min sharing shows (rule I10). Two H200, kernels alongside collectives of
// 256 MiB over the same alongside a collective that waits for its peer: strided product
// (load 0.50), SiLU (0.33), normalisation (0.81) and sum over rows (0.77) through 24
// channels 1.05 to 1.41, median 1.25; through 16 of them 1.16, 8 1.07, 4 1.03. An addition
// that saturates the memory takes no longer than by the CUs that it loses.
func MemoryDelay(load float64) float64 {
	const excess = 1.3
	return 1 + excess*Exposed(load)
}

// Exposed is how much of a longer latency of memory a kernel shows that uses a share load of the
// memory's rate: all of it up to saturationLoad, nothing at the whole rate (rules I10 and T10).
func Exposed(load float64) float64 { return max(0, min(1, (1-load)/(1-saturationLoad))) }

// InChannels is the law without latency and without the link's limit.
func (c *Collective) InChannels(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	return bytes / (ranks * channels) * (c.sending(op, ranks, 0) + 1/c.Receive.Value)
}

// CoRunSlowdown is the profile's K of Library.CoRun.
func (c *Collective) CoRunSlowdown(n CoRunKind) *Quantity {
	return [...]*Quantity{&c.CoRunLibrary, &c.CoRunTiles, &c.CoRunMemory}[n]
}

// Exponent is that of the co-run slowdown over the share of time for which channels limit.
func (n CoRunKind) Exponent() float64 {
	if n == CoRunMemory {
		return 1
	}
	return 2
}
