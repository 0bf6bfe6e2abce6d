package kernel

import (
	"cmp"
	"fmt"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// grid is the tiling of a kernel of which nothing but the grid counts.
func grid(k trace.Setup) workload.Tiling {
	n := k.WGs()
	if n == 0 {
		return workload.Tiling{}
	}
	return workload.Tiling{Tiles: n, WGs: n, Evidence: "grid"}
}

// tiling finds the logical workgroups of a compute kernel: those of the grid, or,
// for a persistent kernel, the tiles that its workgroups share (rule G8).
func (r *Reader) tiling(op *workload.Op, k trace.Setup, batch int64, reset bool) workload.Tiling {
	t := grid(k)
	slots := residents(&r.run.Ranks[r.run.RankOf(r.run.Spans[op.Span])].Device, k, op.Footprint.Registers)
	if given, ok := lookUp(r.tiles, op.Name, k); ok {
		take(&t, given, op.Shape, batch, slots)
		return t
	}
	name := r.name(op)
	if op.Shape.Kind == workload.NoShape && name.class == Matrix && name.tiled {
		named(&t, name.tile, slots)
	}
	if op.Shape.Kind != workload.GEMM && op.Shape.Kind != workload.GEMV || !name.tiled {
		return t
	}
	tile := name.tile.orient(op.Shape, batch, t.WGs)
	t.Depth = name.tile.depth
	tiles := tile.count(op.Shape, batch)
	if tiles > mostTiles {
		return t
	}
	settle(&t, tile.rows, tile.cols, tiles, slots)
	if n := tile.down * tile.across; n > 1 && t.WGs%n == 0 {
		t.Cluster = n
		t.Evidence += fmt.Sprintf("; %d workgroups a cluster", n)
	}
	if t.Persistent && machine.CeilDiv(t.Tiles, t.WGs) > 2 && reset {
		t.Dynamic = true
		t.Evidence += "; a counter is reset before it: tiles beyond the second are handed out"
	}
	return t
}

// named notes the tile that a GEMM's name gives where its sizes are unknown: its output has
// about as many elements as the grid times the tile, unless it is split along K or
// persistent (rule G8).
func named(t *workload.Tiling, tile namedTile, slots int) {
	laid := laidTile{rows: tile.first, cols: tile.second}
	if tile.transposed {
		laid = laid.turned()
	}
	t.TileM, t.TileN = laid.rows, laid.cols
	if t.WGs == 0 {
		t.Evidence = fmt.Sprintf("the name's %d×%d; the trace has no grid", laid.rows, laid.cols)
		return
	}
	if slots > 0 && t.WGs <= slots {
		t.Evidence = fmt.Sprintf("grid; the name's %d×%d; all workgroups are resident at once, and may have several tiles each", laid.rows, laid.cols)
		return
	}
	elements := float64(t.WGs) * float64(laid.rows) * float64(laid.cols)
	t.Evidence = fmt.Sprintf("grid; the name's %d×%d, one a workgroup, makes an output of %.3g million elements", laid.rows, laid.cols, elements/1e6)
}

// take lets what the user said of a kernel's tiles stand for what was found.
func take(t *workload.Tiling, given workload.Tiling, s workload.Shape, batch int64, slots int) {
	tiles := cmp.Or(given.Tiles, count(s, batch, given.TileM, given.TileN))
	t.Persistent = given.Persistent || t.WGs > 0 && tiles > t.WGs && fits(t.WGs, slots)
	t.Dynamic = given.Dynamic
	t.TileM, t.TileN = given.TileM, given.TileN
	if tiles > 0 {
		t.Tiles = tiles
	}
	t.Evidence = "given"
}

// settle decides between a plain and a persistent kernel, given the tile of the
// kernel's name and how many of it the output needs.
func settle(t *workload.Tiling, rows, cols, tiles, slots int) {
	shape := fmt.Sprintf("the name's %d×%d", rows, cols)
	switch {
	case t.WGs == 0:
		t.TileM, t.TileN, t.Tiles = rows, cols, tiles
		t.Evidence = shape + " over the output: the trace has no grid"
	case tiles <= t.WGs:
		t.TileM, t.TileN = rows, cols
		t.Evidence = shape + ", one a workgroup"
		if tiles < t.WGs {
			t.Evidence = fmt.Sprintf("%s would make %d; the grid has more: split along K, or padded", shape, tiles)
		}
	case fits(t.WGs, slots):
		t.TileM, t.TileN, t.Tiles, t.Persistent = rows, cols, tiles, true
		t.Evidence = fmt.Sprintf("%s over the output, shared by a grid that fits on the device at once", shape)
	default: // a workgroup covers more than the name says
		t.Evidence = fmt.Sprintf("grid; %s would make %d tiles", shape, tiles)
	}
}

// fits reports whether a grid is resident as a whole; slots is 0 where the device is unknown.
func fits(wgs, slots int) bool { return slots == 0 || wgs <= slots }

// mostTiles is more than an output in the memory of a GPU has: of 128×128 elements of two bytes 550 GB. An operator of which a
// trace says so has wrong sizes.
const mostTiles = 1 << 24

// count is the number of tiles of rows×cols that a batch of outputs needs; 0 where unknown.
func count(s workload.Shape, batch int64, rows, cols int) int {
	if rows <= 0 || cols <= 0 || s.M <= 0 || s.N <= 0 {
		return 0
	}
	n, ok := Volume([]int64{batch, max(1, machine.CeilDiv(s.M/batch, int64(rows))), machine.CeilDiv(s.N, int64(cols))})
	if !ok {
		return 0
	}
	return int(n)
}

// maxResidents is the most workgroups that one CU holds, on NVIDIA since 2016
// but for some small parts; AMD's limit by waves is reached through threads.
const maxResidents = 32

// residents is how many workgroups of the kernel, with so many registers a thread, fit on
// the device at once; 0 where unknown.
func residents(d *trace.Device, k trace.Setup, registers int) int {
	if d.CUs <= 0 || k.Threads() <= 0 {
		return 0
	}
	threads := k.Threads()
	if d.WaveSize > 0 {
		threads = machine.CeilDiv(threads, d.WaveSize) * d.WaveSize
	}
	has := func(n int) machine.Quantity { return machine.Quantity{Value: float64(n)} }
	g := machine.GPU{Threads: has(d.ThreadsPerCU), Registers: has(d.RegistersPerCU), Shared: has(d.SharedPerCU), WGs: has(maxResidents)}
	if d.ComputeMajor >= 8 && d.WaveSize == 32 {
		g.SharedSpare = has(1024) // the driver's, of every workgroup, since compute capability 8.0
	}
	return d.CUs * max(1, g.Residents(threads, registers, int(k.Shared)))
}

// A laidTile is one as it lies on the output, and the tiles of its cluster.
type laidTile struct{ rows, cols, down, across int }

// orient says how a tile lies on the output: as its library lays it, unless
// only the other way gives the number of workgroups. A workload file states its tiles, which
// may be split along K.
func (t namedTile) orient(s workload.Shape, batch int64, wgs int) laidTile {
	laid := laidTile{t.first, t.second, max(1, t.along1st), max(1, t.along2nd)}
	if t.transposed {
		laid = laid.turned()
	}
	if other := laid.turned(); !t.stated && laid.count(s, batch) != wgs && other.count(s, batch) == wgs {
		return other
	}
	return laid
}

func (t laidTile) turned() laidTile { return laidTile{t.cols, t.rows, t.across, t.down} }

// count is the number of tiles that a batch of outputs needs, those of clusters
// that stick out included.
func (t laidTile) count(s workload.Shape, batch int64) int {
	return count(s, batch, t.rows*t.down, t.cols*t.across) * t.down * t.across
}
