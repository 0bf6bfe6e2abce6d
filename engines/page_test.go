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
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// The tables of STRATEGIES.md are those of the code.
func TestStrategiesPage(t *testing.T) {
	page := must.Have(os.ReadFile("STRATEGIES.md"))(t)
	text := between(t, string(page), "strategies", overview())
	for _, e := range engines.All() {
		if !strings.Contains(text, "\n## "+e.Name+"\n") { // it goes before the last section, which is of no strategy
			i := strings.LastIndex(text, "\n## ")
			text = text[:i] + fmt.Sprintf("\n## %s\n\n%s.\n\n<!-- parameters of %[1]s: go test ./engines -run TestStrategiesPage -update -->\n<!-- end -->\n", e.Name, e.Summary) + text[i:]
		}
		text = withTables(t, text, e)
	}
	if text == string(page) {
		return
	}
	if *update {
		must.Do(t, os.WriteFile("STRATEGIES.md", []byte(text), 0o600))
		return
	}
	t.Errorf("STRATEGIES.md has other tables than the code: go test ./engines -run TestStrategiesPage -update")
}

// withTables replaces what is between a strategy's marks.
func withTables(t *testing.T, page string, e plan.Strategy) string {
	t.Helper()
	return between(t, page, "parameters of "+e.Name, tablesOf(e))
}

// between replaces what is between the marks of a name.
func between(t *testing.T, page, name, text string) string {
	t.Helper()
	begin := regexp.MustCompile(`<!-- ` + name + `\b[^\n]*-->\n`).FindStringIndex(page)
	if begin == nil {
		t.Fatalf("STRATEGIES.md has no mark for the %s", name)
	}
	end := strings.Index(page[begin[1]:], "<!-- end -->")
	return page[:begin[1]] + text + page[begin[1]+end:]
}

// overview is the table of all strategies.
func overview() string {
	var b strings.Builder
	b.WriteString("| strategy | from | what it does | effort |\n|---|---|---|---|\n")
	for _, e := range engines.All() {
		effort := ""
		switch e.Kind {
		case plan.Future:
			effort = "hardware that no GPU has"
		case plan.Exact:
		case plan.Bound:
			effort = "none: a bound"
		default:
			var all []string
			for _, w := range plan.WaysOf(e, plan.Param{}) {
				all = append(all, string(w.Effort))
			}
			slices.SortFunc(all, func(a, b string) int { return plan.CompareEfforts(plan.Effort(a), plan.Effort(b)) })
			effort = strings.Join(slices.Compact(all), ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Name, e.From, e.Summary, effort)
	}
	return b.String()
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
			case p.Keep || p.Experimental || p.Text != nil:
			case p.Choices != nil:
				tuned = "all"
			case p.Tune != nil:
				tuned = strings.Trim(fmt.Sprint(p.Tune), "[]")
			}
			switch {
			case p.Experimental:
				measured = "experimental"
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
	if e.Kind == plan.Bound || e.Kind == plan.Exact {
		return b.String()
	}
	b.WriteString("\n")
	row("how to get", "collectives", "GPUs", "library", "how", "effort")
	row("---", "---", "---", "---", "---", "---")
	list := func(of string, ways []plan.Way) {
		for _, w := range ways {
			if w.Effort == plan.OwnKernel {
				row(of, "else", "", "none", w.Note, string(w.Effort))
				continue
			}
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
			case w.Nodes < 0:
				what += ", within a node"
			case w.Nodes > 0:
				what += ", between nodes"
			}
			if w.Line != "" {
				how = "`" + w.Line + "`"
				if w.Note != "" {
					how += " " + w.Note
				}
			}
			row(what, strings.Join(ops, ", "), w.Vendor, strings.TrimSpace(w.Library+" "+w.Version), how, string(w.Effort))
		}
	}
	list(e.Name, plan.WaysOf(e, plan.Param{}))
	for _, p := range e.Params {
		list("`"+p.Name+"`", plan.WaysOf(e, p))
	}
	return b.String()
}
