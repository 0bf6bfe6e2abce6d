package results

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A cause is a part of the difference of two times. The causes add up to the difference of
// the states of the ranks.
type cause struct {
	Name string     `json:"name"`
	Diff trace.Time `json:"difference_ns"`
}

// kernelKinds are the kinds of the kernels and copies of runs by name, and the operations of
// their collectives.
func kernelKinds(runs ...*trace.Run) (kinds map[string]trace.Kind, operations map[string]string) {
	kinds, operations = map[string]trace.Kind{}, map[string]string{}
	for _, run := range runs {
		for _, s := range run.Spans {
			if s.Kind.OnDevice() {
				kinds[run.NameOf(s)] = s.Kind
			}
			if c := run.Comm(s); s.Kind == trace.Collective && c != nil {
				operations[run.NameOf(s)] = c.Op.String()
			}
		}
	}
	return kinds, operations
}

// joinFused puts a fused kernel, the kernels that it replaces, and what it replaces of the time
// of collectives into one row, which so compares like with like. moved is the time of collectives in such rows, B less A.
func joinFused(
	rows []overlap.Change, kinds map[string]trace.Kind, operations map[string]string,
) (joined []overlap.Change, moved trace.Time) {
	at := map[string]*overlap.Change{}
	for i := range rows {
		if rows[i].Group == overlap.ByKernel {
			at[rows[i].Name] = &rows[i]
		}
	}
	gone := map[*overlap.Change]bool{}
	for i := range rows {
		f := &rows[i]
		kernels, of := replacedBy(f, rows, kinds)
		kernels = slices.DeleteFunc(kernels, func(name string) bool { return at[name] == nil || gone[at[name]] })
		if f.Group != overlap.ByKernel || gone[f] || len(kernels) == 0 {
			continue
		}
		short := ""
		for _, name := range kernels {
			alone := at[name]
			gone[alone] = true
			short += trace.Short(name) + " and "
			f.A, f.B, f.CountA, f.CountB = f.A+alone.A, f.B+alone.B, f.CountA+alone.CountA, f.CountB+alone.CountB
		}
		if !strings.Contains(f.Name, " + ") {
			short = trace.Short(f.Name) + " for " + short
		}
		f.Name = short + strings.Join(of, " and ")
		for _, name := range slices.Sorted(maps.Keys(operations)) {
			c := at[name]
			if c == nil || !slices.Contains(of, operations[name]) || c.CountA == c.CountB {
				continue
			}
			moved += c.Diff
			f.A, f.B = f.A+max(0, -c.Diff), f.B+max(0, c.Diff)
			c.A, c.B = min(c.A, c.B), min(c.A, c.B)
			c.CountA, c.CountB = min(c.CountA, c.CountB), min(c.CountA, c.CountB)
			c.Diff = 0
		}
		f.Diff = f.B - f.A
	}
	groups := map[string]int{}
	for i := range rows {
		if r := &rows[i]; !gone[r] {
			if _, ok := groups[r.Group]; !ok {
				groups[r.Group] = i
			}
			joined = append(joined, *r)
		}
	}
	slices.SortStableFunc(joined, func(a, b overlap.Change) int {
		return cmp.Or(cmp.Compare(groups[a.Group], groups[b.Group]), cmp.Compare(max(b.Diff, -b.Diff), max(a.Diff, -a.Diff)))
	})
	return joined, moved
}

// replacedBy are the kernels and the operations of collectives that a fused kernel stands for. A simulated one is named after both:
// "gemm + all_to_all". One that was captured on one side only (trace.Fused) stands for the kernels of compute that only the other
// side has, as often.
func replacedBy(f *overlap.Change, rows []overlap.Change, kinds map[string]trace.Kind) (kernels, operations []string) {
	if kernel, operation, ok := strings.Cut(f.Name, " + "); ok {
		if _, first := trace.ParseCollectiveOp(kernel); first {
			kernel, operation = operation, kernel
		}
		if _, known := trace.ParseCollectiveOp(operation); known {
			return []string{kernel}, []string{operation}
		}
	}
	reads, sends, says := trace.Fused(f.Name)
	if says == "" || f.Group != overlap.ByKernel || f.CountA*f.CountB > 0 {
		return nil, nil
	}
	for _, r := range rows {
		if r.Group == overlap.ByKernel && kinds[r.Name] == trace.Compute && r.CountA == f.CountB && r.CountB == f.CountA {
			kernels = append(kernels, r.Name)
		}
	}
	for _, op := range []trace.CollectiveOp{reads, sends} {
		if op != trace.UnknownOp && !slices.Contains(operations, op.String()) {
			operations = append(operations, op.String())
		}
	}
	return kernels, operations
}

// causesOf divides the difference of two runs: compute by kernel, idle time by cause, the rest
// by state. rows and moved are those of joinFused. A kernel that only A has and one that only
// B has, both run as often, are one cause: one replaces the other.
func causesOf(rows []overlap.Change, moved trace.Time, kinds map[string]trace.Kind) []cause {
	var causes []cause
	var compute trace.Time          // by state
	kernels := -moved               // compute by kernel
	var lost, more []overlap.Change // kernels that only A, only B has
	name := func(r overlap.Change) string { return trace.Short(r.Name) }
	for _, r := range rows {
		kind, single := kinds[r.Name] // not single: of joinFused
		switch {
		case r.Group == overlap.ByState && (r.Name == overlap.Computing.String() || r.Name == overlap.Overlapping.String()):
			compute += r.Diff
		case r.Group == overlap.ByState && r.Name != overlap.Idle.String():
			if r.Name != overlap.Copying.String() { // what fused kernels replace of it is theirs
				theirs := min(max(r.Diff, moved), 0) + max(min(r.Diff, moved), 0)
				r.Diff, moved = r.Diff-theirs, moved-theirs
			}
			causes = append(causes, cause{r.Name, r.Diff})
		case r.Group == overlap.ByCause:
			causes = append(causes, cause{"idle for " + r.Name, r.Diff})
		case r.Group != overlap.ByKernel || single && kind != trace.Compute:
		case single && r.CountB == 0:
			lost, kernels = append(lost, r), kernels+r.Diff
		case single && r.CountA == 0:
			more, kernels = append(more, r), kernels+r.Diff
		default:
			kernels += r.Diff
			if i := slices.IndexFunc(causes, func(c cause) bool { return c.Name == name(r) }); i >= 0 { // another build of the kernel
				causes[i].Diff += r.Diff
			} else {
				causes = append(causes, cause{name(r), r.Diff})
			}
		}
	}
	for _, a := range lost {
		if i := slices.IndexFunc(more, func(b overlap.Change) bool { return b.CountB == a.CountA }); i >= 0 {
			causes = append(causes, cause{name(more[i]) + " in place of " + name(a), a.Diff + more[i].Diff})
			more = slices.Delete(more, i, i+1)
			continue
		}
		causes = append(causes, cause{name(a) + " (only in A)", a.Diff})
	}
	for _, b := range more {
		causes = append(causes, cause{name(b) + " (only in B)", b.Diff})
	}
	return append(causes, cause{"kernels side by side", compute - kernels})
}

// What explain names: at most mostCauses that are faster and as many that are slower, none
// below leastCause of all that are faster or slower, or below leastShare of A's time.
const (
	mostCauses  = 3
	leastCause  = 0.05
	leastChange = 0.0005
)

// explain says in a sentence or two which time is less, by how much, and what makes it so.
func (d *Difference) explain() string {
	says := []string{d.than(d.A.Time, d.B.Time)}
	if d.Phase != "" {
		says[0] = d.title() + says[0]
	}
	strategies := slices.DeleteFunc(slices.Clone(d.Rows), func(r overlap.Change) bool { return r.Group != byStrategy })
	if len(strategies) > 0 { // results
		says[0] = "Under " + d.A.under + ", " + says[0]
		if most := strategies[0]; most.Name != d.A.under && most.Diff != 0 { // the largest difference comes first
			change := float64(most.Diff) / float64(max(1, most.A))
			says = append(says, fmt.Sprintf("Most differs %s: %s.", most.Name, trace.Percent(change)))
		}
	}
	var sums [2]trace.Time // of what is faster, slower
	for _, c := range d.Causes {
		sums[0], sums[1] = sums[0]+max(0, -c.Diff), sums[1]+max(0, c.Diff)
	}
	unit := cli.UnitOf(sums[:]...)
	for k, heading := range []string{"Less: ", "More: "} {
		var list []string
		for _, c := range d.Causes {
			size := c.Diff
			if k == 0 {
				size = -size
			}
			part := float64(size) / float64(max(1, sums[k]))
			if len(list) < mostCauses && part >= leastCause && float64(size) > leastChange*float64(d.A.Time) {
				name := cli.Middle(c.Name, 44)
				list = append(list, fmt.Sprintf("%s %s %s", name, unit.Signed(c.Diff), unit.Name))
			}
		}
		if len(list) > 0 {
			says = append(says, heading+strings.Join(list, ", ")+".")
		}
	}
	return strings.Join(says, " ")
}

// than says which of two times is less, and by how much.
func (d *Difference) than(a, b trace.Time) string {
	var of string
	if d.PerStep {
		of = " " + d.unit()
	}
	switch change := float64(b)/float64(max(1, a)) - 1; {
	case change > -leastChange && change < leastChange:
		return fmt.Sprintf("A and B take the same time, %s%s.", trace.Micros(a), of)
	case b < a:
		return fmt.Sprintf("B is %s%s (%.1f %%) faster.", trace.Micros(a-b), of, -100*change)
	default:
		return fmt.Sprintf("B is %s%s (%.1f %%) slower.", trace.Micros(b-a), of, 100*change)
	}
}

// leastOfProfiler is the difference of two changes, with the profiler and without, from which both are said: what is called
// a gain elsewhere.
const leastOfProfiler = -verdict.Faster

// withoutProfiler notes the times of a step of both captures without the profiler, by phase, as far as they are estimated. Where they
// tell of another change than the captures, that is said first: a profiler slows hosts, and not each capture alike.
func (d *Difference) withoutProfiler(took [2]map[string]trace.Time) {
	for _, p := range d.Each() {
		a, b := took[0][p.Phase], took[1][p.Phase]
		if a <= 0 || b <= 0 || !p.PerStep {
			continue
		}
		a, b = min(a, p.A.Time), min(b, p.B.Time) // no step takes longer without a profiler
		p.A.Unprofiled, p.B.Unprofiled = a, b
		if change := float64(b)/float64(a) - 1; max(change-p.Change, p.Change-change) >= leastOfProfiler {
			with := strings.TrimPrefix(p.Explanation, p.title())
			p.Explanation = fmt.Sprintf("%sWithout the profiler, by estimate: %s With it: %s", p.title(), p.than(a, b), with)
		}
	}
	if d.Phases != nil {
		*d = apart(d.Phases)
	}
}

// A predicted change was made between the captures A and B. All are relative to A's time.
type predicted struct {
	Strategy string  `json:"strategy"`         // with its settings
	Change   float64 `json:"predicted_change"` // -0.1 is 10 % less
	Error    float64 `json:"error"`            // half of its 80 % interval
	Measured float64 `json:"measured_change"`  // without the profiler, where that is estimated
	Noise    float64 `json:"noise"`            // two standard errors of what was measured, from the iterations of both; 0: too few
	Within   bool    `json:"within"`           // measured within the interval
	Unclear  bool    `json:"unclear"`          // it is not, but with the profiler it is, or is on the interval's other side
}

// Verify compares what was measured with a result.json, or the folder that has it: with what it recommends, or with a strategy and
// its settings by name. took are the times of a step of A and B by phase, without the profiler; without a file these are compared.
func (d *Difference) Verify(file, strategy string, took [2]map[string]trace.Time) error {
	if file == "" {
		d.withoutProfiler(took)
		return nil
	}
	if IsResult(file) {
		file = filepath.Join(file, resultFile)
	}
	r, err := Read(file)
	if err != nil {
		return err
	}
	for _, p := range d.Each() {
		at := slices.IndexFunc(r.Rows, func(row Row) bool {
			is := strategy == row.Name()
			if strategy == "" {
				is = r.recommended(&row) && row.Strategy != "captured"
			}
			return is && row.Applies && row.Phase == p.Phase
		})
		switch {
		case at < 0 && strategy == "":
			return fmt.Errorf("%s recommends no change: name the one that was made, such as --strategy multistream:keep_gathered=on", file)
		case at < 0:
			return fmt.Errorf("%s has no prediction of %s", file, strategy)
		}
		p.verify(&r.Rows[at], took)
	}
	if d.Phases != nil {
		*d = apart(d.Phases)
	}
	return nil
}

// verify puts the comparison with a row before the explanation.
func (d *Difference) verify(row *Row, took [2]map[string]trace.Time) {
	x := &predicted{Strategy: row.Name(), Change: row.Change, Error: row.Error, Measured: d.Change}
	with := ""
	if a, b := took[0][d.Phase], took[1][d.Phase]; a > 0 && b > 0 {
		if x.Measured = float64(b)/float64(a) - 1; trace.Percent(x.Measured) != trace.Percent(d.Change) {
			with = fmt.Sprintf(" by estimate without the profiler (%s with it)", trace.Percent(d.Change))
			d.Explanation = "With it: " + d.Explanation
		}
	}
	if len(d.A.samples) > 0 && len(d.B.samples) > 0 {
		x.Noise = 2 * math.Sqrt(squaredError(d.A.samples, 0)+squaredError(d.B.samples, 0)) / float64(max(1, d.A.Time))
	}
	off := math.Abs(x.Measured - x.Change)
	is := "outside"
	switch x.Within = off <= x.Error; {
	case x.Within:
		is = "within the interval"
	case with != "" && (math.Abs(d.Change-x.Change) <= x.Error || (d.Change < x.Change) != (x.Measured < x.Change)):
		x.Unclear, is = true, "undecided, as these differ: time both without the profiler"
	case off <= x.Error+x.Noise:
		is = fmt.Sprintf("outside, by less than the noise of the captures (± %.1f %%)", 100*x.Noise)
	case x.Noise == 0 && d.PerStep:
		is = "outside, with fewer than three steps to tell noise"
	}
	said := fmt.Sprintf("%spredicted %s ± %.1f %%, measured %s%s: %s", d.title(),
		strings.TrimSuffix(trace.Percent(x.Change), " %"), 100*x.Error, trace.Percent(x.Measured), with, is)
	if other := d.others(); !x.Within && !x.Unclear && other != "" {
		said += "; these kernels run as often in both and differ: " + other
	}
	d.Predicted, d.Explanation = x, said+". "+d.Explanation
}

// others names the kernels and copies that run as often in A as in B, of which a prediction keeps the times, and differ most.
func (d *Difference) others() string {
	rows := slices.DeleteFunc(slices.Clone(d.Rows), func(r overlap.Change) bool { // the largest difference first
		return r.Group != overlap.ByKernel || r.CountA != r.CountB || math.Abs(float64(r.Diff)) <= leastChange*float64(d.A.Time)
	})
	rows = rows[:min(len(rows), mostCauses)]
	unit, list := cli.UnitOf(d.A.Time), []string(nil)
	for _, r := range rows {
		list = append(list, fmt.Sprintf("%s %s %s", cli.Middle(trace.Short(r.Name), 44), unit.Signed(r.Diff), unit.Name))
	}
	return strings.Join(list, ", ")
}
