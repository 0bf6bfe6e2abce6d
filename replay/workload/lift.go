package workload

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// Options of Lift. The zero value takes all information from the run.
type Options struct {
	World int // number of ranks to replay; 0: those of the job

	// Unprofiled predicts a run without the profiler, which makes launches several times
	// slower: short pauses of the host count as profiler overhead.
	Unprofiled bool

	// Sizes and tiles given by the user, by kernel: its name, whole or up to its arguments, or
	// name@workgroups for launches with that number of workgroups.
	Shapes map[string]Shape
	Tiles  map[string]Tiling // Tiles alone, or TileM and TileN; the rest is derived

	Dataflow []Correction // of what depends on what, by the user
}

// NoDeviceOperation is the note of a workload without operations.
const NoDeviceOperation = "the run holds no device operation"

// Lift turns a run into a Workload. The run is not changed. The result does not depend on
// the order of recording.
//
// The stages, each in a file of its own:
//
//  1. world.go   the ranks: captured ones, and copies of these
//  2. ops.go     device spans become ops, by rank, and are joined with their launches
//     steps.go   iterations marked by the program
//  3. order.go   dependencies of each op, and the remaining gap
//     dataflow_build.go     what the data of each op depend on: from recorded accesses
//     dataflow_memory.go    (last writer and readers of every byte range),
//     dataflow_annotate.go  ranges of frameworks, streams and events
//  4. shape.go   sizes, from the operator that launched it
//     tiling.go  workgroups and tiles, from the grid and the kernel's name
//  5. collect.go collectives, matched over ranks
//     guess.go   their operations where the trace does not give them
//     dataflow_given.go     the user's corrections of dependencies
//  6. pairs.go   pairs of a producer and a consumer, found by walks (search.go, candidates.go)
//
// It returns an error if the ranks of the run do not fit Options.World, or if a correction
// fits no op.
func Lift(run *trace.Run, o Options) (*Workload, error) {
	w := &Workload{Run: run, Damage: run.Damage(), Captured: len(run.Ranks), Unprofiled: o.Unprofiled}
	l := lifter{Workload: w, opt: o, sources: make([]source, len(run.Ranks)), flows: make([][][]Edge, len(run.Ranks))}
	l.noteEstimates()
	if err := l.spread(); err != nil {
		return nil, err
	}
	gather(run, l.sources)
	w.Steps = markSteps(l.sources)
	kernels, ranges := newKernelReader(run, o.Shapes, o.Tiles), rangesOf(run.Names)
	hosts := make([]recorder, len(l.sources))
	for i := range l.sources { // rank by rank: facts of one rank are kept at a time
		src := &l.sources[i]
		src.settle(run)
		l.refuted += src.order(run)
		for k := range src.ops {
			kernels.measure(&src.ops[k], src.facts[k].operator, src.resetsCounter(run, k))
		}
		src.assignSteps()
		flow(run, src, ranges, l.flows[i])
		hosts[i] = src.host(run)
		src.facts = nil
	}
	recordHosts(run, hosts, l.sources)
	l.fill()
	for _, row := range w.Rows {
		w.Calls = append(w.Calls, hosts[row].call)
		w.Hosts = append(w.Hosts, hosts[row].Host)
	}
	l.collect()
	l.noteCount(GuessOperations(w), "collective", "collectives", "without a name of the operation: guessed from the kernels before them (rocprofv3 --rccl-trace records it)")
	if err := correct(w, o.Dataflow); err != nil {
		return nil, err
	}
	FindPairs(w)
	l.noteUnknownCommunication()
	if len(w.Ops) == 0 {
		l.note(NoDeviceOperation)
	}
	return w, nil
}

// A lifter is the state of one Lift.
type lifter struct {
	*Workload
	opt     Options
	sources []source   // by row of Run.Ranks
	flows   [][][]Edge // by row of Run.Ranks, op: what its data depend on
	ids     []int      // by row of Run.Ranks: its rank in the world
	refuted int        // number of dependencies that host calls suggest and times contradict

	groupUsers [][]int // by row of Run.Groups: captured ranks that communicate in it; filled on demand
}

// noteEstimates adds a note about the estimates in a run without measurements.
func (l *lifter) noteEstimates() {
	if l.Run.Estimated == "" {
		return
	}
	l.note("%s", l.Run.Estimated)
	for _, e := range l.Run.Ledger.Entries {
		if e.Action == trace.Noted {
			l.note("%s", e.Reason)
		}
	}
}

func (l *lifter) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// noteCount adds a note about n things, if n > 0: "3 collectives left out"; many or one is
// the noun.
func (l *lifter) noteCount(n int, one, many, what string) {
	if n > 0 {
		l.note("%s %s", counted(n, one, many), what)
	}
}

// Median is the median of durations, the upper of two; 0 for none.
func Median(list []trace.Time) trace.Time {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[len(list)/2]
}
