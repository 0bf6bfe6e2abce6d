package results

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// tableRows are rows of all kinds: in the order of strategies, not of times.
func tableRows() *Replayed {
	row := func(strategy, settings string, time int64, change float64, effort plan.Effort) Row {
		return Row{
			Answer:  Answer{Strategy: strategy, Settings: settings, Change: change, Chance: verdict.Chance{PFaster: 0.61, Error: 0.12}},
			Applies: true, Time: time, Effort: effort, Times: overlap.Times{Transfer: trace.Time(time / 10)},
		}
	}
	captured, ideal := row("captured", "", 20_000_000, 0, ""), row("ideal", "", 18_000_000, -0.1, "")
	captured.Error, ideal.Error, ideal.bound = 0, 0, "bound"
	return &Replayed{Rows: []Row{
		captured, row("bulk", "", 20_040_000, 0.002, plan.ByCode), ideal,
		row("fused", "", 19_500_000, -0.025, plan.OwnKernel),
		row("multistream", "keep_gathered=on channels=16 priority=on", 19_000_000, -0.05, plan.ThirdParty),
		{Answer: Answer{Strategy: "trigger"}, Why: "no ring"},
	}}
}

// The captured schedule is first, bounds are last, times rise between, and what is like the
// captured schedule has no row.
func TestSorted(t *testing.T) {
	r := tableRows()
	rows, folded := r.sorted(true, 0)
	for _, c := range []struct {
		rows []*Row
		want string
	}{
		{rows, "captured, multistream keep_gathered=on channels=16 priority=on, fused, ideal (bound)"},
		{folded, "bulk"},
		{r.refused(), "trigger"},
	} {
		if got := r.names(c.rows); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if rows, folded := r.sorted(false, 0); len(rows) != 5 || len(folded) != 0 {
		t.Errorf("%d rows and %d folded, want all", len(rows), len(folded))
	}
}

// The captured schedule with nothing changed, simulated, is behind the captured one in every form.
func TestControl(t *testing.T) {
	r := tableRows()
	r.Control = &Control{rows: []Row{{Answer: Answer{Strategy: "no change (simulated)", Change: 0.045}, Applies: true, Time: 20_900_000}}}
	rows, _ := r.sorted(true, 0)
	if got := r.names(rows[:2]); got != "captured, no change (simulated)" {
		t.Error(got)
	}
	r.Control.rows[0].Change = 0.001
	if _, folded := r.sorted(true, 0); r.names(folded) != "bulk, no change (simulated)" {
		t.Error(r.names(folded))
	}
	n := 0
	r.workload = &workload.Workload{Run: &trace.Run{}}
	for line := range r.CSV() {
		if n++; n > len(r.Rows)+1 && line[3] != "no change (simulated)" {
			t.Error(line)
		}
	}
	if n != len(r.Rows)+2 {
		t.Errorf("%d lines", n)
	}
}

// The table fits 100 and 80 columns and has the probability in both; the narrow one drops words.
func TestTableFits(t *testing.T) {
	for width, effort := range map[int]bool{80: false, 100: true} {
		var out bytes.Buffer
		r := tableRows()
		rows, _ := r.sorted(true, 0)
		(&console.Console{Out: &out, Width: width}).Show(r.table(rows, width))
		for _, line := range strings.Split(out.String(), "\n") {
			if n := text.LongestLineLen(line); n > width {
				t.Errorf("%d columns in %d: %q", n, width, line)
			}
		}
		for _, want := range []string{"time, ms", "20.00", "19.00", "-5.0 %", "12.0", "61 %", "1.90"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("at %d no %q in\n%s", width, want, out.String())
			}
		}
		if got := strings.Contains(out.String(), "own kernel"); got != effort {
			t.Errorf("at %d effort: %v\n%s", width, got, out.String())
		}
	}
}

// Markdown is of the same columns, and names of traces are no markup.
func TestMarkdownTable(t *testing.T) {
	r := tableRows()
	r.Rows[3].Settings = "a|b <i>*x*"
	rows, _ := r.sorted(false, 0)
	got := r.table(rows, 0).Markdown()
	for _, want := range []string{"| strategy | time, ms | change | ± | faster | effort | exposed |", `| fused a&#124;b &lt;i&gt;\*x\* | 19.50 | -2.5 % | 12.0 | 61 % | own kernel | 1.95 |`} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}

// The bars of a page are sorted as the table is, the recommended one is marked, and one that changes nothing says so in place of a change.
func TestBars(t *testing.T) {
	r := tableRows()
	r.workload = &workload.Workload{Run: &trace.Run{}}
	r.Verdict.Strategy = "fused"
	r.Rows[1].Same, r.Rows[1].Change = true, 0
	for i := range r.Rows {
		r.Rows[i].At = i
		r.Outcomes = append(r.Outcomes, compare.Outcome{Result: &replay.Result{Run: &trace.Run{}}})
	}
	var got []string
	for _, b := range r.bars(0) {
		got = append(got, b.Name+": "+b.Note)
	}
	want := []string{
		"captured: 20.00 ms", "multistream keep_gathered=on channels=16 priority=on: 19.00 ms  -5.0 %  ± 12.0  61 % likely",
		"▸ fused: 19.50 ms  -2.5 %  ± 12.0  61 % likely", "bulk: 20.04 ms  same program", "ideal (bound): 18.00 ms  -10.0 %",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
