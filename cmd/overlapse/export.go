package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/plain"
	"github.com/overlapse/overlapse/viz/pprof"
)

// exportOptions are the flags of `overlapse export`.
type exportOptions struct {
	path    string
	machine string
	to      string
	output  string
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export PATH --to chrome|pprof|html|csv",
		Short: "Write a measured trace as a Perfetto timeline, a pprof profile, an HTML report or CSV",
		Long: `Converts a trace without replaying it. All ranks are aligned to one clock. For the
files of predicted strategies, use overlapse replay -o.`,
		Example: `  overlapse export samples/moe-ep4 --to chrome -o moe.json
  overlapse export samples/moe-ep4 --to pprof -o moe.pb.gz && go tool pprof -top moe.pb.gz
  overlapse export samples/moe-down-fused-wg --to html -o fused.html`,
		Args: tracePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = a.input(args)
			return a.export(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.to, "to", "chrome", "chrome (for Perfetto and chrome://tracing), pprof, html or csv (one line per kernel, collective and copy)")
	f.StringVar(&o.machine, "machine", "", "machine that a workload file runs on; default: the one that it names")
	f.StringVarP(&o.output, "output", "o", "", "file to write; default: standard output")
	return c
}

func (a *app) export(o exportOptions) error {
	if err := choice("to", o.to, "chrome", "pprof", "html", "csv"); err != nil {
		return err
	}
	if o.machine != "" && !isYAML(o.path) {
		return usageError{errors.New("--machine needs a workload file: a trace is exported as measured (see overlapse export --help)")}
	}
	run, err := a.open(o.path, o.machine)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		switch o.to {
		case "pprof":
			return pprof.Write(w, run, nil)
		case "csv":
			return writeSpans(w, run)
		case "html":
			return html.Write(w, html.Report{Title: "overlapse: " + o.path, Runs: []html.Named{{Name: basisOf(run), Run: run}}})
		}
		return writePerfetto(plain.JSON(w), run, nil)
	}
	if o.output == "" {
		if o.to == "pprof" && a.width > 0 {
			return usageError{errors.New("a pprof profile is binary: give -o FILE, or a pipe")}
		}
		if err := write(a.data); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		return nil
	}
	return a.writeFile(o.output, write)
}

// writeSpans writes a line of CSV for each kernel, collective and copy, in order of start.
func writeSpans(w io.Writer, run *trace.Run) error {
	c := csv.NewWriter(plain.Writer(w))
	_ = c.Write([]string{"rank", "stream", "kind", "name", "start_ns", "duration_ns", "workgroups", "collective", "bytes"})
	for _, s := range run.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		workgroups, collective, bytes := "", "", ""
		if k := run.Kernel(s); k != nil && k.WGs() > 0 {
			workgroups = strconv.Itoa(k.WGs())
		}
		if x := run.Comm(s); x != nil {
			collective, bytes = x.Op.String(), strconv.FormatInt(x.Bytes(), 10)
		}
		if x := run.Copy(s); x != nil && x.Bytes > 0 {
			bytes = strconv.FormatInt(x.Bytes, 10)
		}
		_ = c.Write([]string{
			strconv.Itoa(run.RankID(int32(run.RankOf(s)))), run.LaneLabel(s.Lane), s.Kind.String(), plain.Line(run.NameOf(s)),
			strconv.FormatInt(int64(s.Start), 10), strconv.FormatInt(int64(s.Dur()), 10), workgroups, collective, bytes,
		})
	}
	c.Flush()
	return c.Error()
}
