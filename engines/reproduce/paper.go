package reproduce

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed claims/*.yaml machines/*.yaml
var files embed.FS // read only

// A Paper is the claims of one paper.
type Paper struct {
	Name   string  `json:"paper" yaml:"paper"` // as users select it
	Source string  `json:"source" yaml:"source"`
	Claims []Claim `json:"claims" yaml:"claims"`
}

// A Claim is one published statement.
type Claim struct {
	ID     string `json:"id" yaml:"id"`
	Says   string `json:"says" yaml:"says"`
	Where  string `json:"where" yaml:"where"`             // figure, table or section
	Chosen string `json:"chosen,omitempty" yaml:"chosen"` // what the text leaves open and was chosen here
	// Status is for claims without points: not checkable.
	Status Status `json:"-" yaml:"status"`
	// Why is the reason of that status or, of a claim with points, the known cause of a difference.
	Why string `json:"why,omitempty" yaml:"why"`
	// Apart is why points are shown but not scored: they follow from what was typed in, hold for any
	// replay, repeat other points, or are of times that neither such a GPU nor its kernels can reach.
	Apart      string `json:"apart,omitempty" yaml:"apart"`
	Experiment `json:"-" yaml:",inline"`
	Points     []Point `json:"-" yaml:"points"`
}

// An Experiment is how a number is measured. Points inherit what they do not set.
type Experiment struct {
	Workload string         `json:"workload,omitempty" yaml:"workload"` // a file of those that Run is given
	With     map[string]any `json:"with,omitempty" yaml:"with"`         // other values of its keys: m is shape.m
	Strategy string         `json:"strategy,omitempty" yaml:"strategy"` // of several with | between them, the one that takes the least
	Against  string         `json:"against,omitempty" yaml:"against"`   // the baseline
	Loop     string         `json:"loop,omitempty" yaml:"loop"`         // which of the two was timed in a loop of its own, the host ahead
	Measure  string         `json:"measure,omitempty" yaml:"measure"`   // measure.go lists them; default time
	As       Quantity       `json:"-" yaml:"as"`
}

// A Point is one published number. Over and Of make it a summary of several experiments;
// More and Less, for an order, name the point with the larger and with the smaller number.
type Point struct {
	Label      string `yaml:"label"`
	Experiment `yaml:",inline"`
	At         map[string]any   `yaml:"at"` // like with, beside the claim's
	Over       []map[string]any `yaml:"over"`
	Of         string           `yaml:"of"`        // mean, geomean, max or min
	Published  float64          `yaml:"published"` // of an order its sign, or the difference if that is published
	Apart      string           `yaml:"apart"`     // as a claim's
	More       *Point           `yaml:"more"`
	Less       *Point           `yaml:"less"`
}

// Papers are the claims of all papers, in order of the selection's names.
func Papers() ([]Paper, error) {
	var all []Paper
	for _, name := range Names() {
		data, err := files.ReadFile("claims/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		var p Paper
		if err := yaml.UnmarshalWithOptions(data, &p, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("claims/%s.yaml: %w", name, err)
		}
		for i := range p.Claims {
			c := &p.Claims[i]
			for k := range c.Points {
				c.Points[k].inherit(c.Experiment)
				c.Points[k].Apart = cmp.Or(c.Points[k].Apart, c.Apart)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// Names are the papers that a user can select.
func Names() []string {
	return []string{"fused", "cusync", "triton-distributed", "resource-aware", "t3", "others", "clusters"}
}

// inherit fills in what a point does not set.
func (p *Point) inherit(e Experiment) {
	for _, f := range []struct{ own, from *string }{
		{&p.Workload, &e.Workload}, {&p.Strategy, &e.Strategy}, {&p.Against, &e.Against}, {&p.Loop, &e.Loop}, {&p.Measure, &e.Measure},
	} {
		if *f.own == "" {
			*f.own = *f.from
		}
	}
	if p.As == "" {
		p.As = e.As
	}
	with := maps.Clone(e.With)
	if with == nil {
		with = map[string]any{}
	}
	maps.Copy(with, p.With)
	maps.Copy(with, p.At)
	p.With = with
	for _, side := range []*Point{p.More, p.Less} {
		if side != nil {
			from := p.Experiment
			if from.As == Order {
				from.As = ""
			}
			side.inherit(from)
		}
	}
}

// keys are the values of a workload file's keys. A bare size belongs to the shape, channels
// too: those of an image, not of a collective.
func keys(sets ...map[string]any) map[string]string {
	top := []string{"operator", "machine", "ranks", "iterations", "type", "times", "sync"}
	out := map[string]string{}
	for _, set := range sets {
		for k, v := range set {
			if !slices.Contains(top, k) && !strings.Contains(k, ".") {
				k = "shape." + k
			}
			out[k] = fmt.Sprint(v)
		}
	}
	return out
}

// name is a point's label, or what it varies.
func (p *Point) name() string {
	if p.Label != "" {
		return p.Label
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(p.At)) {
		if !strings.HasPrefix(k, "kernel.") && k != "times" && k != "sync" {
			words = append(words, fmt.Sprintf("%s %v", k, p.At[k]))
		}
	}
	if p.Of != "" {
		words = append(words, p.Of)
	}
	return strings.Join(words, ", ")
}
