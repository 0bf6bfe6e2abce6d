package machine

import (
	"math"

	"github.com/overlapse/overlapse/trace"
)

// Where a node's GPUs share a switch that adds, each GPU reads its part of the sum from all at
// once and writes it to all at once: NVLS, and between nodes NVLS tree (rule C26).
const (
	switchStart = 25e-6 // seconds of a call and of a pass through the switch
	switchFar   = 14e-6 // seconds of a step between nodes
)

// switches reports whether the library may add in the switch of a node. Of two GPUs it does not, and
// on one node only where its tuner's bandwidth, 2·(N-1)/N of the switch's, exceeds a ring's N/(N-1):
// not of four H200.
func (l *Library) switches(op trace.CollectiveOp, at Placement) bool {
	n := at.per
	return op == trace.AllReduce && n > 2 && l.Switch.Value > 0 && (at.nodes > 1 || 2*(n-1)*(n-1)*l.Switch.Value > n*n)
}

// switchTime is the time of an all-reduce that switches add, and the one by which the library
// chooses it, in seconds. A GPU sends the buffer once, and once more the part that it added. The
// bytes go in pieces through four stages (into the library's buffer, sum, spread, out of it), and
// between nodes up and down a tree: the last piece leaves as many pieces later as stages follow the
// first. Between nodes the tuner counts no pieces, and takes the switch for buffers that a tree would
// reduce sooner.
func (l *Library) switchTime(at Placement, channels, bytes float64) (seconds, choice float64) {
	channels = min(channels, l.SwitchChannels.Or(channels))
	near := bytes * (1 + 1/at.per) / (l.AllReduce.Link.Value * l.Switch.Value * channels / l.SwitchChannels.Or(channels))
	latency, far, follow := switchStart, 0.0, 3*near
	if at.nodes > 1 {
		deep := 2 * math.Ceil(math.Log2(at.nodes))
		if rate := l.Network.rankRate(false, at); rate > 0 {
			far = bytes * at.crossing() / rate
		}
		latency, follow = latency+deep*max(switchFar, l.Network.Latency.Value), follow+deep*far
	}
	choice = latency*(1-l.Sooner) + max(near, far)
	seconds = choice + follow*min(1, l.switchRound(at, channels, bytes)/max(1, bytes))
	if at.nodes == 1 {
		choice = seconds
	}
	return seconds, choice
}

// switchRound is the bytes of one piece of every channel and GPU: smaller pieces for buffers of
// fewer rounds.
func (l *Library) switchRound(at Placement, channels, bytes float64) float64 {
	pieces, chunk := channels*at.per, 128.0*1024
	type rule struct{ rounds, chunk float64 }
	rules := []rule{{64, 64 << 10}, {8, 32 << 10}, {2, 16 << 10}}
	if at.nodes > 1 {
		rules = []rule{{4, 64 << 10}, {1, 32 << 10}}
	}
	if at.nodes >= 4 {
		chunk /= 2
	}
	for _, r := range rules {
		if bytes < r.rounds*pieces*chunk {
			chunk = min(chunk, r.chunk)
		}
	}
	return pieces * chunk
}
