package calibrate

import (
	"fmt"
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
func profiled(of, how, what string, count func(c *calibration, r *Row) (events, seconds float64)) direct {
	added := direct{
		key: "launch.profiled_" + of, how: how, rows: "kind host_loop, with shapes, without execution_trace; " + what + ", with and without profiled", of: middle,
		value: func(c *calibration, r *Row) float64 {
			plain := c.plainLoop(r)
			events, less := count(c, r)
			if plain == nil || events <= 0 {
				return math.NaN()
			}
			return ((r.Us-plain.Us)*1e-6 - less) / events
		},
	}
	d := added
	d.read = func(c *calibration) reading {
		f := added.reading(c)
		if len(f.rows) > 0 {
			f.value = max(f.value, leastAdded)
		}
		var calls []float64
		for _, r := range c.where(added.rows) {
			if us := number(&r, "call_us"); us > 0 && c.plainLoop(&r) != nil {
				calls = append(calls, us*1e-6)
			}
		}
		if c.m.Launch.Call.Value > 0 && len(calls) > 0 {
			f.value *= c.m.Launch.Call.Value / median(calls)
		}
		return f
	}
	return d
}

// leastAdded stands for nothing: a profiler that costs less than the noise of the loops.
const leastAdded = 1e-9

// plainLoop is the last row before another one in its file that measures the same loop
// without a profiler; nil if there is none.
func (c *calibration) plainLoop(r *Row) *Row {
	var last *Row
	for _, x := range c.where("kind host_loop, without profiled, what " + r.Workload.What) {
		if x.File == r.File && x.Line < r.Line && (last == nil || x.Line > last.Line) {
			last = &x
		}
	}
	return last
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
		var rows [2][]Row // without and with a post
		var us [2]float64
		for posts := range rows {
			rows[posts] = c.where(fmt.Sprintf("kind semaphore, what post, programs %d, posts %d", programs, posts))
			us[posts], _ = mean(timesOf(c, rows[posts]))
		}
		if len(rows[0]) > 0 && len(rows[1]) > 0 {
			each, f.rows = append(each, us[1]-us[0]), append(append(f.rows, rows[0]...), rows[1]...)
		}
	}
	f.value = median(each)
	return f
}

// readPoll's residual is of the rows in which semaphores are handed over to
// workgroups that wait: one post and one poll each.
func readPoll(c *calibration) reading {
	d := direct{
		key: "gpu.poll", rows: fmt.Sprintf("kind semaphore, what product, with waits, programs to %v", c.m.GPU.CUs.Value),
		value: seconds, over: field("waits", 1),
	}
	f := d.reading(c)
	f.residual = residual(c, c.where("kind semaphore, what handover"), func(c *calibration, r *Row) (predicted, measured float64) {
		return c.m.GPU.Post.Value + f.value, seconds(c, r)
	})
	return f
}

func timesOf(c *calibration, rows []Row) (list []float64) {
	for i := range rows {
		list = append(list, seconds(c, &rows[i]))
	}
	return list
}

// oneFlag is the mean round with one flag, in seconds; NaN without such rows.
func (c *calibration) oneFlag() float64 {
	t, _ := mean(timesOf(c, c.where(oneFlag)))
	return t
}

const (
	oneFlag = "kind peer_flag, programs 1, bytes to 128, flags to 1"
	copied  = "kind p2p_copy_ring, bytes from 16 MiB; at two sizes"
)

// readCopyLatency is what a copy between kernels takes at no bytes. Copies that nothing waits
// for start sooner: the engine's queue hides most of it.
func readCopyLatency(c *calibration) reading {
	d := direct{
		key: "engines.latency", rows: "kind gap, what copy, with copy_bytes, with copy_us", of: middle,
		value: func(c *calibration, r *Row) float64 {
			return seconds(c, r) + number(r, "copy_us")*1e-6 - number(r, "copy_bytes")/c.m.Engines.Rate.Value - c.m.Launch.Hop.Value
		},
	}
	if between := d.reading(c); len(between.rows) > 0 {
		return between
	}
	rows := c.where(copied)
	start, _, ok := c.line(rows, field("bytes", 1), kernel)
	if !ok {
		return reading{}
	}
	return reading{value: start, rows: rows}
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

// compiledTile is what a row of a compiled GEMM alone measures.
func compiledTile(r *Row) (t tile, ok bool) {
	w, programs := &r.Workload, r.Params.Programs
	if len(w.Tile) != 3 {
		return t, false
	}
	area := 2 * float64(w.Tile[0]*w.Tile[1])
	switch part := slices.Index([]string{"producer", "consumer"}, w.Part); {
	case w.Kind == "gemm+gemm" && part >= 0 && len(w.Grids) == 2:
		depth := [...]int64{w.Hidden, w.FFN}[part]
		return tile{area * float64(depth), float64(w.Grids[part]), 1}, true
	case (w.Kind == "compiled_gemm" || w.Kind == "gemm+collective" && w.Part == "compute") && programs > 0:
		return tile{area * float64(w.K), float64(programs), float64(machine.CeilDiv(w.Tiles, programs))}, true
	}
	return t, false
}

func readCrowd(c *calibration) (f reading) {
	cus := c.m.GPU.CUs.Value
	all := map[float64][]float64{} // by multiply-adds of a tile: seconds of one with all CUs at work
	rows := slices.DeleteFunc(c.where(tileRows), func(r Row) bool {
		x, ok := compiledTile(&r)
		if ok && x.each > 1 && x.programs == cus {
			all[x.flop] = append(all[x.flop], kernel(c, &r)/x.each)
		}
		return !ok || x.each <= 1 || x.programs >= cus
	})
	var gains []float64
	for _, r := range rows {
		x, _ := compiledTile(&r)
		if full := all[x.flop]; len(full) > 0 {
			gains = append(gains, (1-kernel(c, &r)/x.each/median(full))/(1-x.programs/cus))
			f.rows = append(f.rows, r)
		}
	}
	f.value = median(slices.Clone(gains))
	for i, g := range gains {
		gains[i] = math.Abs(g - f.value)
	}
	f.residual = median(gains)
	return f
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
		f.table[i][3] = min(f.table[i][3], kernel(c, &r))
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
