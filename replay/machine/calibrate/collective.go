package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// hostBound is the time below which an isolated collective that was not queued
// behind other work measures the host that enqueues it, not the kernel.
const hostBound = 60e-6

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
			return predict(&c.m.Library, r), c.seconds(*r)
		},
	}
}

// channelLaw is the rate of one channel in a step that sends and in the other one.
func channelLaw(op trace.CollectiveOp) law {
	l := collectiveLaw(op, "one channel", [2]string{"send", "receive"}, "1 or 2 channels, 128 MiB and more", func(r *Row) bool {
		return r.Params.Channels > 0 && r.Params.Channels <= 2 && r.Workload.Bytes >= 128<<20
	}, func(l *machine.Library, r *Row) float64 {
		return l.Of(op).InChannels(op, float64(r.World), float64(r.Params.Channels), float64(r.Workload.Bytes))
	})
	l.ways = []way{
		l.scaled("time of large buffers through 1 and 2 channels, the base's times one factor", l.keys...),
		{
			how: "time a byte and channel of large buffers through 1 and 2 channels, over the steps that send", keys: l.keys,
			fit: func(c *calibration) bool { return c.fitChannel(op, l.rows(c)) },
		},
	}
	return l
}

// fitChannel needs two numbers of ranks to tell the two kinds of steps apart.
func (c *calibration) fitChannel(op trace.CollectiveOp, rows []Row) bool {
	var a [][]float64
	var y []float64
	for _, r := range rows {
		a = append(a, []float64{machine.Sends(op, float64(r.World)), 1})
		y = append(y, c.seconds(r)*float64(r.World*r.Params.Channels)/float64(r.Workload.Bytes))
	}
	x, ok := solve(a, y)
	if !ok || !(x[0] > 0) || !(x[1] > 0) {
		return false
	}
	law := c.m.Library.Of(op)
	law.Send.Value, law.Receive.Value = 1/x[0], 1/x[1]
	return true
}

// latencyLaw is what an operation takes at hardly any bytes.
func latencyLaw(op trace.CollectiveOp) law {
	l := collectiveLaw(op, "latency", [2]string{"hop", "alpha"}, "queued, 64 KiB and less", func(r *Row) bool {
		return r.Params.Queued && r.Params.Channels == 0 && r.Workload.Bytes <= 64<<10
	}, func(l *machine.Library, r *Row) float64 {
		return l.Of(op).Alpha.Value + l.Of(op).Hop.Or(0)*machine.Sends(op, float64(r.World))
	})
	l.ways = []way{
		l.scaled("time of queued collectives of 64 KiB and less, the base's times one factor", l.keys...),
		{
			how: "time of queued collectives of 64 KiB and less over sending steps", keys: l.keys,
			fit: func(c *calibration) bool {
				var points []machine.Point
				for _, r := range l.rows(c) {
					points = append(points, machine.Point{X: machine.Sends(op, float64(r.World)), Y: c.seconds(r)})
				}
				alpha, hop, ok := line(points)
				if !ok || !(alpha > 0) || !(hop > 0) {
					return false
				}
				law := c.m.Library.Of(op)
				law.Alpha.Value, law.Hop.Value = alpha, hop
				return true
			},
		},
	}
	return l
}

// linkLaw is the limit of all channels together, and how channels approach it.
func linkLaw(op trace.CollectiveOp) law {
	l := collectiveLaw(op, "link", [2]string{"link", "smooth"}, "8 channels and more, 64 MiB and more", func(r *Row) bool {
		return (r.Params.Channels == 0 || r.Params.Channels >= 8) && r.Workload.Bytes >= 64<<20
	}, func(l *machine.Library, r *Row) float64 {
		return l.Of(op).Law(op, float64(r.World), channelsOf(l, r), float64(r.Workload.Bytes))
	})
	fitLink := func(c *calibration) (total float64) {
		law, rows := c.m.Library.Of(op), l.rows(c)
		at := func(logRate float64) float64 {
			law.Link.Value = math.Exp(logRate)
			return l.error(c, rows)
		}
		x := lowest(at, math.Log(1e9), math.Log(c.m.Fabric.Egress.Value)) // no more than leaves a GPU
		return at(x)
	}
	l.ways = []way{
		{
			how: "limit that explains large buffers through 8 channels and more best", keys: l.keys[:1],
			fit: func(c *calibration) bool {
				fitLink(c)
				return len(l.rows(c)) > 0
			},
		},
		{
			how: "limit and exponent that together explain large buffers through 8 channels and more best", keys: l.keys,
			fit: func(c *calibration) bool {
				if len(l.rows(c)) < 3 {
					return false
				}
				law, best, least := c.m.Library.Of(op), 0.0, math.Inf(1)
				for p := 20; p <= 60; p++ {
					law.Smooth.Value = float64(p) / 10
					if e := fitLink(c); e < least {
						best, least = law.Smooth.Value, e
					}
				}
				law.Smooth.Value = best
				fitLink(c)
				return true
			},
		},
	}
	return l
}

func timesRule(op trace.CollectiveOp) rule {
	return rule{
		key: "library." + op.String() + ".times", how: "time of the row less launch.timing, least of repeats and of fewer channels",
		need: "kind collective, " + op.String() + ", queued or of 60 us and more",
		read: func(c *calibration) reading { return readTimes(c, op) },
	}
}

// timed is the rows of an operation that measure its kernel.
func (c *calibration) timed(op trace.CollectiveOp) []Row {
	return c.pick(func(r *Row) bool {
		return r.Workload.Kind == "collective" && r.Strategy == "isolated" && r.Workload.Op() == op && r.World > 1 &&
			(r.Params.Queued || r.Us*1e-6 >= hostBound)
	})
}

// lowest is where f is least between a and b, to 1e-4, by golden section: f
// falls, then rises.
func lowest(f func(float64) float64, a, b float64) float64 {
	const g = 0.6180339887498949
	x, y := b-g*(b-a), a+g*(b-a)
	fx, fy := f(x), f(y)
	for b-a > 1e-4 {
		if fx < fy {
			b, y, fy = y, x, fx
			x = b - g*(b-a)
			fx = f(x)
		} else {
			a, x, fx = x, y, fy
			y = a + g*(b-a)
			fy = f(y)
		}
	}
	return (a + b) / 2
}

// channelsOf is how many channels a row's collective ran on.
func channelsOf(l *machine.Library, r *Row) float64 {
	op := r.Workload.Op()
	if r.Params.Channels > 0 {
		return float64(l.Runs(op, r.Params.Channels))
	}
	return l.Of(op).Channels.Value
}

// readTimes takes the least of repeats, and lets no time exceed that of fewer
// channels: whatever else runs on the host only ever adds.
func readTimes(c *calibration, op trace.CollectiveOp) reading {
	f := reading{rows: c.timed(op)}
	at := map[[3]int64]int{}
	for _, r := range f.rows {
		n := int64(channelsOf(&c.m.Library, &r))
		key := [3]int64{int64(r.World), n, r.Workload.Bytes}
		i, seen := at[key]
		if !seen {
			i = len(f.table)
			at[key] = i
			f.table = append(f.table, []float64{float64(r.World), float64(n), float64(r.Workload.Bytes), math.Inf(1)})
		}
		f.table[i][3] = min(f.table[i][3], c.seconds(r))
	}
	slices.SortFunc(f.table, slices.Compare[[]float64])
	least := map[[2]float64]float64{} // by ranks and bytes
	for _, row := range f.table {
		key := [2]float64{row[0], row[2]}
		if t, seen := least[key]; seen {
			row[3] = min(row[3], t)
		}
		least[key] = row[3]
	}
	return f
}
