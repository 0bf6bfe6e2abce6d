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

func collectiveRules(op trace.CollectiveOp) []rule {
	key := "library." + op.String()
	kind := "kind collective, " + op.String()
	at := func(read func(*calibration, trace.CollectiveOp) reading) func(*calibration) reading {
		return func(c *calibration) reading { return read(c, op) }
	}
	beside := func(n machine.CoRunKind) func(*calibration) reading {
		return func(c *calibration) reading { return readCoRun(c, op, n) }
	}
	const few = "time a byte and channel of large buffers through 1 and 2 channels, over the steps that send"
	const knee = "limit and exponent that together explain large buffers through 8 channels and more best"
	return []rule{
		{key + ".send", few, kind + ", 1 or 2 channels, 128 MiB and more, for two numbers of ranks", at(func(c *calibration, op trace.CollectiveOp) reading {
			f, send, _ := readChannel(c, op)
			f.value = send
			return f
		})},
		{key + ".receive", few + ", at none", kind + ", 1 or 2 channels, 128 MiB and more, for two numbers of ranks", at(func(c *calibration, op trace.CollectiveOp) reading {
			f, _, receive := readChannel(c, op)
			f.value = receive
			return f
		})},
		{key + ".hop", "slope over sending steps of queued collectives of 64 KiB and less", kind + ", queued, 64 KiB and less, for two numbers of ranks", at(func(c *calibration, op trace.CollectiveOp) reading {
			f, _, hop := readLatency(c, op)
			f.value = hop
			return f
		})},
		{key + ".alpha", "the same line at no steps", kind + ", queued, 64 KiB and less, for two numbers of ranks", at(func(c *calibration, op trace.CollectiveOp) reading {
			f, alpha, _ := readLatency(c, op)
			f.value = alpha
			return f
		})},
		{key + ".link", knee, kind + ", 8 channels and more, 64 MiB and more", at(func(c *calibration, op trace.CollectiveOp) reading {
			f, link, _ := readLink(c, op)
			f.value = link
			return f
		})},
		{key + ".smooth", knee, kind + ", 8 channels and more, 64 MiB and more", at(func(c *calibration, op trace.CollectiveOp) reading {
			f, _, smooth := readLink(c, op)
			f.value = smooth
			return f
		})},
		{key + ".times", "time of the row less launch.timing, least of repeats and of fewer channels", kind + ", queued or of 60 us and more", at(readTimes)},
		{key + ".beside_latency", "time at no bytes, by the line over bytes, alongside GEMMs of whole waves less that alone, median over channels", kind + ", strategy beside_cublas with kernel and gemm: 32 MiB and less, three sizes, GEMMs of whole waves", at(readCoRunLatency)},
		{key + ".beside_library", "slowdown alongside cuBLAS over the square of the channels' part of the time, median over channels", kind + ", strategy beside_cublas", beside(machine.CoRunLibrary)},
		{key + ".beside_tiles", "slowdown alongside Triton GEMMs over the square of the channels' part of the time, median over channels", kind + ", strategy beside_triton", beside(machine.CoRunTiles)},
		{key + ".beside_memory", "slowdown alongside memory-bound kernels over the channels' part of the time, median over channels", kind + ", strategy beside_membound", beside(machine.CoRunMemory)},
	}
}

// timed is the rows of an operation that measure its kernel.
func (c *calibration) timed(op trace.CollectiveOp) []Row {
	return c.pick(func(r *Row) bool {
		return r.Workload.Kind == "collective" && r.Strategy == "isolated" && r.Workload.Op() == op && r.World > 1 &&
			(r.Params.Queued || r.Us*1e-6 >= hostBound)
	})
}

// readChannel is what one channel does in a sending step and in the other one.
// With one number of ranks only, both are taken as alike.
func readChannel(c *calibration, op trace.CollectiveOp) (f reading, send, receive float64) {
	var a [][]float64
	var y []float64
	worlds := map[int]bool{}
	for _, r := range c.timed(op) {
		if r.Params.Channels == 0 || r.Params.Channels > 2 || r.Workload.Bytes < 128<<20 {
			continue
		}
		worlds[r.World] = true
		a = append(a, []float64{machine.Sends(op, float64(r.World)), 1})
		y = append(y, c.seconds(r)*float64(r.World*r.Params.Channels)/float64(r.Workload.Bytes))
		f.rows = append(f.rows, r)
	}
	if len(f.rows) == 0 {
		return reading{}, 0, 0
	}
	if len(worlds) == 1 {
		for i := range a {
			a[i] = []float64{a[i][0] + a[i][1]}
		}
	}
	x, ok := solve(a, y)
	if !ok {
		return reading{}, 0, 0
	}
	if len(worlds) == 1 {
		x = append(x, x[0])
	}
	var res []float64
	for i := range a {
		sum := 0.0
		for j, v := range a[i] {
			sum += v * x[j]
		}
		res = append(res, off(sum, y[i]))
	}
	f.residual = median(res)
	return f, 1 / x[0], 1 / x[1]
}

// readLatency is what an operation takes at hardly any bytes. With one number
// of ranks only, hops are not known apart.
func readLatency(c *calibration, op trace.CollectiveOp) (f reading, alpha, hop float64) {
	var points []machine.Point
	for _, r := range c.timed(op) {
		if r.Params.Queued && r.Params.Channels == 0 && r.Workload.Bytes <= 64<<10 {
			points = append(points, machine.Point{X: machine.Sends(op, float64(r.World)), Y: c.seconds(r)})
			f.rows = append(f.rows, r)
		}
	}
	alpha, hop, ok := line(points)
	if !ok {
		return reading{}, 0, 0
	}
	var res []float64
	for _, p := range points {
		res = append(res, off(alpha+hop*p.X, p.Y))
	}
	f.residual = median(res)
	return f, alpha, hop
}

// readLink searches the exponent on a grid of 0.1 and, at each, the link's rate
// by golden section.
func readLink(c *calibration, op trace.CollectiveOp) (f reading, link, smooth float64) {
	for _, r := range c.timed(op) {
		if (r.Params.Channels == 0 || r.Params.Channels >= 8) && r.Workload.Bytes >= 64<<20 {
			f.rows = append(f.rows, r)
		}
	}
	if len(f.rows) == 0 {
		return f, 0, 0
	}
	law := *c.m.Library.Of(op)
	res := make([]float64, len(f.rows))
	sum := func(logRate float64) float64 {
		law.Link.Value = math.Exp(logRate)
		total := 0.0
		for i, r := range f.rows {
			res[i] = off(law.Law(op, float64(r.World), channelsOf(&c.m.Library, &r), float64(r.Workload.Bytes)), c.seconds(r))
			total += res[i]
		}
		return total
	}
	least := math.Inf(1)
	for p := 20; p <= 60; p++ {
		law.Smooth.Value = float64(p) / 10
		x := lowest(sum, math.Log(1e9), math.Log(4e12))
		if total := sum(x); total < least {
			least, link, smooth = total, math.Exp(x), law.Smooth.Value
			f.residual = median(slices.Clone(res))
		}
	}
	return f, link, smooth
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

// aloneSeconds is what the collective of a alongside row takes alone.
func (c *calibration) aloneSeconds(r Row) float64 {
	if r.Params.Kernel {
		return r.Params.AloneUs * 1e-6
	}
	return r.Params.AloneUs*1e-6 - c.m.Launch.Timing.Value
}

// leastSlowdown stands for none: rows of a machine on which compute does not
// disturb a collective scatter around no factor.
const leastSlowdown = 1e-4

// readCoRun is the factor K of Library.Slowdown.
func readCoRun(c *calibration, op trace.CollectiveOp, n machine.CoRunKind) reading {
	strategy := machine.CoRunNames[n]
	f := reading{rows: c.pick(func(r *Row) bool {
		return r.Workload.Kind == "collective" && r.Strategy == strategy && r.Workload.Op() == op && r.Params.AloneUs > 0 &&
			(!r.Params.Kernel || r.Workload.Bytes > latencyBytes)
	})}
	law := c.m.Library.Of(op)
	share := func(r Row) float64 {
		x := law.InChannels(op, float64(r.World), channelsOf(&c.m.Library, &r), float64(r.Workload.Bytes)) / c.aloneSeconds(r)
		return math.Pow(min(1, x), n.Exponent())
	}
	slower := func(r Row) float64 {
		return c.seconds(r) / c.aloneSeconds(r)
	}
	late := func(r Row) float64 { // what BesideLatency accounts for
		return law.CoRunLatency.Or(0) / c.aloneSeconds(r)
	}
	var ks []float64
	for _, r := range f.rows {
		ks = append(ks, (slower(r)-1-late(r))/share(r))
	}
	f.value = max(leastSlowdown, median(ks))
	var res []float64
	for _, r := range f.rows {
		res = append(res, off(1+f.value*share(r)+late(r), slower(r)))
	}
	f.residual = median(res)
	return f
}

// latencyBytes is the size up to which what compute adds to a collective's
// latency can be told from what it takes off its rate.
const latencyBytes = 32 << 20

// readCoRunLatency reads the BesideLatency of Library.Slowdown. Beside GEMMs
// whose last wave leaves CUs idle, channels start one after the other, which is
// dispatch and no latency: those rows do not count.
func readCoRunLatency(c *calibration, op trace.CollectiveOp) reading {
	type run struct {
		world, channels int
		m, n, k         int64
	}
	by := map[run][]Row{}
	var runs []run
	for _, r := range c.rows {
		g := r.Params.GEMM
		if r.Strategy != machine.CoRunNames[machine.CoRunLibrary] || r.Workload.Op() != op || !r.Params.Kernel || r.Workload.Bytes > latencyBytes || len(g) != 3 || r.Params.AloneUs <= 0 {
			continue
		}
		if t := c.m.Tiling(g[0], g[1], g[2]); t.Tiles%int(c.m.GPU.CUs.Value) != 0 {
			continue
		}
		x := run{r.World, r.Params.Channels, g[0], g[1], g[2]}
		if by[x] == nil {
			runs = append(runs, x)
		}
		by[x] = append(by[x], r)
	}
	var f reading
	var late []float64
	var res []float64
	for _, x := range runs {
		var beside, alone []machine.Point
		for _, r := range by[x] {
			beside = append(beside, machine.Point{X: float64(r.Workload.Bytes), Y: r.Us * 1e-6})
			alone = append(alone, machine.Point{X: float64(r.Workload.Bytes), Y: r.Params.AloneUs * 1e-6})
		}
		a, b, ok := line(beside)
		before, _, ok2 := line(alone)
		if len(beside) < 3 || !ok || !ok2 {
			continue
		}
		late = append(late, a-before)
		for _, p := range beside {
			res = append(res, off(a+b*p.X, p.Y))
		}
		f.rows = append(f.rows, by[x]...)
	}
	f.value, f.residual = median(late), median(res)
	return f
}
