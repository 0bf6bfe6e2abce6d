package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/pprof"
)

// exportOptions are the flags of `overlapse export`.
type exportOptions struct {
	path    string
	machine string
	to      string
	output  string

	strategy string
	isolated bool // of kineto

	operators *chrome.Operators // of the schedule that is written; nil: unknown
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export PATH --to FORM",
		Short: "Write a trace or a strategy of it as a timeline, PyTorch profiles, a pprof profile, an HTML report or a table",
		Long: `Converts a trace; with --strategy, the predicted schedule of a strategy. All ranks are
aligned to one clock. For the files of several strategies, use overlapse replay -o.

--to kineto writes a folder with a file for each rank, as PyTorch's profiler does, for
Holistic Trace Analysis and PyTorch's own readers. --isolated instead copies the profiles of
a capture, byte by byte but for the durations of kernels: those that they would take alone,
without interference and without waits for peers. Inductor's profile-guided estimation reads
such a file; the settings of its overlap scheduling that the prediction favours are printed.`,
		Example: `  overlapse export samples/moe-ep4 --to chrome -o moe.json
  overlapse export samples/fsdp-step --to kineto --isolated -o alone
  overlapse export samples/fsdp-step --to kineto --strategy multistream:keep_gathered=on -o predicted
  overlapse export samples/moe-ep4 --to pprof -o moe.pb.gz && go tool pprof -top moe.pb.gz
  overlapse export samples/moe-ep4 --to csv -o spans.csv
  overlapse export samples/moe-down-fused-wg --to html -o fused.html`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.path = inputOf(&a.Reader, args)
			return a.export(c.Context(), o)
		},
	}
	f := c.Flags()
	o.forms().flag(c, &o.to, "to")
	f.StringVar(&o.machine, "machine", "", "machine that a workload file runs on; default: the one that it names")
	f.StringVarP(&o.output, "output", "o", "", "file to write, a folder for kineto; default: standard output")
	f.StringVar(&o.strategy, "strategy", "", "write the predicted schedule of this strategy")
	f.BoolVar(&o.isolated, "isolated", false, "kineto: the captured profiles with the durations that kernels take alone")
	return c
}

// forms are those of a run.
func (o *exportOptions) forms() forms[*trace.Run] {
	rows := func(run *trace.Run) iter.Seq[results.Span] { return results.Spans(results.BasisOf, run) }
	return forms[*trace.Run]{
		{name: "chrome", note: "for Perfetto and chrome://tracing", write: func(w io.Writer, run *trace.Run) error {
			return results.WritePerfetto(guard.JSON(w), run, o.operators, nil, nil)
		}},
		{name: "kineto", note: "a folder of PyTorch profiles"},
		{name: "pprof", binary: true, write: func(w io.Writer, run *trace.Run) error { return pprof.Write(w, run, nil) }},
		{name: "html", write: func(w io.Writer, run *trace.Run) error {
			return html.Write(w, html.Report{Title: "overlapse: " + o.path, Runs: []html.Named{{Name: results.BasisOf(run), Run: run}}})
		}},
		{name: "json", note: "a row per kernel, collective, copy and put, as in csv", write: func(w io.Writer, run *trace.Run) error {
			return writeSpansJSON(w, rows(run))
		}},
		asCSV(rows),
	}
}

func (a *app) export(ctx context.Context, o exportOptions) error {
	if o.isolated && (o.to != "kineto" || o.strategy != "") {
		return cli.Errorf("--isolated needs --to kineto, and no --strategy: it copies captured profiles (see overlapse export --help)")
	}
	if o.machine != "" && o.strategy == "" && !o.isolated && !cli.IsYAML(o.path) {
		return cli.Errorf("--machine needs --strategy, --isolated or a workload file: a trace is exported as measured (see overlapse export --help)")
	}
	if o.to == "kineto" {
		return a.exportKineto(ctx, o)
	}
	run, operators, err := a.exported(ctx, o)
	if err != nil {
		return err
	}
	o.operators = operators
	f := o.forms().named(o.to)
	if o.output == "" || o.output == "-" {
		if err := f.notOnTerminal(a, "give -o FILE, or a pipe"); err != nil {
			return err
		}
	}
	return a.writeOut(o.output, func(w io.Writer) error { return f.write(w, run) })
}

// writeOut writes a file, or standard output for "" and "-".
func (a *app) writeOut(output string, write func(io.Writer) error) error {
	if output != "" && output != "-" {
		return a.files.Write(output, write)
	}
	if err := write(a.Data); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

func (a *app) reportCommand() *cobra.Command {
	var o cli.Flags
	var output string
	c := &cobra.Command{
		Use:   "report PATH...",
		Short: "Write one self-contained HTML file with the strategies' times and timelines",
		Long: `Replays a trace and writes only the report. overlapse replay -o also writes the Perfetto
timeline, the pprof profiles and the results as JSON.`,
		Example: `  overlapse report samples/moe-ep4
  overlapse report samples/moe-ep4 --strategy bulk,fused -o moe.html`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path = inputOf(&a.Reader, args)
			return a.writeReport(c.Context(), o, output)
		},
	}
	o.AddTo(c, "strategies, with settings")
	c.Flags().StringVarP(&output, "output", "o", "report.html", "file to write")
	return c
}

func (a *app) writeReport(ctx context.Context, o cli.Flags, output string) error {
	sel, w, m, err := cli.Prepare(&a.Reader, o, engines.ParseSelection)
	if err != nil {
		return err
	}
	opts := recording(0)
	opts.Usage, opts.Stop = true, stopFunc(ctx)
	r, err := results.Of(ctx, a.Console, o.Path, w, m, sel, o.Scenario(), opts, true, o.Strategy == "all")
	if err != nil {
		return err
	}
	if err := a.files.Write(output, func(w io.Writer) error { return html.Write(w, r.HTML()) }); err != nil {
		return err
	}
	if left := r.Coarse(); left != "" {
		a.Notef("%s", left)
	}
	a.Notef("wrote %s", output)
	if err := o.FailedError(r.Outcomes); err != nil { // the report says so too
		a.Notef("%v", err)
	}
	return nil
}

// writeSpansJSON writes {"schema": 1, "spans": [...]}, a span a line.
func writeSpansJSON(w io.Writer, rows iter.Seq[results.Span]) error {
	b := bufio.NewWriter(guard.JSON(w))
	fmt.Fprintf(b, "{\"schema\":%d,\"spans\":[", results.Version)
	before := "\n"
	for row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(b, "%s%s", before, text); err != nil {
			return err
		}
		before = ",\n"
	}
	fmt.Fprint(b, "\n]}\n")
	return b.Flush()
}
