package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A Stat sums up the spans of one name in a range.
type Stat struct {
	Name          string
	Class         Class
	State         bool // of a rank, not spans
	Count         int
	Time          trace.Time // of the spans' parts in the range
	P50, P90, Max trace.Time // of their whole durations
	Rate          string     // achieved "812.3 TFLOP/s" or "94.2 GB/s"; "" where unknown
}

// Stats sums up the spans of a row that touch [from, to) of the axis, or of all lanes
// below a heading: host threads, annotations and phases of workgroups only if the row is
// one of theirs. The most time comes first.
func (t *Timeline) Stats(row int, from, to trace.Time) []Stat {
	g := gathering{t: t, at: map[statKey]int{}}
	g.row(row, from, to, true)
	for i := row + 1; i < t.Rows[row].After; i++ {
		g.row(i, from, to, false)
	}
	for i := range g.stats {
		d := g.durations[i]
		slices.Sort(d)
		s := &g.stats[i]
		s.P50, s.P90, s.Max = d[(len(d)-1)/2], d[(len(d)-1)*9/10], d[len(d)-1]
		s.Rate = g.work[i].rate()
	}
	slices.SortStableFunc(g.stats, func(a, b Stat) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	return g.stats
}

type statKey struct {
	view  int
	strip bool
	name  trace.NameID
	class Class
}

// A gathering is the statistics so far; durations and work are as stats.
type gathering struct {
	t         *Timeline
	at        map[statKey]int
	stats     []Stat
	durations [][]trace.Time
	work      []work
}

func (g *gathering) row(row int, from, to trace.Time, chosen bool) {
	r, run, shift := &g.t.Rows[row], g.t.Run(row), g.t.Offset(row)
	if r.Kind < LaneRow && !(chosen && r.Strip) {
		return
	}
	lo, hi := g.t.Touching(row, from, to)
	for _, id := range r.Spans[lo:hi] {
		s := g.t.Span(row, id)
		start, end := max(s.Start+shift, from), min(s.End+shift, to)
		if end <= start || !chosen && !s.Kind.OnDevice() {
			continue
		}
		key := statKey{r.View, r.Strip, s.Name, g.t.Class(row, id)}
		i, ok := g.at[key]
		if !ok {
			i = len(g.stats)
			g.at[key] = i
			g.stats = append(g.stats, Stat{Name: run.NameOf(s), Class: key.class, State: r.Strip})
			g.durations, g.work = append(g.durations, nil), append(g.work, work{})
		}
		g.stats[i].Count++
		g.stats[i].Time += end - start
		g.durations[i] = append(g.durations[i], s.Dur())
		g.work[i].add(run, &s)
	}
}

// work is what spans did, as far as the run says it of all of them.
type work struct {
	bytes, flops float64
	time         trace.Time
	unknown      bool
}

func (w *work) add(r *trace.Run, s *trace.Span) {
	w.time += s.Dur()
	if bytes := overlap.Sent(r, *s); bytes > 0 {
		w.bytes += float64(bytes)
		return
	}
	flops := flopsOf(r.Operator(r.Kernel(*s)))
	w.flops += flops
	w.unknown = w.unknown || flops == 0
}

func (w *work) rate() string {
	switch {
	case w.unknown || w.time == 0:
		return ""
	case w.flops > 0:
		return fmt.Sprintf("%.1f TFLOP/s", w.flops/float64(w.time)/1e3)
	case w.bytes > 0:
		return fmt.Sprintf("%.1f GB/s", w.bytes/float64(w.time))
	}
	return ""
}

// flopsOf is the work of an operator that multiplies matrices, by the shapes of its
// inputs: 2·M·N·K for each matrix. 0 for others.
func flopsOf(o *trace.Operator) float64 {
	if o == nil {
		return 0
	}
	name, dims := o.Name[strings.LastIndexByte(o.Name, ':')+1:], o.Dims
	if name == "addmm" || name == "baddbmm" {
		dims = dims[min(1, len(dims)):]
	}
	if len(dims) < 2 || len(dims[0]) < 2 || len(dims[1]) < 2 {
		return 0
	}
	a, b := dims[0], dims[1]
	n := b[len(b)-1]
	switch name {
	case "linear":
		n = b[0]
	case "mm", "addmm", "bmm", "baddbmm", "matmul":
	default:
		return 0
	}
	flops := 2 * float64(n)
	for _, x := range a { // M and K, and how many
		flops *= float64(x)
	}
	return max(0, flops)
}
