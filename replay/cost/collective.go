package cost

import (
	"cmp"
	"math"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Collective is the time alone of a captured collective with other bytes, on at most so many channels (0: as
// captured, as is a number with which the library runs on those of the capture), and the number of channels that it
// takes. It is the captured time, times the law's time of what is asked over the law's time of what was captured
// (rule C11). Fewer bytes take no longer, since the library could send them as it sends the whole, and more no less.
func (l *Laws) Collective(c *workload.Collective, bytes int64, channels int) (e Estimate) {
	if e.By = 1; l.Seen != nil {
		here := *c
		here.Channels = l.channelsHere(c)
		e.By, e.Reason = l.collectiveHere(c, here.Channels)
		here.Alone = workload.Scaled(c.TransferAlone(), e.By)
		c = &here
	}
	e.Alone, e.Channels = c.TransferAlone(), l.Channels(c)
	lib, captured := l.libraryOf(c), e.Channels
	if channels > 0 {
		channels = lib.Runs(c.Op, channels)
	}
	if c.Foreign || channels == lib.Runs(c.Op, captured) || channels > captured && l.boundByBytes(c) {
		channels = 0
	}
	was, is := captured, channels // limits
	if channels == 0 {
		if !l.limited(c) { // as many as the library takes for the bytes
			was = int(lib.Of(c.Op).Channels.Value)
		}
		is = was
	}
	if bytes == c.Bytes && was == is { // whatever the library is known to take
		return e
	}
	for _, q := range []machine.Question{{Bytes: bytes, Channels: cmp.Or(channels, captured)}, {Bytes: c.Bytes, Channels: captured}} {
		q.Kind, q.Op, q.Ranks = machine.AboutCollective, c.Op, len(c.Members)
		l.Lookups.Add(q)
	}
	e.Channels = min(is, max(1, lib.ChannelsFor(c.Op, bytes)))
	by := 1.0
	if from, to := l.Time(c, c.Op, c.Bytes, was), l.Time(c, c.Op, bytes, is); from > 0 && to > 0 {
		by = to / from
	}
	switch {
	case bytes <= c.Bytes && is >= was:
		by, e.Channels = min(by, 1), min(e.Channels, max(captured, channels))
	case bytes > c.Bytes && is <= was:
		by = max(by, 1)
	}
	e.Alone, e.By = max(1, trace.Time(float64(e.Alone)*by+0.5)), e.By*by
	return e
}

// Cut is one of n equal parts of a collective that was captured in parts, on at most so many channels (0: as captured).
func (l *Laws) Cut(captured []*workload.Collective, n, channels int) workload.Collective {
	c, parts := *captured[0], int64(len(captured))
	c.Scale, c.Alone = 0, 0 // Alone has it
	for _, x := range captured {
		c.Alone += x.TransferAlone()
	}
	c.Alone /= trace.Time(parts)
	e := l.Collective(&c, c.Bytes*parts/int64(n), channels)
	c.Bytes, c.In, c.Out = c.Bytes*parts/int64(n), c.In*parts/int64(n), c.Out*parts/int64(n)
	if c.Alone = e.Alone; channels > 0 || c.Channels > 0 {
		c.Channels = e.Channels
	}
	return c
}

// Time is the library's time, in seconds, of an operation on the ranks of a collective, on at most so many channels
// (0: any number). A limit of as many channels as the library takes for the bytes is none: the profile's times are by limit.
func (l *Laws) Time(c *workload.Collective, op trace.CollectiveOp, bytes int64, limit int) float64 {
	lib, n := l.libraryOf(c), len(c.Members)
	key := timeKey{lib.Nodes, l.inPlace(c), op, bytes, n, limit}
	return l.times.Of(key, func() float64 { return timeOf(l.Machine, lib, op, bytes, n, limit) })
}

// Captured is the law's time, in seconds, of a collective as it was captured; 0 if the law is of none like it: the
// library's kernel does not move all of a known number of its bytes.
func (l *Laws) Captured(c *workload.Collective) float64 {
	if c.Bytes <= 0 || c.Guessed || c.Foreign || c.Engines || c.Earlier || c.Op == trace.SendRecv {
		return 0
	}
	return l.Time(c, c.Op, c.Bytes, c.Channels)
}

func timeOf(m *machine.Machine, lib *machine.Library, op trace.CollectiveOp, bytes int64, n, limit int) float64 {
	if limit >= lib.ChannelsFor(op, bytes) {
		limit = 0
	}
	if m.Fabric.Topology != machine.Mesh {
		return lib.Time(op, bytes, n, limit)
	}
	return max(lib.Time(op, bytes, n, limit), onLinks(m, op, bytes, n))
}

// onLinks is the least seconds in which the links of one GPU carry what a rank sends: on a mesh of fewer GPUs than the
// library's law is for, only those between the ranks do.
func onLinks(m *machine.Machine, op trace.CollectiveOp, bytes int64, n int) float64 {
	if rate := m.LinkRate(n); rate > 0 {
		return float64(op.WireBytes(bytes, n)) / rate
	}
	return 0
}

// A Channel is how the kernel of a collective moves its bytes with an algorithm and protocol of the library.
type Channel struct {
	Time            float64    // relative to the library's own choice
	Carried         float64    // bytes on links for each byte
	Between, Inside float64    // shares of them on links between nodes, and on those inside of one
	Together        int        // channels that start together (rule C6)
	Latency         trace.Time // before bytes move
}

// Channel is how channels move so many bytes of a collective. A kernel that is none of the library's may take all CUs;
// it waits for its peers' flags, and ends with an exchange of flags.
func (l *Laws) Channel(c *workload.Collective, bytes int64, channels int, set machine.AlgoProto) (x Channel) {
	lib, n := l.libraryOf(c), len(c.Members)
	x.Time, x.Carried = lib.Relative(c.Op, bytes, n, channels, set), lib.Carried(set)
	x.Between, x.Inside = lib.WireShares(c.Op, bytes, n, channels, set)
	latency := l.Machine.Launch.Barrier.Value + 2*l.Machine.Fabric.Latency.Value
	if !c.Foreign {
		x.Together, latency = l.StartsTogether(lib.Clusters(channels)), l.Time(c, c.Op, 0, 0)
	}
	x.Latency = trace.Time(latency*1e9 + 0.5)
	return x
}

// Halves is the time of the reduce-scatter and of the all-gather of a captured collective: that of an all-reduce in the
// ratio of the law's times of the two. A reduce-scatter has no gather.
func (l *Laws) Halves(c *workload.Collective) (reduce, gather trace.Time) {
	if c.Op != trace.AllReduce {
		return c.TransferAlone(), 0
	}
	var law [2]float64
	for i, op := range []trace.CollectiveOp{trace.ReduceScatter, trace.AllGather} {
		q := machine.Question{Kind: machine.AboutCollective, Op: op, Bytes: c.Bytes, Ranks: len(c.Members), Channels: l.Channels(c)}
		l.Lookups.Add(q)
		law[i] = max(math.SmallestNonzeroFloat64, l.Time(c, op, c.Bytes, q.Channels))
	}
	gather = trace.Time(float64(c.TransferAlone()) * law[1] / (law[0] + law[1]))
	return c.TransferAlone() - gather, gather
}

// BytesIn is the size that the law moves in a time on the ranks and channels of a collective; 0 if that is less
// than the time of no bytes. An all-reduce in shots, which is no kernel of the library's, has what its kernel moves in
// its time behind its barrier and the way of its last flags, at the library's rate: a rank reads the whole of every peer
// in one shot, a share of every peer's and every peer's sums in two, as in a ring; a switch takes the whole and hands a
// share out.
func (l *Laws) BytesIn(c *workload.Collective, took trace.Time) int64 {
	const most = 1 << 44
	lib, n := l.libraryOf(c), len(c.Members)
	within := seconds(took)
	if shots := trace.ShotsOf(l.Workload.Ops[c.Members[0]].Name); c.Foreign && c.Op == trace.AllReduce && shots != "" {
		ring := 2 * float64(n-1) / float64(n)
		each := map[trace.Shots]float64{
			trace.OneShot: float64(n-1) / ring, trace.TwoShot: 1, trace.Multimem: (1 + 1/float64(n)) / ring,
		}[shots]
		if within -= l.Machine.Launch.Barrier.Value + 2*l.Machine.Fabric.Latency.Value; within <= 0 {
			return 0
		}
		within = l.Time(c, c.Op, 1, c.Channels) + within/each
	}
	takes := func(bytes int64) bool {
		return timeOf(l.Machine, lib, c.Op, bytes, n, c.Channels) >= within || !c.Foreign && onLinks(l.Machine, c.Op, bytes, n) >= within
	}
	if takes(1) {
		return 0
	}
	low, high := int64(1), int64(2) // low takes less
	for high < most && !takes(high) {
		low, high = high, 2*high
	}
	for high-low > max(1, low/1000) {
		if mid := low + (high-low)/2; takes(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}

type timeKey struct {
	nodes    int
	inPlace  bool
	op       trace.CollectiveOp
	bytes    int64
	n, limit int
}

// libraryOf is the library for the collective's ranks, as they are on nodes.
func (l *Laws) libraryOf(c *workload.Collective) *machine.Library {
	if len(c.Members) == 0 {
		return &l.Machine.Library
	}
	return l.libraries.Of(&c.Members[0], func() *machine.Library { return l.libraryAmong(c, ranksOf(l.Workload, c)) })
}

// libraryAmong is the library for ranks of a collective.
func (l *Laws) libraryAmong(c *workload.Collective, ranks []int) *machine.Library {
	lib := l.Machine.LibraryFor(ranks)
	if l.inPlace(c) {
		lib = withoutCopy(lib)
	}
	return lib
}

// withoutCopy is the library for all-gathers whose input lies in their output. The first step of others also writes a copy
// of what it sends; these send it only, at the rate of the reduce-scatter's steps (rule C30).
func withoutCopy(l *machine.Library) *machine.Library {
	of := *l
	of.AllGather.First = machine.Quantity{Value: max(l.AllGather.Send.Or(0), l.ReduceScatter.Send.Or(0))}
	return &of
}

// inPlace reports whether a collective's input lies in its output.
func (l *Laws) inPlace(c *workload.Collective) bool {
	return len(c.Members) > 0 && l.Workload.Ops[c.Members[0]].InPlace
}

// Channels is the number of workgroups that the library used in the capture or, if
// unknown, would use.
func (l *Laws) Channels(c *workload.Collective) int {
	if c.Channels > 0 {
		return c.Channels
	}
	return max(1, l.Machine.Library.ChannelsFor(c.Op, c.Bytes))
}

// limited reports whether something else than its bytes limits a captured collective's channels: it has fewer than half
// of those that the library takes for them. NCCL takes one for 4 KiB times the ranks (512 threads of 8 bytes,
// src/enqueue.cc), and the profile's grain is that of four ranks.
func (l *Laws) limited(c *workload.Collective) bool {
	return 2*l.Channels(c) < l.libraryOf(c).ChannelsFor(c.Op, c.Bytes)
}

// boundByBytes reports whether a captured collective has as many channels as its bytes allow: no setting raises them
// (rule C4).
func (l *Laws) boundByBytes(c *workload.Collective) bool {
	lib := l.libraryOf(c)
	return !l.limited(c) && lib.ChannelsFor(c.Op, c.Bytes) < int(lib.Of(c.Op).Channels.Value)
}

// Beside is how a compute operation that is cut into parts slows a collective with so many bytes and channels: a factor on
// its time while compute uses all CUs that the collective leaves, the share of the added time that the first workgroup
// causes, and latency that is added once (rule I1).
func (l *Laws) Beside(c *workload.Collective, bytes int64, channels int, op *workload.Op, parts int) (
	factor, onset float64, late trace.Time,
) {
	lib, with := l.libraryOf(c), l.coRunner(op, parts)
	s := l.slowdowns.Of(slowdownKey{lib.Nodes, l.inPlace(c), c.Op, bytes, len(c.Members), channels, with}, func() (s slowdown) {
		s.factor, s.onset, s.late = lib.CoRun(c.Op, bytes, len(c.Members), channels, with)
		return s
	})
	return s.factor, s.onset, trace.Time(s.late*1e9 + 0.5)
}

type slowdown struct{ factor, onset, late float64 }

type slowdownKey struct {
	nodes           int
	inPlace         bool
	op              trace.CollectiveOp
	bytes           int64
	ranks, channels int
	with            machine.CoRunner
}

// coRunner is a compute operation alongside a collective if that compute is cut into parts: a GEMM of the matrix library,
// another kernel of matrix instructions, or a memory-bound kernel, which includes GEMMs of few rows (rule I1): the memory's
// queue does not know whose requests are in front.
func (l *Laws) coRunner(op *workload.Op, parts int) machine.CoRunner {
	inMemory := func() bool {
		return l.Tiling(&workload.Op{Kernel: l.partKernel([]*workload.Op{op}, Part{Of: parts})}).InMemory
	}
	load := l.MemoryLoad(op)
	switch {
	case op.Shape.Kind == workload.GEMM && parts > 1 && inMemory():
		return machine.CoRunner{Kind: machine.CoRunMemory, Load: 1}
	case op.Shape.Kind == workload.GEMM && parts <= 1 && machine.Exposed(load) < 1:
		return machine.CoRunner{Kind: machine.CoRunMemory, Load: load}
	case op.Shape.Kind == workload.GEMM && op.Tiling.Persistent:
		return machine.CoRunner{Kind: machine.CoRunLibrary}
	case op.Matrix():
		return machine.CoRunner{Kind: machine.CoRunTiles}
	}
	return machine.CoRunner{Kind: machine.CoRunMemory, Load: load}
}

// ranksOf are the ranks of a collective, ascending.
func ranksOf(w *workload.Workload, c *workload.Collective) []int {
	ranks := make([]int, len(c.Members))
	for i, id := range c.Members {
		ranks[i] = w.Ops[id].Rank
	}
	return ranks
}
