package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/results"
	"github.com/overlapse/overlapse/cmd/overlapse/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/engines/reproduce"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/samples/workloads"
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
		ValidArgsFunction: usage.OneOf(reproduce.Names()...),
	}
	usage.ChoiceFlag(c, &format, "format", "table", "table, json or html", "table", "json", "html")
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
	found, err := reproduce.Run(workloads.Files, papers, only, on, inputs.StopFunc(ctx), bar.ChangeMax, func() { bar.Add(1) })
	bar.Finish()
	switch {
	case errors.Is(err, replay.ErrStopped):
		return results.Stopped(ctx, err)
	case err != nil:
		return err
	}
	write := func(w io.Writer) error {
		switch format {
		case "json":
			return schema.WriteJSON(w, found)
		case "html":
			return reproduce.WritePage(w, found)
		}
		if points {
			a.printPoints(w, found)
		}
		a.printClaims(w, found)
		return nil
	}
	if output == "" {
		return write(a.Out)
	}
	return a.files.Write(output, write)
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
			return nil, nil, usage.Unknown(fmt.Sprintf("no paper or claim %q (papers: %s)", word, strings.Join(reproduce.Names(), ", ")), word, ids)
		}
	}
	return all, func(id string) bool { return wanted[id] }, nil
}

// printClaims prints a row for each claim, and the numbers of claims by status.
func (a *app) printClaims(w io.Writer, results []reproduce.ClaimResult) {
	t := a.Table("claim", "status", "within", "same sign", "says", "cause or reason")
	counts := map[reproduce.Status]int{}
	var points, within, signed, signs int
	for _, r := range results {
		in, effects, same := r.Count()
		counts[r.Status]++
		points, within, signed, signs = points+len(r.Points), within+in, signed+effects, signs+same
		row := table.Row{r.ID, string(r.Status), "", "", r.Says, r.Why}
		if n := len(r.Points); n > 0 {
			row[2] = fmt.Sprintf("%d of %d", in, n)
			if effects > 0 {
				row[3] = fmt.Sprintf("%d of %d", same, effects)
			}
			if r.Status == reproduce.Reproduced {
				row[5] = ""
			}
		}
		t.AppendRow(row)
	}
	t.SetOutputMirror(w)
	t.Render()
	fmt.Fprintf(w, "\n%d claims: %d reproduced, %d not reproduced, %d not checkable\n", len(results),
		counts[reproduce.Reproduced], counts[reproduce.NotReproduced], counts[reproduce.NotCheckable])
	fmt.Fprintf(w, "%d points: %d within tolerance; %d of %d effects above 3 %% with the published sign\n", points, within, signs, signed)
}

// printPoints prints a row for each published number.
func (a *app) printPoints(w io.Writer, results []reproduce.ClaimResult) {
	t := a.Table("claim", "point", "as", "published", "replayed", "within", "same sign")
	for _, r := range results {
		for _, p := range r.Points {
			here, in, same := p.As.Format(p.Here), yes(p.Within), yes(p.SameSign)
			if p.Why != "" {
				here, in, same = p.Why, "", ""
			}
			t.AppendRow(table.Row{r.ID, p.Label, string(p.As), p.As.Format(p.Published), here, in, same})
		}
	}
	t.SetOutputMirror(w)
	t.Render()
	fmt.Fprintln(w)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
