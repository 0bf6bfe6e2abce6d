package score

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
var papers embed.FS // read only

// A Paper is the claims of one paper.
type Paper struct {
	Name   string  `yaml:"paper"` // as users select it
	Source string  `yaml:"source"`
	Claims []Claim `yaml:"claims"`
}

// A Claim is one published statement: rows with a tolerance, its points.
type Claim struct {
	ID     string `json:"id" yaml:"id"`
	Says   string `json:"says" yaml:"says"`
	Where  string `json:"where" yaml:"where"`             // figure, table or section
	Chosen string `json:"chosen,omitempty" yaml:"chosen"` // what the text leaves open and was chosen here
	// Why is the reason of a claim that is not checkable or, of one with points, the known cause of a difference.
	Why string `json:"why,omitempty" yaml:"why"`
	// Apart is why points are shown but not scored: they follow from what was typed in, hold for any
	// replay, repeat other points, or are of times that neither such a GPU nor its kernels can reach.
	Apart  string  `json:"apart,omitempty" yaml:"apart"`
	Paper  string  `json:"paper" yaml:"-"`
	Status Status  `json:"status" yaml:"status"` // in the files: of claims without points
	Points []Point `json:"points,omitempty" yaml:"points"`

	Experiment `json:"-" yaml:",inline"` // of points that do not set it
	As         quantity                  `json:"-" yaml:"as"`
}

// A Point is one published number, and that of a replay. Over and Of make it a summary of several
// experiments; More and Less, for an order, name the point with the larger and with the smaller number.
type Point struct {
	Label      string   `json:"label,omitempty" yaml:"label"`
	As         quantity `json:"as" yaml:"as"`
	Published  float64  `json:"published" yaml:"published"` // of an order its sign, or the difference if that is published
	Here       float64  `json:"here" yaml:"-"`
	Links      float64  `json:"links,omitempty" yaml:"-"` // of a bandwidth: the rate of the slowest link between the ranks
	Within     bool     `json:"within_tolerance" yaml:"-"`
	SameSign   bool     `json:"same_sign" yaml:"-"`
	Apart      string   `json:"apart,omitempty" yaml:"apart"` // as a claim's
	Why        string   `json:"why,omitempty" yaml:"-"`       // why nothing was replayed
	Experiment `yaml:",inline"`

	At   map[string]any   `json:"-" yaml:"at"` // like with, beside the claim's
	Over []map[string]any `json:"-" yaml:"over"`
	Of   string           `json:"-" yaml:"of"` // mean, geomean, max or min
	More *Point           `json:"-" yaml:"more"`
	Less *Point           `json:"-" yaml:"less"`
}

// An Experiment is how a number is measured. Points inherit what they do not set.
type Experiment struct {
	Workload string         `json:"workload,omitempty" yaml:"workload"` // a file of those that Claims is given
	With     map[string]any `json:"with,omitempty" yaml:"with"`         // other values of its keys: m is shape.m
	Strategy string         `json:"strategy,omitempty" yaml:"strategy"` // of several with | between them, the one that takes the least
	Against  string         `json:"against,omitempty" yaml:"against"`   // the baseline
	Loop     string         `json:"loop,omitempty" yaml:"loop"`         // which of the two was timed in a loop of its own, the host ahead
	Measure  string         `json:"measure,omitempty" yaml:"measure"`   // measure.go lists them; default time
}

// Papers are the claims of all papers, in order of the selection's names.
func Papers() ([]Paper, error) {
	var all []Paper
	for _, name := range PaperNames() {
		data, err := papers.ReadFile("claims/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		var p Paper
		if err := yaml.UnmarshalWithOptions(data, &p, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("claims/%s.yaml: %w", name, err)
		}
		for i := range p.Claims {
			c := &p.Claims[i]
			c.Paper = p.Name
			for k := range c.Points {
				c.Points[k].inherit(c.Experiment, c.As)
				c.Points[k].Apart = cmp.Or(c.Points[k].Apart, c.Apart)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// PaperNames are the papers that a user can select.
func PaperNames() []string {
	return []string{"fused", "cusync", "triton-distributed", "resource-aware", "t3", "others", "clusters"}
}

// inherit fills in what a point does not set. Without a label it has what it varies.
func (p *Point) inherit(e Experiment, as quantity) {
	p.Workload, p.Strategy, p.Against = cmp.Or(p.Workload, e.Workload), cmp.Or(p.Strategy, e.Strategy), cmp.Or(p.Against, e.Against)
	p.Loop, p.Measure, p.As = cmp.Or(p.Loop, e.Loop), cmp.Or(p.Measure, e.Measure), cmp.Or(p.As, as)
	with := map[string]any{}
	for _, set := range []map[string]any{e.With, p.With, p.At} {
		maps.Copy(with, set)
	}
	p.With = with
	p.Label = cmp.Or(p.Label, p.varies())
	if as = p.As; as == order {
		as = ""
	}
	for _, side := range []*Point{p.More, p.Less} {
		if side != nil {
			side.inherit(p.Experiment, as)
		}
	}
}

// varies is what distinguishes a point from others of its claim.
func (p *Point) varies() string {
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
