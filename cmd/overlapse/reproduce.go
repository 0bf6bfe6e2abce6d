package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
	"github.com/overlapse/overlapse/engines/reproduce"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/samples/workloads"
	"github.com/overlapse/overlapse/viz/html"
)

func (a *app) reproduceCommand() *cobra.Command {
	var format, output, machineName string
	var points bool
	c := &cobra.Command{
		Use:   "reproduce [PAPER|CLAIM...]",
		Short: "Compare published claims with replays of their experiments",
		Long: `Replays the experiments of published claims, point by point, under their strategy and
their baseline. Papers: ` + strings.Join(reproduce.Names(), ", ") + `.

An effect (a reduction, a gain, a speedup) is within tolerance if it is off by at most a
quarter of what was published, or 2 points; an absolute time by 25 %; an order needs a
difference of 2 %, or half of the published one. A claim is reproduced if 80 % of its
points are within tolerance and every effect above 2 % has the published sign. Beside
each number stands what a model without knowledge reaches: one that predicts no effect,
one that predicts the paper's median effect for all, one that always gains. Points that
follow from what was typed in, hold for any replay, repeat others or no such GPU or kernel can
reach are apart: shown, not scored. No constant of overlapse comes from a point that is scored.`,
		Example: `  overlapse reproduce
  overlapse reproduce cusync --points
  overlapse reproduce SC-7 T3-1 --format json
  overlapse reproduce --format html -o claims.html`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.reproduce(c.Context(), args, points, machineName, format, output)
		},
		ValidArgsFunction: cli.OneOf(reproduce.Names()...),
	}
	cli.ChoiceFlag(c, &format, "format", "table", "table, json or html", "table", "json", "html")
	c.Flags().StringVarP(&output, "output", "o", "", "file to write; default: standard output")
	c.Flags().StringVar(&machineName, "machine", "", "replay the experiments on this machine, a profile or a YAML file, with as many GPUs as published; default: the papers' machines")
	c.Flags().BoolVar(&points, "points", false, "print every point")
	return c
}

func (a *app) reproduce(ctx context.Context, selected []string, points bool, machineName, format, output string) error {
	papers, only, err := selectClaims(selected)
	if err != nil {
		return err
	}
	var on *machine.Machine
	if machineName != "" {
		m, err := a.MachineNamed(machineName, 0)
		if err != nil {
			return err
		}
		a.Notef("on %s: the published numbers are of other machines", m.Profile)
		on = &m
	}
	bar := a.Progress(1, "replaying")
	found, err := reproduce.Run(workloads.Files, papers, only, on, input.StopFunc(ctx), bar.ChangeMax, func() { bar.Add(1) })
	bar.Finish()
	switch {
	case errors.Is(err, replay.ErrStopped):
		return results.Stopped(ctx, err)
	case err != nil:
		return err
	}
	return a.writeOut(output, func(w io.Writer) error {
		all, each, byPaper := claimTables(found)
		summary := summaryOf(found)
		switch format {
		case "json":
			return schema.WriteJSON(w, found)
		case "html":
			all.Title, each.Title = "Claims", "Points"
			byPaper.Title = "Papers, beside models without knowledge"
			return html.Write(w, html.Report{Title: "overlapse: published claims and replays", Verdict: summary, Tables: []html.Table{byPaper.HTML(), all.HTML(), each.HTML()}})
		}
		to := *a.Console
		to.Out = w
		if points {
			to.Show(each)
			fmt.Fprintln(w)
		}
		to.Show(all)
		if len(byPaper.Rows) > 0 {
			fmt.Fprintln(w)
			to.Show(byPaper)
		}
		fmt.Fprintf(w, "\n%s\n", strings.Join(summary, "\n"))
		return nil
	})
}

// selectClaims are the papers and the claims that words name; no words select all.
func selectClaims(words []string) (papers []reproduce.Paper, only func(string) bool, err error) {
	all, err := reproduce.Papers()
	if err != nil || len(words) == 0 {
		return all, nil, err
	}
	ids, wanted := reproduce.Names(), map[string]bool{}
	for _, p := range all {
		for _, c := range p.Claims {
			ids = append(ids, c.ID)
			wanted[c.ID] = slices.Contains(words, p.Name) || slices.Contains(words, c.ID)
		}
	}
	for _, word := range words {
		if !slices.Contains(ids, word) {
			return nil, nil, cli.Unknown(fmt.Sprintf("no paper or claim %q (papers: %s)", word, strings.Join(reproduce.Names(), ", ")), word, ids)
		}
	}
	return all, func(id string) bool { return wanted[id] }, nil
}

// claimTables have a row for each claim, for each published number and for each paper.
func claimTables(found []reproduce.ClaimResult) (all, each, byPaper *console.Table) {
	all = &console.Table{Columns: []string{"claim", "status", "within", "same sign", "says", "cause or reason"}}
	each = &console.Table{Columns: []string{"claim", "point", "as", "published", "replayed", "within", "same sign", "apart"}}
	for _, r := range found {
		s := reproduce.ScoreOf([]reproduce.ClaimResult{r})
		inside, sign := "", ""
		if s.Points > 0 {
			inside = share(s.Within, s.Points)
		}
		if s.Signed > 0 {
			sign = share(s.SameSign, s.Signed)
		}
		all.Add(r.ID, string(r.Status), inside, sign, r.Says, r.Why)
		for _, p := range r.Points {
			here, in, same := p.As.Format(p.Here), yes(p.Within), yes(p.SameSign)
			switch {
			case p.Why != "":
				here, in, same = p.Why, "", ""
			case !p.As.Signed(p.Published):
				same = ""
			}
			each.Add(r.ID, p.Label, string(p.As), p.As.Format(p.Published), here, in, same, p.Apart)
		}
	}
	byPaper = &console.Table{Columns: []string{"paper", "effects", "within", "no effect", "above 2 %", "within", "one gain for all", "same sign", "always gains", "mean error", "no effect's", "one gain's"}}
	for _, name := range reproduce.Names() {
		if s := reproduce.ScoreOf(ofPaper(found, name)); s.Effects > 0 {
			n := float64(s.Effects) / 100
			byPaper.Add(name, s.Effects, s.EffectsWithin, s.NothingWithin, s.Signed, s.SignedWithin, s.ConstantWithin, s.SameSign, s.Gains,
				fmt.Sprintf("%.1f", s.Error/n), fmt.Sprintf("%.1f", s.NothingError/n), fmt.Sprintf("%.1f", s.ConstantError/n))
		}
	}
	return all, each, byPaper
}

func ofPaper(found []reproduce.ClaimResult, name string) (claims []reproduce.ClaimResult) {
	for _, r := range found {
		if r.Paper == name {
			claims = append(claims, r)
		}
	}
	return claims
}

// summaryOf says in a few lines what is reproduced, and whether that is more than models without
// knowledge reach.
func summaryOf(found []reproduce.ClaimResult) []string {
	counts := map[reproduce.Status]int{}
	var apart int
	for _, r := range found {
		counts[r.Status]++
		for _, p := range r.Points {
			if p.Apart != "" {
				apart++
			}
		}
	}
	var all reproduce.Score
	var better, worse []string
	for _, name := range reproduce.Names() {
		s := reproduce.ScoreOf(ofPaper(found, name))
		if all.Sum(s); s.Signed == 0 {
			continue
		}
		if s.SignedWithin > s.ConstantWithin && s.SameSign >= s.Gains {
			better = append(better, name)
		} else {
			worse = append(worse, fmt.Sprintf("%s (%d within, one gain for all %d; %d signs, always gains %d)", name, s.SignedWithin, s.ConstantWithin, s.SameSign, s.Gains))
		}
	}
	lines := []string{
		fmt.Sprintf("%d claims: %d reproduced, %d not reproduced, %d not scored, %d not checkable; %s points within tolerance, %d apart", len(found),
			counts[reproduce.Reproduced], counts[reproduce.NotReproduced], counts[reproduce.NotScored], counts[reproduce.NotCheckable], share(all.Within, all.Points), apart),
	}
	if all.Signed > 0 {
		lines = append(lines, fmt.Sprintf("effects above 2 %%: %s within a quarter (one gain for all: %d), %d with the published sign (always gains: %d)",
			share(all.SignedWithin, all.Signed), all.ConstantWithin, all.SameSign, all.Gains))
	}
	if here, links := reproduce.BandwidthErrors(found); len(here) > 0 {
		at := func(list []float64, share float64) float64 { return 100 * reproduce.Quantile(list, share) }
		lines = append(lines, fmt.Sprintf("%d bandwidths: %.1f %% off in the median, %.0f %% at the 90th percentile (the rate of the slowest link for all: %.1f and %.0f %%)",
			len(here), at(here, 0.5), at(here, 0.9), at(links, 0.5), at(links, 0.9)))
	}
	if len(better)+len(worse) > 0 {
		lines = append(lines, "better than both: "+cmp.Or(strings.Join(better, ", "), "none")+"; not: "+cmp.Or(strings.Join(worse, ", "), "none"))
	}
	return lines
}

func share(n, of int) string { return fmt.Sprintf("%d of %d", n, of) }

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
