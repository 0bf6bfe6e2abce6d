package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
)

func (a *app) strategiesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "strategies [NAME]",
		Short:   "List the overlap strategies, or explain one",
		Example: "  overlapse strategies\n  overlapse strategies decompose",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.explainStrategy(args[0])
			}
			t := a.table("strategy", "from", "what it does")
			for _, e := range engines.All() {
				t.AppendRow(table.Row{e.Name, e.From, e.Summary})
			}
			t.Render()
			return nil
		},
	}
}

func (a *app) explainStrategy(name string) error {
	i := slices.IndexFunc(engines.All(), func(e engines.Engine) bool { return e.Name == name })
	if i < 0 {
		return usageError{fmt.Errorf("no strategy %q (there are %s)", name, strings.Join(engines.Names(), ", "))}
	}
	e := engines.All()[i]
	fmt.Fprintf(a.out, "%s: %s\n", e.Name, e.Summary)
	if e.From != "" {
		fmt.Fprintf(a.out, "from: %s\n", e.From)
	}
	fmt.Fprintf(a.out, "\n%s\n", text.WrapSoft(e.Detail, 78))
	for i, p := range e.Params {
		if i == 0 {
			fmt.Fprintln(a.out, "\nparameters:")
		}
		doc := p.Doc
		if p.Choices != nil {
			doc += " (" + strings.Join(p.Choices, ", ") + ")"
		}
		fmt.Fprintf(a.out, "  %-10s %s; default %s\n", p.Name, doc, p.Default)
	}
	return nil
}

// table is an empty table in the house style, written to standard output.
func (a *app) table(columns ...string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(a.out)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	row := make(table.Row, len(columns))
	for i, c := range columns {
		row[i] = c
	}
	t.AppendHeader(row)
	if a.width > 0 { // the last column is the sentence: it wraps
		t.SetColumnConfigs([]table.ColumnConfig{{Number: len(columns), WidthMax: max(40, a.width-90), WidthMaxEnforcer: text.WrapSoft}})
	}
	return t
}
