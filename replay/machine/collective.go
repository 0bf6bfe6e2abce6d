package machine

import (
	"math"
	"math/bits"

	"github.com/overlapse/overlapse/trace"
)

// A Library is the collective library. Use Of, Time, ChannelsFor and Slowdown.
type Library struct {
	Name      string
	Sooner    float64  // share of the protocols' latencies that a WhatIf removes
	Ranks     Quantity // group size of most recorded times
	Threads   Quantity // per workgroup of one channel
	Registers Quantity // per thread
	Shared    Quantity // bytes per workgroup of one channel
	Cluster   Quantity // channels whose workgroups start together, if it divides their number
	// co-run slowdown caused by the first matrix instructions if only channels limit: they lower the clock of the whole GPU
	Onset          Quantity
	AllReduce      Collective
	AllGather      Collective
	ReduceScatter  Collective
	AllToAll       Collective
	Host           Quantity // GPUs of one host, if the links of a node join several hosts
	Switch         Quantity // share of the links' rate that sums in their switch reach (NVLS)
	SwitchChannels Quantity // workgroups of such a sum
	LLNodes        Table    // number of nodes from which on; bytes per second that a rank sends with protocol LL
	Network        Network  // between nodes, as the machine's; used if a group has more ranks than a node has GPUs
	Nodes          int      // nodes that a collective's ranks are on (Machine.LibraryFor); 0: ranks fill one node after another
}

// A Collective is the library's performance in one operation. A channel is one workgroup
// that performs the steps of its share of the buffer in sequence. Over N ranks a buffer of
// B bytes is N chunks of B/N; a step handles one chunk. N-1 of the steps send (2·(N-1) in
// an all-reduce); one more only receives or copies, with the link idle.
type Collective struct {
	Channels     Quantity // workgroups when not limited
	Grain        Quantity // least bytes of the buffer per channel: smaller buffers use fewer channels
	Alpha        Quantity // seconds at zero bytes and zero steps
	Hop          Quantity // seconds of a sending step at zero bytes
	Send         Quantity // bytes per second of one channel in a sending step
	First        Quantity // the same in the first sending step; no value: as Send
	Receive      Quantity // bytes per second of one channel in the step that does not send
	Sum          Quantity // maximum bytes per second of all channels together in that step; no value: none
	Link         Quantity // maximum bytes per second of all sending channels together
	Smooth       Quantity // exponent of the soft minimum between the channels' rate and the link's
	Times        Table    // measured: ranks, channels, bytes, seconds of the kernel
	CoRunLibrary Quantity // co-run slowdown alongside GEMMs of the matrix library if only channels limit
	CoRunTiles   Quantity // the same alongside GEMMs of compiled tiles
	CoRunMemory  Quantity // the same alongside kernels that saturate the memory
	CoRunLatency Quantity // additional seconds alongside compute, independent of size
}

// Clusters is the number of channels that start together, of n; 0 without clusters
// (rule C6).
func (l *Library) Clusters(channels int) int {
	if n := int(l.Cluster.Or(0)); n > 1 && channels%n == 0 {
		return n
	}
	return 0
}

// Of is the entry for an operation: of the four measured ones, the one that moves bytes in
// the same way.
func (l *Library) Of(op trace.CollectiveOp) *Collective {
	switch op {
	case trace.AllReduce, trace.Reduce:
		return &l.AllReduce
	case trace.ReduceScatter:
		return &l.ReduceScatter
	case trace.AllToAll, trace.SendRecv, trace.Gather, trace.Scatter:
		return &l.AllToAll
	}
	return &l.AllGather
}

// ChannelsFor is the number of channels, one workgroup each, that the library uses for a
// buffer of the given bytes if it is not limited (rule C4).
func (l *Library) ChannelsFor(op trace.CollectiveOp, bytes int64) int {
	c := l.Of(op)
	return int(min(c.Channels.Value, math.Ceil(max(1, float64(bytes)/c.Grain.Or(1)))))
}

// Runs is the number of channels that an operation uses if it is given n. Operations that
// send in pairs use the next power of two: NCCL 2.28 given 3, 5 to 7, 9 to 14 and 20 to 28
// runs 4, 8, 16 and 32 workgroups, with the same times
// (samples/measurements/2026-11-22-h200-products; rule C5).
func (l *Library) Runs(op trace.CollectiveOp, channels int) int {
	most := int(l.Of(op).Channels.Value)
	if !pairwise(op) || channels < 1 || channels >= most {
		return channels
	}
	return min(most, 1<<bits.Len(uint(channels-1)))
}

// Sends is the number of a channel's sending steps, over n ranks.
func Sends(op trace.CollectiveOp, ranks float64) float64 {
	if op == trace.AllReduce || op == trace.Reduce {
		return 2 * (ranks - 1)
	}
	return ranks - 1
}

// MemoryOf is the traffic of a rank in its own GPU's memory, per byte that it sends, in an
// operation over n ranks. Bytes that peers store to it are counted by the peers. In chunks
// of a rank's N:
//
//   - Reduce-scatter, on a ring: the first step reads a chunk and sends it. Each of
//     the N-2 others reads what has arrived and its own chunk, and sends their sum.
//     The last reads both and writes the sum here. N-1 are sent, 2N-1 read, 1 written (rule M2).
//     Sent directly, N-1 are read to be sent, and N to be added: the same.
//   - All-gather: each of the N-1 that are sent is read.
//   - All-reduce: the two, one after the other.
//   - All-to-all: as an all-gather, and the rank's own chunk is copied.
//   - Reduce, broadcast and the rest send along chains, as reduce-scatter or all-gather.
func MemoryOf(op trace.CollectiveOp, ranks int) (read, written float64) {
	n := float64(max(2, ranks))
	switch op {
	case trace.ReduceScatter, trace.Reduce:
		return (2*n - 1) / (n - 1), 1 / (n - 1)
	case trace.AllReduce:
		return (3*n - 2) / (2 * (n - 1)), 1 / (2 * (n - 1))
	case trace.AllToAll:
		return n / (n - 1), 1 / (n - 1)
	}
	return 1, 0
}

// Time predicts the duration in seconds of an operation's kernel, alone and with all ranks
// there from its start. bytes is the larger of one rank's input and output. channels
// limits the workgroups; 0 leaves the number to the library.
//
// By channel (steps in sequence, sending channels sharing the link):
//
//	law = Alpha + Hop·s + B/(N·n)·(s·soft(1/Send, n/Link) + 1/Receive),  soft(a,b) = (a^p+b^p)^(1/p)
//
// with s sending steps, n channels and p = Smooth. The law gives the times of few channels
// within 2 % and holds for other numbers of ranks, unlike a count of wire bytes. Its
// remaining error (protocols by size, uneven channels of an all-to-all) is corrected by
// the ratio of recorded times to the law, interpolated over size and channels. Without
// recorded times, or with ranks on several nodes, the tuner's model applies (Expected).
func (l *Library) Time(op trace.CollectiveOp, bytes int64, ranks, channels int) float64 {
	if ranks < 2 {
		return 0
	}
	c := l.Of(op)
	nothing := op == trace.Barrier || bytes <= 0
	if channels <= 0 {
		channels = int(c.Channels.Value)
	}
	channels = l.Runs(op, channels)
	n, b, r := float64(channels), float64(bytes), float64(ranks)
	if nothing {
		b = 0
	}
	if at := l.spread(ranks); at.nodes > 1 || !c.Times.Known() {
		return l.Expected(op, ranks, n, b)
	}
	if nothing {
		return c.Alpha.Value + c.Hop.Or(0)*Sends(op, r)
	}
	seconds := c.Law(op, r, n, b) * c.Ratio(op, r, n, b)
	if at := l.spread(ranks); l.switches(op, at) {
		if added, choice := l.switchTime(at, n, b); choice < seconds {
			seconds = added
		}
	}
	return seconds
}

// Law is the formula of Library.Time (rule C8).
func (c *Collective) Law(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	n := min(channels, math.Ceil(bytes/c.Grain.Or(1)))
	return c.Alpha.Value + c.Hop.Or(0)*Sends(op, ranks) + bytes/(ranks*n)*(c.sending(op, ranks, n)+c.receiving(n, 1))
}

// receiving is the seconds for so many bytes of a channel's last step, which n channels have at once.
func (c *Collective) receiving(n, bytes float64) float64 {
	if c.Sum.Value > 0 {
		return bytes * max(1/c.Receive.Value, n/c.Sum.Value)
	}
	return bytes / c.Receive.Value
}

// sending is the seconds a byte of a channel's sending steps, of which n channels share the link.
func (c *Collective) sending(op trace.CollectiveOp, ranks, n float64) float64 {
	step := func(rate float64) float64 { return soft(1/rate, n/c.Link.Value, c.Smooth.Value) }
	s := Sends(op, ranks) * step(c.Send.Value)
	if c.First.Value > 0 {
		s += step(c.First.Value) - step(c.Send.Value)
	}
	return s
}

// soft is a smooth maximum: close to the larger argument if they differ much.
func soft(a, b, p float64) float64 { return math.Pow(math.Pow(a, p)+math.Pow(b, p), 1/p) }

// Ratio is recorded time over law at the recorded number of ranks nearest to the given
// one; 1 without recorded times (rule C9).
func (c *Collective) Ratio(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	if !c.Times.Known() {
		return 1
	}
	recorded := *c
	recorded.First = Quantity{} // from another buffer
	nearest := c.nearestRanks(ranks)
	var columns []point // channels, ratio at the wanted bytes
	for rows := c.Times.Rows; len(rows) > 0; {
		same := 1
		for same < len(rows) && rows[same][0] == rows[0][0] && rows[same][1] == rows[0][1] {
			same++
		}
		if rows[0][0] == nearest {
			column := make([]point, same)
			for i, r := range rows[:same] {
				column[i] = point{r[2], r[3] / recorded.Law(op, r[0], r[1], r[2])}
			}
			columns = append(columns, point{rows[0][1], at(column, bytes)})
		}
		rows = rows[same:]
	}
	return at(columns, channels)
}

// nearestRanks is the recorded number of ranks nearest by ratio, the larger of equals.
func (c *Collective) nearestRanks(ranks float64) float64 {
	best, least := 0.0, math.Inf(1)
	for _, r := range c.Times.Rows {
		if d := math.Abs(math.Log(r[0] / ranks)); d <= least {
			best, least = r[0], d
		}
	}
	return best
}

// Where a node's GPUs share a switch that adds, each GPU reads its part of the sum from all at
// once and writes it to all at once: NVLS, and between nodes NVLS tree (rule C26).
const (
	switchStart = 25e-6 // seconds of a call and of a pass through the switch
	switchFar   = 14e-6 // seconds of a step between nodes
)

// switches reports whether the library may add in the switch of a node. Of two GPUs it does not, and
// on one node only where its tuner's bandwidth, 2·(N-1)/N of the switch's, exceeds a ring's N/(N-1):
// not of four H200.
func (l *Library) switches(op trace.CollectiveOp, at placement) bool {
	n := at.per
	return op == trace.AllReduce && n > 2 && l.Switch.Value > 0 && (at.nodes > 1 || 2*(n-1)*(n-1)*l.Switch.Value > n*n)
}

// switchTime is the time of an all-reduce that switches add, and the one by which the library
// chooses it, in seconds. A GPU sends the buffer once, and once more the part that it added. The
// bytes go in pieces through four stages (into the library's buffer, sum, spread, out of it), and
// between nodes up and down a tree: the last piece leaves as many pieces later as stages follow the
// first. Between nodes the tuner counts no pieces, and takes the switch for buffers that a tree would
// reduce sooner.
func (l *Library) switchTime(at placement, channels, bytes float64) (seconds, choice float64) {
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
func (l *Library) switchRound(at placement, channels, bytes float64) float64 {
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
