package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

func parse(t testing.TB, text string) *planFile {
	t.Helper()
	p := must.Have(parsePlan(strings.NewReader(text), "plan.yaml"))(t)
	return p
}

func TestParse(t *testing.T) {
	p := parse(t, "inputs: [a, b]\nmachines: [default, 'h100:4']\nstrategies:\n  - bulk\n  - decompose:chunks=2|4:priority=on|off\nclocks: cool\n")
	if p.count() != 2*2*5 || !slices.Equal(p.Values[planMachines], []string{"", "h100:4"}) || !slices.Equal(p.Values[planClocks], []string{"cool"}) {
		t.Errorf("%+v", p)
	}
	var names []string
	for _, s := range p.Strategies {
		names = append(names, s.String())
	}
	if got, want := strings.Join(names, "; "), "bulk; decompose chunks=2 priority=on; decompose chunks=2; decompose priority=on; decompose"; got != want {
		t.Errorf("strategies %s, want %s", got, want)
	}
}

// A mistake in a plan is named with line and column, all of them at once.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"inputs: [a]\n", `plan.yaml:1:7: no strategies (write inputs: and strategies:`},
		{"inputs: [a, a]\nstrategies: [bulk]\n", `plan.yaml:1:13: "a" is there twice`},
		{"inputs: []\nstrategies: [bulk]\n", "plan.yaml:1:9: an empty list"},
		{"inputs: [a]\nstrategies: [bulk, fusd]\n", `plan.yaml:2:20: no strategy "fusd"`},
		{"inputs: [a]\nstrategies: [\"decompose:chunks=0\"]\n", `plan.yaml:2:14: decompose: chunks: 0 is less than`},
		{"inputs: [a]\nstrategy: [bulk]\n", `plan.yaml:2:1: unknown key "strategy" (keys are clocks, inputs, machines,`},
		{"inputs: [a]\nstrategies: [bulk]\nwhat_if: [link=2]\n", `plan.yaml:3:11: `},
		{"inputs: [a]\nstrategies: [bulk]\nclocks: [warm]\n", `plan.yaml:3:10: "warm" is none of captured, cool, sustained`},
		{"inputs: {a: b}\nstrategies: [bulk]\n", "no single value"},
		{"inputs: [a\n", "plan.yaml:1:9: "},
		{"", "plan.yaml: no list of keys and values"},
		// What a small file may ask for is counted before it is made.
		{"inputs: [a]\nstrategies: ['decompose:chunks=2" + strings.Repeat("|2", 5000) + ":channels=2" + strings.Repeat("|2", 3000) + "']\n", "plan.yaml:2:14: more than 100000 combinations of settings (run several plans)"},
		{"inputs: [a]\nstrategies: ['decompose:" + strings.Repeat("c", 400_000) + "=2" + strings.Repeat("|2", 90_000) + "']\n", "(it has variant, chunks,"},
		{"inputs: [a" + list(2000) + "]\nranks: [0" + list(1000) + "]\nstrategies: [bulk]\n", "plan.yaml: more than 1000000 cells (run several plans)"},
	} {
		_, err := parsePlan(strings.NewReader(c.text), "plan.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// list is words after the first one of a list.
func list(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", x%d", i)
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add("inputs: [a]\nstrategies: ['decompose:chunks=2|4']\nclocks: [captured, cool]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parsePlan(strings.NewReader(text), "plan.yaml"); err == nil && p.count() == 0 {
			t.Errorf("a plan without cells: %+v", p)
		}
	})
}

const small = "inputs: [a, b]\nmachines: [default, h100]\nstrategies: [bulk, 'decompose:chunks=2|4', fused]\nclocks: [captured, cool]\n"

// The digest changes with the plan, with the content of its files, the program and what is read of the
// inputs, and with nothing else.
func TestDigest(t *testing.T) {
	type sweep struct {
		text, version, reading, content string
		err                             error
	}
	digest := func(of sweep) string {
		t.Helper()
		file := func(name string) (string, error) { return of.content + name, of.err }
		d, err := parse(t, of.text).digest(of.version, of.reading, file, file)
		if !errors.Is(err, of.err) {
			t.Fatal(err)
		}
		return d
	}
	first := sweep{text: small, version: "v1", content: "content of "}
	if again := first; digest(again) != digest(first) || digest(first) == "" {
		t.Error("two digests of one sweep")
	}
	known := map[string]string{digest(first): "the first"}
	for name, change := range map[string]func(*sweep){
		"version": func(s *sweep) { s.version = "v2" },
		"reading": func(s *sweep) { s.reading = "--skip-bad" },
		"content": func(s *sweep) { s.content = "new " },
		"input":   func(s *sweep) { s.text = strings.Replace(small, "[a, b]", "[a, c]", 1) },
		"machine": func(s *sweep) { s.text = strings.Replace(small, "h100", "h200", 1) },
		"setting": func(s *sweep) { s.text = strings.Replace(small, "2|4", "2|8", 1) },
		"what if": func(s *sweep) { s.text += "what_if: links=2\n" },
		"clock":   func(s *sweep) { s.text = strings.Replace(small, "cool", "sustained", 1) },
		"ranks":   func(s *sweep) { s.text += "ranks: 8\n" },
		"GPU":     func(s *sweep) { s.text += "retargets: h200\n" },
	} {
		of := first
		change(&of)
		d := digest(of)
		if same := known[d]; same != "" {
			t.Errorf("another %s: the digest is that of %s", name, same)
		}
		known[d] = name
	}
	lost := first
	lost.err = errors.New("no such file")
	digest(lost)
}

// Every cell is in one shard, whatever their number, and shards have equally many of each workload.
func TestShard(t *testing.T) {
	p := parse(t, small)
	for n := 1; n <= 40; n++ {
		seen := map[string]bool{}
		for i := range n {
			parts, cells := p.shard(i, n)
			counted := 0
			for _, part := range parts {
				for _, c := range part {
					seen[fmt.Sprint(c.sweepInput, c.Strategy)] = true
				}
				if each, of := 4, len(part); of < each/n || of > (each+n-1)/n || of == 0 {
					t.Fatalf("shard %d of %d has %d of %d cells of %v", i, n, of, each, part[0].sweepInput)
				}
				counted += len(part)
			}
			if counted != cells {
				t.Fatalf("shard %d of %d: %d cells, said to be %d", i, n, counted, cells)
			}
		}
		if len(seen) != p.count() {
			t.Fatalf("%d shards have %d of %d cells", n, len(seen), p.count())
		}
	}
}
