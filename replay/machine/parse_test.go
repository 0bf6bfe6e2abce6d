package machine

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

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

func ReadFile(t testing.TB, name string) string {
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
