package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/overlapse/overlapse/viz/plain"
)

// A Sweep is a page of many results: the best setting of each workload, and curves and a heat
// map over any two axes.
type Sweep struct {
	Title string
	Facts []Fact
	Best  Table
	Axes  []string // names
	// Scenario is how many of the axes, the first ones, describe what is computed and where.
	// Results that differ in them are never compared by time; of the others, the strategies and
	// their settings, the fastest counts.
	Scenario int
	Cells    []SweepCell
}

// machineAxis is the axis of which every value has a chart of its own.
const machineAxis = "machine"

// A SweepCell is one result.
type SweepCell struct {
	At      []string // value on each axis; "": the axis is not the cell's, as a setting of another strategy
	Time    float64  // µs; 0: the strategy does not apply
	Change  float64  // percent against the captured schedule
	Exposed float64  // µs of communication without computation
}

// sweepData is a sweep as the page's script has it: values are numbers of words.
type sweepData struct {
	Axes  []sweepAxis  `json:"axes"`
	Cells [][3]float64 `json:"cells"` // time, change, exposed
	At    [][]int      `json:"at"`    // by cell: index of the value on each axis; -1: none
}

type sweepAxis struct {
	Name     string   `json:"name"`
	Values   []string `json:"values"`
	Scenario bool     `json:"scenario"`
	Each     bool     `json:"each"` // a chart for each value
}

// sweepView is what sweep.html is filled with.
type sweepView struct {
	Sweep
	Policy       string
	Style        template.CSS
	Data, Script template.JS
	Table        cells
}

// WriteSweep writes the page. It needs no network and no library.
func WriteSweep(w io.Writer, s Sweep) error {
	d := s.data()
	var text bytes.Buffer
	if err := json.NewEncoder(plain.JSON(&text)).Encode(d); err != nil {
		return fmt.Errorf("sweep %q: %w", s.Title, err)
	}
	script := "\"use strict\";\n(() => {\n" + pageFile("node.js") + pageFile("tables.js") + pageFile("sweep.js") + "})();\n"
	v := sweepView{
		Sweep: s, Style: template.CSS(pageFile("page.css")), Data: template.JS(text.String()), Script: template.JS(script),
		Policy: policy(script), Table: s.Best.cells(),
	}
	if err := fill(w, "sweep.html", v); err != nil {
		return fmt.Errorf("sweep %q: %w", s.Title, err)
	}
	return nil
}

// data numbers the values of each axis in the order in which they appear. Axes with one value
// are left out.
func (s *Sweep) data() sweepData {
	d := sweepData{Axes: []sweepAxis{}, Cells: [][3]float64{}, At: [][]int{}}
	var kept []int
	known := make([]map[string]int, len(s.Axes))
	for i, name := range s.Axes {
		known[i] = map[string]int{}
		var values []string
		for _, c := range s.Cells {
			v := c.At[i]
			if _, ok := known[i][v]; v != "" && !ok {
				known[i][v] = len(values)
				values = append(values, v)
			}
		}
		if len(values) > 1 {
			kept = append(kept, i)
			d.Axes = append(d.Axes, sweepAxis{name, values, i < s.Scenario, name == machineAxis})
		}
	}
	round := func(x float64) float64 { return math.Round(1000*x) / 1000 }
	for _, c := range s.Cells {
		at := make([]int, len(kept))
		for j, i := range kept {
			at[j] = -1
			if c.At[i] != "" {
				at[j] = known[i][c.At[i]]
			}
		}
		d.At = append(d.At, at)
		d.Cells = append(d.Cells, [3]float64{round(c.Time), round(c.Change), round(c.Exposed)})
	}
	return d
}
