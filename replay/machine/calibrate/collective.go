package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/trace"
)

// hostBound is the time below which an isolated collective that was not queued
// behind other work measures the host that enqueues it, not the kernel.
const hostBound = 60e-6

// timed is the rows of an operation that measure its kernel.
func (c *calibration) timed(op trace.CollectiveOp) []Row {
	return c.where("kind collective, collective "+op.String()+", world from 2", func(r *Row) bool { return r.Params.Queued || r.Us*1e-6 >= hostBound })
}

// collectiveLaw is two parameters of an operation, read off some of its rows. predict gives the
// seconds of a row.
func collectiveLaw(op trace.CollectiveOp, what string, keys [2]string, need string, keep func(r *Row) bool, predict func(l *machine.Library, r *Row) float64) law {
	key := "library." + op.String()
	return law{
		name: key + ", " + what,
		keys: []string{key + "." + keys[0], key + "." + keys[1]},
		need: "kind collective, " + op.String() + ", " + need,
		rows: func(c *calibration) []Row {
			return slices.DeleteFunc(c.timed(op), func(r Row) bool { return !keep(&r) })
		},
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			return predict(&c.m.Library, r), kernel(c, r)
		},
	}
}

// channelLaw is the rate of one channel in a step that sends and in the other one. It needs two
// numbers of ranks to tell them apart.
func channelLaw(op trace.CollectiveOp) law {
	l := collectiveLaw(op, "one channel", [2]string{"send", "receive"}, "1 or 2 channels, 128 MiB and more", func(r *Row) bool {
		return r.Params.Channels > 0 && r.Params.Channels <= 2 && r.Workload.Bytes >= 128<<20
	}, func(l *machine.Library, r *Row) float64 {
		return l.Of(op).InChannels(op, number(r, "world"), number(r, "channels"), number(r, "bytes"))
	})
	l.ways = []way{
		l.scaled("time of large buffers through 1 and 2 channels, the base's times one factor", l.keys...),
		l.solved("time a byte and channel of large buffers through 1 and 2 channels, over the steps that send"),
	}
	return l
}

// latencyLaw is what an operation takes at hardly any bytes.
func latencyLaw(op trace.CollectiveOp) law {
	l := collectiveLaw(op, "latency", [2]string{"hop", "alpha"}, "queued, 64 KiB and less", func(r *Row) bool {
		return r.Params.Queued && r.Params.Channels == 0 && r.Workload.Bytes <= 64<<10
	}, func(l *machine.Library, r *Row) float64 {
		return l.Of(op).Alpha.Value + l.Of(op).Hop.Or(0)*machine.Sends(op, number(r, "world"))
	})
	l.ways = []way{
		l.scaled("time of queued collectives of 64 KiB and less, the base's times one factor", l.keys...),
		l.solved("time of queued collectives of 64 KiB and less over sending steps"),
	}
	return l
}

// linkLaw is the limit of all channels together, and how channels approach it.
func linkLaw(op trace.CollectiveOp) law {
	l := collectiveLaw(op, "link", [2]string{"link", "smooth"}, "8 channels and more, 64 MiB and more", func(r *Row) bool {
		return (r.Params.Channels == 0 || r.Params.Channels >= 8) && r.Workload.Bytes >= 64<<20
	}, func(l *machine.Library, r *Row) float64 {
		return l.Of(op).Law(op, number(r, "world"), channelsOf(l, r), number(r, "bytes"))
	})
	limit := func(c *calibration, rows []Row) (error float64) {
		at := func(logRate float64) float64 {
			c.m.Library.Of(op).Link.Value = math.Exp(logRate)
			return l.error(c, rows)
		}
		return at(lowest(at, math.Log(1e9), math.Log(c.m.Fabric.Egress.Value))) // no more than leaves a GPU
	}
	l.ways = []way{
		{
			how: "limit that explains large buffers through 8 channels and more best", keys: l.keys[:1],
			fit: func(c *calibration) bool {
				rows := l.rows(c)
				limit(c, rows)
				return len(rows) > 0
			},
		},
		{
			how: "limit and exponent that together explain large buffers through 8 channels and more best", keys: l.keys,
			fit: func(c *calibration) bool {
				rows := l.rows(c)
				grid(&c.m.Library.Of(op).Smooth.Value, 20, 10, 41, func() float64 { return limit(c, rows) })
				return len(rows) >= 3
			},
		},
	}
	return l
}

// coRuns are the kinds of compute that collectives run alongside.
var coRuns = [len(machine.CoRunNames)]struct{ key, name string }{
	machine.CoRunLibrary: {"beside_library", "cuBLAS"},
	machine.CoRunTiles:   {"beside_tiles", "Triton GEMMs"},
	machine.CoRunMemory:  {"beside_memory", "memory-bound kernels"},
}

// coRunLaw is the slowdown of collectives alongside a kind of compute: a factor K of
// Library.Slowdown an operation and, alongside the matrix library's GEMMs, the latency that is
// added once.
//
// Rows with kernel have the time of the collective's kernel from the arrival of its last
// rank. Other rows count what the collective waits for free compute units as well, which is
// about a tile or a kernel of the compute, the same for every number of channels. Alongside
// kernels that are not persistent, channels start one after the other, as workgroups end:
// rows with kernel count that. The simulator dispatches workgroups itself, so these waits
// are fitted, one number a kind, and left out of K (rule E6).
func coRunLaw(kind int) law {
	n := machine.CoRunKind(kind)
	var slowdowns, latencies []string
	for _, op := range profile.RecordedOps {
		slowdowns = append(slowdowns, "library."+op.String()+"."+coRuns[n].key)
		latencies = append(latencies, "library."+op.String()+".beside_latency")
	}
	all := slowdowns
	how := "slowdown alongside " + coRuns[n].name + " over the channels' part of the time"
	if n.Exponent() == 2 {
		how = "slowdown alongside " + coRuns[n].name + " over the square of the channels' part of the time"
	}
	if n == machine.CoRunLibrary {
		all = slices.Concat(slowdowns, latencies)
	}
	l := law{
		name: "collectives alongside " + coRuns[n].name, keys: all, need: "kind collective, strategy " + machine.CoRunNames[n] + " with kernel",
		rows: func(c *calibration) []Row { return c.alongside(n) },
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			alone, law := c.alone(r), c.m.Library.Of(r.Workload.Op())
			slow := c.scale.Value * law.CoRunSlowdown(n).Or(0) * c.channelShare(n, r)
			predicted = alone*(1+slow) + law.CoRunLatency.Or(0)
			if wait := c.waitOf(n, r); wait != nil {
				predicted += wait.Value
			}
			return predicted, kernel(c, r)
		},
	}
	l.settle = func(c *calibration) {
		waits := map[*machine.Quantity][]float64{}
		for _, r := range l.rows(c) {
			p, m := l.predict(c, &r)
			if wait := c.waitOf(n, &r); wait != nil {
				waits[wait] = append(waits[wait], m-p)
			}
		}
		for wait, all := range waits {
			wait.Value = max(0, median(all))
		}
	}
	fit := func(c *calibration, keep func(op trace.CollectiveOp) []variable) bool {
		var free []variable
		seen := map[*machine.Quantity]bool{}
		for _, r := range l.rows(c) {
			list := keep(r.Workload.Op())
			if wait := c.waitOf(n, &r); wait != nil {
				list = append(list, variable{Quantity: wait, least: 1e-12})
			}
			for _, v := range list {
				if !seen[v.Quantity] {
					seen[v.Quantity], free = true, append(free, v)
				}
			}
		}
		return l.linear(c, free)
	}
	slowdown := func(c *calibration, op trace.CollectiveOp) variable {
		return variable{Quantity: c.m.Library.Of(op).CoRunSlowdown(n), least: leastSlowdown}
	}
	l.ways = []way{
		{how: how + ", the base's times one factor", keys: slowdowns, fit: func(c *calibration) bool {
			ok := fit(c, func(trace.CollectiveOp) []variable { return []variable{{Quantity: &c.scale, least: leastSlowdown}} })
			for _, op := range profile.RecordedOps {
				k := slowdown(c, op)
				k.set(max(k.least, c.scale.Value*k.Or(0)))
			}
			c.scale.Value = 1
			return ok
		}},
		{how: how, keys: slowdowns, fit: func(c *calibration) bool {
			return fit(c, func(op trace.CollectiveOp) []variable { return []variable{slowdown(c, op)} })
		}},
	}
	if n == machine.CoRunLibrary {
		l.ways = append(l.ways, way{how: how + ", and what is added at any size", keys: all, fit: func(c *calibration) bool {
			small := map[trace.CollectiveOp]bool{} // operations of which a latency shows
			for _, r := range l.rows(c) {
				small[r.Workload.Op()] = small[r.Workload.Op()] || r.Workload.Bytes <= smallBytes
			}
			return fit(c, func(op trace.CollectiveOp) []variable {
				if list := []variable{slowdown(c, op)}; !small[op] {
					return list
				} else {
					return append(list, variable{Quantity: &c.m.Library.Of(op).CoRunLatency, least: 1e-9})
				}
			})
		}})
	}
	return l
}

// alongside is the rows of collectives alongside a kind of compute. Alongside GEMMs whose
// last wave leaves CUs idle, the channels of a small collective start one after the other,
// which is dispatch and no slowdown: those rows do not count.
func (c *calibration) alongside(n machine.CoRunKind) []Row {
	return c.where("kind collective, with alone_us, strategy "+machine.CoRunNames[n], func(r *Row) bool {
		if g := r.Params.GEMM; n == machine.CoRunLibrary && len(g) == 3 && r.Workload.Bytes <= smallBytes {
			return c.m.Tiling(g[0], g[1], g[2]).Tiles%int(c.m.GPU.CUs.Value) == 0
		}
		return !r.Params.Kernel || r.Workload.Bytes >= smallBytes
	})
}

// smallBytes is the size up to which the start of a collective shows in its time.
const smallBytes = 32 << 20

// leastSlowdown stands for none: rows of a machine on which compute does not
// disturb a collective scatter around no factor.
const leastSlowdown = 1e-4

// alone is what the collective of a row alongside compute takes alone, in seconds.
func (c *calibration) alone(r *Row) float64 { return number(r, "alone_us")*1e-6 - c.timing(r) }

// channelShare is x^q of Library.Slowdown.
func (c *calibration) channelShare(n machine.CoRunKind, r *Row) float64 {
	op := r.Workload.Op()
	x := c.m.Library.Of(op).InChannels(op, number(r, "world"), channelsOf(&c.m.Library, r), number(r, "bytes")) / c.alone(r)
	return math.Pow(min(1, x), n.Exponent())
}

// waitOf is the wait for compute units that a row counts, in seconds; nil for none.
func (c *calibration) waitOf(n machine.CoRunKind, r *Row) *machine.Quantity {
	switch {
	case !r.Params.Kernel:
		return &c.wait[n][0]
	case n != machine.CoRunLibrary:
		return &c.wait[n][1]
	}
	return nil
}
