package engines_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
)

// The tables of STRATEGIES.md are those of the code.
func TestStrategiesPage(t *testing.T) {
	page, err := os.ReadFile("STRATEGIES.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, e := range engines.All() {
		text = withTables(t, text, e)
	}
	if text == string(page) {
		return
	}
	if *update {
		if err := os.WriteFile("STRATEGIES.md", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("STRATEGIES.md has other tables than the code: go test ./engines -run TestStrategiesPage -update")
}

// withTables replaces what is between a strategy's marks.
func withTables(t *testing.T, page string, e plan.Strategy) string {
	t.Helper()
	begin := regexp.MustCompile(`<!-- parameters of ` + e.Name + `\b[^\n]*-->\n`).FindStringIndex(page)
	if begin == nil {
		t.Fatalf("STRATEGIES.md has no mark for the parameters of %s", e.Name)
	}
	end := strings.Index(page[begin[1]:], "<!-- end -->")
	return page[:begin[1]] + tablesOf(e) + page[begin[1]+end:]
}

func tablesOf(e plan.Strategy) string {
	var b strings.Builder
	row := func(cells ...string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ⏎ ") + " ")
		}
		b.WriteString("|\n")
	}
	code := func(words []string) string {
		if len(words) == 0 {
			return ""
		}
		return "`" + strings.Join(words, "`, `") + "`"
	}
	if len(e.Params) > 0 {
		row("parameter", "default", "values", "tuned", "measured", "meaning, cost")
		row("---", "---", "---", "---", "---", "---")
		for _, p := range e.Params {
			values, tuned, measured := "number", "", code(p.Measured)
			switch {
			case p.Choices != nil:
				values = code(p.Choices)
			case p.Text != nil:
				values = "formula"
			}
			switch {
			case p.Keep || p.Text != nil:
			case p.Choices != nil:
				tuned = "all"
			case p.Tune != nil:
				tuned = strings.Trim(fmt.Sprint(p.Tune), "[]")
			}
			switch {
			case p.Measured == nil:
				measured = "the default"
			case slices.Contains(p.Measured, plan.AnyNumber):
				measured = "any"
			}
			meaning := p.Doc
			if p.For != "" {
				meaning = "with `" + p.For + "`: " + meaning
			}
			if p.Costs != "" {
				meaning += "; " + p.Costs
			}
			row("`"+p.Name+"`", p.Default, values, tuned, measured, meaning)
		}
	}
	if e.Bound {
		return b.String()
	}
	b.WriteString("\n")
	row("how to get", "collectives", "GPUs", "library", "how", "effort")
	row("---", "---", "---", "---", "---", "---")
	list := func(of string, ways []plan.Way, work string) {
		for _, w := range ways {
			var ops []string
			for _, op := range w.Ops {
				ops = append(ops, op.String())
			}
			what, how := of, w.Note
			if w.With != "" {
				what = "`" + w.With + "`"
			}
			switch {
			case w.Change < 0:
				what += ", fewer"
			case w.Change > 0:
				what += ", more"
			}
			if w.Line != "" {
				how = "`" + w.Line + "`"
				if w.Note != "" {
					how += " " + w.Note
				}
			}
			row(what, strings.Join(ops, ", "), w.Vendor, strings.TrimSpace(w.Library+" "+w.Version), how, string(w.Effort))
		}
		if work != "" {
			row(of, "else", "", "none", work, string(plan.OwnKernel))
		}
	}
	list(e.Name, e.Ways, e.Work)
	for _, p := range e.Params {
		list("`"+p.Name+"`", p.Ways, p.Work)
	}
	return b.String()
}
