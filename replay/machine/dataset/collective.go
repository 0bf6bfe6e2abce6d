package dataset

import (
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// hostBound is the time below which an isolated collective that was not queued
// behind other work measures the host that enqueues it, not the kernel.
const hostBound = 60e-6

// timed is the rows of an operation that measure its kernel.
func (c *calibration) timed(op trace.CollectiveOp, more string) []Row {
	return c.where("kind collective, world from 2, collective "+op.String()+more, func(r *Row) bool {
		return r.Params.Queued || r.Us*1e-6 >= hostBound
	})
}

// collectives are an operation's laws of one channel, of its latency and of all channels together, and its times.
func collectives(op trace.CollectiveOp) []step {
	name := "library." + op.String()
	type library = machine.Library
	type collective = machine.Collective
	law := func(what, rows string, predict func(l *library, c *collective, r *Row) float64, keys ...string) law {
		for i := range keys {
			keys[i] = name + "." + keys[i]
		}
		return law{
			name: name + ", " + what, keys: keys, need: "kind collective, collective " + op.String() + rows,
			rows: func(c *calibration) []Row { return c.timed(op, rows) },
			predict: func(c *calibration, r *Row) (predicted, measured float64) {
				return predict(&c.m.Library, c.m.Library.Of(op), r), kernel(c, r)
			},
		}
	}
	channel := law("one channel", ", channels from 1, channels to 2, bytes from 128 MiB", func(_ *library, c *collective, r *Row) float64 {
		return c.InChannels(op, number(r, "world"), number(r, "channels"), number(r, "bytes"))
	}, "send", "receive") // two numbers of ranks tell them apart
	channel.ways = []way{
		{how: "time of large buffers through 1 and 2 channels, the base's times one factor", keys: channel.keys, scaled: true},
		{how: "time a byte and channel of large buffers through 1 and 2 channels, over the steps that send", keys: channel.keys},
	}
	latency := law("latency", ", with queued, without channels, bytes to 64 KiB", func(_ *library, c *collective, r *Row) float64 {
		return c.Alpha.Value + c.Hop.Or(0)*machine.Sends(op, number(r, "world"))
	}, "hop", "alpha")
	latency.ways = []way{
		{how: "time of queued collectives of 64 KiB and less, the base's times one factor", keys: latency.keys, scaled: true},
		{how: "time of queued collectives of 64 KiB and less over sending steps", keys: latency.keys},
	}
	link := law("link", ", channels 0 or from 8, bytes from 64 MiB", func(l *library, c *collective, r *Row) float64 {
		return c.Law(op, number(r, "world"), channelsOf(l, r), number(r, "bytes"))
	}, "link", "smooth")
	link.ways = []way{
		{how: "limit that explains large buffers through 8 channels and more best", keys: link.keys[:1]},
		{how: "limit and exponent that together explain large buffers through 8 channels and more best", keys: link.keys},
	}
	return []step{channel, latency, link, special(
		name+".times", "time of the row less launch.timing, least of repeats and of fewer channels",
		"kind collective, "+op.String()+", queued or of 60 us and more", func(c *calibration) reading { return readTimes(c, op) },
	)}
}

// coRuns are the kinds of compute that collectives run alongside.
var coRuns = [len(coRunNames)]struct{ key, name string }{
	machine.CoRunLibrary: {"beside_library", "cuBLAS"},
	machine.CoRunTiles:   {"beside_tiles", "Triton GEMMs"},
	machine.CoRunMemory:  {"beside_memory", "memory-bound kernels"},
}

// coRunLaw is the slowdown of collectives alongside a kind of compute: a factor K of
// Library.CoRun an operation and, alongside the matrix library's GEMMs, the latency that is
// added once.
//
// Rows with kernel have the time of the collective's kernel from the arrival of its last
// rank. Other rows count what the collective waits for free compute units as well, which is
// about a tile or a kernel of the compute, the same for every number of channels. Alongside
// kernels that are not persistent, channels start one after the other, as workgroups end:
// rows with kernel count that. The simulator dispatches workgroups itself, so these waits
// are fitted, one number a kind, and left out of K (rule E6).
func coRunLaw(n machine.CoRunKind) law {
	var slowdowns, latencies []string
	for _, op := range machine.RecordedOps {
		slowdowns = append(slowdowns, "library."+op.String()+"."+coRuns[n].key)
		latencies = append(latencies, "library."+op.String()+".beside_latency")
	}
	how := "slowdown alongside " + coRuns[n].name + " over the channels' part of the time"
	if n.Exponent() == 2 {
		how = "slowdown alongside " + coRuns[n].name + " over the square of the channels' part of the time"
	}
	l := law{
		name: "collectives alongside " + coRuns[n].name, keys: slowdowns,
		need: "kind collective, strategy " + coRunNames[n] + " with kernel",
		rows: func(c *calibration) []Row { return c.alongside(n) },
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			alone, of, waited := c.alone(r), c.m.Library.Of(r.Workload.op()), 0.0
			if q := c.waitOf(n, r); q != nil {
				waited = q.Value
			}
			slow := of.CoRunSlowdown(n).Or(0) * c.channelShare(n, r)
			return alone*(1+slow) + of.CoRunLatency.Or(0) + waited, kernel(c, r)
		},
	}
	l.beside = func(c *calibration, r *Row) *machine.Quantity { return c.waitOf(n, r) }
	l.reads = func(key string, r *Row) bool { // a latency shows in small collectives
		return strings.Contains(key, "."+r.Workload.op().String()+".") &&
			(r.Workload.Bytes <= smallBytes || !strings.HasSuffix(key, "latency"))
	}
	l.ways = []way{
		{how: how + ", the base's times one factor", keys: slowdowns, scaled: true},
		{how: how, keys: slowdowns},
	}
	if n == machine.CoRunLibrary {
		l.keys = slices.Concat(slowdowns, latencies)
		l.ways = append(l.ways, way{how: how + ", and what is added at any size", keys: l.keys})
	}
	return l
}

// alongside is the rows of collectives alongside a kind of compute. Alongside GEMMs whose
// last wave leaves CUs idle, the channels of a small collective start one after the other,
// which is dispatch and no slowdown: those rows do not count.
func (c *calibration) alongside(n machine.CoRunKind) []Row {
	return c.where("kind collective, with alone_us, strategy "+coRunNames[n], func(r *Row) bool {
		if g := r.Params.GEMM; n == machine.CoRunLibrary && len(g) == 3 && r.Workload.Bytes <= smallBytes {
			return c.m.Tiling(g[0], g[1], g[2]).Tiles%int(c.m.GPU.CUs.Value) == 0
		}
		return !r.Params.Kernel || r.Workload.Bytes >= smallBytes
	})
}

// smallBytes is the size up to which the start of a collective shows in its time.
const smallBytes = 32 << 20

// alone is what the collective of a row alongside compute takes alone, in seconds.
func (c *calibration) alone(r *Row) float64 { return number(r, "alone_us")*1e-6 - c.timing(r) }

// channelShare is x^q of Library.CoRun.
func (c *calibration) channelShare(n machine.CoRunKind, r *Row) float64 {
	op := r.Workload.op()
	x := c.m.Library.Of(op).InChannels(op, number(r, "world"), channelsOf(&c.m.Library, r), number(r, "bytes")) / c.alone(r)
	return math.Pow(min(1, x), n.Exponent())
}

// waitOf is the wait for compute units that a row counts, in seconds; nil: none.
func (c *calibration) waitOf(n machine.CoRunKind, r *Row) *machine.Quantity {
	switch {
	case !r.Params.Kernel:
		return &c.wait[n][0]
	case n != machine.CoRunLibrary:
		return &c.wait[n][1]
	}
	return nil
}

// coRunNames are the strategies of dataset rows that measure each kind.
var coRunNames = [...]string{"beside_cublas", "beside_triton", "beside_membound"}
