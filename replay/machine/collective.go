package machine

import (
	"math"
	"math/bits"

	"github.com/overlapse/overlapse/trace"
)

// A Library is the collective library. Use Of, Time, ChannelsFor and Slowdown.
type Library struct {
	Name          string
	Ranks         Quantity // in the group that most times were recorded with
	Threads       Quantity // of one channel's workgroup
	Registers     Quantity // a thread
	Shared        Quantity // bytes of one channel's workgroup
	Cluster       Quantity // channels whose workgroups start together, where it divides their number
	Onset         Quantity // slowdown alongside the first matrix instructions, channels being all that limits: they lower the clock of the whole GPU
	AllReduce     Collective
	AllGather     Collective
	ReduceScatter Collective
	AllToAll      Collective
	Network       Network // between nodes, as the machine's: more ranks than a node has GPUs lie on several
}

// A Collective is what the library reaches in one operation. A channel is one
// workgroup that takes the steps of its share of the buffer one after another.
// Over N ranks a buffer of B bytes is N chunks of B/N; a step handles one chunk.
// N-1 of the steps send (2·(N-1) in an all-reduce); one more only receives or
// copies, with the link idle.
type Collective struct {
	Channels     Quantity // workgroups when not limited
	Grain        Quantity // bytes of the buffer a channel takes at least: smaller ones use fewer channels
	Alpha        Quantity // seconds at zero bytes and zero steps
	Hop          Quantity // seconds a sending step costs at zero bytes
	Send         Quantity // bytes a second of one channel in a sending step
	Receive      Quantity // bytes a second of one channel in the step that does not send
	Link         Quantity // bytes a second that all channels send together at most
	Smooth       Quantity // exponent of the soft minimum between the channels' rate and the link's
	Times        Table    // measured: ranks, channels, bytes, seconds of the kernel
	CoRunLibrary Quantity // slowdown alongside GEMMs of the matrix library, channels being all that limits
	CoRunTiles   Quantity // the same alongside GEMMs of compiled tiles
	CoRunMemory  Quantity // the same alongside kernels that saturate the memory
	CoRunLatency Quantity // seconds more alongside compute, whatever the size
}

// Clusters is how many of so many channels start together; 0 where each does by itself (rule C6).
func (l *Library) Clusters(channels int) int {
	if n := int(l.Cluster.Or(0)); n > 1 && channels%n == 0 {
		return n
	}
	return 0
}

// Of is the entry for an operation: of the four that are measured, the one
// that moves its bytes in the same way.
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

// ChannelsFor is how many channels, each a workgroup, the library gives to an
// operation on a buffer of the bytes when it is not limited (rule C4).
func (l *Library) ChannelsFor(op trace.CollectiveOp, bytes int64) int {
	c := l.Of(op)
	return int(min(c.Channels.Value, math.Ceil(max(1, float64(bytes)/c.Grain.Or(1)))))
}

// Runs is how many channels an operation runs on that is given so many. What
// sends in pairs takes a power of two, the next one: kernels of NCCL 2.28 that are
// given 3, 5 to 7, 9 to 14 and 20 to 28 have 4, 8, 16 and 32 workgroups, and their
// times (samples/measurements/2026-11-22-h200x2-kernels; rule C5).
func (l *Library) Runs(op trace.CollectiveOp, channels int) int {
	most := int(l.Of(op).Channels.Value)
	if !Pairwise(op) || channels < 1 || channels >= most {
		return channels
	}
	return min(most, 1<<bits.Len(uint(channels-1)))
}

// Sends is how many steps of a channel send, over so many ranks.
func Sends(op trace.CollectiveOp, ranks float64) float64 {
	if op == trace.AllReduce || op == trace.Reduce {
		return 2 * (ranks - 1)
	}
	return ranks - 1
}

// MemoryOf is what a rank reads of, and writes to, its own GPU's memory in an
// operation over so many ranks, for each byte that it sends. The bytes that peers
// send to it are written besides. The rules count chunks of a rank's N:
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

// Time predicts how long the kernel of an operation takes, alone and with all
// ranks there from its start, in seconds. bytes is the larger of one rank's
// input and output. channels limits the workgroups; 0 leaves it to the library.
//
// Channel by channel (the steps one after another, those that send sharing the link),
//
//	law = Alpha + Hop·s + B/(N·n)·(s·soft(1/Send, n/Link) + 1/Receive),  soft(a,b) = (a^p+b^p)^(1/p)
//
// with s sending steps, n channels and p = Smooth. The law gives the times of
// few channels within 2 % and, which a count of bytes on the wire does not,
// carries over to other numbers of ranks. What it leaves (protocols by size,
// uneven channels of an all-to-all) is the ratio of the recorded times to it,
// interpolated over size and channels. Where there are none, or ranks lie on
// several nodes, protocols and the network's rates take their place (expected).
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
	if at := l.Spread(ranks); at.nodes > 1 || !c.Times.Known() {
		return l.Expected(op, at, n, b)
	}
	if nothing {
		return c.Alpha.Value + c.Hop.Or(0)*Sends(op, r)
	}
	return c.Law(op, r, n, b) * c.Ratio(op, r, n, b)
}

// Law is the formula of Library.Time (rule C8).
func (c *Collective) Law(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	n := min(channels, math.Ceil(bytes/c.Grain.Or(1)))
	s := Sends(op, ranks)
	step := soft(1/c.Send.Value, n/c.Link.Value, c.Smooth.Value)
	return c.Alpha.Value + c.Hop.Or(0)*s + bytes/(ranks*n)*(s*step+1/c.Receive.Value)
}

// soft is a smooth maximum: the larger where they differ much.
func soft(a, b, p float64) float64 { return math.Pow(math.Pow(a, p)+math.Pow(b, p), 1/p) }

// Ratio is recorded time over law, for the recorded number of ranks nearest to
// the wanted one; 1 where nothing was recorded (rule C9).
func (c *Collective) Ratio(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	if !c.Times.Known() {
		return 1
	}
	nearest := c.nearestRanks(ranks)
	var columns []Point // channels, ratio at the wanted bytes
	for rows := c.Times.Rows; len(rows) > 0; {
		same := 1
		for same < len(rows) && rows[same][0] == rows[0][0] && rows[same][1] == rows[0][1] {
			same++
		}
		if rows[0][0] == nearest {
			column := make([]Point, same)
			for i, r := range rows[:same] {
				column[i] = Point{r[2], r[3] / c.Law(op, r[0], r[1], r[2])}
			}
			columns = append(columns, Point{rows[0][1], at(column, bytes)})
		}
		rows = rows[same:]
	}
	return at(columns, channels)
}

// nearestRanks is the recorded number of ranks that is nearest by ratio, the larger of equals.
func (c *Collective) nearestRanks(ranks float64) float64 {
	best, least := 0.0, math.Inf(1)
	for _, r := range c.Times.Rows {
		if d := math.Abs(math.Log(r[0] / ranks)); d <= least {
			best, least = r[0], d
		}
	}
	return best
}

// A CoRunKind is what runs on the same GPUs alongside a collective.
type CoRunKind uint8

// The neighbours.
const (
	CoRunLibrary CoRunKind = iota // GEMMs of the matrix library: persistent, one workgroup a CU
	CoRunTiles                    // GEMMs of compiled tiles, and other compute-bound kernels
	CoRunMemory                   // kernels that saturate the memory
)

// Slowdown is the factor, at least 1, on Time while neighbours are resident on
// the same GPUs. A neighbour delays what a channel does, not the link, so that
// it matters to the extent that channels limit:
//
//	1 + K·x^q + D/Time,  x = time in channels alone ÷ Time alone
//
// with K the profile's Beside of that kind and D its BesideLatency. Delays of memory add up (q = 1);
// those alongside compute also hide behind the link (q = 2). Both exponents were
// read off collectives at 4 to 32 channels alongside kernels that run without end (rule I1).
func (l *Library) Slowdown(op trace.CollectiveOp, bytes int64, ranks, channels int, beside CoRunKind) float64 {
	factor, _, latency := l.CoRun(op, bytes, ranks, channels, beside)
	if latency == 0 {
		return factor
	}
	return factor + latency/l.Time(op, bytes, ranks, channels)
}

// CoRun is the two parts of Slowdown: the factor on all of the time, and the
// seconds that are added to it once, whatever the size; and the onset: the part
// of what the factor adds that one workgroup of the neighbour is enough for (rule I3).
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

// Interference is the slowdown alongside neighbours that occupy only a share, 0 to 1,
// of the CUs that the collective leaves, given that alongside such as fill them and
// the part of what they add, 0 to 1, that the first of their workgroups is enough
// for. Delays of memory and of the interconnect follow the requests in flight,
// which grow with the CUs that make them (rule I2).
func Interference(slowdown, onset, share float64) float64 {
	return 1 + (slowdown-1)*(onset+(1-onset)*share)
}

// InChannels is the law without latency and without a limit of the link.
func (c *Collective) InChannels(op trace.CollectiveOp, ranks, channels, bytes float64) float64 {
	return bytes / (ranks * channels) * (Sends(op, ranks)/c.Send.Value + 1/c.Receive.Value)
}

// besideNames are the strategies of rows that measure it.
var CoRunNames = [...]string{"beside_cublas", "beside_triton", "beside_membound"}

func (c *Collective) coRunSlowdown(n CoRunKind) *Quantity {
	return [...]*Quantity{&c.CoRunLibrary, &c.CoRunTiles, &c.CoRunMemory}[n]
}

// Exponent is that of the neighbour's slowdown over the share of CUs that collectives hold.
func (n CoRunKind) Exponent() float64 {
	if n == CoRunMemory {
		return 1
	}
	return 2
}

// Slowed is the library at a pace (Machine.Pace): under the load that lowers the
// clock of matrix kernels, channels slow too, by 1.27 at a pace of 1.17, while
// the link does not (samples/measurements/2026-11-21-h200x4, strategy after_gemm,
// 4 and 8 channels) (rule C19).
func (l Library) Slowed(pace float64) *Library {
	if pace > 0 && pace != 1 {
		by := math.Pow(pace, 1.5)
		for _, c := range []*Collective{&l.AllReduce, &l.AllGather, &l.ReduceScatter, &l.AllToAll} {
			c.Send.Value /= by
			c.Receive.Value /= by
		}
	}
	return &l
}
