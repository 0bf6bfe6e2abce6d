package dataset

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

func readTiming(c *calibration) (f reading) {
	var over []float64
	for _, k := range c.where("kind collective_kernel") {
		for _, r := range c.where("kind collective, with queued, without kernel, without channels") {
			if r.World == k.World && r.Workload.Collective == k.Workload.Collective && r.Workload.Bytes == k.Workload.Bytes {
				over = append(over, (r.Us-median(slices.Clone(k.Params.DurUs)))*1e-6)
				f.rows = append(f.rows, k)
			}
		}
	}
	f.value = median(over)
	return f
}

// profiled is the median over loops of what a profiler with shapes adds to the loop without one
// of the lines before, less some seconds, over a number of events: on a host with the pace of
// launch.call.
func profiled(of, how, loops, events string, less perRow) direct {
	const all = "kind host_loop, with shapes, without execution_trace"
	added := one("launch.profiled_"+of, how, all+", with "+events+loops, func(c *calibration, r *Row) float64 {
		return ((r.Us-c.plainLoop(r))*1e-6 - less(c, r)) / number(r, events)
	}, middle)
	return special(added.key, how, added.rows, func(c *calibration) reading {
		f := added.read(c)
		f.value = max(f.value, leastAdded)
		_, calls := c.values(all+", with call_us", func(c *calibration, r *Row) float64 {
			return number(r, "call_us")*1e-6 + 0*c.plainLoop(r)
		})
		if c.m.Launch.Call.Value > 0 && len(calls) > 0 {
			f.value *= c.m.Launch.Call.Value / median(calls)
		}
		return f
	})
}

// leastAdded stands for nothing: a profiler that costs less than the noise of the loops.
const leastAdded = 1e-9

// plainLoop is the time of the last row before another one in its file that measures the same loop
// without a profiler, in microseconds; NaN if there is none.
func (c *calibration) plainLoop(r *Row) float64 {
	us, line := math.NaN(), math.MinInt
	for _, x := range c.where("kind host_loop, without profiled") {
		if x.Workload.What == r.Workload.What && x.File == r.File && x.Line < r.Line && x.Line > line {
			us, line = x.Us, x.Line
		}
	}
	return us
}

// readGroups counts groups by their size. The residual is the share of CUs that a
// plain grid fills in another order than Grouping says, groups of one size being alike.
func readGroups(c *calibration) (f reading) {
	rows := c.where("kind cu_groups")
	if len(rows) == 0 {
		return f
	}
	f.rows = rows[len(rows)-1:]
	p := f.rows[0].Params
	groups, size := map[int]int{}, map[int]int{}
	cus := 0
	for _, g := range p.Groups {
		cus += len(g)
		groups[len(g)]++
		for _, cu := range g {
			size[cu] = len(g)
		}
	}
	if cus != int(c.m.GPU.CUs.Value) {
		f.why = fmt.Sprintf("the rows' groups have %d CUs, the base %v (--base of another GPU?)", cus, c.m.GPU.CUs.Value)
		return f
	}
	for n, k := range groups {
		f.table = append(f.table, []float64{float64(n), float64(k)})
	}
	g := machine.GPU{Groups: machine.Table{Rows: tidy(f.table, []machine.Dimension{machine.Count, machine.Count})}}
	order := g.Grouping()
	sizes := map[int]int{}
	for _, group := range order {
		sizes[group]++
	}
	for i, cu := range p.FillOrder {
		if i >= len(order) || sizes[order[i]] != size[cu] {
			f.residual += 1 / float64(len(p.FillOrder))
		}
	}
	return f
}

func readPost(c *calibration) (f reading) {
	var each []float64
	for programs := 1; programs <= int(c.m.GPU.CUs.Value); programs++ {
		rows := fmt.Sprintf("kind semaphore, what post, programs %d, posts ", programs)
		without, base := c.values(rows+"0", seconds)
		with, more := c.values(rows+"1", seconds)
		if len(with) > 0 && len(without) > 0 {
			a, _ := mean(more)
			b, _ := mean(base)
			each, f.rows = append(each, a-b), slices.Concat(f.rows, without, with)
		}
	}
	f.value = median(each)
	return f
}

// readPoll's residual is of the rows in which semaphores are handed over to
// workgroups that wait: one post and one poll each.
func readPoll(c *calibration) reading {
	rows := fmt.Sprintf("kind semaphore, what product, with waits, programs to %v", c.m.GPU.CUs.Value)
	f := slope("gpu.poll", "", rows, in(1, "waits"), seconds).read(c)
	f.residual = residual(c, c.where("kind semaphore, what handover"), func(c *calibration, r *Row) (predicted, measured float64) {
		return c.m.GPU.Post.Value + f.value, seconds(c, r)
	})
	return f
}

// oneFlag is the mean round with one flag, in seconds; NaN without such rows.
func (c *calibration) oneFlag() float64 {
	_, times := c.values(oneFlag, seconds)
	t, _ := mean(times)
	return t
}

// readCopyLatency is what a copy between kernels takes at no bytes. Copies that nothing waits
// for start sooner: the engine's queue hides most of it.
func readCopyLatency(c *calibration) reading {
	start := func(c *calibration, r *Row) float64 {
		return (r.Us+r.Params.CopyUs)*1e-6 - number(r, "copy_bytes")/c.m.Engines.Rate.Value - c.m.Launch.Hop.Value
	}
	between := one("engines.latency", "", "kind gap, what copy, with copy_bytes, with copy_us", start, middle).read(c)
	if len(between.rows) > 0 {
		return between
	}
	rows := c.where(copied)
	atNone, _, ok := c.line(rows, in(1, "bytes"), kernel)
	if !ok {
		return reading{}
	}
	return reading{value: atNone, rows: rows}
}

// storedByOne is the time of one workgroup's stores: of tiles, where there are such rows.
func storedByOne(c *calibration, r *Row) float64 {
	if r.Workload.Kind == "peer_store" && len(c.where("kind tile_store")) > 0 {
		return math.NaN()
	}
	return seconds(c, r)
}

// stored is bytes a second of a kernel that stores to peers: into the one that all others store to, of them all.
func stored(c *calibration, r *Row) float64 {
	if number(r, "programs") < c.m.GPU.CUs.Value { // few workgroups do not saturate a link
		return math.NaN()
	}
	bytes, t := number(r, "bytes"), seconds(c, r)
	if r.Workload.Pattern == "incast" {
		bytes *= number(r, "world") - 1
	}
	if r.Workload.Kind == "peer_store" {
		t = kernel(c, r)
	}
	return bytes / t
}

// A tile is of a compiled GEMM, in workgroups that have as many each.
type tile struct {
	flop     float64 // of one
	programs float64 // workgroups
	each     float64 // tiles of a workgroup, one after the other
}

// compiledTile is what a row of a compiled GEMM alone measures; zero of other rows.
func compiledTile(r *Row) tile {
	w, programs := &r.Workload, r.Params.Programs
	if len(w.Tile) != 3 {
		return tile{}
	}
	area := 2 * float64(w.Tile[0]*w.Tile[1])
	switch part := slices.Index([]string{"producer", "consumer"}, w.Part); {
	case w.Kind == "gemm+gemm" && part >= 0 && len(w.Grids) == 2:
		depth := [...]int64{w.Hidden, w.FFN}[part]
		return tile{area * float64(depth), float64(w.Grids[part]), 1}
	case (w.Kind == "compiled_gemm" || w.Kind == "gemm+collective" && w.Part == "compute") && programs > 0:
		return tile{area * float64(w.K), float64(programs), float64(machine.CeilDiv(w.Tiles, programs))}
	}
	return tile{}
}

// readIdleGain is by how much a tile takes less, over the idle fraction of the CUs.
func readIdleGain(c *calibration) (f reading) {
	each := func(idle bool) perRow { // seconds of a tile, with CUs idle or with all CUs at work
		return func(c *calibration, r *Row) float64 {
			x := compiledTile(r)
			if x.each <= 1 || x.programs > c.m.GPU.CUs.Value || x.programs < c.m.GPU.CUs.Value != idle {
				return math.NaN()
			}
			return kernel(c, r) / x.each
		}
	}
	full := map[float64][]float64{} // by multiply-adds of a tile
	rows, times := c.values(tileRows, each(false))
	for i, t := range times {
		flop := compiledTile(&rows[i]).flop
		full[flop] = append(full[flop], t)
	}
	var gains []float64
	rows, times = c.values(tileRows, each(true))
	for i, t := range times {
		x := compiledTile(&rows[i])
		if all := full[x.flop]; len(all) > 0 {
			gains, f.rows = append(gains, (1-t/median(all))/(1-x.programs/c.m.GPU.CUs.Value)), append(f.rows, rows[i])
		}
	}
	f.value = median(gains)
	for i, g := range gains {
		gains[i] = math.Abs(g - f.value)
	}
	f.residual = median(gains)
	return f
}

// readTimes takes the least of repeats, and lets no time exceed that of fewer
// channels: whatever else runs on the host only ever adds.
func readTimes(c *calibration, op trace.CollectiveOp) reading {
	f := reading{rows: c.timed(op, "")}
	repeats := map[[3]float64][]float64{} // by ranks, bytes and channels
	for _, r := range f.rows {
		key := [3]float64{number(&r, "world"), number(&r, "bytes"), channelsOf(&c.m.Library, &r)}
		repeats[key] = append(repeats[key], kernel(c, &r))
	}
	var before [3]float64
	least := 0.0
	for _, key := range slices.SortedFunc(maps.Keys(repeats), func(a, b [3]float64) int { return slices.Compare(a[:], b[:]) }) {
		t := slices.Min(repeats[key])
		if key[0] == before[0] && key[1] == before[1] {
			t = min(t, least)
		}
		before, least = key, t
		f.table = append(f.table, []float64{key[0], key[2], key[1], t})
	}
	return f
}
