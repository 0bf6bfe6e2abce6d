package score

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// selected are the selections that a text names, as strategy:setting=value, with alternatives after the first value.
var (
	selected     = regexp.MustCompile(`\b[a-z]+(:[a-z_]+=[A-Za-z0-9_*+%/.|-]+)+`)
	alternatives = regexp.MustCompile(`\|[^:]*`)
)

// withEvidence are the settings, strategy:name, of which another value than the default has been run on hardware (measured),
// or at least is in a claim or a sample.
func withEvidence(t *testing.T) (measured, shown map[string]bool) {
	t.Helper()
	measured, shown = map[string]bool{}, map[string]bool{}
	add := func(to map[string]bool, s plan.Selection) {
		for _, p := range s.Strategy.Params {
			if s.Values[p.Name] != p.Default {
				to[s.Strategy.Name+":"+p.Name] = true
			}
		}
	}
	d := must.Have(dataset.Open(samples + "/measurements"))(t)
	for _, set := range d.Sets {
		for i := range set.Rows {
			if s, err := selectionOf(&set.Rows[i]); err == nil {
				add(measured, s)
			}
		}
	}
	for _, e := range engines.All() {
		for _, p := range e.Params {
			if slices.ContainsFunc(p.Measured, func(v string) bool { return v != p.Default }) { // of rows elsewhere
				measured[e.Name+":"+p.Name] = true
			}
		}
	}
	read := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "/measurements/") {
			return err
		}
		if !slices.Contains([]string{".yaml", ".md", ".go"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		list := selected.FindAllString(string(text), -1)
		if strings.Contains(path, "/policies/") {
			set, err := engines.ReadSettings(strings.NewReader(string(text)), path)
			if err != nil {
				return err
			}
			list = append(list, "tilesync:"+set)
		}
		for _, text := range list {
			if all, err := engines.ParseSelection(alternatives.ReplaceAllString(text, "")); err == nil {
				add(shown, all[0])
			}
		}
		return nil
	}
	for _, dir := range []string{samples, "claims"} {
		must.Do(t, filepath.WalkDir(dir, read))
	}
	return measured, shown
}

// A setting of which no measurement, claim or sample has another value than the default is experimental, and no other.
func TestExperimentalSettings(t *testing.T) {
	measured, shown := withEvidence(t)
	var want, got []string
	for _, e := range engines.All() {
		for _, p := range e.Params {
			name := e.Name + ":" + p.Name
			if !measured[name] && !shown[name] {
				want = append(want, name)
			}
			if p.Experimental {
				got = append(got, name)
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("experimental settings (-without evidence +marked):\n%s", d)
	}
}

// All settings that a comparison of all strategies tries have been measured; those that tuning varies have been measured
// or are in a claim or a sample.
func TestAllTriesWhatWasMeasured(t *testing.T) {
	measured, shown := withEvidence(t)
	tried := func(list []plan.Selection, err error) []plan.Selection {
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	var m machine.Machine
	m.Engines.Rate = machine.Quantity{Value: 1e9, Mark: machine.Sourced}
	gathers := &workload.Workload{Collectives: []workload.Collective{{Op: trace.AllGather}}}
	all := slices.Concat(tried(engines.ParseSelection("all")), tried(engines.Cheap()), tried(engines.ParseSelection(engines.OfServing)), tried(engines.OfCarriers(gathers, &m, true)))
	searched := must.Have(engines.ParseCandidates("all"))(t)
	said := map[string]bool{}
	check := func(list []plan.Selection, ok func(name string) bool) {
		for _, s := range list {
			for _, p := range s.Strategy.Params {
				if name := s.Strategy.Name + ":" + p.Name; s.Values[p.Name] != p.Default && !ok(name) && !said[name] {
					said[name] = true
					t.Errorf("%s is tried, as %s, and has no evidence", name, s)
				}
			}
		}
	}
	check(all, func(name string) bool { return measured[name] })
	check(slices.Concat(searched...), func(name string) bool { return measured[name] || shown[name] })
}
