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
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines/score"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/samples"
	"github.com/overlapse/overlapse/viz/html"
)

func (a *app) reproduceCommand() *cobra.Command {
	var format, output, machineName string
	var points bool
	c := &cobra.Command{
		Use:   "reproduce [PAPER|CLAIM...]",
		Short: "Compare published claims with replays of their experiments",
		Long: `Replays the experiments of published claims, point by point, under their strategy and
their baseline. Papers: ` + strings.Join(score.PaperNames(), ", ") + `.

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
		ValidArgsFunction: cli.OneOf(score.PaperNames()...),
	}
	cli.ChoiceFlag(c, &format, "format", "table", "table, json or html", "table", "json", "html")
	c.Flags().StringVarP(&output, "output", "o", "", "file to write; default: standard output")
	c.Flags().StringVar(&machineName, "machine", "", "replay the experiments on this machine, a profile or a YAML file, with as many GPUs as published; default: the papers' machines")
	c.Flags().BoolVar(&points, "points", false, "print every point")
	return c
}

func (a *app) reproduce(ctx context.Context, selected []string, points bool, machineName, format, output string) error {
	claims, err := selectClaims(selected)
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
	claims, err = score.Claims(samples.Workloads(), claims, on, stopFunc(ctx), bar.ChangeMax, func() { bar.Add(1) })
	bar.Finish()
	switch {
	case errors.Is(err, replay.ErrStopped):
		return results.Stopped(ctx, err)
	case err != nil:
		return err
	}
	return a.writeOut(output, func(w io.Writer) error {
		if format == "json" {
			return results.WriteJSON(w, claims)
		}
		all, each := claimTables(claims)
		byPaper, summary := paperTable(claims)
		if format == "html" {
			all.Title, each.Title = "Claims", "Points"
			byPaper.Title = "Papers, beside models without knowledge"
			return html.Write(w, html.Report{
				Title: "overlapse: published claims and replays", Verdict: summary,
				Tables: []html.Table{byPaper.HTML(), all.HTML(), each.HTML()},
			})
		}
		to := *a.Console
		to.Out = w
		if points {
			showListed(&to, each)
			fmt.Fprintln(w)
		}
		showListed(&to, all)
		if len(byPaper.Rows) > 0 {
			fmt.Fprintln(w)
			to.Show(byPaper)
		}
		fmt.Fprintf(w, "\n%s\n", strings.Join(summary, "\n"))
		return nil
	})
}

// selectClaims are the claims that words name, by paper or id; no words select all.
func selectClaims(words []string) (claims []score.Claim, err error) {
	papers, err := score.Papers()
	names := score.PaperNames()
	for _, p := range papers {
		for _, c := range p.Claims {
			names = append(names, c.ID)
			if len(words) == 0 || slices.Contains(words, p.Name) || slices.Contains(words, c.ID) {
				claims = append(claims, c)
			}
		}
	}
	for _, word := range words {
		if err == nil && !slices.Contains(names, word) {
			return nil, cli.Unknown(fmt.Sprintf("no paper or claim %q (papers: %s)", word,
				strings.Join(score.PaperNames(), ", ")), word, names)
		}
	}
	return claims, err
}

// claimTables have a row for each claim and for each published number.
func claimTables(claims []score.Claim) (all, each *cli.Table) {
	all = &cli.Table{Columns: []string{"claim", "status", "within", "same sign", "says", "cause or reason"}}
	each = &cli.Table{Columns: []string{"claim", "point", "as", "published", "replayed", "within", "same sign", "apart"}}
	yes := map[bool]string{true: "yes", false: "no"}
	for _, c := range claims {
		t := score.TallyOf([]score.Claim{c})
		inside, sign := "", ""
		if t.Points > 0 {
			inside = share(t.Within, t.Points)
		}
		if t.Signed > 0 {
			sign = share(t.SameSign, t.Signed)
		}
		all.Add(c.ID, string(c.Status), inside, sign, c.Says, c.Why)
		for _, p := range c.Points {
			here, in, same := p.As.Format(p.Here), yes[p.Within], yes[p.SameSign]
			switch {
			case p.Why != "":
				here, in, same = p.Why, "", ""
			case !p.As.Signed(p.Published):
				same = ""
			}
			if p.Apart != "" {
				in = strings.TrimSpace(in + " apart")
			}
			each.Add(c.ID, p.Label, string(p.As), p.As.Format(p.Published), here, in, same, p.Apart)
		}
	}
	return all, each
}

// showListed prints a table without its last column, and below it the texts of that, wrapped and each once, behind the first cell of
// the rows that have it; behind the second one too where others with that first cell have it not.
func showListed(con *cli.Console, t *cli.Table) {
	last := len(t.Columns) - 1
	short := cli.Table{Columns: t.Columns[:last]}
	var texts []string
	for _, row := range t.Rows {
		short.Add(row[:last]...)
		if text := fmt.Sprint(row[last]); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	con.Show(&short)
	if len(texts) > 0 {
		fmt.Fprintf(con.Out, "\n%s\n", t.Columns[last])
	}
	for _, text := range texts {
		var names, whole []string // whole: first cells of which all rows have it
		for _, row := range t.Rows {
			of, name := fmt.Sprint(row[0]), fmt.Sprintf("%v %v", row[0], row[1])
			every := !slices.ContainsFunc(t.Rows, func(x []any) bool { return x[0] == row[0] && x[last] != text })
			switch {
			case row[last] != text || slices.Contains(whole, of):
			case every:
				names, whole = append(names, of), append(whole, of)
			default:
				names = append(names, name)
			}
		}
		con.Say(strings.Join(names, "; ") + ": " + text)
	}
}

// paperTable has a row for each paper with effects. The lines below it say what is reproduced, and whether that is more
// than models without knowledge reach.
func paperTable(claims []score.Claim) (byPaper *cli.Table, lines []string) {
	byPaper = &cli.Table{Columns: []string{
		"paper", "effects", "within", "no effect", "above 2 %", "within", "one gain for all",
		"same sign", "always gains", "mean error", "no effect's", "one gain's",
	}}
	counts, apart, of := map[score.Status]int{}, 0, map[string][]score.Claim{}
	for _, c := range claims {
		counts[c.Status]++
		of[c.Paper] = append(of[c.Paper], c)
		for _, p := range c.Points {
			if p.Apart != "" {
				apart++
			}
		}
	}
	var better, worse []string
	for _, name := range score.PaperNames() {
		t := score.TallyOf(of[name])
		if t.Effects > 0 {
			n := float64(t.Effects) / 100
			byPaper.Add(name, t.Effects, t.EffectsWithin, t.NothingWithin, t.Signed, t.SignedWithin, t.ConstantWithin, t.SameSign, t.Gains,
				fmt.Sprintf("%.1f", t.Error/n), fmt.Sprintf("%.1f", t.NothingError/n), fmt.Sprintf("%.1f", t.ConstantError/n))
		}
		switch {
		case t.Signed == 0:
		case t.SignedWithin > t.ConstantWithin && t.SameSign >= t.Gains:
			better = append(better, name)
		default:
			worse = append(worse, fmt.Sprintf("%s (%d within, one gain for all %d; %d signs, always gains %d)", name, t.SignedWithin,
				t.ConstantWithin, t.SameSign, t.Gains))
		}
	}
	all := score.TallyOf(claims)
	lines = []string{
		fmt.Sprintf("%d claims: %d reproduced, %d not reproduced, %d not scored, %d not checkable; %s points within tolerance, %d apart",
			len(claims),
			counts[score.Reproduced], counts[score.NotReproduced], counts[score.NotScored], counts[score.NotCheckable],
			share(all.Within, all.Points), apart),
	}
	if all.Signed > 0 {
		lines = append(lines, fmt.Sprintf("effects above 2 %%: %s within a quarter (one gain for all: %d), %d with the published sign (always gains: %d)",
			share(all.SignedWithin, all.Signed), all.ConstantWithin, all.SameSign, all.Gains))
	}
	if here, links := score.BandwidthErrors(claims); len(here) > 0 {
		at := func(list []float64, tenths int) float64 { return 100 * list[tenths*len(list)/10] }
		lines = append(lines, fmt.Sprintf("%d bandwidths: %.1f %% off in the median, %.0f %% at the 90th percentile (the rate of the slowest link for all: %.1f and %.0f %%)",
			len(here), at(here, 5), at(here, 9), at(links, 5), at(links, 9)))
	}
	if len(better)+len(worse) > 0 {
		lines = append(lines, "better than both: "+cmp.Or(strings.Join(better, ", "), "none")+"; not: "+
			cmp.Or(strings.Join(worse, ", "), "none"))
	}
	return byPaper, lines
}

func share(n, of int) string { return fmt.Sprintf("%d of %d", n, of) }
