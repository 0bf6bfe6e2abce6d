package machine

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// broken are edits of testdata/profile.yaml; testdata/broken.txt has what each is told.
var broken = []struct{ name, old, new string }{
	{"missing number", "  cus: {value: 80, source: \"NVIDIA V100 data sheet\"}\n", ""},
	{"missing section", "clock:", "clocks:"},
	{"unknown key", "  threads: {value: 2048,", "  warps: {value: 64, source: \"x\"}\n  threads: {value: 2048,"},
	{"misspelled key", "store_cu:", "store_sm:"},
	{"no source", "cus: {value: 80, source: \"NVIDIA V100 data sheet\"}", "cus: {value: 80}"},
	{"bare number", "cus: {value: 80, source: \"NVIDIA V100 data sheet\"}", "cus: 80"},
	{"empty source", "cus: {value: 80, source: \"NVIDIA V100 data sheet\"}", "cus: {value: 80, source: \"\"}"},
	{"source and assumed", "cus: {value: 80, ", "cus: {value: 80, assumed: \"as h100\", "},
	{"no value", "cus: {value: 80, ", "cus: {"},
	{"no unit", "pair: {value: 47.9 GB/s", "pair: {value: 47.9"},
	{"wrong unit", "pair: {value: 47.9 GB/s", "pair: {value: 47.9 us"},
	{"unknown unit", "pair: {value: 47.9 GB/s", "pair: {value: 47.9 Gbps"},
	{"unit on a count", "cus: {value: 80", "cus: {value: 80 SM"},
	{"negative", "pair: {value: 47.9 GB/s", "pair: {value: -1 GB/s"},
	{"no number", "pair: {value: 47.9 GB/s", "pair: {value: fast"},
	{"infinite", "pair: {value: 47.9 GB/s", "pair: {value: Inf GB/s"},
	{"infinite with its unit", "pair: {value: 47.9 GB/s", "pair: {value: 1e308 GB/s"},
	{"too large", "pair: {value: 47.9 GB/s", "pair: {value: 1e10 GB/s"},
	{"too small", "pair: {value: 47.9 GB/s", "pair: {value: 1e-300 GB/s"},
	{"too large a count", "ranks: {value: 4,", "ranks: {value: 9223372036854775807,"},
	{"needed but unknown", "pair: {value: 47.9 GB/s, source:", "pair: {unknown:"},
	{"unknown with a number", "pair: {value: 47.9 GB/s, source:", "pair: {value: 47.9 GB/s, unknown:"},
	{"key of an entry", "cus: {value: 80, ", "cus: {value: 80, from: here, "},
	{"unknown topology", "topology: mesh", "topology: donut"},
	{"topology is no text", "topology: mesh", "topology: [mesh]"},
	{"zero", "send: {value: 23.08 GB/s", "send: {value: 0 GB/s"},
	{"fraction of a GPU", "ranks: {value: 4,", "ranks: {value: 2.5,"},
	{"rows out of order", "unknown: \"no recorded curve: the law alone predicts\"", "source: x\n      rows: [[4, 12, 1 MiB, 20 us], [4, 12, 1 KiB, 10 us]]"},
	{"short row", "unknown: \"no recorded curve: the law alone predicts\"", "source: x\n      rows: [[4, 12, 1 MiB]]"},
	{"cell without unit", "unknown: \"no recorded curve: the law alone predicts\"", "source: x\n      rows: [[4, 12, 1 MiB, 20]]"},
	{"zero in a table", "unknown: \"no recorded curve: the law alone predicts\"", "source: x\n      rows: [[4, 12, 0 B, 1 us]]"},
	{"rows are no list", "unknown: \"no recorded curve: the law alone predicts\"", "source: x\n      rows: 3"},
	{"no rows", "unknown: \"no recorded curve: the law alone predicts\"", "source: x\n      rows: []"},
	{"groups of other CUs", "  threads: {value: 2048,", "  groups: {source: x, rows: [[2, 3]]}\n  threads: {value: 2048,"},
	{"no YAML", "gpu:\n", "gpu: {\n"},
	{"key twice", "  name: \"Tesla V100-SXM2-32GB\"\n", "  name: \"Tesla V100-SXM2-32GB\"\n  name: \"V100\"\n"},
	{"a list", "profile: \"v100\"\n", "- profile\n"},
}

func TestBrokenProfiles(t *testing.T) {
	good := ReadFile(t, "testdata/profile.yaml")
	if _, err := Parse(strings.NewReader(good), "v100.yaml"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, b := range broken {
		if !strings.Contains(good, b.old) {
			t.Fatalf("%s: %q is not in testdata/profile.yaml", b.name, b.old)
		}
		_, err := Parse(strings.NewReader(strings.Replace(good, b.old, b.new, 1)), "v100.yaml")
		if err == nil {
			t.Errorf("%s: no error", b.name)
			continue
		}
		var se *trace.SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%s: %T has no position", b.name, err)
		}
		fmt.Fprintf(&out, "-- %s\n%v\n", b.name, err)
	}
	Golden(t, "testdata/broken.txt", out.String())
}

func TestEmptyProfileNamesEveryKey(t *testing.T) {
	_, err := Parse(strings.NewReader(""), "empty.yaml")
	if err == nil {
		t.Fatal("no error")
	}
	var m Machine
	for _, e := range Entries(&m) {
		if e.part == "" && !strings.Contains(err.Error(), e.Key+" is missing") {
			t.Errorf("%s is not named", e.Key)
		}
	}
}

func TestReadError(t *testing.T) {
	if _, err := Parse(iotest.ErrReader(errors.New("disk gone")), "x.yaml"); err == nil || err.Error() != "x.yaml: disk gone" {
		t.Errorf("got %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	_, err := Parse(strings.NewReader(strings.Repeat("#\n", maxProfile)), "x.yaml")
	if err == nil || err.Error() != "x.yaml: larger than 256 KiB (is it a machine profile?)" {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	good := must.Have(os.ReadFile("testdata/profile.yaml"))(f)
	f.Add(string(good))
	f.Add("gpu: {cus: {value: 1, source: x}}")
	f.Add("base: h100\ngpu: {groups: [[2, 66]], cus: 132}\nnetwork: {node: 8}")
	f.Add("base: t3\nprofile: \"a\"\ngpu: {name: x, groups: []}")
	f.Add("base: h200\nscale: {cus: 0.31, flops: 3, memory: 1e-3, links: 7, clock: 1e3}")
	f.Add("a: [[[")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Parse(strings.NewReader(s), "f.yaml")
		if err != nil {
			return
		}
		var b strings.Builder
		must.Do(t, WriteYAML(m, &b))
		again, err := Parse(strings.NewReader(b.String()), "f.yaml")
		if err != nil {
			t.Fatalf("written and not readable: %v\n%s", err, b.String())
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Errorf("written and read again differs:\n%s", d)
		}
	})
}

func ReadFile(t *testing.T, name string) string {
	t.Helper()
	b := must.Have(os.ReadFile(name))(t)
	return string(b)
}

// Golden compares with a file, or rewrites it with -update.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	if d := cmp.Diff(ReadFile(t, file), got); d != "" {
		t.Errorf("%s (run with -update):\n%s", file, d)
	}
}

// Edits is symmetric, 0 for equal words only, and no more than the longer word has letters.
func TestEdits(t *testing.T) {
	word := rapid.StringMatching(`[a-cµ]{0,6}`)
	rapidtest.Check(t, func(t *rapid.T) {
		a, b := []rune(word.Draw(t, "a")), []rune(word.Draw(t, "b"))
		n := edits(a, b)
		if n != edits(b, a) || (n == 0) != (string(a) == string(b)) || n > max(len(a), len(b)) {
			t.Errorf("%q to %q: %d, back %d", string(a), string(b), n, edits(b, a))
		}
	})
}
