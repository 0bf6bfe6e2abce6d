package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"github.com/go-echarts/go-echarts/v2/types"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// A Chart is horizontal bars, each a stack of parts of the same unit, which ECharts draws. Negative
// values are on the left.
type Chart struct {
	Unit  string
	Parts []Part
	Bars  []Line
	Mark  float64 // a dashed line across all bars; 0: none
	Least float64 // how far the axis goes to either side of zero at least; 0: as far as the bars, and to the left only where one does
}

// A Part is one colour of the bars, "#rrggbb".
type Part struct{ Name, Color string }

// A Line is one bar.
type Line struct {
	Name   string
	Values []float64 // by part; the last ones may be missing
	Error  float64   // the sum is that much more or less; 0: no error bar
	Note   string    // printed on the right of the chart
	Tip    string    // shown by a pointer, on several lines
	Key    string    // name of the run that a click shows; "": none
	Brief  string    // in place of Note where there is no room; "": Note
}

const lineHeight, chartEdge, mostName = 24, 74, 40 // px, px, characters

// Height of the chart in px.
func (c *Chart) Height() int { return lineHeight*len(c.Bars) + chartEdge }

// option is the chart as ECharts has it: a category each bar, a series each part, and two series
// of no length with the error bars and the line across. Notes are the labels of a second axis,
// so that they lie beside all bars.
func (c *Chart) option() map[string]any {
	bar := charts.NewBar()
	names, notes, parts := make([]string, len(c.Bars)), make([]string, len(c.Bars)), make([]string, len(c.Parts))
	brief, keys := make([]string, len(c.Bars)), make([]string, len(c.Bars))
	whiskers := []charts.SeriesOpts{charts.WithMarkLineStyleOpts(opts.MarkLineStyle{
		Symbol: []string{"circle", "circle"}, SymbolSize: 4, Label: &opts.Label{Show: opts.Bool(false)}, LineStyle: &opts.LineStyle{Type: "solid", Width: 1.5},
	})}
	for i, b := range c.Bars {
		names[i], notes[i] = unmarked(cut(b.Name, mostName)), unmarked(b.Note)
		brief[i], keys[i] = unmarked(cmp.Or(b.Brief, b.Note)), b.Key
		if b.Error > 0 {
			whiskers = append(whiskers, charts.WithMarkLineNameCoordItemOpts(opts.MarkLineNameCoordItem{
				Coordinate0: []any{rounded(b.least()), i}, Coordinate1: []any{rounded(b.sum() + b.Error), i},
			}))
		}
	}
	for p, part := range c.Parts {
		parts[p] = part.Name
		data := make([]opts.BarData, len(c.Bars))
		for i, b := range c.Bars {
			data[i] = opts.BarData{Value: 0, Tooltip: &opts.Tooltip{Formatter: types.FuncStr(unmarked(b.Tip))}}
			if p < len(b.Values) {
				data[i].Value = rounded(b.Values[p])
			}
		}
		bar.AddSeries(part.Name, data, stacked, charts.WithItemStyleOpts(opts.ItemStyle{Color: part.Color}))
	}
	none := make([]opts.BarData, len(c.Bars))
	bar.AddSeries("", none, append(whiskers, stacked)...)
	if c.Mark > 0 {
		bar.AddSeries("", none, stacked, charts.WithMarkLineNameXAxisItemOpts(opts.MarkLineNameXAxisItem{XAxis: rounded(c.Mark)}),
			charts.WithMarkLineStyleOpts(opts.MarkLineStyle{Symbol: []string{"none", "none"}, Label: &opts.Label{Show: opts.Bool(false)}, LineStyle: &opts.LineStyle{Type: "dashed"}}))
	}
	bar.SetGlobalOptions(
		charts.WithAnimation(false),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(true), Left: "0", Top: "0", ItemWidth: 18, ItemHeight: 10, Data: parts}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "item"}),
		charts.WithGridOpts(opts.Grid{Left: "4", Right: "4", Top: "28", Bottom: "4", ContainLabel: opts.Bool(true)}),
		charts.WithXAxisOpts(opts.XAxis{
			Type: "value", Min: c.low(), Max: c.end(), SplitNumber: 4,
			AxisLabel: &opts.AxisLabel{ShowMinLabel: opts.Bool(c.low() == 0), ShowMaxLabel: opts.Bool(false), Formatter: types.FuncStr("{value} " + c.Unit)},
		}),
		charts.WithYAxisOpts(opts.YAxis{Type: "category", Inverse: opts.Bool(true)}),
	)
	bar.ExtendYAxis(opts.YAxis{Type: "category", Inverse: opts.Bool(true), Position: "right", Data: notes})
	bar.SetXAxis(names)
	bar.XYReversal()
	bar.Validate()
	label := func(width int) map[string]any { // one line: the next bar's is as close
		return map[string]any{"width": width, "overflow": "truncate", "fontSize": 10}
	}
	return map[string]any{"baseOption": bar.JSON(), "keys": keys, "media": []any{map[string]any{
		"query": map[string]any{"maxWidth": 600}, "option": map[string]any{"grid": map[string]any{"top": 46}, "yAxis": []any{
			map[string]any{"axisLabel": label(128)}, map[string]any{"axisLabel": label(72), "data": brief},
		}},
	}}}
}

// end is where the axis ends: behind all bars and their errors.
func (c *Chart) end() float64 {
	most := max(c.Mark, c.Least)
	for _, b := range c.Bars {
		most = max(most, b.sum()+b.Error)
	}
	return rounded(1.01 * most)
}

// low is where the axis begins: at zero, or before all bars.
func (c *Chart) low() (low float64) {
	low = -c.Least
	for _, b := range c.Bars {
		low = min(low, b.least())
	}
	return rounded(1.01 * low)
}

var stacked = charts.WithBarChartOpts(opts.BarChart{Stack: "parts", BarWidth: "62%"})

func (b *Line) sum() (sum float64) {
	for _, v := range b.Values {
		sum += v
	}
	return sum
}

// least is where the bar's interval begins.
func (b *Line) least() float64 { return b.sum() - b.Error }

func rounded(x float64) float64 { return math.Round(1e4*x) / 1e4 }

// unmarked takes out what means something in ECharts' texts.
func unmarked(text string) string {
	return strings.NewReplacer("{", "(", "}", ")", "|", "/").Replace(text)
}

func cut(text string, most int) string {
	if r := []rune(guard.Line(text)); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return guard.Line(text)
}

// A state is a part of the strategies' bars. Compute is in two parts: beside communication, and the rest, which has fused kernels too.
type state struct {
	Part
	of func(overlap.Times) trace.Time
}

var states = []state{
	{Part{"compute", layout.Local.CSS()}, func(t overlap.Times) trace.Time { return t.Compute - t.Hidden }},
	{Part{overlap.Overlapping.String(), layout.Overlap.CSS()}, func(t overlap.Times) trace.Time { return t.Hidden }},
	{Part{"transfer", layout.Comm.CSS()}, func(t overlap.Times) trace.Time { return t.Transfer }},
	{Part{"waiting", "#e69f00"}, func(t overlap.Times) trace.Time { return t.Waiting }},
	{Part{"copies", layout.Copy.CSS()}, func(t overlap.Times) trace.Time { return t.Copies }},
	{Part{"idle", "#a6a6a6"}, func(t overlap.Times) trace.Time { return t.Idle }},
}

// used are the states that some strategy has.
func (r Report) used() []state {
	return slices.DeleteFunc(slices.Clone(states), func(s state) bool {
		return !slices.ContainsFunc(r.Strategies, func(b Bar) bool { return s.of(b.Times) > 0 })
	})
}

// mostTip is how many ranks a tip lists.
const mostTip = 16

// chart has the strategies that ran; nil: none.
func (r Report) chart() *Chart {
	var most trace.Time
	for _, b := range r.Strategies {
		most = max(most, b.Time)
	}
	if most == 0 {
		return nil
	}
	unit, size := "µs", 1e3
	if most >= 1_000_000 {
		unit, size = "ms", 1e6
	}
	c := &Chart{Unit: unit, Mark: float64(r.Captured) / size}
	used := r.used()
	for _, s := range used {
		c.Parts = append(c.Parts, s.Part)
	}
	for _, b := range r.Strategies {
		if b.Time <= 0 {
			continue
		}
		l := Line{Name: b.Name, Note: b.Note, Brief: b.Note}
		if b.Hidden > 0 { // nothing is known of what fused kernels hide
			l.Note += fmt.Sprintf("  %.0f %% hidden", 100*float64(b.Hidden)/float64(b.Hidden+b.Exposed()))
		}
		for _, s := range used {
			l.Values = append(l.Values, float64(s.of(b.Times))/size)
		}
		tip := []string{guard.Line(b.Name) + ": " + l.Note, "mean of ranks: " + statesOf(b.Times)}
		for rank, t := range b.Ranks {
			if rank == mostTip {
				tip = append(tip, fmt.Sprintf("and %d more ranks", len(b.Ranks)-rank))
				break
			}
			tip = append(tip, fmt.Sprintf("rank %d: %s", rank, statesOf(t)))
		}
		l.Tip = strings.Join(tip, "\n")
		c.Bars = append(c.Bars, l)
	}
	return c
}

// statesOf names the states that take time.
func statesOf(t overlap.Times) string {
	var words []string
	for _, s := range states {
		if of := s.of(t); of > 0 {
			words = append(words, s.Name+" "+layout.Short(of))
		}
	}
	return strings.Join(words, ", ")
}
