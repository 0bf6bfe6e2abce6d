// Own-strategy replays a trace under a strategy that is defined here, beside built-in ones.
//
//	go run ./samples/own-strategy [TRACE]
package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

// putSlices sends the output of a kernel while it runs. The workgroup that completes a slice
// hands it to a copy engine, which signals its arrival; the next kernel waits for all signals.
var putSlices = plan.Strategy{
	Name: "putslices",
	Plan: func(pl *plan.Planner, _ plan.Values) (emit plan.Emitter, why string) {
		pl.Take(func(p *workload.Pair) bool {
			return p.Direction == workload.ComputeThenCollective && p.Collective >= 0 &&
				pl.Workload.Collectives[p.Collective].Op == trace.AllToAll &&
				pl.Workload.Ops[p.First[0]].Tiling.Tiles >= len(p.First)*perRank
		})
		if len(pl.Pairs) == 0 {
			return nil, "no all-to-all behind a kernel with enough tiles"
		}
		arrived := make([][]program.Flag, len(pl.Pairs)) // by pair and destination: slices from all ranks
		for i := range pl.Pairs {
			arrived[i] = pl.Program.NewFlags(len(pl.RanksOf(pl.Pairs[i].Coll)), "slices that arrived at rank")
		}
		return func(r *plan.Rank, p *plan.Pair) { write(r, p, arrived[p.Index]) }, ""
	},
}

const perRank = 8 // slices for each rank

// write writes a pair on one rank: a kernel, and a wait for the slices of all ranks.
func write(r *plan.Rank, p *plan.Pair, arrived []program.Flag) {
	pl, ranks := r.Planner, r.Planner.RanksOf(p.Coll)
	n, me := len(ranks), slices.Index(ranks, int32(r.ID))
	op, _ := r.Split(p)
	g := pl.TilesOf(op) // tiles, and the time of one
	all := n * perRank
	order := plan.Around(n, me+1, 1) // the next rank first, the own share last
	cut := plan.Cut{N: g.Tiles, Parts: all}
	complete := pl.Program.NewFlags(all, "tiles that are complete of slice")
	k := pl.KernelOf(op, g)
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		slice := cut.Of(tile)
		to, done := order[slice/perRank], plan.Signal(complete[slice], "")
		done.Last = int64(cut.From(slice+1) - cut.From(slice)) // only the last one continues
		buf = append(buf, plan.Compute(g.Time, g.Read, g.Write), done)
		if to == me { // it was written to its place
			return append(buf, plan.Signal(arrived[me], ""))
		}
		put := plan.PutTo(ranks[to], float64(p.Coll.Bytes)/float64(all), arrived[to])
		put.DMA = true
		return append(buf, put)
	}
	r.WriteAsOne(p, k, func(s *plan.Stream) { s.Wait(arrived[me], int64(all), "slices") })
}

func main() {
	path := append(os.Args[1:], "samples/moe-down-triton")[0]
	run := must(format.Open(path, format.Options{}))
	w := must(lift.Workload(run, lift.Options{}))
	m := must(machine.Load(fmt.Sprintf("%s:%d", machine.ForDevice(run.Ranks[0].Device), w.World)))
	selected := append(must(engines.ParseSelection("bulk,decompose,fused,onesided")), plan.Selection{Strategy: putSlices})
	outcomes := must(engines.Compare(w, m, selected, plan.Scenario{}, replay.Options{}, nil))
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "strategy\ttime\tchange\tdoes not apply")
	for _, o := range outcomes {
		if o.Why != "" {
			fmt.Fprintf(t, "%s\t-\t-\t%s\n", o.Strategy.Name, o.Why)
			continue
		}
		change := 100 * (float64(o.Time)/float64(outcomes[0].Time) - 1)
		fmt.Fprintf(t, "%s\t%.1f µs\t%+.1f %%\n", o.Strategy.Name, float64(o.Time)/1e3, change)
	}
	t.Flush()
}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return v
}
