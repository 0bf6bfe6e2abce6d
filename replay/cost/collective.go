package cost

import (
	"cmp"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Collective is the time alone of a captured collective with other bytes, on at most so many channels (0: as
// captured, as is a number with which the library runs on those of the capture), and the number of channels that it
// takes. It is the captured time, times the law's time of what is asked over the law's time of what was captured
// (rule C11). Fewer bytes take no longer, since the library could send them as it sends the whole.
func (l *Laws) Collective(c *workload.Collective, bytes int64, channels int) (alone trace.Time, on int) {
	lib, captured := l.LibraryOf(c), l.Channels(c)
	alone = c.TransferAlone()
	if channels > 0 {
		channels = lib.Runs(c.Op, channels)
	}
	if c.Own || channels == lib.Runs(c.Op, captured) || channels > captured && l.boundByBytes(c) {
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
		return alone, captured
	}
	for _, q := range []machine.Question{{Bytes: bytes, Channels: cmp.Or(channels, captured)}, {Bytes: c.Bytes, Channels: captured}} {
		q.Kind, q.Op, q.Ranks = machine.AboutCollective, c.Op, len(c.Members)
		l.Lookups.Add(q)
	}
	on = min(is, max(1, lib.ChannelsFor(c.Op, bytes)))
	by := 1.0
	if from, to := l.Time(c, c.Op, c.Bytes, was), l.Time(c, c.Op, bytes, is); from > 0 && to > 0 {
		by = to / from
	}
	if bytes <= c.Bytes && is >= was {
		by, on = min(by, 1), min(on, max(captured, channels))
	}
	return max(1, trace.Time(float64(alone)*by+0.5)), on
}

// Time is the library's time, in seconds, of an operation on the ranks of a collective, on at most so many channels
// (0: any number). A limit of as many channels as the library takes for the bytes is none: the profile's times are by limit.
func (l *Laws) Time(c *workload.Collective, op trace.CollectiveOp, bytes int64, limit int) float64 {
	lib, n := l.LibraryOf(c), len(c.Members)
	return l.times.Of(timeKey{lib.Nodes, op, bytes, n, limit}, func() float64 { return timeOf(lib, op, bytes, n, limit) })
}

func timeOf(lib *machine.Library, op trace.CollectiveOp, bytes int64, n, limit int) float64 {
	if limit >= lib.ChannelsFor(op, bytes) {
		limit = 0
	}
	return lib.Time(op, bytes, n, limit)
}

// BytesIn is the size that the library moves in a time on the ranks and channels of a collective; 0 if that is less
// than the time of no bytes.
func (l *Laws) BytesIn(c *workload.Collective, took trace.Time) int64 {
	const most = 1 << 44
	lib, n := l.LibraryOf(c), len(c.Members)
	takes := func(bytes int64) bool { return timeOf(lib, c.Op, bytes, n, c.Channels) >= seconds(took) }
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
	op       trace.CollectiveOp
	bytes    int64
	n, limit int
}

// LibraryOf is the library for the collective's ranks, as they are on nodes.
func (l *Laws) LibraryOf(c *workload.Collective) *machine.Library {
	if len(c.Members) == 0 {
		return &l.Machine.Library
	}
	return l.libraries.Of(&c.Members[0], func() *machine.Library { return l.Machine.LibraryFor(l.Workload.RanksOf(c)) })
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
	return 2*l.Channels(c) < l.LibraryOf(c).ChannelsFor(c.Op, c.Bytes)
}

// boundByBytes reports whether a captured collective has as many channels as its bytes allow: no setting raises them
// (rule C4).
func (l *Laws) boundByBytes(c *workload.Collective) bool {
	lib := l.LibraryOf(c)
	return !l.limited(c) && lib.ChannelsFor(c.Op, c.Bytes) < int(lib.Of(c.Op).Channels.Value)
}
