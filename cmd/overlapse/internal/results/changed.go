package results

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A part is the work of one name: means over the ranks, an iteration.
type part struct {
	count, time float64
	kind        trace.Kind
}

// eachOperation calls f for every kernel, collective and copy of a run of a workload, captured or simulated, in the iterations that it
// has of some steps: with its operation and iteration, and how many ranks do the same.
func eachOperation(w *workload.Workload, run *trace.Run, steps *plan.Steps,
	f func(s trace.Span, op *workload.Op, iteration int32, ranks int),
) {
	iterations, _ := workload.IterationsOf(w)
	each := func(s trace.Span, id int32, ranks int) {
		if id >= 0 && steps.Has(int(w.Ops[id].Step)) {
			f(s, &w.Ops[id], iterations[id], ranks)
		}
	}
	if run != w.Run {
		overlap.EachKernel(run, func(s trace.Span, ranks int) { each(s, plan.OriginOf(run, s), ranks) })
		return
	}
	for id := range w.Ops {
		if op := &w.Ops[id]; slices.Index(w.Rows, w.Rows[op.Rank]) == op.Rank { // else a copy of another rank
			each(run.Spans[op.Span], int32(id), 1)
		}
	}
}

// kindOfWork is the name of a kernel or copy, or of a collective the operation, where it is known, and its size.
func kindOfWork(run *trace.Run, s trace.Span) (name, size string) {
	if c := run.Comm(s); s.Kind == trace.Collective && c != nil && c.Op != trace.UnknownOp {
		return c.Op.String(), trace.Bytes(c.Bytes())
	}
	return trace.Short(run.NameOf(s)), ""
}

// operations are those of the first iteration that a run has of some steps.
func operations(w *workload.Workload, run *trace.Run, steps *plan.Steps) (list []overlap.Operation) {
	layers, first := layersOf(w), int32(math.MaxInt32)
	eachOperation(w, run, steps, func(s trace.Span, op *workload.Op, iteration int32, _ int) {
		if iteration > first {
			return
		}
		if iteration < first {
			first, list = iteration, nil
		}
		name, size := kindOfWork(run, s)
		list = append(list, overlap.Operation{
			Name: name, Size: size, Layer: layers[op.ID], Kind: s.Kind, Rank: run.Lanes[s.Lane].Rank, Lane: s.Lane,
			Start: s.Start, End: s.End,
		})
	})
	return list
}

// layerName is a numbered module in the name of a range: model.layers.3 in "FSDP::all_gather (model.layers.3)", or "layer 3".
var layerName = regexp.MustCompile(`[A-Za-z_][\w.]*\.\d+[\w.]*|(?i:[a-z]*(?:layer|block)[ _:#]?\d+)`)

// stackName is a module of PyTorch's with its number among those of its class.
var stackName = regexp.MustCompile(`^nn\.Module: ((\w+)_\d+)$`)

// stackedModules are, by name of a span, the modules of classes that have several; "": none. Of a stack of modules the outermost of
// them is the layer: LlamaDecoderLayer_3, and not the Linear_22 in it.
func stackedModules(names []string) []string {
	modules, classes := make([]string, len(names)), map[string][]int{}
	for i, name := range names {
		if m := stackName.FindStringSubmatch(name); m != nil {
			modules[i], classes[m[2]] = m[1], append(classes[m[2]], i)
		}
	}
	for _, of := range classes {
		if len(of) == 1 {
			modules[of[0]] = ""
		}
	}
	return modules
}

// modulePath is the same in the path of an operator of JAX: layer3/attn in "jit(step)/jvp(GPT)/layer3/attn/out/dot_general".
var modulePath = regexp.MustCompile(`[A-Za-z_]+\d+(/[A-Za-z_]\w*)?`)

// layersOf is the module that each operation is of, by the innermost range of the capture around it, else around its launch, else
// around the operator whose gradient it computes, that names one, or by its operator's path; "": none does.
func layersOf(w *workload.Workload) []string {
	type of struct {
		row  int32
		kind trace.LaneKind
	}
	modules, stacked := make([]string, len(w.Run.Names)), stackedModules(w.Run.Names) // by name
	ofStack := map[string]bool{}
	for i, name := range w.Run.Names {
		modules[i], ofStack[stacked[i]] = cmp.Or(stacked[i], layerName.FindString(name)), true
	}
	outer := make([]trace.Time, len(w.Run.Lanes)) // end of the last module of a stack, by lane
	ranges := map[of][]trace.Span{}               // by start
	for _, s := range w.Run.Spans {
		l := &w.Run.Lanes[s.Lane]
		named := (l.Kind == trace.Annotation || l.Kind == trace.HostThread) && modules[s.Name] != ""
		if named && (stacked[s.Name] == "" || s.End > outer[s.Lane]) {
			if stacked[s.Name] != "" {
				outer[s.Lane] = s.End
			}
			ranges[of{l.Rank, l.Kind}] = append(ranges[of{l.Rank, l.Kind}], s)
		}
	}
	for _, list := range ranges {
		around(w.Run, list)
	}
	innermost := func(list []trace.Span, from, to trace.Time) (layer string) {
		shortest := trace.Infinity
		end, _ := slices.BinarySearchFunc(list, from+1, func(s trace.Span, t trace.Time) int { return cmp.Compare(s.Start, t) })
		for _, s := range list[max(0, end-mostRanges):end] {
			if s.End >= to && s.Dur() <= shortest {
				layer, shortest = modules[s.Name], s.Dur()
			}
		}
		return layer
	}
	layers, forward := make([]string, len(w.Ops)), forwardOf(w.Run)
	for id := range w.Ops {
		op, row := &w.Ops[id], w.Rows[w.Ops[id].Rank]
		device, host := ranges[of{row, trace.Annotation}], ranges[of{row, trace.HostThread}]
		layers[id] = cmp.Or(innermost(device, op.Start, op.End), innermost(host, op.Issued, op.Issued))
		if layers[id] == "" || ofStack[layers[id]] { // a part of the layer is computed again
			if at := forward(w.Run.Spans[op.Span]); at >= 0 {
				layers[id] = cmp.Or(innermost(host, at, at), layers[id])
			}
		}
		if o := w.Run.Operator(w.Run.Kernel(w.Run.Spans[op.Span])); o != nil && w.Run.Ranks[0].Compiler == trace.XLA {
			layers[id] = modulePath.FindString(strings.ReplaceAll(o.Name, "']['", "/")) // p['layer3']['attn'] is a parameter
		}
	}
	return layers
}

// evaluates begins the name of the operator around what PyTorch runs to evaluate a node of the backward pass.
const evaluates = "autograd::engine::evaluate_function: "

// forwardOf tells when the operator began whose gradient a kernel or copy of the backward pass computes: the last operator before it
// with the same number, as Kineto's arrows from forward to backward have it; -1: the work is of no backward pass, or this is unknown.
// Threads count for themselves: what the backward pass computes again has numbers of its own, which only a pass within it goes back to.
func forwardOf(run *trace.Run) func(trace.Span) trace.Time {
	type node struct {
		rank, sequence int32
		within         bool // a node of the backward pass
	}
	made, began := map[node]trace.Time{}, map[trace.SpanID]trace.Time{} // by evaluating span
	passes := func(s trace.Span) bool { return strings.HasPrefix(run.NameOf(s), evaluates) }
	for id, s := range run.Spans {
		if s.Kind != trace.HostCall || int(s.Attr) < 0 || int(s.Attr) >= len(run.Calls) || run.Calls[s.Attr].Sequence == 0 {
			continue
		}
		of := node{rank: run.Lanes[s.Lane].Rank, sequence: run.Calls[s.Attr].Sequence}
		for p := s.Parent; p != trace.None && !of.within; p = run.Spans[p].Parent {
			of.within = passes(run.Spans[p])
		}
		if passes(s) {
			if at, ok := made[of]; ok {
				began[trace.SpanID(id)] = at
			}
		} else if s.Parent == trace.None || !passes(run.Spans[s.Parent]) {
			made[of] = s.Start // no MmBackward0 in it, which has the number too
		}
	}
	return func(s trace.Span) trace.Time {
		if len(began) == 0 {
			return -1
		}
		for id := run.LaunchOf(s); id != trace.None; id = run.Spans[id].Parent {
			if at, ok := began[id]; ok {
				return at
			}
		}
		return -1
	}
}

// around lets a range before the work of a module reach to the end of the one behind it, as FSDP marks both: from pre_forward (blocks.3)
// to post_forward (blocks.3), and from pre_backward (blocks.3) to the first post_backward_accumulate (blocks.3).
func around(run *trace.Run, ranges []trace.Span) {
	begun := map[string]int{} // index of the range before, by lane and the beginning of the name of the one behind
	for i, s := range ranges {
		what, module, _ := strings.Cut(run.NameOf(s), " ")
		lane := fmt.Sprint(s.Lane, " ")
		if before := strings.Replace(what, "pre_", "post_", 1); before != what {
			begun[lane+before+module] = i
			continue
		}
		for _, part := range []string{"", "_accumulate"} {
			key := lane + strings.TrimSuffix(what, part) + module
			if at, ok := begun[key]; ok {
				ranges[at].End = max(ranges[at].End, s.End)
				delete(begun, key)
			}
		}
	}
}

// mostRanges is among how many ranges that began before it an operation's layer is sought.
const mostRanges = 32

// Changes is what an outcome changes of a run of the captured schedule, on the steps of its first row that applies. The sentence ends
// with the time in which a rank computes nothing, which is of no operation.
func (r *Replayed) Changes(of *trace.Run, outcome int) (changes *trace.Run, said string) {
	phase, steps, between := 0, plan.MeasuredSteps(r.workload), ""
	if row := r.rowOfOutcome(outcome); row != nil {
		phase = row.phase
		was := verdict.TimesOf(r.workload, r.reference.Of(phase))
		unit := cli.UnitOf(was.Total())
		say := func(state string, d trace.Time) {
			if math.Abs(float64(d)) >= sameTime*float64(was.Total()) {
				between += fmt.Sprintf("; %s %s %s", state, unit.Signed(d), unit.Name)
			}
		}
		say("exposed communication", row.Times.Exposed()-was.Exposed())
		say("idle", row.Times.Idle-was.Idle)
	}
	if of != r.workload.Run {
		steps = plan.StepsOf(r.workload, of)
	}
	run := r.Outcomes[outcome].Result.Run
	changes, said = overlap.ChangesOf(of.Ranks, operations(r.workload, of, steps.Of(phase)),
		operations(r.workload, run, plan.StepsOf(r.workload, run).Of(phase)), r.reference.Of(phase).Expected)
	return changes, said + between
}

// rowOfOutcome is the recommended row of an outcome, else its first one that applies; nil: none does.
func (r *Replayed) rowOfOutcome(outcome int) (of *Row) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.At == outcome && row.Applies && (of == nil || r.recommended(row) && !r.recommended(of)) {
			of = row
		}
	}
	return of
}

// partsByName are the kernels and copies of an outcome's phase by name, and its collectives by operation.
func partsByName(w *workload.Workload, out engines.Outcome) map[string]part {
	run := out.Result.Run
	all, counted := map[string]part{}, map[int32]bool{}
	eachOperation(w, run, plan.StepsOf(w, run).Of(out.Phase), func(s trace.Span, op *workload.Op, iteration int32, ranks int) {
		counted[iteration] = true
		name, _ := kindOfWork(run, s)
		p, count := all[name], float64(ranks)
		if op.Collective >= 0 && w.Collectives[op.Collective].Earlier { // counts with the last part
			count = 0
		}
		all[name] = part{p.count + count, p.time + float64(ranks)*float64(s.Dur()), s.Kind}
	})
	of := float64(len(run.Ranks) * max(1, len(counted)))
	for name, p := range all {
		all[name] = part{p.count / of, p.time / of, p.kind}
	}
	return all
}

// A work is a name's part in the captured schedule and in an outcome.
type work struct {
	name    string
	was, is part
}

// change is how much longer the work takes in the outcome.
func (x *work) change() trace.Time { return trace.Time(x.is.time - x.was.time) }

// works are those of an outcome's phase, the largest change first.
func (r *Replayed) works(out engines.Outcome) (list []work) {
	was, is := partsByName(r.workload, r.reference.Of(out.Phase)), partsByName(r.workload, out)
	for name, a := range was {
		list = append(list, work{name, a, is[name]})
	}
	for name, b := range is {
		if _, ok := was[name]; !ok {
			list = append(list, work{name, part{kind: b.kind}, b})
		}
	}
	slices.SortFunc(list, func(a, b work) int {
		return cmp.Or(cmp.Compare(max(b.change(), -b.change()), max(a.change(), -a.change())), cmp.Compare(a.name, b.name))
	})
	return list
}

// mostWorks is how many names the page's table of works has, and leastWork the share of a step below which times are the same.
const (
	mostWorks = 30
	leastWork = 1e-4
)

// worksTable has the work of a step of the captured schedule and of an outcome, of the phases that it has.
func (r *Replayed) worksTable(outcome int) *cli.Table {
	t := &cli.Table{
		Title: "What changes: " + r.RunName(outcome),
		Note: "Kernels and copies by name and collectives by operation, of one step: means over ranks, the largest difference " +
			"first, without those that stay.",
		Columns: []string{"", "captured: count", "captured: time", "changed: count", "changed: time", "difference"}, OneUnit: true,
	}
	for i, phase := range r.reference.Each() {
		least := leastWork * float64(verdict.TimesOf(r.workload, r.reference.Of(phase)).Total())
		list := slices.DeleteFunc(r.works(r.Outcomes[outcome].Of(phase)), func(x work) bool {
			return math.Round(x.was.count) == math.Round(x.is.count) && math.Abs(float64(x.change())) < least
		})
		for _, x := range list[:min(mostWorks, len(list))] {
			if phase > 0 {
				x.name = r.Phases[i].Phase + ": " + x.name
			}
			was, is := fmt.Sprintf("%.4g", x.was.count), fmt.Sprintf("%.4g", x.is.count)
			t.Add(cli.Middle(x.name, 58), was, trace.Time(x.was.time), is, trace.Time(x.is.time), x.change())
		}
	}
	return t
}

// mostFewer is how many names of operations a reason lists.
const mostFewer = 2

// changed says what an outcome has fewer and more of than the captured schedule, and which times are less and more, of an iteration and
// the mean over ranks. times are those of its row.
func (r *Replayed) changed(out engines.Outcome, times overlap.Times) string {
	captured := r.reference.Of(out.Phase)
	var list []string
	var kernels trace.Time // of compute, side by side or not
	for _, x := range r.works(out) {
		if x.was.kind == trace.Compute {
			kernels += x.change()
		}
		if was, is := math.Round(x.was.count), math.Round(x.is.count); was != is && len(list) < mostFewer {
			list = append(list, fmt.Sprintf("%.0f → %.0f %s", was, is, cli.Middle(x.name, 20)))
		}
	}
	said := cmp.Or(strings.Join(list, ", "), "the same operations")
	before := verdict.TimesOf(r.workload, captured)
	unit := cli.UnitOf(before.Total())
	list = nil
	for _, x := range []struct {
		name    string
		was, is trace.Time
	}{
		{"transfer", before.Transfer, times.Transfer},
		{"waiting", before.Waiting, times.Waiting},
		{"compute", before.Compute, times.Compute},
		{"copies", before.Copies, times.Copies},
		{"idle", before.Idle, times.Idle},
	} {
		d := x.is - x.was
		if math.Abs(float64(d)) < sameTime*float64(before.Total()) {
			continue
		}
		text := fmt.Sprintf("%s %s", x.name, unit.Signed(d))
		if beside := d - kernels; x.name == "compute" && math.Abs(float64(beside)) >= sameTime*float64(before.Total()) {
			text += fmt.Sprintf(" (kernels %s, side by side %s)", unit.Signed(kernels), unit.Signed(beside))
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return said
	}
	return said + "; " + strings.Join(list, ", ") + " " + unit.Name
}

// An axis is the range of changes that intervals are drawn in, and their width in characters.
type axis struct {
	least, most float64
	width       int
}

// The widths of axes: of a wide terminal, and of one that has no room for all columns.
const (
	wideAxis   = 21
	narrowAxis = 14
)

// axisOf has room for the intervals of rows, and for no change.
func axisOf(rows []*Row) (x axis) {
	x = axis{least: -0.02, most: 0.02}
	for _, row := range rows {
		half := row.Error
		if row.Unproven {
			half = 0
		}
		x.least, x.most = min(x.least, row.Change-half), max(x.most, row.Change+half)
	}
	return axis{max(x.least, -1), min(x.most, max(0.1, -2*x.least)), wideAxis}
}

// at is the column of a change; changes beyond the axis stand at its end.
func (x axis) at(change float64) int {
	return int(math.Round(min(1, max(0, (change-x.least)/(x.most-x.least))) * float64(x.width-1)))
}

// header has the ends of the axis and no change, as one word: it is not wrapped.
func (x axis) header() string {
	line := []rune(strings.Repeat("─", x.width))
	least, most := fmt.Sprintf("%.0f%%", 100*x.least), fmt.Sprintf("%+.0f%%", 100*x.most)
	copy(line, []rune(least))
	if zero := x.at(0); zero > len(least) && zero < x.width-len(most)-1 {
		line[zero] = '0'
	}
	copy(line[x.width-len(most):], []rune(most))
	return string(line)
}

// interval draws a row's change and its 80 % interval beside the line of no change.
func (x axis) interval(row *Row) string {
	line := []rune(strings.Repeat(" ", x.width))
	line[x.at(0)] = '┊'
	if row.Error > 0 && !row.Unproven {
		from, to := x.at(row.Change-row.Error), x.at(row.Change+row.Error)
		for i := from; i <= to; i++ {
			line[i] = '─'
		}
		line[from], line[to] = '├', '┤'
	}
	line[x.at(row.Change)] = '●'
	return string(line)
}
