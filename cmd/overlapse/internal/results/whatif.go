package results

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// WhatIf replays every strategy on the machine of --what-if.
func WhatIf(ctx context.Context, con *cli.Console, r *Replayed, m machine.Machine, x machine.WhatIf, opts replay.Options) error {
	bar := con.Progress(len(r.Rows), "replaying --what-if")
	found, err := verdict.Under(r.workload, m, r.Outcomes, []machine.WhatIf{x}, opts.Stop, func() { bar.Add(1) })
	bar.Finish()
	if err != nil {
		return Stopped(ctx, err)
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; len(found[row.At]) > 0 {
			of := found[row.At][0]
			if row.phase > 0 && row.phase <= len(of.Phases) {
				of = of.Phases[row.phase-1]
			}
			row.WhatIf = &of
		}
	}
	return nil
}

// there is a row's change against the captured schedule on the machine of --what-if.
func (r *Replayed) there(row *Row) (change float64, ok bool) {
	for _, base := range r.Rows {
		if base.given() && base.phase == row.phase && base.WhatIf != nil && row.WhatIf != nil {
			return float64(row.WhatIf.Time)/float64(max(1, base.WhatIf.Time)) - 1, true
		}
	}
	return 0, false
}

// whatIf names the machine of --what-if, on which the rows have times; "": none.
func (r *Replayed) whatIf() string {
	for _, row := range r.Rows {
		if row.WhatIf != nil {
			return row.WhatIf.Name
		}
	}
	return ""
}

// leastMoved is the difference between two changes from which it is named.
const leastMoved = 0.01

// whatIfText says what is different on the machine of --what-if.
func (r *Replayed) whatIfText() string {
	var moved []string
	name := r.whatIf()
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.WhatIf == nil {
			continue
		}
		switch change, ok := r.there(row); {
		case row.given() || !ok:
			takes := trace.Micros(trace.Time(row.WhatIf.Time))
			moved = append(moved, fmt.Sprintf("%s takes %s (%s)", r.phased(row), takes, trace.Percent(row.WhatIf.Change)))
		case math.Abs(change-row.Change) >= leastMoved:
			moved = append(moved, fmt.Sprintf("%s %s instead of %s", r.phased(row), trace.Percent(change), trace.Percent(row.Change)))
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("with %s: %s; no other change moves by a point or more (each strategy is planned for that machine)", name, strings.Join(moved, ", "))
}

// rescaledText is what was scaled and by how much, in one sentence.
func rescaledText(r *workload.Rescaling) string {
	text := "captured durations are scaled"
	if r.From != r.To {
		text += fmt.Sprintf(" from %s to %s", r.From, r.To)
	}
	if r.Ranks > 0 {
		group := "all ranks"
		if r.Group != "" {
			group = "group " + r.Group
		}
		text += fmt.Sprintf("; %s: %d ranks instead of %d, with as much work for each, as in data parallelism", group, r.Ranks, r.Was)
	}
	was, is := trace.Time(0), trace.Time(0)
	for _, p := range r.Parts {
		was, is = was+p.Was, is+p.Is
	}
	if !r.TooGuessed() {
		text += fmt.Sprintf(" (%+.1f %% in all)", 100*(float64(is)/float64(max(1, was))-1))
	}
	if r.Ranks > 0 && sumsOfForward(r.Of) {
		text += "; this program sums without a backward pass, as tensor parallelism does: there the work of each rank changes, " +
			"so capture that number"
	}
	text += "; the host's own times are as captured"
	if r.Same {
		return text
	}
	var list []string
	bounds, shares := boundsOf(r)
	for _, b := range bounds {
		if share := fmt.Sprintf("%.0f %%", 100*shares[b]); share != "0 %" {
			list = append(list, b+" "+share)
		}
	}
	text += ". What bounds the captured operations: " + strings.Join(list, ", ")
	if guessed := r.Guessed(); guessed >= 0.005 {
		text += fmt.Sprintf("; for %.0f %% of the time this is a guess", 100*guessed)
	}
	return text
}

// sumsOfForward reports whether a program that runs no backward pass has sums, which are of no gradients then.
func sumsOfForward(w *workload.Workload) bool {
	backward := func(op workload.Op) bool { return op.Backward }
	sums := func(c workload.Collective) bool { return c.Op == trace.AllReduce || c.Op == trace.ReduceScatter }
	return w != nil && !slices.ContainsFunc(w.Ops, backward) && slices.ContainsFunc(w.Collectives, sums)
}

// PrintRescaled prints the laws that scale captured durations.
func PrintRescaled(con *cli.Console, r *workload.Rescaling) {
	if r == nil {
		return
	}
	t := cli.Table{Title: "laws of the scaled durations", Columns: []string{"bound by", "scaled by", "operations", "captured", "scaled", "change"}}
	for _, p := range r.Parts {
		if r.Same && p.Is == p.Was {
			continue
		}
		law := p.Law
		if !p.Sure {
			law += " (a guess)"
		}
		t.Add(p.Bound, law, p.Ops, trace.Micros(p.Was), trace.Micros(p.Is), trace.Percent(float64(p.Is)/float64(max(1, p.Was))-1))
	}
	con.Show(&t)
}

// boundsOf is the share of the captured time that each part of the machine bounds, 0 to 1, largest first.
func boundsOf(r *workload.Rescaling) (bounds []string, shares map[string]float64) {
	shares, all := map[string]float64{}, trace.Time(0)
	for _, p := range r.Parts {
		if _, ok := shares[p.Bound]; !ok {
			bounds = append(bounds, p.Bound)
		}
		shares[p.Bound] += float64(p.Was)
		all += p.Was
	}
	for b := range shares {
		shares[b] /= float64(max(1, all))
	}
	slices.SortStableFunc(bounds, func(a, b string) int { return cmp.Compare(shares[b], shares[a]) })
	return bounds, shares
}
