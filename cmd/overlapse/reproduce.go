package main

import (
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

A point is within tolerance if a reduction or a share differs by at most 5 points or 25 %
of its value, a speedup by 10 %, an absolute time by 25 %, a count by its last digit. A
claim is reproduced if 80 % of its points are within tolerance and every effect above 3 %
has the published sign. The tolerances are the same for all claims, and nothing in
overlapse is fitted to a claim.`,
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
		all, each, summary := claimTables(found)
		switch format {
		case "json":
			return schema.WriteJSON(w, found)
		case "html":
			all.Title, each.Title = "Claims", "Points"
			return html.Write(w, html.Report{Title: "overlapse: published claims and replays", Verdict: summary, Tables: []html.Table{all.HTML(), each.HTML()}})
		}
		to := *a.Console
		to.Out = w
		if points {
			to.Show(each)
			fmt.Fprintln(w)
		}
		to.Show(all)
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

// claimTables have a row for each claim and for each published number, and sum them up.
func claimTables(found []reproduce.ClaimResult) (all, each *console.Table, summary []string) {
	all = &console.Table{Columns: []string{"claim", "status", "within", "same sign", "says", "cause or reason"}}
	each = &console.Table{Columns: []string{"claim", "point", "as", "published", "replayed", "within", "same sign"}}
	counts := map[reproduce.Status]int{}
	var points, within, signed, signs int
	for _, r := range found {
		in, effects, same := r.Count()
		counts[r.Status]++
		points, within, signed, signs = points+len(r.Points), within+in, signed+effects, signs+same
		inside, sign, why := "", "", r.Why
		if n := len(r.Points); n > 0 {
			inside = fmt.Sprintf("%d of %d", in, n)
			if effects > 0 {
				sign = fmt.Sprintf("%d of %d", same, effects)
			}
			if r.Status == reproduce.Reproduced {
				why = ""
			}
		}
		all.Add(r.ID, string(r.Status), inside, sign, r.Says, why)
		for _, p := range r.Points {
			here, in, same := p.As.Format(p.Here), yes(p.Within), yes(p.SameSign)
			if p.Why != "" {
				here, in, same = p.Why, "", ""
			}
			each.Add(r.ID, p.Label, string(p.As), p.As.Format(p.Published), here, in, same)
		}
	}
	return all, each, []string{
		fmt.Sprintf("%d claims: %d reproduced, %d not reproduced, %d not checkable", len(found),
			counts[reproduce.Reproduced], counts[reproduce.NotReproduced], counts[reproduce.NotCheckable]),
		fmt.Sprintf("%d points: %d within tolerance; %d of %d effects above 3 %% with the published sign", points, within, signs, signed),
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
