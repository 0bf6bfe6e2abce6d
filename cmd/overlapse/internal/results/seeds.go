package results

import (
	"context"
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
)

// Spread replays every strategy under n seeds.
func Spread(ctx context.Context, con *cli.Console, r *Replayed, m machine.Machine, sel []plan.Selection, n int, stop func() bool) error {
	bar := con.Progress(len(sel)*n, "replaying with other random seeds")
	found, err := compare.Spreads(r.workload, m, sel, r.scenario, n, stop, func() { bar.Add(1) })
	bar.Finish()
	if err != nil {
		return Stopped(ctx, err)
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.At < len(found) && row.phase < len(found[row.At]) && len(found[row.At][row.phase].Times) > 0 {
			row.Seeds = &found[row.At][row.phase]
		}
	}
	return nil
}

// seedsText says what varies over the seeds of --seeds.
func (r *Replayed) seedsText() string {
	var vary []string
	n := 0
	for i := range r.Rows {
		s := r.Rows[i].Seeds
		if s == nil {
			continue
		}
		n = len(s.Times)
		if s.Fastest() == s.Slowest() {
			continue
		}
		vary = append(vary, strings.TrimSuffix(fmt.Sprintf("%s takes %s to %s, %s", r.phased(&r.Rows[i]), cli.Micros(s.Fastest()), cli.Micros(s.Slowest()), modesOf(s)), ", "))
	}
	switch {
	case n == 0:
		return ""
	case len(vary) == 0:
		return fmt.Sprintf("over %s of dispatch order and arrival of ranks no time varies", cli.Counted(n, "random seed"))
	}
	return fmt.Sprintf("over %s of dispatch order and arrival of ranks %s", cli.Counted(n, "random seed"), strings.Join(vary, "; "))
}

// modesOf describes the two modes of a bimodal distribution; "" if there is one mode.
func modesOf(s *compare.Spread) string {
	if len(s.Modes) < 2 {
		return ""
	}
	var list []string
	for _, m := range s.Modes {
		list = append(list, fmt.Sprintf("%d near %s", m.Seeds, cli.Micros(m.Median)))
	}
	return strings.Join(list, ", ")
}
