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
	CoRunTiles                    // GEMMs of compiled tiles
	CoRunMemory                   // all other kernels: taken to saturate the memory
)

// Slowdown is the co-run slowdown of a collective, at least 1: the factor on Time while
// compute of the given kind is resident on the same GPUs. Compute delays channels, not the
// link, so the slowdown depends on the share of the time for which channels limit:
//
//	1 + K·x^q + D/Time,  x = time in channels alone ÷ Time alone
//
// with K the profile's CoRun value of that kind and D its CoRunLatency. q is 1 alongside
// memory-bound kernels, whose delays add up, and 2 alongside compute-bound kernels, whose
// delays partly hide behind the link. Both exponents were measured with collectives of 4
// to 32 channels alongside kernels that run without end (rule I1).
func (l *Library) Slowdown(op trace.CollectiveOp, bytes int64, ranks, channels int, beside CoRunKind) float64 {
	factor, _, latency := l.CoRun(op, bytes, ranks, channels, beside)
	if latency == 0 {
		return factor
	}
	return factor + latency/l.Time(op, bytes, ranks, channels)
}

// CoRun returns the parts of Slowdown: the factor on the whole time; onset, the share of
// the added time that one workgroup of the compute causes (rule I3); and latency, the
// seconds added once, independent of size.
func (l *Library) CoRun(op trace.CollectiveOp, bytes int64, ranks, channels int, beside CoRunKind) (factor, onset, latency float64) {
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
	k := c.coRunSlowdown(beside).Or(0)
	if beside != CoRunMemory && k > 0 {
		onset = min(1, l.Onset.Or(0)/k)
	}
	return 1 + k*math.Pow(x, beside.Exponent()), onset, c.CoRunLatency.Or(0)
}

// Interference is the co-run slowdown alongside compute that uses only a share, 0 to 1, of
// the CUs that the collective leaves. factor is the slowdown at share 1; onset, 0 to 1, is
// the part of the added time that the first workgroup causes. Delays of memory and
// interconnect follow the requests in flight, which grow with the CUs that issue them
// (rule I2).
func Interference(slowdown, onset, share float64) float64 {
	return 1 + (slowdown-1)*(onset+(1-onset)*share)
}

// InChannels is the law without latency and without the link's limit.
func (c *Collective) InChannels(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	return bytes / (ranks * channels) * (Sends(op, ranks)/c.Send.Value + 1/c.Receive.Value)
}

// CoRunNames are the strategies of dataset rows that measure each kind.
var CoRunNames = [...]string{"beside_cublas", "beside_triton", "beside_membound"}

func (c *Collective) coRunSlowdown(n CoRunKind) *Quantity {
	return [...]*Quantity{&c.CoRunLibrary, &c.CoRunTiles, &c.CoRunMemory}[n]
}

// Exponent is that of the co-run slowdown over the share of time for which channels limit.
func (n CoRunKind) Exponent() float64 {
	if n == CoRunMemory {
		return 1
	}
	return 2
}
