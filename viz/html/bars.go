package html

import (
	"fmt"
	"math"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"github.com/go-echarts/go-echarts/v2/types"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// A part is one colour of the bars.
type part struct {
	Label string `json:"label"`
	Color string `json:"color"`
	Ink   string `json:"ink"`
	of    func(Bar) trace.Time
}

// parts are in the order in which they are stacked.
func parts() []part {
	return []part{
		{"compute alone", layout.Local.CSS(), black, func(b Bar) trace.Time { return b.Parts.Compute }},
		{"overlapped", "#009e73", black, func(b Bar) trace.Time { return b.Parts.Overlapped }},
		{"exposed communication", layout.Comm.CSS(), black, func(b Bar) trace.Time { return b.Parts.Exposed }},
		{"exposed copies", layout.Copy.CSS(), white, func(b Bar) trace.Time { return b.Parts.Copies }},
		{"idle", "#bdbdbd", black, Bar.idle},
	}
}

// used removes parts that no bar has.
func (r Report) used(all []part) []part {
	var used []part
	for _, p := range all {
		for _, b := range r.Strategies {
			if p.of(b) > 0 {
				used = append(used, p)
				break
			}
		}
	}
	return used
}

func (b Bar) idle() trace.Time {
	return max(0, b.Time-b.Parts.Compute-b.Parts.Overlapped-b.Parts.Exposed-b.Parts.Copies)
}

// change writes how much longer or shorter than the captured schedule a time is, or "".
func (r Report) change(t trace.Time) string {
	if r.Captured <= 0 || t <= 0 {
		return ""
	}
	return percent(float64(t)/float64(r.Captured) - 1)
}

func percent(share float64) string {
	s := fmt.Sprintf("%.1f %%", math.Abs(100*share))
	switch {
	case s == "0.0 %":
		return "±" + s
	case share < 0:
		return "−" + s
	}
	return "+" + s
}

// barOption is the chart of the strategies: a category each, a series each
// part, of which the first carries the line at the captured time, and a last
// series of no length that carries the labels. Categories are
// indices, so that no name is taken for anything but text.
func (r Report) barOption() map[string]any {
	bar := charts.NewBar()
	bar.SetGlobalOptions(
		charts.WithAnimation(false),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(false)}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "item"}),
		charts.WithGridOpts(opts.Grid{Left: "8", Right: "150", Top: "6", Bottom: "8", ContainLabel: opts.Bool(true)}),
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: 0}),
		charts.WithYAxisOpts(opts.YAxis{Type: "category", Inverse: opts.Bool(true)}),
	)
	index := make([]int, len(r.Strategies))
	for i := range index {
		index[i] = i
	}
	bar.SetXAxis(index)
	bar.XYReversal()
	for _, p := range r.used(parts()) {
		data := make([]opts.BarData, len(r.Strategies))
		for i, b := range r.Strategies {
			data[i].Value = int64(p.of(b))
			if b.Bound {
				data[i].ItemStyle = &opts.ItemStyle{Color: p.Color, Opacity: opts.Float(0.5)}
			}
		}
		bar.AddSeries(p.Label, data,
			charts.WithBarChartOpts(opts.BarChart{Stack: "time", BarWidth: "58%"}),
			charts.WithItemStyleOpts(opts.ItemStyle{Color: p.Color}))
	}
	if r.Captured > 0 && len(bar.MultiSeries) > 0 {
		markCaptured(&bar.MultiSeries[0], r.Captured)
	}
	labels := make([]opts.BarData, len(r.Strategies))
	for i, b := range r.Strategies {
		labels[i] = opts.BarData{Value: 0, Label: &opts.Label{Show: opts.Bool(true), Position: "right", Formatter: types.FuncStr(r.barLabel(b))}}
	}
	bar.AddSeries("", labels, charts.WithBarChartOpts(opts.BarChart{Stack: "time"}))
	bar.Validate()
	return bar.JSON()
}

func (r Report) barLabel(b Bar) string {
	if b.Time <= 0 {
		return "did not run"
	}
	label := layout.Short(b.Time)
	if b.Bound {
		label += "  bound"
	} else if c := r.change(b.Time); c != "" {
		label += "  " + c
	}
	return label
}

// markCaptured draws a line across all bars at the captured time.
func markCaptured(s *charts.SingleSeries, captured trace.Time) {
	s.ConfigureSeriesOpts(
		charts.WithMarkLineNameXAxisItemOpts(opts.MarkLineNameXAxisItem{Name: "captured", XAxis: int64(captured)}),
		charts.WithMarkLineStyleOpts(opts.MarkLineStyle{Symbol: []string{"none", "none"}}))
}
