package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
)

// A reproduced is a claim with the result of the replay.
type reproduced struct {
	ID        string `json:"id"`
	From      string `json:"from"`
	Says      string `json:"says"`
	As        string `json:"as"`
	Points    int    `json:"points"`
	Published gains  `json:"published"`
	Here      *gains `json:"here,omitempty"`
	Same      bool   `json:"same_sign"`
	Why       string `json:"why,omitempty"` // why nothing was replayed
}

// gains are fractions of the other strategy's time, or of one's own.
type gains struct {
	Typical float64 `json:"typical"`
	Most    float64 `json:"most,omitempty"`
}

func (a *app) reproduceCommand() *cobra.Command {
	var format, machineName string
	c := &cobra.Command{
		Use:   "reproduce CLAIMS.jsonl [ID...]",
		Short: "Compare published claims with replays of their experiments",
		Long: `Replays the workload file of each published claim under its strategy and its baseline,
over the sizes of the claim. The machine profiles are not those of the papers, and
durations are rooflines: compare signs and orders of magnitude only. Nothing in
overlapse is fitted to a claim.`,
		Example: `  overlapse reproduce samples/workloads/claims.jsonl
  overlapse reproduce samples/workloads/claims.jsonl SC-7 SC-10a --format json`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("reproduce needs a file of claims (samples/workloads/claims.jsonl)")}
			}
			return a.reproduce(c.Context(), args[0], args[1:], machineName, format)
		},
	}
	c.Flags().StringVar(&machineName, "machine", "", "machine to replay all claims on; default: that of each claim")
	c.Flags().StringVar(&format, "format", "table", "table or json")
	return c
}

func (a *app) reproduce(ctx context.Context, path string, only []string, machineName, format string) error {
	if err := choice("format", format, "table", "json"); err != nil {
		return err
	}
	claims, err := readClaims(path, only)
	if err != nil {
		return err
	}
	rows := make([]reproduced, len(claims))
	bar := a.progress(len(claims), "replaying")
	for i, c := range claims {
		if rows[i], err = a.reproduceOne(ctx, c, filepath.Dir(path), machineName); err != nil {
			return stopped(ctx, fmt.Errorf("%s: %w", c.ID, err))
		}
		_ = bar.Add(1)
	}
	_ = bar.Finish()
	if format == "json" {
		return writeJSON(a.out, rows)
	}
	a.printReproduced(rows)
	return nil
}

func (a *app) reproduceOne(ctx context.Context, c claim, dir, machineName string) (reproduced, error) {
	r := reproduced{ID: c.ID, From: c.From, Says: c.Says, As: c.As, Published: gains{c.Typical, c.Most}}
	sel, err := engines.ParseSelection(c.Strategy + "," + c.Against)
	if err != nil {
		return r, err
	}
	if len(sel) != 2 {
		return r, fmt.Errorf("%q and %q are not two strategies", c.Strategy, c.Against)
	}
	in, err := os.Open(filepath.Join(dir, c.File))
	if err != nil {
		return r, fmt.Errorf("file: %s: %w (a workload file in the folder of the claims)", filepath.Join(dir, c.File), withoutPath(err))
	}
	defer in.Close()
	file, err := operator.Parse(in, filepath.Join(dir, c.File))
	if err != nil {
		return r, err
	}
	points := c.points()
	ratios, whys := make([]float64, len(points)), make([]string, len(points))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range points {
		g.Go(func() error {
			var err error
			ratios[i], whys[i], err = a.ratioAt(ctx, file, p, cmp.Or(machineName, p.machine, c.Machine, file.Machine), sel)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	if i := slices.IndexFunc(whys, func(w string) bool { return w != "" }); i >= 0 {
		r.Why = whys[i]
		return r, nil
	}
	r.Points, r.Here = len(points), gainsOf(ratios, c.As)
	r.Same = (r.Here.Typical > 0) == (r.Published.Typical > 0)
	return r, nil
}

// ratioAt is the time of the first selection over that of the second at one point.
func (a *app) ratioAt(ctx context.Context, f *operator.File, p claimCase, machineName string, sel []plan.Selection) (ratio float64, why string, err error) {
	if f, err = f.With(p.sizes); err != nil {
		return 0, "", err
	}
	f.Ranks = 0
	m, err := a.machineNamed(machineName, 0)
	if err != nil {
		return 0, "", err
	}
	run, err := f.Run(m)
	if err != nil {
		return 0, "", err
	}
	w, err := workload.Lift(run, workload.Options{})
	if err != nil {
		return 0, "", err
	}
	var times [2]float64
	for i, s := range sel {
		out, err := compare.Run(w, m, s, plan.Scenario{}, replay.Options{Stop: stopFunc(ctx)})
		if err != nil || out.Why != "" {
			return 0, out.Why, err
		}
		times[i] = float64(out.Time)
	}
	return times[0] / times[1], "", nil
}

// gainsOf summarises ratios of times as the paper does.
func gainsOf(ratios []float64, as string) *gains {
	sum, least := 0.0, slices.Min(ratios)
	for _, r := range ratios {
		if as == "reduction" {
			sum += 1 - r
		} else {
			sum -= math.Log(r)
		}
	}
	mean := sum / float64(len(ratios))
	if as == "reduction" {
		return &gains{mean, 1 - least}
	}
	return &gains{math.Exp(mean) - 1, 1/least - 1}
}

func (a *app) printReproduced(rows []reproduced) {
	fmt.Fprintf(a.out, "Published gains and replays from rooflines; nothing was fitted to them. reduction: 1-t/t'; speedup: t'/t-1.\n\n")
	t := a.table("claim", "as", "published", "replayed", "points", "claim text")
	same, here := 0, 0
	for _, r := range rows {
		got := r.Why
		if r.Here != nil {
			here++
			got = r.Here.String(r.Published.Most != 0)
			if r.Same {
				same++
			} else {
				got += " (other sign)"
			}
		}
		t.AppendRow(table.Row{r.ID, r.As, r.Published.String(true), got, r.Points, r.Says + ": " + r.From})
	}
	t.Render()
	fmt.Fprintf(a.out, "\n%d of %d claims were replayed, %d of them with the published sign\n", here, len(rows), same)
}

// String is the typical gain and, where there is one, the largest.
func (g gains) String(most bool) string {
	if !most || g.Most == 0 {
		return fmt.Sprintf("%+.0f %%", 100*g.Typical)
	}
	return fmt.Sprintf("%+.0f %%, max %+.0f %%", 100*g.Typical, 100*g.Most)
}
