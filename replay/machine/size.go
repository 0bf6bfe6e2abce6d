package machine

import (
	"math"

	"github.com/overlapse/overlapse/trace"
)

// sizeSteps is the number of sizes per factor of two that SizesOf tries.
const sizeSteps = 16

// SizesOf is the inverse of Time: the range of buffer sizes in bytes whose operation,
// alone and with all ranks there from its start, takes the given seconds within a relative
// spread. channels is the number of workgroups of the kernel; 0 if unknown. It returns
// 0, 0 if no size takes as long.
//
// Small collectives are bound by latency: their range is wide and begins at 0. There the
// number of channels tells more, because the library adds a channel with each grain of
// bytes (ChannelsFor). The grain is proportional to the number of ranks (NCCL multiplies
// the threshold of a ring by the ranks: src/enqueue.cc and src/graph/tuning.cc), so
// channels below the library's maximum bound the size from both sides, unless a setting
// limits them: the upper bound then comes from the time (rule V10).
func (l *Library) SizesOf(op trace.CollectiveOp, seconds float64, ranks, channels int, spread float64) (least, most int64) {
	if ranks < 2 || !(seconds > 0) {
		return 0, 0
	}
	const largest = 40 * sizeSteps // 1 TiB
	found := false
	for i := -1; i <= largest; i++ {
		bytes := int64(0)
		if i >= 0 {
			bytes = int64(math.Exp2(float64(i) / sizeSteps))
		}
		t := l.Time(op, bytes, ranks, channels)
		if !found && t >= seconds/(1+spread) {
			least, found = bytes, true
		}
		if t <= seconds*(1+spread) {
			most = bytes
		}
	}
	if !found || most < least {
		return 0, 0
	}
	lo, hi := l.sizesOfChannels(op, ranks, channels)
	if lo <= most && hi >= least { // else a setting limits the channels
		least, most = max(least, lo), min(most, hi)
	}
	return least, most
}

// sizesOfChannels is the range of sizes for which the library uses that many channels if
// nothing limits them.
func (l *Library) sizesOfChannels(op trace.CollectiveOp, ranks, channels int) (least, most int64) {
	c := l.Of(op)
	grain := c.Grain.Or(0)
	if r := l.Ranks.Or(0); r > 0 {
		grain *= float64(ranks) / r
	}
	most = math.MaxInt64
	if channels <= 0 || !(grain > 0) {
		return 0, most
	}
	if channels > 1 {
		least = int64(float64(channels) * grain)
	}
	if channels < int(c.Channels.Value) {
		most = int64(float64(channels+1) * grain)
	}
	return least, most
}
