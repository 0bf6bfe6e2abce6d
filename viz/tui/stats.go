package tui

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// chosenRange is the range of the statistics: from the mark to the end of the selection,
// else what is in view.
func (m *model) chosenRange(p *page) layout.Window {
	if m.pinned == nil || p.sel.span == trace.None {
		return *p.window
	}
	from, to := p.times(p.sel)
	w := layout.Window{From: min(*m.pinned, from), To: max(*m.pinned, to)}
	w.To = max(w.To, w.From+1)
	return w
}

// mostCounted is how many spans statistics are computed of in every frame.
const mostCounted = 1 << 20

// drawStats lists what the row under the cursor, or the lanes below it, did in the range:
// count, time, share of the range, percentiles of the durations and the achieved rate.
func (m *model) drawStats(c canvas, p *page, r regions) {
	row := p.row()
	if row >= len(p.t.Rows) {
		return
	}
	w := m.chosenRange(p)
	if n := len(p.t.Views); (n == 2 || n == 3 && layout.IsChanges(p.t.Views[2].Run)) && !m.figure {
		m.drawDifference(c, p, r, w)
		return
	}
	title := fmt.Sprintf("%s from %s to %s (%s)", clean(p.t.Rows[row].Label), layout.Exact(w.From), layout.Exact(w.To), layout.Short(w.Len()))
	c.text(0, r.details.y, r.width, c.words(title), c.strong())
	if p.countIn(row, w) > mostCounted {
		c.text(0, r.details.y+1, r.width, "too many spans: zoom in, or choose a lane", c.plain())
		return
	}
	numbers := []string{"count", "time", "share", "median", "90 %", "longest", "rate"}
	width := []int{7, 10, 8, 10, 10, 10, 14}
	for total := r.width - 24; len(width) > 2 && sum(width) > total; {
		numbers, width = numbers[:len(numbers)-1], width[:len(width)-1]
	}
	wide := max(8, r.width-sum(width))
	line := func(y int, name string, cells []string, style tcell.Style) {
		c.line(y, wide, r.width, name, cells, width, style)
	}
	line(r.details.y+1, "", numbers, c.faint())
	for i, s := range p.t.Stats(row, w.From, w.To) {
		y := r.details.y + 2 + i
		if i+2 >= r.details.h {
			break
		}
		sign, style := c.swatch(s.Class)
		c.Put(0, y, sign, style)
		line(y, trace.Short(s.Name), []string{
			fmt.Sprint(s.Count), layout.Short(s.Time), fmt.Sprintf("%.1f %%", 100*float64(s.Time)/float64(w.Len())),
			layout.Short(s.P50), layout.Short(s.P90), layout.Short(s.Max), s.Rate,
		}, c.plain())
	}
}

// line writes a name and right-aligned cells of some widths behind it, which begin at a column.
func (c canvas) line(y, at, limit int, name string, cells []string, width []int, style tcell.Style) {
	c.text(2, y, min(at, limit), name, style)
	for i := range width {
		text := c.words(cells[i])
		c.text(at+max(0, width[i]-utf8.RuneCountInString(text)), y, min(at+width[i], limit), text, style)
		at += width[i]
	}
}

// drawDifference lists what the ranks of both runs did in the range, or one rank: count and time of each, and the difference, the
// largest first, below that of the states. Of the first steps of both each has its own length.
func (m *model) drawDifference(c canvas, p *page, r regions, w layout.Window) {
	at := &p.t.Rows[p.row()]
	what, own := fmt.Sprintf("from %s to %s", layout.Exact(w.From), layout.Exact(w.To)), false
	if len(m.times) >= 2 && w.Len() == m.times[0].Step && m.times[1].Step > 0 {
		what, own = "one step of each", true
	}
	whose, n := "mean of ranks", trace.Time(max(1, len(p.t.Run(0).Ranks)))
	if at.Rank != trace.None {
		whose, n = fmt.Sprintf("rank %d", p.t.Run(0).RankID(at.Rank)), 1
	}
	if !p.t.Views[0].Run.Simulated && p.t.Views[1].Run.Simulated { // the model's own error is in the difference
		whose += "; 1 as measured, 2 as simulated"
	}
	type both struct {
		layout.Stat
		count [2]int
		time  [2]trace.Time
	}
	var list []both
	for row := range p.t.Rows {
		x := &p.t.Rows[row]
		if x.Kind != layout.RankHeading || x.View > 1 || at.Rank != trace.None && at.Rank != x.Rank {
			continue
		}
		to := w.To
		if own {
			to = w.From + m.times[x.View].Step
		}
		if p.countIn(row, w) > mostCounted {
			c.text(0, r.details.y, r.width, "too many spans: zoom in, or choose a rank", c.plain())
			return
		}
		for _, s := range p.t.Stats(row, w.From, to) {
			if s.Name = trace.Short(s.Name); s.State { // causes of idle time are known of one of both alone
				s.Name, _, _ = strings.Cut(s.Name, ":")
			}
			i := slices.IndexFunc(list, func(b both) bool { return b.Name == s.Name && b.State == s.State })
			if i < 0 {
				i, list = len(list), append(list, both{Stat: s})
			}
			list[i].count[x.View] += s.Count
			list[i].time[x.View] += s.Time
		}
	}
	change := func(b *both) trace.Time { return (b.time[1] - b.time[0]) / n }
	slices.SortStableFunc(list, func(a, b both) int {
		if a.State != b.State {
			return map[bool]int{true: -1, false: 1}[a.State]
		}
		return cmp.Compare(max(change(&b), -change(&b)), max(change(&a), -change(&a)))
	})
	width := []int{9, 10, 9, 10, 11}
	wide := max(8, min(r.width-sum(width), 72))
	c.text(0, r.details.y, r.width, c.words(fmt.Sprintf("%s, %s", what, whose)), c.strong())
	c.line(r.details.y+1, wide, r.width, "", []string{"1: count", "time", "2: count", "time", "2 − 1"}, width, c.faint())
	for i := range list[:max(0, min(len(list), r.details.h-2))] {
		b := &list[i]
		counts := func(k int) string {
			if b.State {
				return ""
			}
			return strconv.FormatFloat(math.Round(10*float64(b.count[k])/float64(n))/10, 'g', -1, 64)
		}
		sign, style := c.swatch(b.Class)
		c.Put(0, r.details.y+2+i, sign, style)
		d := layout.Short(max(change(b), -change(b)))
		if change(b) != 0 {
			d = map[bool]string{true: "-", false: "+"}[change(b) < 0] + d
		}
		c.line(r.details.y+2+i, wide, r.width, b.Name,
			[]string{counts(0), layout.Short(b.time[0] / n), counts(1), layout.Short(b.time[1] / n), d}, width, c.plain())
	}
}

// countIn is how many spans of the row and of those below it are in a range.
func (p *page) countIn(row int, w layout.Window) (n int) {
	for i := row; i < p.t.Rows[row].After; i++ {
		lo, hi := p.t.Touching(i, w.From, w.To)
		n += hi - lo
	}
	return n
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}
