// Package lift turns a captured run into a workload, in stages of which each uses only those before it. Its files in the
// order in which a run meets them:
//
//	lift.go       the stages in their order; steps that all ranks ran
//	kernels.go    sizes, tiles and traffic of a kernel: kernelshape.go by its operator, traffic.go by operands that its
//	              operator records, tiling.go by its name and its grid
//	world.go      the job's ranks, those that stand for ranks that nobody captured, their nodes; messages
//	calls.go      what names of host calls and ranges of serving engines say; what the program was written with
//	ops.go        operations of a rank
//	order.go      what each of them waited for: streams, events, stated edges
//	host.go       what the host did for them; recorder.go keeps it
//	batches.go    forward passes and loops of a program that marks none; steps.go, marked iterations
//	build.go      what the data of operations depend on: by recorded accesses, annotate.go by ranges that frameworks mark,
//	              gradients.go of training, given.go as the user corrects it
//	collect.go    collectives over all ranks
//	unseen.go     waits for ranks that nobody captured; collectives that take longer than the machine's; collectives
//	              without a name or a size, pairguess.go by the kernels around them
//	pairs.go      computation and communication that may overlap: search.go walks along the dataflow, candidates.go
//	              judges two operations, chain.go finds pairs in several parts
//	shapes.go     GEMMs of unknown size, by what is around them
package lift

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Options of Workload. The zero value takes all information from the run.
type Options struct {
	World int // number of ranks to replay; 0: those of the job

	// Unprofiled predicts a run without the profiler, which makes launches several times
	// slower: short pauses of the host count as profiler overhead.
	Unprofiled bool

	// WithoutHosts leaves out what the hosts did, which only a replay needs, Workload.Hosts, and drops the run's Calls.
	WithoutHosts bool

	// Sample leaves out iterations of many that run the same kernels (rule V36).
	Sample bool

	// Sizes and tiles of kernels, beside those of Dataflow, by kernel: its name, whole or up to its
	// arguments, or name@workgroups for launches with that number of workgroups.
	Shapes map[string]workload.Shape
	Tiles  map[string]workload.Tiling // Tiles alone, or TileM and TileN; the rest is derived

	Dataflow []Correction // of what depends on what, and of the sizes of kernels, by the user
}

// NoDeviceOperation is the note of a workload without operations.
const NoDeviceOperation = "the run holds no device operation"

// Workload turns a run into a workload. The run is not changed, unless WithoutHosts is set. The result does not depend on
// the order of recording.
//
// It returns an error if the ranks of the run do not fit Options.World, or if a correction
// fits no op.
func Workload(run *trace.Run, o Options) (*workload.Workload, error) {
	return workloadWithout(run, o, nil)
}

// workloadWithout is Workload without some operations.
func workloadWithout(run *trace.Run, o Options, out map[trace.SpanID]bool) (*workload.Workload, error) {
	w := &workload.Workload{Run: run, Damage: run.Damage(), Captured: len(run.Ranks), Unprofiled: o.Unprofiled}
	l := lifter{Workload: w, opt: o, sources: make([]rankOps, len(run.Ranks)), flows: make([][][]workload.Edge, len(run.Ranks))}
	l.noteEstimates()
	l.noteKernels()
	l.findLead()
	if out != nil {
		maps.Copy(out, l.lead)
		l.lead = out
	}
	if err := l.spread(); err != nil {
		return nil, err
	}
	gatherOps(run, l.sources, l.lead)
	w.Steps = iterationSteps(l.sources)
	shapes, tiles := sizesBy(o.Dataflow)
	maps.Copy(shapes, o.Shapes)
	maps.Copy(tiles, o.Tiles)
	kernels, ranges := newKernelReader(run, shapes, tiles), rangesOf(run)
	hosts := make([]recorder, len(l.sources))
	for i := range l.sources { // rank by rank: facts of one rank are kept at a time
		rank := &l.sources[i]
		l.refuted += rank.Resolve(run)
		for k := range rank.Ops {
			kernels.measure(&rank.Ops[k], rank.Facts[k].Operator, rank.resetsCounter(run, k))
		}
		flowOf(run, rank, i, ranges, l.flows[i])
		if !o.WithoutHosts {
			hosts[i] = rank.Host(run)
		}
		rank.Free()
	}
	if !o.WithoutHosts {
		recordHosts(run, hosts, l.sources)
		for _, row := range w.Rows {
			w.Calls, w.Hosts = append(w.Calls, hosts[row].Call), append(w.Hosts, hosts[row].Host)
		}
	}
	l.steps()
	l.fill()
	l.sources, l.flows = nil, nil // for the garbage collector
	if o.WithoutHosts {
		run.Calls = nil
	}
	l.collect()
	if alike := l.Classify(); alike && o.Sample && out == nil {
		if first, n := l.sample(); n > 0 {
			return l.stretch(first, n)
		}
	}
	if len(run.Spans) > 1<<20 {
		debug.FreeOSMemory() // calls and what matching needed
	}
	l.noteCount(guessOperations(w), "collective", "collectives", "without a name of the operation: guessed from the kernels around them")
	l.noteCount(sizesByNorms(w), "collective", "collectives",
		"have the size of the rows and columns of the norm behind them, as its grid shows them")
	l.noteCount(sizesByRows(w), "collective", "collectives",
		"have the size of the rows of the norm behind them and of the columns of the model's hidden state")
	tokens(w)
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Step >= 0 {
			kernels.SizeByName(op, w.Steps[op.Step].Batch.Tokens)
		}
	}
	l.noteCount(sizesByProducts(w), "collective", "collectives", "have the size of a GEMM's output that they add up")
	l.waitsForUnseen()
	l.noteUnknownSizes()
	if err := correct(w, o.Dataflow); err != nil {
		return nil, err
	}
	l.noteCount(findPairs(w), "all-reduce", "all-reduces", "with the norm behind it in one kernel: no strategy replaces it")
	l.noteUnknownCommunication()
	if len(w.Ops) == 0 {
		l.note(NoDeviceOperation)
	}
	return w, nil
}

// A lifter is the state of one call of Workload.
type lifter struct {
	*workload.Workload
	opt     Options
	sources []rankOps             // by row of Run.Ranks
	flows   [][][]workload.Edge   // by row of Run.Ranks, op: what its data depend on
	ids     []int                 // by row of Run.Ranks: its rank in the world
	lead    map[trace.SpanID]bool // operations launched before the profiler recorded, and those of other iterations than Sample's
	refuted int                   // number of dependencies that host calls suggest and times contradict

	unseen     bool    // ranks of the job were not captured
	groupUsers [][]int // by row of Run.Groups: captured ranks that communicate in it; filled on demand
}

// steps adds the steps that the lift found, and leaves out marked ones in which no device
// operation was launched, such as the rest of one before the profiler began, those that not all
// ranks ran, or not at one time, and fragments (rule V32).
func (l *lifter) steps() {
	for i := range l.sources {
		for _, b := range l.sources[i].Batches[min(len(l.Steps), len(l.sources[i].Batches)):] {
			l.Steps = append(l.Steps, workload.Step{Name: fmt.Sprint("step ", len(l.Steps)+1), Batch: b, Found: true})
		}
	}
	type ran struct {
		ranks            int        // that ran operations of it
		from, to         trace.Time // in which all those did whose clocks are aligned
		ops, collectives int
		products         int // kernels that multiply matrices
	}
	all, most := make([]ran, len(l.Steps)), 0
	unmarked, outside := 0, 0 // ranks with operations of which none is of an iteration, and these
	for i := range all {
		all[i].to = trace.Infinity
	}
	for row := range l.sources {
		each := slices.Repeat([]trace.Time{trace.Infinity, 0}, len(l.Steps)) // first start and last end
		has := 0
		for k := range l.sources[row].Ops {
			if op := &l.sources[row].Ops[k]; op.Step >= 0 {
				each[2*op.Step], each[2*op.Step+1], has = min(each[2*op.Step], op.Start), max(each[2*op.Step+1], op.End), 1
				all[op.Step].ops++
				switch {
				case op.Kind == trace.Collective:
					all[op.Step].collectives++
				case op.Kind == trace.Compute && workload.ClassOf(op.Name) == workload.ClassMatrix:
					all[op.Step].products++
				}
			}
		}
		if most += has; has == 0 && len(l.sources[row].Ops) > 0 {
			unmarked, outside = unmarked+1, outside+len(l.sources[row].Ops)
		}
		for at := range all {
			if each[2*at] == trace.Infinity {
				continue
			}
			all[at].ranks++
			if l.Run.Ranks[row].Uncertainty != trace.None {
				all[at].from, all[at].to = max(all[at].from, each[2*at]), min(all[at].to, each[2*at+1])
			}
		}
	}
	var kept []int
	apart, ops := 0, 0
	for at, step := range l.Steps {
		switch x := &all[at]; {
		case x.ranks == most && x.from <= x.to:
			kept = append(kept, at)
		case x.ranks > 0 && !step.Found:
			apart, ops = apart+1, ops+x.ops
		}
	}
	// A recording that begins or ends within a step has a part of its layers.
	collectives := func(at int) int { return all[at].collectives }
	fragment := func(at int, others []int) bool {
		n, whole := collectives(at), collectives(others[0])
		alike := !slices.ContainsFunc(others, func(other int) bool { return collectives(other) != whole })
		if !alike || n == 0 || n >= whole {
			return false
		}
		l.note("%s has %d of the %s that each other step has: a fragment, no step", l.Steps[at].Name, n,
			counted(whole, "collective", "collectives"))
		return true
	}
	if n := len(kept); n > 2 && fragment(kept[0], kept[1:]) {
		kept = kept[1:]
	}
	if n := len(kept); n > 2 && fragment(kept[n-1], kept[:n-1]) {
		kept = kept[:n-1]
	}
	var steps []workload.Step
	rows := slices.Repeat([]int32{-1}, len(all))
	for _, at := range kept {
		rows[at], steps = int32(len(steps)), append(steps, l.Steps[at])
	}
	l.cutSteps(kept, func(at int) (ops, products int) { return all[at].ops, all[at].products })
	if unmarked > 0 && slices.ContainsFunc(kept, func(at int) bool { return !l.Steps[at].Found }) {
		l.Damage.Apart += outside
		l.Damage.Sentences = append(l.Damage.Sentences, fmt.Sprintf("no iteration is marked on %s, while others mark some: "+
			"%d kernels and copies are of none", counted(unmarked, "rank", "ranks"), outside))
	}
	if apart > 0 {
		l.Damage.Apart += ops
		l.Damage.Sentences = append(l.Damage.Sentences, fmt.Sprintf("%d of %s did not run on all ranks at one time: their %d kernels and copies are of no iteration", apart, counted(len(l.Steps), "marked iteration", "marked iterations"), ops))
	}
	l.Steps = steps
	for i := range l.sources {
		for k := range l.sources[i].Ops {
			if op := &l.sources[i].Ops[k]; op.Step >= 0 {
				op.Step = rows[op.Step]
			}
		}
	}
}

// cutSteps notes as missing the operations by which one marked step has fewer than each other, all alike (rule V32). Of more than two
// the first one may begin before the recording, and no time is taken from it. A step with as many products of matrices is whole: of
// several that accumulate gradients, only the last has reductions and an optimizer.
func (l *lifter) cutSteps(kept []int, count func(at int) (ops, products int)) {
	first := min(1, max(0, len(kept)-2))
	for i := first; i < len(kept) && len(kept) > 1; i++ {
		step, others := l.Steps[kept[i]], slices.Delete(slices.Clone(kept), i, i+1)[first:]
		usual, whole := count(others[0])
		has, products := count(kept[i])
		alike := !slices.ContainsFunc(others, func(other int) bool { ops, _ := count(other); return ops != usual })
		alike = alike && (whole == 0 || products < whole)
		if !step.Found && step.Batch.Phase == workload.NoPhase && alike && usual-has > l.Damage.Missing { // else its launches tell
			l.Damage.Missing = usual - has
			l.Damage.Sentences = append(l.Damage.Sentences, fmt.Sprintf("%s has %d kernels and copies instead of %d: "+
				"a part was not recorded, or steps do other work, so that none stands for the others", step.Name, has, usual))
		}
	}
}

// findLead finds what was launched before the profiler recorded, and says so.
func (l *lifter) findLead() {
	lead := leadOf(l.Run)
	l.lead = lead.Spans
	behind := ""
	if lead.Behind > 0 {
		behind = fmt.Sprintf(" (the device was up to %.3g ms behind its host)", float64(lead.Behind)/1e6)
	}
	avoids := RecorderOf(l.Run).Waits
	if avoids != "" {
		avoids = "; " + avoids + " avoids them"
	}
	l.noteCount(len(l.lead), "operation", "operations", "launched before the profiler recorded"+behind+": of no step, left out"+avoids)
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

// noteKernels passes on what a reader noted about kernels, which the ledger alone would hide: once of all files.
func (l *lifter) noteKernels() {
	kernels, reasons := map[string]int{}, []string(nil)
	for _, e := range l.Run.Ledger.Entries {
		if e.Action != trace.Noted || e.Kernels == 0 {
			continue
		}
		if kernels[e.Reason] == 0 {
			reasons = append(reasons, e.Reason)
		}
		kernels[e.Reason] += e.Kernels
	}
	for _, reason := range reasons {
		l.noteCount(kernels[reason], "operation", "operations", reason)
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
