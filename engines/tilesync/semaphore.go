package tilesync

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

// Semaphores are the semaphores of a row of the producer's tiles under a policy. Each
// column posts to one part. A consumer's loop over K waits at the beginning of each part
// for all posts of the part.
type semaphores struct {
	parts  int
	groups int           // adjacent matrices; a consumer without a loop over K waits for its own part of each
	posts  int64         // posts that complete a part
	stride int           // columns that post to one part are cols/stride apart; 1 if they are neighbours
	of     func(int) int // the part that a column posts to
}

// semaphoresFor returns the semaphores of a policy for two shapes, or the reason why
// the policy does not fit (rule T2).
func semaphoresFor(policy string, c plan.Cover, a, b workload.Shape) (s semaphores, why string) {
	if a.M != b.M {
		return s, fmt.Sprintf("the consumer has %d rows, the producer %d", b.M, a.M)
	}
	inner := b.K // columns of the producer's output that the consumer sums over
	if ownColumns(a, b) {
		inner = b.N
	}
	s = semaphores{parts: c.Cols, groups: 1, posts: int64(c.Splits), stride: 1, of: func(col int) int { return col }}
	switch policy {
	case "streamk", "own":
	case "row":
		s.parts, s.posts = 1, int64(c.Cols*c.Splits)
		s.of = func(int) int { return 0 }
	case "tile":
		if n := int(a.N / max(1, inner)); ownColumns(a, b) && n > 1 && a.N%inner == 0 && c.Cols%n == 0 {
			s.groups = n
		} else if a.N != inner {
			return s, fmt.Sprintf("policy tile needs a consumer that sums over the producer's %d columns, not %d", a.N, inner)
		}
	case "strided":
		s.stride = int(a.N / max(1, inner))
		if s.stride < 2 || a.N%inner != 0 || c.Cols%s.stride != 0 {
			return s, "policy strided needs a producer whose columns hold several matrices (queries, keys, values), each as wide as the consumer sums over"
		}
		s.parts, s.posts = c.Cols/s.stride, int64(s.stride*c.Splits)
		s.of = func(col int) int { return col % s.parts }
	case "conv":
		if b.K <= a.N || b.K%a.N != 0 {
			return s, "policy conv needs a consumer that sums over a whole number of filter positions of the producer's channels"
		}
	}
	return s, ""
}

// ownColumns reports whether a tile of the consumer needs only the producer's tiles of
// its own columns. This holds without a sum over K, and for the dot products of
// attention, which are as wide as the queries, the keys and the values.
func ownColumns(a, b workload.Shape) bool {
	return b.Kind == workload.Elementwise || b.N == b.K && a.N > b.N && a.N%b.N == 0
}

// ownPolicy is the policy of a link in a chain. If strided or conv is selected and does
// not fit the two shapes, the link uses tile.
func ownPolicy(policy string, c plan.Cover, a, b workload.Shape) string {
	if policy == "strided" || policy == "conv" {
		if _, no := semaphoresFor(policy, c, a, b); no != "" {
			return "tile"
		}
	}
	return policy
}

// A link is the semaphores between two kernels of a chain, and the tiles of the producer.
type link struct {
	semaphores
	own      *own // the user's policy; nil: one of the paper's
	pl       *plan.Planner
	from, to *workload.Op
	cover    plan.Cover // tiles of the producer
	steps    int        // of the loop over K that look at the semaphore of a part; 0: only one, when it comes to the part
	flags    []program.Flag
}

func newLink(pl *plan.Planner, from, to *workload.Op, v plan.Values) *link {
	c, _ := plan.CoverOf(from)
	s, _ := semaphoresFor(ownPolicy(v["policy"], c, from.Shape, to.Shape), c, from.Shape, to.Shape)
	l := &link{semaphores: s, pl: pl, from: from, to: to, cover: c}
	if v["policy"] == "conv" && to.Tiling.Depth > 0 {
		l.steps = plan.CeilDiv(from.Tiling.TileN, to.Tiling.Depth)
	}
	if l.cover.Stride = s.stride; v["policy"] == "own" {
		l.own, _ = ownOf(v, c, from.Shape, to.Shape)
		l.cover.Order = l.own.order
	}
	for i := range c.Rows * s.parts {
		name := fmt.Sprintf("row %d part %d of %s", i/s.parts, i%s.parts, from.Name)
		if l.own != nil {
			name = fmt.Sprintf("semaphore %d of %s", i, from.Name)
		}
		l.flags = append(l.flags, pl.Program.NewFlag(name))
	}
	return l
}

// posted is the flag that a tile of the producer posts.
func (l *link) posted(row, col int) program.Flag {
	if l.own != nil {
		return l.flags[l.own.posted[row*l.cover.Cols+col]]
	}
	return l.flags[row*l.parts+l.of(col)]
}

// awaited is the flag, and its count, that a consumer waits for before a part of a row.
func (l *link) awaited(row, part int) (program.Flag, int64) {
	if l.own != nil {
		i := row*l.cover.Cols + part
		return l.flags[l.own.waited[i]], l.own.count[i]
	}
	return l.flags[row*l.parts+part], l.posts
}

// post appends the phases that signal a written tile of the producer: a barrier of the
// workgroup, a fence and an addition (rules F7 and T3).
func (l *link) post(row, col int, buf []program.Phase) []program.Phase {
	return append(buf, roundTrip(l.pl), program.Phase{Op: program.PostTo, Flag: l.posted(row, col), Count: 1, Mark: "posted"})
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
			flag, count := l.awaited(r, g*l.parts/l.groups+part)
			buf = append(buf, program.Phase{Op: program.WaitFor, Flag: flag, Count: count})
		}
		buf = append(buf, passes)
	}
	return buf
}

// sameWait reports whether the wait of a later part of a row is that of an earlier one, so
// that the loop over K passes it without another.
func (l *link) sameWait(row, part, later int) bool {
	if l.own == nil {
		return false
	}
	lo, hi := l.rows(row)
	for r := lo; r <= hi; r++ {
		flag, count := l.awaited(r, part)
		if f, c := l.awaited(r, later); f != flag || c != count {
			return false
		}
	}
	return true
}

// roundTrip is the cost of an addition with a result or of a read, before the loop over K: one
// thread waits for memory, and the workgroup synchronises at a barrier (rules F7 and T3).
func roundTrip(pl *plan.Planner) program.Phase {
	return program.Phase{Op: program.Sleep, Time: plan.Duration(pl.Machine.GPU.Post.Value)}
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
	return program.Phase{Op: program.Sleep, Time: plan.Duration(seconds / float64(together))}
}

// together is how many of a kernel's workgroups share a CU.
func together(pl *plan.Planner, op *workload.Op, wgs int) int {
	return max(1, min(pl.Residents(op.Footprint), plan.CeilDiv(wgs, int(pl.Machine.GPU.CUs.Value))))
}

// needs is the parts that a workgroup of the consumer reads. In a loop over K these are all
// parts or, if its tile is split along K, those of its share; else those of its own columns.
func (l *link) needs(col, split, splits int) (lo, hi int) {
	if !ownColumns(l.from.Shape, l.to.Shape) || l.parts == 1 {
		lo = min(split*l.parts/splits, l.parts-1)
		return lo, max(lo, plan.CeilDiv((split+1)*l.parts, splits)-1)
	}
	from, to, most := l.from.Tiling.TileN, l.to.Tiling.TileN, l.parts/l.groups-1
	return min(col*to/from, most), min(((col+1)*to-1)/from, most)
}

// synchronisedKernels fills in the kernels of a chain on one rank. The first workgroup of
// each kernel posts one of the returned flags when it starts.
func synchronisedKernels(pl *plan.Planner, sides []side, v plan.Values) (started []program.Flag) {
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
func synchronisedKernel(pl *plan.Planner, s *side, in, out *link, begun program.Flag, v plan.Values) *program.Kernel {
	op := s.built
	c, _ := plan.CoverOf(op)
	if out != nil {
		c = out.cover
	}
	g := pl.ApartGrid(op, c.Tiles()*c.Splits)
	each := float64(c.Tiles() * c.Splits)
	g.Read, g.Write = g.Read+s.fuses.reads/each, max(0, g.Write+s.fuses.writes/each)
	exposed := machine.Exposed(pl.Laws().MemoryLoad(op)) // of later loads and of waits (rule T10)
	if in != nil && v["policy"] != "row" && !ownColumns(in.from.Shape, op.Shape) {
		g.Time += trace.Time(float64(g.Time) * pl.Machine.GPU.LoopWait.Or(0) * exposed)
	}
	k := pl.KernelOf(op, g)
	if n := together(pl, op, g.WGs); n > 1 && g.Tiles == 0 {
		k.Lag, g.Time = endApart, lagging(pl, g, n)
	}
	early := firstWeights(pl, op, g, v) // before the first wait
	tickets, adjacent := v["tickets"] != "off", v["tickets"] == "parts"
	before, inside := roundTrip(pl), poll(pl, together(pl, op, g.WGs), v)
	inside.Time = trace.Time(float64(inside.Time) * exposed)
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		if i == 0 {
			buf = append(buf, program.Phase{Op: program.PostTo, Flag: begun, Count: 1})
		}
		if tickets { // the counter, then the tile's place in the order
			buf = append(buf, before, before)
		}
		if adjacent { // parts of a tile are a whole grid apart otherwise
			i = i%c.Splits*c.Tiles() + i/c.Splits
		}
		row, col := c.At(i)
		if in == nil {
			buf = append(buf, program.Phase{Op: program.Work, Time: g.Time, Read: g.Read, Write: g.Write})
		} else {
			if early.Time > 0 {
				buf = append(buf, early)
			}
			lo, hi := in.needs(col, i/c.Tiles(), c.Splits)
			n := hi - lo + 1
			for part := 0; part < n; {
				passes, more := before, in.steps
				if part > 0 {
					passes, more = inside, max(0, more-1)
				}
				passes.Time += trace.Time(more) * inside.Time
				buf = in.wait(row, lo+part, passes, buf)
				end := part + 1
				for end < n && in.sameWait(row, lo+part, lo+end) {
					end++
				}
				var took trace.Time
				for ; part < end; part++ {
					took += plan.Share(g.Time-early.Time, part, n)
				}
				share := float64(took) / float64(max(1, g.Time-early.Time))
				buf = append(buf, program.Phase{Op: program.Work, Time: took, Read: (g.Read - early.Read) * share, Write: g.Write * share})
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
		whole, end, _ := pl.Laws().Waves(c.Tiles()*parts, pl.Residents(op.Footprint), pipe)
		return (whole + end) / float64(parts)
	}
	longer, load := took(n)/took(c.Splits), pl.Laws().MemoryLoad(op)
	if longer > 1 {
		longer = 1 + (longer-1)*machine.Exposed(load)
	}
	built, kernel := *op, *op.Kernel
	built.Kernel, kernel.Tiling.WGs = &kernel, c.Tiles()*n
	built.Alone = trace.Time(float64(op.DurAlone()) * max(longer, min(1, load)))
	return &built
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
		return program.Phase{}
	}
	resident := min(g.WGs, int(pl.Machine.GPU.CUs.Value)*pl.Residents(op.Footprint))
	return program.Phase{Op: program.Work, Time: min(g.Time, pl.Laws().Stream(bytes, resident)), Read: bytes}
}
