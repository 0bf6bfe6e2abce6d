package machine

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite profiles and goldens")

// load is Load of a profile that must be good.
func load(t testing.TB, name string) Machine {
	t.Helper()
	m, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile string
		gpus    int
	}{
		{"h200x4", "h200", 4},
		{"h200x1", "h200", 1},
		{"h200", "h200", 4},
		{"mi300x", "mi300x", 8},
		{"mi300xx2", "mi300x", 2},
		{"v100x4", "v100", 4},
		{"mi210ib", "mi210ib", 2},
		{"h800x16", "h800", 16},
	} {
		m := load(t, c.name)
		if m.Profile != c.profile || m.GPUs != c.gpus {
			t.Errorf("%s: profile %s with %d GPUs", c.name, m.Profile, m.GPUs)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for name, want := range map[string]string{
		"h200x9":      "h200x9: 9 GPUs: h200 joins at most 8 (h200x1 to h200x8)",
		"v100x8":      "v100x8: 8 GPUs: v100 joins at most 4 (v100x1 to v100x4)",
		"b200":        `unknown machine "b200" (have a100, h100, h200, h800, mi210, mi210ib, mi250x, mi300x, t3, torus128, v100 with a number of GPUs, as in h200x4, or a path to a YAML file)`,
		"h200x0":      `unknown machine "h200x0" (have a100, h100, h200, h800, mi210, mi210ib, mi250x, mi300x, t3, torus128, v100 with a number of GPUs, as in h200x4, or a path to a YAML file)`,
		"../machine":  `unknown machine "../machine" (have a100, h100, h200, h800, mi210, mi210ib, mi250x, mi300x, t3, torus128, v100 with a number of GPUs, as in h200x4, or a path to a YAML file)`,
		"":            `unknown machine "" (have a100, h100, h200, h800, mi210, mi210ib, mi250x, mi300x, t3, torus128, v100 with a number of GPUs, as in h200x4, or a path to a YAML file)`,
		"x":           `unknown machine "x" (have a100, h100, h200, h800, mi210, mi210ib, mi250x, mi300x, t3, torus128, v100 with a number of GPUs, as in h200x4, or a path to a YAML file)`,
		"profiles/h2": `unknown machine "profiles/h2" (have a100, h100, h200, h800, mi210, mi210ib, mi250x, mi300x, t3, torus128, v100 with a number of GPUs, as in h200x4, or a path to a YAML file)`,
	} {
		_, err := Load(name)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v\nwant %s", name, err, want)
		}
		var unknown *UnknownError
		if errors.As(err, &unknown) != strings.HasPrefix(want, "unknown") {
			t.Errorf("%q: %T", name, err)
		}
	}
}

// Profiles are kept as WriteYAML writes them, so that a change of one number is a diff of one line.
func TestProfilesAreCanonical(t *testing.T) {
	for _, name := range Names() {
		file := "profiles/" + name + ".yaml"
		text, err := os.ReadFile(file) // -update may just have changed it
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(bytes.NewReader(text), file)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := m.WriteYAML(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, file, b.String())
		again, err := Parse(strings.NewReader(b.String()), file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Errorf("%s: written and read again differs:\n%s", file, d)
		}
		if m.Profile != name {
			t.Errorf("%s holds profile %s", file, m.Profile)
		}
	}
}

// What nobody measured is visible. Of h200 only what no isolated benchmark shows is left.
func TestAssumptions(t *testing.T) {
	var keys []string
	for _, a := range load(t, "h200").Assumptions() {
		keys = append(keys, a.Key)
		if a.Why == "" || a.Value == "" {
			t.Errorf("%s: no reason or value", a.Key)
		}
	}
	want := []string{
		"engines.count", "launch.event",
		"library.all_gather.grain", "library.all_gather.beside_library", "library.all_gather.beside_tiles", "library.all_gather.beside_memory", "library.all_gather.beside_latency",
		"library.reduce_scatter.grain", "library.all_to_all.grain",
	}
	if d := cmp.Diff(want, keys); d != "" {
		t.Error(d)
	}
	absent := slices.ContainsFunc(load(t, "mi210").Assumptions(), func(a Assumption) bool {
		return a.Key == "clock.knee" && a.Absent && a.Value == "unknown"
	})
	if !absent {
		t.Error("mi210: clock.knee does not show as absent")
	}
}

func TestQuantityString(t *testing.T) {
	for _, s := range []string{"381 GB/s", "4.259 TB/s", "1.375 us", "228 KiB", "103808 B", "0 B", "824.4 TFLOP/s", "0.6299", "132"} {
		parsed := false
		for d := range numDimensions {
			if q, err := parseQuantity(s, d); err == nil {
				parsed = true
				if q.String() != s {
					t.Errorf("%s reads as %s", s, q)
				}
			}
		}
		if !parsed {
			t.Errorf("%s is of no dimension", s)
		}
	}
	q, err := parseQuantity("1.5 us", span)
	if err != nil || q.Value != 1.5e-6 {
		t.Errorf("1.5 us is %v, %v", q.Value, err)
	}
}

func TestUnitsBelongToOneDimension(t *testing.T) {
	seen := map[string]bool{}
	for _, u := range units {
		if seen[u.name] {
			t.Errorf("%s stands twice", u.name)
		}
		seen[u.name] = true
	}
	for d := range numDimensions {
		if u := usualUnit(d); u != "" && !seen[u] {
			t.Errorf("%v is written in %s, which is no unit", d, u)
		}
	}
}

func TestTableInterpolation(t *testing.T) {
	points := []point{{1, 10}, {4, 40}, {16, 10}}
	for _, c := range []point{{0.5, 10}, {1, 10}, {2, 20}, {4, 40}, {8, 20}, {16, 10}, {99, 10}} {
		if y := at(points, c.x); off(y, c.y) > 1e-12 {
			t.Errorf("at %v: %v, want %v", c.x, y, c.y)
		}
	}
}
