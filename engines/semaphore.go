package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A cover is a product's output in tiles, and the order in which they are computed.
type cover struct {
	rows, cols int  // tiles along M and along N
	splits     int  // workgroups a tile, each with a part of K
	byColumn   bool // order
	stride     int  // of columns computed one after another; 0 or 1: neighbours
}

// coverOf is the tiles of an operation; false where they are not known or do
// not make up its output.
func coverOf(op *workload.Op, byColumn bool) (c cover, ok bool) {
	s, t := op.Shape, op.Tiling
	if s.Kind != workload.GEMM || t.TileM <= 0 || t.TileN <= 0 || t.WGs <= 0 {
		return cover{}, false
	}
	c = cover{rows: ceilDiv(int(s.M), t.TileM), cols: ceilDiv(int(s.N), t.TileN), splits: 1, byColumn: byColumn}
	if !t.Persistent {
		c.splits = max(1, t.WGs/c.tiles())
	}
	return c, t.Persistent && t.Tiles == c.tiles() || !t.Persistent && t.WGs == c.tiles()*c.splits
}

func (c cover) tiles() int { return c.rows * c.cols }

// at is the row and column of the i-th tile to be computed. Split parts of a
// tile are a whole grid apart, as a grid's third dimension is.
func (c cover) at(i int) (row, col int) {
	i %= c.tiles()
	if c.byColumn {
		row, col = i%c.rows, i/c.rows
	} else {
		row, col = i/c.cols, i%c.cols
	}
	if c.stride > 1 {
		n := c.cols / c.stride // columns of one kind
		col = col%c.stride*n + col/c.stride
	}
	return row, col
}

// Semaphores are what a policy makes of a row of the producer's tiles: each
// column posts to one of a number of parts, and a consumer's loop over K waits
// at the beginning of each part for all the posts that it gets.
type semaphores struct {
	parts  int
	posts  int64         // that complete a part
	stride int           // columns that post to one part are cols/stride apart; 1 where they are neighbours
	wait   trace.Time    // lost at each, whatever its value
	of     func(int) int // the part that a column posts to
}

// semaphoresFor is a policy for two shapes, or why there is none (MECHANISM C5).
func semaphoresFor(policy string, c cover, a, b workload.Shape) (s semaphores, why string) {
	if a.M != b.M {
		return s, fmt.Sprintf("the consumer has %d rows, the producer %d", b.M, a.M)
	}
	s = semaphores{parts: c.cols, posts: int64(c.splits), stride: 1, wait: tileWait, of: func(col int) int { return col }}
	switch policy {
	case "streamk":
	case "row":
		s.parts, s.posts, s.wait = 1, int64(c.cols*c.splits), rowWait
		s.of = func(int) int { return 0 }
	case "tile":
		if a.N != b.K {
			return s, fmt.Sprintf("policy tile needs a consumer that sums over the producer's %d columns, not %d", a.N, b.K)
		}
	case "strided":
		s.stride = int(a.N / max(1, b.K))
		if s.stride < 2 || a.N%b.K != 0 || c.cols%s.stride != 0 {
			return s, "policy strided needs a producer whose columns hold several matrices (queries, keys, values), each as wide as the consumer sums over"
		}
		s.parts, s.posts = c.cols/s.stride, int64(s.stride*c.splits)
		s.of = func(col int) int { return col % s.parts }
	case "conv":
		if b.K <= a.N || b.K%a.N != 0 {
			return s, "policy conv needs a consumer that sums over a whole number of filter positions of the producer's channels"
		}
	}
	return s, ""
}

// apartGrid is a workgroup a tile, or as many persistent ones as were captured,
// none standing for several, such that the kernel alone takes its measured time.
func (pl *planner) apartGrid(op *workload.Op, tiles int) grid {
	cus, perCU := int(pl.m.GPU.CUs.Value), pl.residents(op.Footprint)
	g := pl.gridOf(op, op.Dur())
	merged := g.merged
	if merged { // gridOf draws short workgroups together
		g.wgs, g.foot, g.merged = op.Tiling.WGs, op.Footprint, false
		g.time = g.time * maxWaves / trace.Time(ceilDiv(g.wgs, cus*perCU))
	}
	n := float64(tiles)
	g.read, g.write = op.Read/n, op.Write/n
	together := min(perCU, ceilDiv(g.wgs, cus)) // workgroups on a CU, as measured
	if merged {
		g.pipe = 1 / float64(max(1, together))
	}
	if together == 1 {
		g.pipe = max(0.01, pl.m.Pipe(op.Shape.Flops()/n, float64(max(1, g.time))/1e9))
		return g
	}
	alone := 1 / float64(together)
	if op.Shape.Kind == workload.GEMM { // the trace shows no tile alone
		alone = max(alone, pl.m.LonePipe())
	}
	g.time, g.pipe = trace.Time(float64(g.time)*g.pipe/alone), alone
	return g
}

// synchronisedKernels are producer and consumer of one rank. The producer's first
// workgroup posts started; each of its tiles posts the part of its row that it belongs to.
func (pl *planner) synchronisedKernels(first, second *workload.Op, v Values, started replay.Flag) (producer, consumer *replay.Kernel) {
	byColumn := v["order"] == "column"
	from, _ := coverOf(first, byColumn)
	to, _ := coverOf(second, byColumn)
	s, _ := semaphoresFor(v["policy"], from, first.Shape, second.Shape)
	from.stride = s.stride
	flags := make([]replay.Flag, from.rows*s.parts)
	for i := range flags {
		flags[i] = pl.p.NewFlag(fmt.Sprintf("row %d part %d of %s", i/s.parts, i%s.parts, first.Name))
	}

	g := pl.apartGrid(first, from.tiles()*from.splits)
	producer = pl.kernelOf(first, g)
	producer.Recipe = func(i int, buf []replay.Phase) []replay.Phase {
		if i == 0 {
			buf = append(buf, replay.Phase{Op: replay.PostTo, Flag: started, Count: 1})
		}
		row, col := from.at(i)
		return append(buf,
			replay.Phase{Op: replay.Work, Time: g.time, Read: g.read, Write: g.write},
			replay.Phase{Op: replay.PostTo, Flag: flags[row*s.parts+s.of(col)], Count: 1})
	}

	h := pl.apartGrid(second, to.tiles()*to.splits)
	consumer = pl.kernelOf(second, h)
	var early replay.Phase // loads before the first wait
	if v["reorder"] == "on" {
		early = pl.firstWeights(second, h)
	}
	consumer.Recipe = func(i int, buf []replay.Phase) []replay.Phase {
		row, _ := to.at(i)
		lo := row * second.Tiling.TileM / first.Tiling.TileM
		hi := (min((row+1)*second.Tiling.TileM, int(second.Shape.M)) - 1) / first.Tiling.TileM
		if early.Time > 0 {
			buf = append(buf, early)
		}
		parts := float64(s.parts)
		for part := range s.parts {
			for r := lo; r <= hi; r++ {
				buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: flags[r*s.parts+part], Count: s.posts})
			}
			buf = append(buf,
				replay.Phase{Op: replay.Sleep, Time: s.wait},
				replay.Phase{
					Op: replay.Work, Time: share(h.time-early.Time, part, s.parts),
					Read: (h.read - early.Read) / parts, Write: h.write / parts,
				})
		}
		return buf
	}
	return producer, consumer
}

// firstWeights loads the weights' half of a workgroup's buffers, which does not
// depend on the producer (MECHANISM C7).
func (pl *planner) firstWeights(op *workload.Op, g grid) replay.Phase {
	t := op.Tiling
	bytes := min(g.read, float64(op.Footprint.Shared)*float64(t.TileN)/float64(t.TileM+t.TileN))
	rate := pl.m.GPU.StreamAt(g.wgs) / float64(min(g.wgs, int(pl.m.GPU.CUs.Value)*pl.residents(op.Footprint)))
	if rate <= 0 {
		return replay.Phase{}
	}
	return replay.Phase{Op: replay.Work, Time: min(g.time, duration(bytes/rate)), Read: bytes}
}
