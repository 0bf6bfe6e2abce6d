package reproduce

import (
	"html/template"
	"io"
	"math"
)

// reproducedPage is a page without scripts and without links: a section for each claim, with
// two bars for each point.
const reproducedPage = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Published claims and replays</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color-scheme: light dark }
table { border-collapse: collapse; width: 100% } td { padding: 1px 8px; vertical-align: middle } td.n { text-align: right; white-space: nowrap }
h2 { font-size: 1.05em; margin: 1.6em 0 .2em } p { margin: .1em 0 } .s { font-weight: 600 }
.c { width: 45% } svg { display: block; width: 100%; height: 22px }
.p { fill: #999999 } .h { fill: #0072b2 } .x { fill: #d55e00 } .z { stroke: currentColor }
</style></head><body>
<h1>Published claims and replays</h1>
<p>Grey: published. Blue: replayed, within tolerance. Orange: replayed, not within tolerance. Nothing was fitted to a claim.</p>
{{range .}}<h2 id="{{.ID}}">{{.ID}}: {{.Says}}</h2>
<p><span class="s">{{.Status}}</span>. {{.Paper}}, {{.Where}}.{{with .Chosen}} Chosen here: {{.}}.{{end}}{{with .Why}} Cause or reason: {{.}}.{{end}}</p>
{{if .Rows}}<table>{{range .Rows}}<tr><td>{{.Label}}</td><td class="n">{{.Published}}</td><td class="n">{{.Here}}</td><td class="c">{{if .Class}}<svg viewBox="0 0 100 22" preserveAspectRatio="none" role="img" aria-label="published {{.Published}}, replayed {{.Here}}"><rect class="p" x="{{.X}}" y="2" width="{{.W}}" height="8"/><rect class="{{.Class}}" x="{{.HereX}}" y="12" width="{{.HereW}}" height="8"/><line class="z" x1="{{.Zero}}" x2="{{.Zero}}" y1="0" y2="22"/></svg>{{end}}</td></tr>
{{end}}</table>{{end}}{{end}}</body></html>
`

// A claimSection is a claim with the bars of its points, in percent of the chart's width.
type claimSection struct {
	ClaimResult
	Rows []pointBars
}

// Class is empty where there is nothing to draw: orders.
type pointBars struct {
	Label, Published, Here, Class string
	Zero, X, W, HereX, HereW      float64
}

// WritePage writes the results as a page of HTML.
func WritePage(w io.Writer, results []ClaimResult) error {
	page, err := template.New("reproduced").Parse(reproducedPage)
	if err != nil {
		return err
	}
	sections := make([]claimSection, len(results))
	for i, r := range results {
		sections[i] = claimSection{r, barsOf(r.Points)}
	}
	return page.Execute(w, sections)
}

// barsOf lays out the points of a claim. Points of one quantity have one scale; speedups start
// at 1.
func barsOf(points []PointResult) []pointBars {
	from := func(p PointResult) float64 {
		if p.As == Speedup {
			return 1
		}
		return 0
	}
	type ends struct{ low, high float64 }
	scale := map[Quantity]ends{}
	for _, p := range points {
		s := scale[p.As]
		for _, x := range []float64{p.Published - from(p), p.Here - from(p)} {
			s = ends{min(s.low, x), max(s.high, x)}
		}
		scale[p.As] = s
	}
	rows := make([]pointBars, len(points))
	for i, p := range points {
		s := scale[p.As]
		unit := 100 / max(s.high-s.low, 1e-12)
		at := func(x float64) (left, width float64) {
			x -= from(p)
			return round2((min(0, x) - s.low) * unit), round2(math.Abs(x) * unit)
		}
		r := pointBars{Label: p.Label, Published: p.As.Format(p.Published), Here: p.As.Format(p.Here), Class: "h", Zero: round2(-s.low * unit)}
		if p.Why != "" {
			r.Here = p.Why
		}
		if !p.Within {
			r.Class = "x"
			r.Here += " (not within tolerance)"
		}
		if p.As == Order {
			r.Class = ""
		}
		r.X, r.W = at(p.Published)
		r.HereX, r.HereW = at(p.Here)
		rows[i] = r
	}
	return rows
}

func round2(x float64) float64 { return math.Round(100*x) / 100 }
