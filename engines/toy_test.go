package engines_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// toy is a whole strategy: it writes the two operations of each pair on their own
// streams and waits for nothing between them, so it is wrong about dependencies
// and as fast as the longer of the two.
var toy = plan.Strategy{
	Name:    "toy",
	From:    "this test",
	Summary: "GEMM and collective side by side",
	Params: []plan.Param{
		{Name: "gap", Default: "0", Doc: "µs before the collective", Tune: []int{5, 50}, Ways: []plan.Way{{Effort: plan.ByFlag, Library: "toylib", Version: "3", Line: "TOY_GAP=%gap"}}},
	},
	Ways:       []plan.Way{{Effort: plan.ByCode, Library: "toylib", Note: "call toy()"}},
	MeasuredOn: []trace.CollectiveOp{trace.AllReduce},
	Plan: func(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
		if pl.Take(plan.WithCollective); len(pl.Pairs) == 0 {
			return nil, "no pair with a collective was found"
		}
		return func(r *plan.Rank, p *plan.Pair) {
			compute, comm := r.Split(p)
			r.BeginPair(p)
			a, b := r.Stream(compute.Queue), r.Added("beside")
			a.Launch(0, plan.LaunchOf(compute, pl.MeasuredKernel(compute, compute.Dur())))
			b.Launch(trace.Time(v.Int("gap"))*1000, plan.LaunchOf(comm, pl.Collective(comm, pl.Chunks(p.Coll, 1, 0, nil))))
			r.Written(a, compute)
			r.Written(b, comm)
			r.EndPair()
		}, ""
	},
}

// A strategy is a value of package plan and nothing else: what is written in
// twenty lines is compared, recorded and refused like those of the table.
func TestToyStrategy(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	out := enginetest.Ran(engines.Run(w, m, plan.Selection{Strategy: toy}, plan.Scenario{}, replay.Options{}))(t)
	if gemm, comm := plantest.MoeDown.Gemm, plantest.MoeDown.Comm; out.Simulated < max(gemm, comm) || out.Simulated > gemm+comm {
		t.Errorf("%d ns, want at least the longer of %d and %d, and less than their sum", out.Simulated, gemm, comm)
	}
	w.Pairs = nil
	if out, err := engines.Run(w, m, plan.Selection{Strategy: toy}, plan.Scenario{}, replay.Options{}); err != nil || out.Why == "" {
		t.Errorf("without pairs: %v, %q", err, out.Why)
	}
}

// A strategy needs its folder and a row of engines.All, nothing else: tuning, advice, what was
// measured and its tables follow from the value, and no other package names one.
func TestToyNeedsNothingElse(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	candidates := must.Have(toy.Candidates(nil))(t)
	captured := enginetest.Outcome(t, w, m, "captured", nil)
	ladders, err := verdict.Climb(w, m, captured, [][]plan.Selection{candidates}, plan.Scenario{}, replay.Options{}, nil, func() {})
	if err != nil || len(ladders) != 1 {
		t.Fatal(len(ladders), err)
	}
	tuned := ladders[0]
	if len(tuned.Tried) != 3 || tuned.Tried[0].Values["gap"] == "50" || tuned.Tried[2].Values["gap"] != "50" {
		t.Errorf("tuned %d", len(tuned.Tried))
	}
	sel := plan.Selection{Strategy: toy, Values: plan.Values{"gap": "5"}}
	out := enginetest.Ran(engines.Run(w, m, sel, plan.Scenario{}, replay.Options{}))(t)
	base := enginetest.Outcome(t, w, m, "captured", nil)
	a := verdict.AdviceOn(w, base, out)
	if len(a.Ways) != 2 || a.Ways[0].String() != "toylib: call toy()" || a.Ways[1].String() != "toylib 3: TOY_GAP=5" || a.Effort != plan.ByCode {
		t.Errorf("advice: %+v", a.Ways)
	}
	if len(a.Where) != 1 || !strings.Contains(a.Where[0], "all_to_all of 64 MiB") {
		t.Errorf("where: %q", a.Where)
	}
	for bytes, want := range map[int64]string{0: "all_to_all of unknown size (", 64 << 20: "all_to_all of about 64 MiB ("} {
		guessed := out
		guessed.Changed.Workload = new(*out.Changed.Workload)
		guessed.Changed.Workload.Collectives = slices.Clone(out.Changed.Workload.Collectives)
		for i := range guessed.Changed.Workload.Collectives {
			guessed.Changed.Workload.Collectives[i].Bytes, guessed.Changed.Workload.Collectives[i].Guessed = bytes, true
		}
		if where := verdict.AdviceOn(w, base, guessed).Where; len(where) != 1 || !strings.Contains(where[0], want) {
			t.Errorf("where: %q, want %q", where, want)
		}
	}
	for i := range w.Ops { // as captures have it
		w.Ops[i].Issued = w.Ops[i].Start
	}
	if c := verdict.Predict(w, base, out).Confidence; !strings.Contains(c.Why, "toy gap=5, toy of all_to_all") {
		t.Errorf("confidence: %+v", c)
	}
	graph := enginetest.Outcome(t, w, m, "multistream", map[string]string{"graph": "on"})
	if c := verdict.Predict(w, base, graph).Confidence; c.Level != "low" || !strings.Contains(c.Why, "multistream graph=on") {
		t.Errorf("confidence of a graph that nobody ran: %+v", c)
	}
	page := withTables(t, "## toy\n\n<!-- parameters of toy: -->\n<!-- end -->\n", toy)
	for _, want := range []string{"| `gap` | 0 | number | 5 50 | the default | µs before the collective |", "| `gap` |  |  | toylib 3 | `TOY_GAP=%gap` | flag |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// No package but a strategy's own has its name as a string. The captured schedule is the base
// of every comparison, and others have the word for what is as in the capture.
func TestNobodyNamesStrategies(t *testing.T) {
	must.Do(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		dir := filepath.ToSlash(filepath.Dir(path))
		own := map[string]string{ // of score: a paper's name
			"../engines/schedule": "bulk ideal multistream", "../engines/tiles": "decompose fused tilesync onesided trigger", "../engines/score": "fused",
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(dir, "../samples") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				name, err := strconv.Unquote(lit.Value)
				mine := strings.HasSuffix(dir, "/"+name) || slices.Contains(strings.Fields(own[dir]), name)
				if e, ok := engines.Named(name); err == nil && ok && e.Kind != plan.Exact && !mine {
					t.Errorf("%s has the name %q: use a property of plan.Strategy; a strategy's own folder has its name", path, name)
				}
			}
			return true
		})
		return nil
	}))
}
