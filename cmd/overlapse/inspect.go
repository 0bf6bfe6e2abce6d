package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/replay/lift"
)

// inspectOptions are the flags of `overlapse inspect`.
type inspectOptions struct {
	path     string
	machine  string
	format   string
	dataflow string // a file of corrections
	results.Options
}

func (a *app) inspectCommand() *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Show the contents of a trace: ranks, kernels, collectives, pairs and the evidence for them",
		Long: `Reads a trace and prints what bounds a step (compute, transfer, waiting for a late rank, the
host, copies), which rank the others wait for, and the next command. Then: the collectives by
kind and size, with bandwidths as nccl-tests defines them; the kernels that take most time; the
pairs of computation and communication that a strategy can overlap; the states of each rank.
--all adds the evidence for what is inferred: tiles, pairs, dependencies, steps and files.`,
		Example: `  overlapse inspect samples/moe-ep4
  overlapse inspect samples/moe-ep4 --all
  overlapse inspect samples/moe-ep4 --format json | jq .workload.pairs`,
		Args: tracePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = inputOf(&a.Reader, args)
			return a.inspect(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.machine, "machine", "", "machine that unknown sizes of collectives are estimated for, or that a workload file runs on; default: sizes stay unknown, and the machine that the workload file names")
	cli.ChoiceFlag(c, &o.format, "format", "table", "table or json", "table", "json")
	f.BoolVar(&o.All, "all", false, "also print the evidence for pairs, tiles and dependencies, every step, and the file of each rank")
	f.BoolVar(&o.Ledger, "ledger", false, "also list the events that were skipped, repaired or noted, with file, position and reason")
	cli.IntFlag(f, &o.Top, "top", 10, cli.Range[int]{Most: maxRows}, "rows of each table; 0: all")
	cli.DataflowFlag(c, &o.dataflow)
	f.BoolVar(&o.Explain, "explain", false, "also print the definition of every metric")
	return c
}

func (a *app) inspect(o inspectOptions) error {
	// The run and its workload live to the end: collecting garbage early saves as much memory as
	// they take. The run has few pointers, so that it costs little time while it is read.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	run, err := a.One(o.path, o.machine)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // temporary memory of the reader
	debug.SetGCPercent(12)
	corrections, err := cli.ReadCorrections(o.dataflow)
	if err != nil {
		return err
	}
	done := a.Waiting(func() string { return "finding operations and what they wait for" }, nil)
	w, err := lift.Workload(run, lift.Options{Dataflow: corrections, WithoutHosts: true})
	done()
	if err != nil {
		return cli.LiftError(o.path, err)
	}
	debug.FreeOSMemory() // temporary memory of lifting
	on := cli.KnownMachine(w)
	if on != nil {
		lift.Shapes(w, on)
		w.Slow = lift.SlowCollectives(w, on)
	}
	if o.machine != "" && !cli.IsYAML(o.path) {
		m, err := a.MachineFor(o.machine, w)
		if err != nil {
			return err
		}
		if note := lift.GuessSizes(w, &m); note != "" {
			w.Notes = append(w.Notes, note)
		}
		on = &m
	}
	v := results.Inspect(w, on)
	a.shown = v
	if o.format == "json" {
		return results.WriteJSON(a.Out, v.JSON())
	}
	v.Options, v.Input, v.Machine = o.Options, a.again(cli.Flags{Path: o.path}), o.machine
	v.Print(a.Console)
	return nil
}

// maxRows is the largest number of rows, columns or pixels that a flag may ask for.
const maxRows = 100_000
