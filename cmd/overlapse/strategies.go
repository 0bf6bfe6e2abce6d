package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
)

func (a *app) strategiesCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:     "strategies [NAME]",
		Short:   "List the overlap strategies, or describe one",
		Example: "  overlapse strategies\n  overlapse strategies decompose\n  overlapse strategies --format json",
		Args:    atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			shown, err := strategiesNamed(args)
			switch {
			case err != nil:
				return err
			case format == "json":
				return results.WriteJSON(a.Out, strategiesOf(shown))
			case len(args) == 1:
				a.explainStrategy(shown[0])
				return nil
			}
			t := cli.Table{Columns: []string{"strategy", "from", "what it does"}}
			for _, e := range engines.All() {
				t.Add(e.Name, e.From, e.Summary)
			}
			a.Show(&t)
			return nil
		},
		ValidArgsFunction: cli.OneOf(engines.Names()...),
	}
	cli.ChoiceFlag(c, &format, "format", "table", "table or json", "table", "json")
	return c
}

// strategiesNamed is the strategy of the name, or all.
func strategiesNamed(names []string) ([]plan.Strategy, error) {
	if len(names) == 0 {
		return engines.All(), nil
	}
	e, ok := engines.Named(names[0])
	if !ok {
		return nil, cli.Wrap(plan.Unknown("no strategy", names[0], "there are", engines.Names()))
	}
	return []plan.Strategy{e}, nil
}

// A strategyDoc is the JSON form of a strategy.
type strategyDoc struct {
	Name       string       `json:"name"`
	From       string       `json:"from,omitempty"`
	Summary    string       `json:"summary"`
	Detail     string       `json:"detail"`
	Parameters []plan.Param `json:"parameters"`
	Bound      bool         `json:"bound,omitempty"`  // a bound, not a schedule
	Future     bool         `json:"future,omitempty"` // needs hardware that does not exist yet
}

func strategiesOf(all []plan.Strategy) []strategyDoc {
	docs := []strategyDoc{}
	for _, e := range all {
		bound := e.Kind == plan.Exact || e.Kind == plan.Bound
		docs = append(docs, strategyDoc{e.Name, e.From, e.Summary, engines.About(e.Name), e.Params, bound, e.Kind == plan.Future})
	}
	return docs
}

// explainStrategy prints what a strategy does, and its parameters.
func (a *app) explainStrategy(e plan.Strategy) {
	fmt.Fprintf(a.Out, "%s: %s\n", e.Name, e.Summary)
	if e.From != "" {
		fmt.Fprintf(a.Out, "from: %s\n", e.From)
	}
	fmt.Fprintln(a.Out)
	for line := range strings.SplitSeq(engines.About(e.Name), "\n") {
		fmt.Fprintln(a.Out, text.WrapSoft(line, 78))
	}
	for i, p := range e.Params {
		if i == 0 {
			fmt.Fprintln(a.Out, "\nparameters:")
		}
		doc := p.Doc
		if p.Choices != nil {
			doc += " (" + strings.Join(p.Choices, ", ") + ")"
		}
		if p.Experimental {
			doc += "; experimental: no measurement, claim or sample has another value"
		}
		fmt.Fprintf(a.Out, "  %-10s %s; default %s\n", p.Name, doc, p.Default)
	}
}
