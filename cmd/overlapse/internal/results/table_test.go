package results

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
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
			answer:  answer{Strategy: strategy, Settings: settings, Change: change, Chance: verdict.Chance{PFaster: 0.61, Error: 0.12}},
			Applies: true, Time: time, Effort: effort, Times: overlap.Times{Transfer: trace.Time(time / 10)},
		}
	}
	captured, ideal := row("captured", "", 20_000_000, 0, ""), row("ideal", "", 18_000_000, -0.1, "")
	captured.Error, ideal.Error, ideal.bound = 0, 0, "bound"
	return &Replayed{Rows: []Row{
		captured, row("bulk", "", 20_040_000, 0.002, plan.ByCode), ideal,
		row("fused", "", 19_500_000, -0.025, plan.OwnKernel),
		row("multistream", "keep_gathered=on channels=16 priority=on", 19_000_000, -0.05, plan.ThirdParty),
		{answer: answer{Strategy: "trigger"}, Why: "no ring"},
	}}
}

// What can be changed tonight has rows, fastest first; what is like no change and what needs a kernel share a line each. If nothing is
// folded the captured schedule is first and bounds are last.
func TestSorted(t *testing.T) {
	r := tableRows()
	r.Rows[4].Effort, r.Rows[4].Error, r.Rows[4].short = plan.ByFlag, 0.03, "NCCL_MAX_CTAS=16"
	of := r.sorted(true, 0)
	for _, c := range []struct {
		rows []*Row
		want string
	}{
		{of.rows, "multistream keep_gathered=on channels=16 priority=on"},
		{of.alike, "bulk"},
		{of.later, "fused"},
		{r.refused(), "trigger"},
		{r.sorted(false, 0).rows, "captured, multistream keep_gathered=on channels=16 priority=on, fused, bulk, ideal (bound)"},
	} {
		if got := r.names(c.rows); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got := r.says(of.rows[0]); got != "NCCL_MAX_CTAS=16" {
		t.Error(got)
	}
	r.Rows[3].Unproven, r.Rows[3].Effort = true, plan.ByFlag
	if of := r.sorted(true, 0); r.names(of.alike) != "bulk, fused" {
		t.Errorf("what may be worth nothing stands among what is known: %s", r.names(of.rows))
	}
	r.Verdict.Strategy = "fused"
	if of := r.sorted(true, 0); len(of.later) != 0 || len(of.rows) != 2 {
		t.Errorf("the recommended row is folded: %s", r.names(of.alike))
	}
}

// An interval stands where its change is, never beyond the ends, and no change is marked.
func TestInterval(t *testing.T) {
	rows := []*Row{
		{answer: answer{Change: -0.1, Chance: verdict.Chance{Error: 0.02}}},
		{answer: answer{Change: 0.5, Chance: verdict.Chance{Error: 0.1}}},
		{answer: answer{Change: 0.004}},
		{answer: answer{Change: 0.05, Chance: verdict.Chance{Error: 0.1, Unproven: true}}},
	}
	x := axisOf(rows)
	got := []string{x.header()}
	for _, row := range rows {
		got = append(got, x.interval(row))
	}
	want := []string{"-12%───0─────────+24%", "├●┤    ┊             ", "       ┊            ●", "       ●             ", "       ┊ ●           "}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The captured schedule with nothing changed, simulated, is behind the captured one in every form, and among the changes on a terminal.
func TestControl(t *testing.T) {
	r := tableRows()
	r.Control = []Row{{answer: answer{Strategy: unchanged, Change: 0.045}, Applies: true, Time: 20_900_000}}
	if got := r.names(r.sorted(false, 0).rows[:2]); got != "captured, "+unchanged {
		t.Error(got)
	}
	r.Control[0].Change = 0.001
	if got := r.names(r.sorted(true, 0).rows); got != unchanged {
		t.Error(got)
	}
	n := 0
	r.workload = &workload.Workload{Run: &trace.Run{}}
	for line := range r.CSV() {
		if n++; n > len(r.Rows)+1 && line[3] != unchanged {
			t.Error(line)
		}
	}
	if n != len(r.Rows)+2 {
		t.Errorf("%d lines", n)
	}
}

// The table fits 100 and 80 columns and has the probability in both; the narrow one drops what explains the others.
func TestTableFits(t *testing.T) {
	for width, points := range map[int]bool{80: false, 120: true} {
		var out bytes.Buffer
		r := tableRows()
		con := &cli.Console{Out: &out, Width: width}
		con.Show(r.intervals(con, r.sorted(false, 0).rows, false))
		for _, line := range strings.Split(out.String(), "\n") {
			if n := text.LongestLineLen(line); n > width {
				t.Errorf("%d columns in %d: %q", n, width, line)
			}
		}
		for _, want := range []string{"20.00", "19.00", "-5.0 %", "61 %", "own kernel", "┊"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("at %d no %q in\n%s", width, want, out.String())
			}
		}
		if got := strings.Contains(out.String(), "12.0"); got != points {
			t.Errorf("at %d the interval in points: %v\n%s", width, got, out.String())
		}
	}
}

// Markdown is of the same columns, and names of traces are no markup.
func TestMarkdownTable(t *testing.T) {
	r := tableRows()
	r.Rows[3].Settings = "a|b <i>*x*"
	got := r.table(r.sorted(false, 0).rows).Markdown()
	for _, want := range []string{"| schedule | time, ms | change | ± | effort | likely | exposed |", `| fused a&#124;b &lt;i&gt;\*x\* | 19.50 | -2.5 % | 12.0 | own kernel | 61 % | 1.95 |`} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}

// The changes of a page are sorted as the folded table is, the recommended one is marked, and a click on a line shows its run.
func TestChangeChart(t *testing.T) {
	r := tableRows()
	r.workload = &workload.Workload{Run: &trace.Run{}}
	r.Verdict.Strategy = "fused"
	r.Rows[1].Same, r.Rows[1].Change = true, 0
	for i := range r.Rows {
		r.Rows[i].At = i
		r.Outcomes = append(r.Outcomes, engines.Outcome{Result: &replay.Result{Run: &trace.Run{Name: r.Rows[i].Name()}}})
	}
	var got []string
	c, left := r.changeChart(0)
	for _, b := range c.Bars {
		got = append(got, b.Key+": "+b.Name+": "+b.Note)
	}
	if want := []string{"fused: ▸ fused: 19.50 ms  -2.5 %  ± 12.0  61 % likely"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if want := "Click: its timeline. Not for tonight: multistream keep_gathered=on"; !strings.Contains(left, want) {
		t.Errorf("%q does not say %q", left, want)
	}
}

// A page draws the captured schedule, the best other one and then the fastest, beside their times and changes in the table.
func TestDrawn(t *testing.T) {
	r := tableRows()
	r.workload, r.Iterations = &workload.Workload{Run: &trace.Run{}}, 2
	for i := range r.Rows {
		r.Rows[i].At = i
		r.Outcomes = append(r.Outcomes, engines.Outcome{Result: &replay.Result{Run: &trace.Run{}}})
	}
	r.Outcomes[5].Result = nil // it does not apply
	var got []string
	for _, i := range r.drawn(1) {
		note, time := r.runNote(i)
		got = append(got, r.Rows[i].Strategy+": "+time+": "+note)
	}
	want := []string{
		"captured: 20.00 ms: 2 iterations", "bulk: 20.04 ms: +0.2 %, 2 iterations", "multistream: 19.00 ms: -5.0 %, 2 iterations",
		"fused: 19.50 ms: -2.5 %, 2 iterations", "ideal: 18.00 ms: -10.0 %, 2 iterations",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
