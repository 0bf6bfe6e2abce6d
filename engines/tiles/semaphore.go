package tiles

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Semaphores are those of a producer's tiles under a policy. The tiles of a row are in parts; a consumer's loop over K
// waits at the beginning of each part for the semaphore of the part.
type semaphores struct {
	parts  int
	groups int                                        // adjacent matrices; a consumer without a loop over K waits for its own part of each
	ready  func(row, col int) int                     // the semaphore that a tile posts
	waits  func(row, part int) (set int, count int64) // the semaphore of a part of a row, and the count that a consumer waits for
	stride int                                        // columns that post to one part are cols/stride apart; 0: they are neighbours
	order  []int32                                    // the user's order of the tiles; nil: row by row
}

// semaphoresFor returns the semaphores of a policy for two shapes, or the reason why
// the policy does not fit (rule T2).
func semaphoresFor(policy string, v plan.Values, c plan.Cover, a, b workload.Shape) (s semaphores, why string) {
	if a.M != b.M {
		return s, fmt.Sprintf("the consumer has %d rows, the producer %d", b.M, a.M)
	}
	inner := b.K // columns of the producer's output that the consumer sums over
	if ownColumns(a, b) {
		inner = b.N
	}
	parts, groups, stride := c.Cols, 1, 0
	of := func(col int) int { return col } // the part that a column posts to
	switch policy {
	case "own":
		return ownOf(v, c, a, b)
	case "row":
		parts, of = 1, func(int) int { return 0 }
	case "tile":
		if n := int(a.N / max(1, inner)); ownColumns(a, b) && n > 1 && a.N%inner == 0 && c.Cols%n == 0 {
			groups = n
		} else if a.N != inner {
			return s, fmt.Sprintf("policy tile needs a consumer that sums over the producer's %d columns, not %d", a.N, inner)
		}
	case "strided":
		stride = int(a.N / max(1, inner))
		if stride < 2 || a.N%inner != 0 || c.Cols%stride != 0 {
			return s, "policy strided needs a producer whose columns hold several matrices (queries, keys, values), each as wide as the consumer sums over"
		}
		parts = c.Cols / stride
		of = func(col int) int { return col % parts }
	case "conv":
		if b.K <= a.N || b.K%a.N != 0 {
			return s, "policy conv needs a consumer that sums over a whole number of filter positions of the producer's channels"
		}
	}
	return semaphores{
		parts: parts, groups: groups, stride: stride,
		ready: func(row, col int) int { return row*parts + of(col) },
		waits: func(row, part int) (int, int64) { return row*parts + part, int64(c.Cols / parts * c.Splits) },
	}, ""
}

// fitting is the selected policy for two shapes or, where strided or conv does not fit them, tile, as in a chain of links;
// "" if neither fits. why is the reason for which the selected one does not.
func fitting(v plan.Values, c plan.Cover, a, b workload.Shape) (policy string, s semaphores, why string) {
	policy = v["policy"]
	if s, why = semaphoresFor(policy, v, c, a, b); why == "" {
		return policy, s, ""
	}
	if s, no := semaphoresFor("tile", v, c, a, b); no == "" && (policy == "strided" || policy == "conv") {
		return "tile", s, why
	}
	return "", s, why
}

// ownColumns reports whether a tile of the consumer needs only the producer's tiles of
// its own columns. This holds without a sum over K, and for the dot products of
// attention, which are as wide as the queries, the keys and the values.
func ownColumns(a, b workload.Shape) bool {
	return b.Kind == workload.Elementwise || b.N == b.K && a.N > b.N && a.N%b.N == 0
}

// A link is the semaphores between two kernels of a chain, and the tiles of the producer.
type link struct {
	semaphores
	pl       *plan.Planner
	from, to *workload.Op
	steps    int // of the loop over K that look at the semaphore of a part; 0: only one, when it comes to the part
	flags    []program.Flag
}

func newLink(pl *plan.Planner, from, to *workload.Op, v plan.Values) *link {
	c, _ := plan.CoverOf(from)
	_, s, _ := fitting(v, c, from.Shape, to.Shape)
	l := &link{semaphores: s, pl: pl, from: from, to: to}
	if v["policy"] == "conv" && to.Tiling.Depth > 0 {
		l.steps = machine.CeilDiv(from.Tiling.TileN, to.Tiling.Depth)
	}
	l.flags = pl.Program.NewFlagsOf(pl.Program.Writing, c.Rows*s.parts, func(i int) string {
		if s.order != nil {
			return fmt.Sprintf("semaphore %d of %s", i, from.Name)
		}
		return fmt.Sprintf("row %d part %d of %s", i/s.parts, i%s.parts, from.Name)
	})
	return l
}

// at is the row and column of the i-th tile that a kernel computes. Split parts of a tile are a whole
// grid apart, as in the third dimension of a grid. l is what the tile posts to; nil: nothing.
func (l *link) at(c plan.Cover, i int) (row, col int) {
	i %= c.Tiles()
	if l != nil && l.order != nil {
		i = int(l.order[i])
	}
	row, col = i/c.Cols, i%c.Cols
	if l != nil && l.stride > 1 {
		n := c.Cols / l.stride // columns of one kind
		col = col%l.stride*n + col/l.stride
	}
	return row, col
}

// post appends the phases that signal a written tile of the producer: a barrier of the
// workgroup, a fence and an addition (rules F7 and T3).
func (l *link) post(row, col int, buf []program.Phase) []program.Phase {
	return append(buf, roundTrip(l.pl), plan.Signal(l.flags[l.ready(row, col)], "posted"))
}

// rows are the rows of the producer's tiles that a row of the consumer's overlaps.
func (l *link) rows(row int) (lo, hi int) {
	from, to := l.from.Tiling.TileM, l.to.Tiling.TileM
	return row * to / from, (min((row+1)*to, int(l.to.Shape.M)) - 1) / from
}

// wait appends the waits of a consumer's tile before a part: for that part in every row
// of the producer's tiles that overlaps the rows of the tile. passes: what each wait costs.
func (l *link) wait(row, part int, passes program.Phase, buf []program.Phase) []program.Phase {
	lo, hi := l.rows(row)
	for g := range l.groups {
		for r := lo; r <= hi; r++ {
			set, count := l.waits(r, g*l.parts/l.groups+part)
			buf = append(buf, plan.Await(l.flags[set], count))
		}
		buf = append(buf, passes)
	}
	return buf
}

// sameWait reports whether the wait of a later part of a row is that of an earlier one, so
// that the loop over K passes it without another.
func (l *link) sameWait(row, part, later int) bool {
	lo, hi := l.rows(row)
	for r := lo; r <= hi; r++ {
		set, count := l.waits(r, part)
		if i, n := l.waits(r, later); i != set || n != count {
			return false
		}
	}
	return true
}

// roundTrip is the cost of an addition with a result or of a read, before the loop over K: one
// thread waits for memory, and the workgroup synchronises at a barrier (rules F7 and T3).
func roundTrip(pl *plan.Planner) program.Phase {
	return plan.Pause(pl.Machine.GPU.Post.Value)
}

// poll is the cost of a semaphore that is already posted, inside of the loop over K: a read
// and a barrier as in roundTrip, and the loads that the loop would have issued meanwhile.
// With reordered loads the weights are on their way during the read and the barrier.
// Workgroups on the same CU use the time for their own loops (rules F7, T3 and T5).
func poll(pl *plan.Planner, together int, v plan.Values) program.Phase {
	seconds := pl.Machine.GPU.Poll.Value
	if v["reorder"] == "on" {
		seconds = max(0, seconds-pl.Machine.GPU.Post.Value)
	}
	return plan.Pause(seconds / float64(together))
}

// needs is the parts that a workgroup of the consumer reads. In a loop over K these are all
// parts or, if its tile is split along K, those of its share; else those of its own columns.
func (l *link) needs(col, split, splits int) (lo, hi int) {
	if !ownColumns(l.from.Shape, l.to.Shape) || l.parts == 1 {
		lo = min(split*l.parts/splits, l.parts-1)
		return lo, max(lo, machine.CeilDiv((split+1)*l.parts, splits)-1)
	}
	from, to, most := l.from.Tiling.TileN, l.to.Tiling.TileN, l.parts/l.groups-1
	return min(col*to/from, most), min(((col+1)*to-1)/from, most)
}

// synchronisedKernels fills in the kernels of a chain on one rank. The first workgroup of
// each kernel posts one of the returned flags when it starts.
func synchronisedKernels(pl *plan.Planner, sides []linked, v plan.Values) (started []program.Flag) {
	var in *link
	for i := range sides {
		op := sides[i].built
		begun := pl.Program.NewFlag(op.Name + " started")
		started = append(started, begun)
		var out *link
		if i+1 < len(sides) {
			out = newLink(pl, op, sides[i+1].built, v)
		}
		sides[i].kernel = synchronisedKernel(pl, &sides[i], in, out, begun, v)
		in = out
	}
	return started
}

// synchronisedKernel waits for the incoming link and posts the outgoing one; nil: none.
func synchronisedKernel(pl *plan.Planner, s *linked, in, out *link, begun program.Flag, v plan.Values) *program.Kernel {
	op := s.built
	c, _ := plan.CoverOf(op)
	g := pl.ApartGrid(op, c.Tiles()*c.Splits)
	each := float64(c.Tiles() * c.Splits)
	g.Read, g.Write = g.Read+s.fuses.reads/each, max(0, g.Write+s.fuses.writes/each)
	exposed := machine.Exposed(pl.Laws().MemoryLoad(op)) // of later loads and of waits (rule T10)
	if in != nil && v["policy"] != "row" && !ownColumns(in.from.Shape, op.Shape) {
		g.Time += trace.Time(float64(g.Time) * pl.Machine.GPU.LoopWait.Or(0) * exposed)
	}
	k := pl.KernelOf(op, g)
	if n := pl.Laws().Together(op.Footprint, g.WGs); n > 1 && g.Tiles == 0 {
		k.Lag, g.Time = endApart, lagging(pl, g, n)
	}
	early := firstWeights(pl, op, g, v) // before the first wait
	tickets, adjacent := v["tickets"] != "off", v["tickets"] == "parts"
	before, inside := roundTrip(pl), poll(pl, pl.Laws().Together(op.Footprint, g.WGs), v)
	inside.Time = trace.Time(float64(inside.Time) * exposed)
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		if i == 0 {
			buf = append(buf, plan.Signal(begun, ""))
		}
		if tickets { // the counter, then the tile's place in the order
			buf = append(buf, before, before)
		}
		if adjacent { // parts of a tile are a whole grid apart otherwise
			i = i%c.Splits*c.Tiles() + i/c.Splits
		}
		row, col := out.at(c, i)
		if in == nil {
			buf = append(buf, plan.Compute(g.Time, g.Read, g.Write))
		} else {
			if early.Time > 0 {
				buf = append(buf, early)
			}
			lo, hi := in.needs(col, i/c.Tiles(), c.Splits)
			n, rest := hi-lo+1, g.Time-early.Time
			var end int
			for part := 0; part < n; part = end {
				passes, more := before, in.steps
				if part > 0 {
					passes, more = inside, max(0, more-1)
				}
				passes.Time += trace.Time(more) * inside.Time
				buf = in.wait(row, lo+part, passes, buf)
				for end = part + 1; end < n && in.sameWait(row, lo+part, lo+end); end++ { // passes without another
				}
				took := rest*trace.Time(end)/trace.Time(n) - rest*trace.Time(part)/trace.Time(n)
				share := float64(took) / float64(max(1, rest))
				buf = append(buf, plan.Compute(took, (g.Read-early.Read)*share, g.Write*share))
			}
		}
		if out != nil {
			buf = out.post(row, col, buf)
		}
		return buf
	}
	return k
}

// inParts is a GEMM whose tiles are in other parts along K, the i-th of a list. A step of the loop takes as long
// as captured, in as many waves as there are now: fewer workgroups delay a kernel less that memory bounds (rule
// I10), and more make none faster than memory.
func inParts(pl *plan.Planner, op *workload.Op, list string, i int) *workload.Op {
	c, ok := plan.CoverOf(op)
	each := strings.Split(list, "x")
	n, err := strconv.Atoi(each[min(i, len(each)-1)])
	if err != nil || !ok || op.Tiling.Persistent || n == c.Splits {
		return op
	}
	pipe := pl.ApartGrid(op, op.Tiling.WGs).Pipe
	took := func(parts int) float64 {
		whole, end, _ := pl.Laws().Waves(c.Tiles()*parts, pl.Laws().Residents(op.Footprint), pipe)
		return (whole + end) / float64(parts)
	}
	longer, load := took(n)/took(c.Splits), pl.Laws().MemoryLoad(op)
	if longer > 1 {
		longer = 1 + (longer-1)*machine.Exposed(load)
	}
	built, kernel := *op, *op.Kernel
	built.Kernel, kernel.Tiling.WGs = &kernel, c.Tiles()*n
	added := float64(sumOfParts(pl, op, c.Tiles()))
	loops := max(0, float64(op.DurAlone())-added*float64(c.Splits-1))
	built.Alone = trace.Time(loops*max(longer, min(1, load)) + added*float64(n-1))
	return &built
}

// sumOfParts is by how much each further part along K of so many tiles delays the end of a kernel: workgroups of the
// same tile add their sums one after another, each of which waits for the one before, reads the tile's sums, writes
// them and posts (rule T11).
func sumOfParts(pl *plan.Planner, op *workload.Op, tiles int) trace.Time {
	bytes := float64(op.Tiling.TileM * op.Tiling.TileN * max(1, op.Shape.ElemSize))
	return 2 * (roundTrip(pl).Time + pl.Laws().Stream(bytes, tiles))
}

// checkParts checks a list of parts along K: numbers with an x between.
func checkParts(text string) error {
	for n := range strings.SplitSeq(text, "x") {
		if x, err := strconv.Atoi(n); text != "captured" && (err != nil || x < 1 || x > 64) {
			return fmt.Errorf("%q: write a number of parts up to 64 for each GEMM, as 2x1", text)
		}
	}
	return nil
}

// endApart is how much longer the younger of two workgroups of a GEMM that share a CU takes than the
// older: 388 and 350 us of tiles of 128x128 on one H100, in each of 3,960 pairs (2026-11-24).
const endApart = 0.11

// lagging is the time alone of a workgroup of which n share a CU and end apart, such that the kernel
// alone takes as long as if they ended together: in all waves but the last, half of them take longer;
// in the last, the younger ones go on alone.
func lagging(pl *plan.Planner, g plan.Grid, n int) trace.Time {
	whole, end, last := pl.Laws().Waves(g.WGs, n, g.Pipe)
	apart := end
	if last > 1 {
		apart += endApart
	}
	return trace.Time(float64(g.Time) * (whole + end) / (whole*(1+endApart/2) + apart))
}

// firstWeights loads the weights into half of a workgroup's buffers, if loads are reordered. They do not
// depend on the producer (rule T5).
func firstWeights(pl *plan.Planner, op *workload.Op, g plan.Grid, v plan.Values) program.Phase {
	t := op.Tiling
	bytes := min(g.Read, float64(op.Footprint.Shared)*float64(t.TileN)/float64(t.TileM+t.TileN))
	if v["reorder"] != "on" || op.Shape.Kind != workload.GEMM {
		return plan.Compute(0, 0, 0)
	}
	resident := min(g.WGs, pl.Laws().Slots(op.Footprint))
	return plan.Compute(min(g.Time, pl.Laws().Stream(bytes, resident)), bytes, 0)
}
