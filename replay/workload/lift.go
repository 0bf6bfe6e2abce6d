package workload

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// Options of Lift. The zero value takes everything from the run.
type Options struct {
	World int // ranks to replay; 0: those of the job

	// Unprofiled asks for the times of a run without the profiler, which makes
	// launching several times slower: short pauses of the host count as its.
	Unprofiled bool

	// What the user knows better than the trace, by kernel: its name, whole or
	// up to its arguments, or name@workgroups for the launches with that many.
	Shapes map[string]Shape
	Tiles  map[string]Tiling // Tiles alone, or TileM and TileN; the rest follows
}

// maxOps bounds what the copies of uncaptured ranks may add up to.
const maxOps = 1 << 23

// Lift turns a run into what strategies can replan. The run is not changed and
// the same run gives the same workload, in whatever order it was recorded.
//
// The stages, each in a file of its own:
//
//  1. steps.go   iterations that the program marked
//  2. ops.go     device spans become ops, rank by rank, and meet their launches
//  3. order.go   what each op waited for, and the gap that is left
//  4. shape.go   sizes, from the operator that launched it
//     tiling.go  workgroups and tiles, from the grid and the kernel's name
//  5. world.go   ranks that nobody captured become copies
//  6. collect.go collectives, matched over ranks
//  7. pairs.go   which op's output another one consumes
//
// The error says that the run cannot be spread over the world that was asked for.
func Lift(run *trace.Run, o Options) (*Workload, error) {
	w := &Workload{Run: run, Captured: len(run.Ranks), Unprofiled: o.Unprofiled}
	sources := gather(run)
	l := lifter{Workload: w, opt: o, sources: sources, kernels: map[Kernel]*Kernel{}, evidence: map[string][]string{}}
	l.noteEstimates()
	l.markSteps()
	l.halves = make([]candidates, len(sources))
	for i := range sources { // rank by rank: facts of one are kept at a time
		src := &sources[i]
		src.settle(run)
		l.order(src)
		l.measure(src)
		src.assignSteps()
		l.halves[i] = l.findCandidates(src)
		src.facts = nil
	}
	if err := l.spread(); err != nil {
		return nil, err
	}
	for _, row := range w.Rows {
		w.Calls = append(w.Calls, middle(sources[row].calls))
	}
	l.collect()
	l.pair()
	if len(w.Ops) == 0 {
		l.note("the run holds no device operation")
	}
	return w, nil
}

// A lifter carries one Lift from stage to stage.
type lifter struct {
	*Workload
	opt      Options
	sources  []source            // by row of Run.Ranks
	halves   []candidates        // by row of Run.Ranks: found while ids count from the source's first op
	ids      []int               // by row of Run.Ranks: its rank in the world
	names    []kernelName        // by id; read on demand
	kernels  map[Kernel]*Kernel  // those of all ops
	evidence map[string][]string // that of all halves, by its lines
	refuted  int                 // dependencies that the host's calls suggest and the times deny

	groupUsers [][]int // by row of Run.Groups: captured ranks that communicate in it; found on demand
}

// noteEstimates tells what stands in for measurements in a run that holds none.
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

// noteCount notes what applies to n things, if any: "3 collectives left out", with many or one as the noun.
func (l *lifter) noteCount(n int, one, many, what string) {
	switch {
	case n == 1:
		l.note("1 %s %s", one, what)
	case n > 1:
		l.note("%d %s %s", n, many, what)
	}
}

// middle is the median of durations; 0 for none.
func middle(list []trace.Time) trace.Time {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
