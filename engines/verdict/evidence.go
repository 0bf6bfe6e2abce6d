package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A caveat is a reason against a prediction and how much it leaves of it.
type caveat struct {
	weight weight
	why    string
}

// A weight is how much a caveat counts, strongest first.
type weight int

const (
	invalid  weight = iota // the prediction may be worth nothing: Evidence.Untested
	unproven               // widens the error twice: nothing like it was measured, and much depends on it
	poor                   // widens the error
	noted                  // measured rows have it too: their errors include it
)

// or is the next stronger weight where much is true, else the weight itself.
func (w weight) or(much bool) weight {
	if much {
		return w - 1
	}
	return w
}

// EvidenceOf is what an outcome's predicted change rests on: the sources of its numbers, never
// measured times of strategies.
func EvidenceOf(w *workload.Workload, out engines.Outcome) Evidence {
	if out.Result == nil {
		return Evidence{none: true}
	}
	v := assessment{w: w, out: out, m: &out.Machine}
	for _, ask := range []func(){
		v.capture, v.machine, v.recorded, v.rescaled, v.untested, v.dataflow, v.parts, v.lookups, v.host, v.build,
		v.programs, v.clock, v.assumed,
	} {
		ask()
	}
	for _, part := range out.Strategy.Parts { // a mix is at most as reliable as its parts
		v.out.Selection = part
		for _, ask := range []func(){v.untested, v.build, v.programs} {
			ask()
		}
	}
	e := Evidence{
		OtherKernels: out.Strategy.Kind != plan.Plain && out.Strategy.Kind != plan.Exact && !out.Strategy.Loop || splitsBatches(out),
		Rest:         out.Changed.Rest, Copied: w.Captured < w.World && w.Run.Estimated == "",
		none: out.Strategy.Kind == plan.Bound || out.Strategy.Kind == plan.Future,
	}
	if out.Best > 0 {
		e.Spread = math.Log(float64(out.Worst) / float64(out.Best))
	}
	slices.SortStableFunc(v.caveats, func(a, b caveat) int { return cmp.Compare(a.weight, b.weight) })
	var counts [noted + 1]int
	for _, c := range v.caveats {
		counts[c.weight]++
	}
	e.Untested, e.Unproven, e.Poor = counts[invalid], counts[unproven], counts[poor]
	switch {
	case len(v.caveats) > 0 && v.caveats[0].weight < noted:
		e.Why = v.caveats[0].why
	case e.Spread > 0:
		e.Why = fmt.Sprintf("dispatch order varies between runs: %s to %s", trace.Micros(out.Best), trace.Micros(out.Worst))
	case len(v.caveats) > 0:
		e.Why = v.caveats[0].why
	case out.Strategy.Kind == plan.Exact:
		e.Why = "every kernel as it was measured"
	default:
		e.Why = "kernels as captured, parts as measured on this machine"
	}
	return e
}

// An assessment collects the caveats of one prediction.
type assessment struct {
	w       *workload.Workload
	out     engines.Outcome
	m       *machine.Machine
	caveats []caveat
}

func (v *assessment) addCaveat(w weight, format string, args ...any) {
	if !finite(args...) {
		w, format, args = invalid, "a number that the prediction rests on is none", nil
	}
	v.caveats = append(v.caveats, caveat{w, fmt.Sprintf(format, args...)})
}

// machine: a guessed GPU, a profile without benchmarks, or a GPU on which the strategy or a setting was not run. Where no GPU
// of its vendor ran it, nothing like it was measured.
func (v *assessment) machine() {
	what, on := plan.Elsewhere(v.out.Selection, v.m.GPU.Name)
	vendor := plan.VendorOf(v.m.GPU.Name)
	other := what != "" && !slices.ContainsFunc(on, func(gpu string) bool { return plan.VendorOf(gpu) == vendor })
	t := v.m.Library.AllReduce.Times
	if v.m.Guess != "" {
		v.addCaveat(invalid, "%s is a guess: %s", v.m.Name, v.m.Guess)
	}
	switch assumed := (len(t.Rows) == 0 || t.Mark != machine.Sourced) && (v.out.Strategy.Kind != plan.Exact || v.retargeted()); {
	case other:
		v.addCaveat(unproven, "%s was run on %s, on no GPU of %s", what, strings.Join(on, " and "), cmp.Or(vendor, "this vendor"))
	case assumed:
		v.addCaveat(poor, "no benchmark of %s: %d numbers of its profile are assumed (overlapse calibrate measures them)", v.m.Profile,
			guessed(v.m))
	case what != "":
		v.addCaveat(poor, "%s was run on %s, not on %s", what, strings.Join(on, " and "), v.m.GPU.Name)
	}
}

func guessed(m *machine.Machine) (n int) {
	for _, a := range machine.Assumptions(*m) {
		if !a.Absent {
			n++
		}
	}
	return n
}

// mostLost is the share of the device work from which what is lost or changed counts. unlike is the error of single operations of
// the captured schedule, simulated, at the 90th percentile, from which the model of interference is not that of the capture. sick
// is how many times longer than the machine's law captured collectives take where something is broken: peer access off, staging
// through the host, ranks that are late.
const (
	mostLost = 0.01
	unlike   = 0.5
	sick     = 3
)

// capture: device work that the trace does not have as it was recorded; operations that ran beside others, and take other times in
// the simulation; another kernel in place of collectives that take far longer than the machine's law, whose modelled time is that
// of healthy links; a kernel that cannot run on the machine's GPU.
func (v *assessment) capture() {
	s := v.out.Strategy
	if what := DamageOf(v.w); what != "" {
		v.addCaveat(invalid, "the trace is damaged: %s", what)
	}
	if i := v.w.Isolation; i != nil && i.P90 > unlike && s.Kind != plan.Exact {
		v.addCaveat(poor, "simulated with interference, operations of %s differ from their measured times by %.0f %% at the 90th percentile; "+
			"capture more steps, or the step without overlap", baseName(v.w), 100*i.P90)
	}
	if own := s.Kind != plan.Plain && s.Kind != plan.Exact && !s.Loop && v.w.Run.Estimated == ""; own && overLaw(v.w, v.m, false) > sick {
		v.addCaveat(invalid, "captured collectives take %.0f times as long as %s's law: find out why first (peer access, staging through the host, "+
			"late ranks); what replaces their kernels may be as slow", overLaw(v.w, v.m, false), v.m.Profile)
	}
	for i := range v.w.Ops {
		if op := &v.w.Ops[i]; op.Kind == trace.Compute && program.Fits(v.m, op.Footprint) != nil {
			v.addCaveat(unproven, "the trace is of another GPU than %s: %s: %v", v.m.Name, trace.Short(op.Name),
				program.Fits(v.m, op.Footprint))
			break
		}
	}
}

// overLaw is how many times as long as by a machine's law the collectives take, with nothing beside them if that is known; of large ones
// alone, whose size counts for more than their latency. 0: not known.
func overLaw(w *workload.Workload, m *machine.Machine, large bool) float64 {
	var took, law float64
	laws := cost.Laws{Machine: m, Workload: w}
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if t := laws.Captured(c); t > 0 && (!large || t > 2*laws.Time(c, c.Op, 1, c.Channels)) {
			took, law = took+plan.Seconds(c.TransferAlone()), law+t
		}
	}
	if law == 0 {
		return 0
	}
	return took / law
}

// DamageOf says what is damaged of a captured run, if it is more than mostLost; else "".
func DamageOf(w *workload.Workload) string {
	if w.Damage.Share() <= mostLost {
		return ""
	}
	return strings.Join(w.Damage.Sentences, "; ")
}

// recorded: ranks that were not captured, operations of which nothing says when the host launched them, and iterations that
// nothing marks. Without launches the captured schedule is simulated with the gaps that were measured, so that its
// noise floor is low whatever the hosts do: nothing tells whether they keep up with another schedule.
func (v *assessment) recorded() {
	if v.w.Captured < v.w.World {
		v.addCaveat(noted, "%d of %d ranks were captured; the others are assumed to do the same", v.w.Captured, v.w.World)
	}
	if v.w.Run.Estimated != "" {
		v.addCaveat(unproven, "%s", v.w.Run.Estimated)
		return
	}
	unknown := 0
	for i := range v.w.Ops {
		if v.w.Ops[i].Issued == trace.Infinity {
			unknown++
		}
	}
	if float64(unknown) > mostLost*float64(len(v.w.Ops)) {
		v.addCaveat(invalid, "whether the hosts keep up is not known: no launch is recorded for %d of %d operations", unknown, len(v.w.Ops))
		v.addCaveat(unproven, "waits that the simulation takes from hosts are those of the capture")
	}
	if workload.Iterations(v.w) == 0 {
		v.addCaveat(poor, "nothing in the trace marks iterations")
	}
}

// Above these, a rescaled prediction is of low confidence: the share of the time whose law is
// a guess, and how many times larger a group became.
const (
	mostGuessed = 0.25
	mostGrown   = 4
)

// retargeted reports whether the capture is of another GPU.
func (v *assessment) retargeted() bool { return v.w.Rescaled != nil && !v.w.Rescaled.Same }

// rescaled: durations that were not measured on this machine, or with this number of ranks.
func (v *assessment) rescaled() {
	r := v.w.Rescaled
	if r == nil {
		return
	}
	if v.retargeted() {
		guessed, why := r.Guessed(), ""
		if guessed > 0.005 {
			why = fmt.Sprintf("; for %.0f %% of the captured time the trace does not show which law holds", 100*guessed)
		}
		v.addCaveat(poor.or(guessed > mostGuessed), "captured on %s and scaled to %s by laws%s", r.From, r.To, why)
	}
	if r.Ranks > 0 {
		v.addCaveat(poor.or(r.Ranks > mostGrown*r.Was || v.m.Nodes() > r.On.Nodes()),
			"%d ranks were captured, not %d: collectives follow the library's law, and the delays of more hosts are not known",
			r.Was, r.Ranks)
	}
}

// untested: strategies and variants that no row of this project measured.
func (v *assessment) untested() {
	switch v.out.Strategy.Kind {
	case plan.Bound:
		v.addCaveat(invalid, "a bound, not a schedule that can run")
	case plan.Future:
		v.addCaveat(invalid, "no GPU has the hardware that this needs")
	}
	if never := plan.Unmeasured(v.out.Selection, v.out.Changed.Ops); len(never) > 0 && v.out.Strategy.Kind != plan.Bound {
		v.addCaveat(invalid, "not measured on hardware here: %s", strings.Join(never, ", "))
	}
	if never := v.out.Changed.Never; len(never) > 0 {
		v.addCaveat(invalid, "%s", strings.Join(never, "; "))
	}
}

// dataflow: collectives that a schedule moves by dependencies that nobody recorded. Over 49 measured changes, predicted
// without the execution traces of their captures, errors are as large as with them.
func (v *assessment) dataflow() {
	if !v.out.Strategy.Loop {
		return
	}
	guessed, marked := guesses(v.w)
	r := lift.RecorderOf(v.w.Run)
	record := r.Dataflow
	switch {
	case r.Engine != "":
		record = "; profilers of serving engines record none"
	case record != "":
		record = "; " + record + " shows them"
	}
	switch n := len(v.w.Collectives); {
	case 2*guessed > n:
		v.addCaveat(noted, "what %d of %d collectives depend on is guessed%s", guessed, n, record)
	case guessed+marked > 0:
		v.addCaveat(noted, "what %d of %d collectives depend on follows from ranges of the framework or is guessed%s",
			guessed+marked, n, record)
	}
}

// Guessed reports whether what most collectives of a step depend on is guessed: an execution
// trace shows it.
func Guessed(w *workload.Workload) bool {
	guessed, _ := guesses(w)
	return 2*guessed > len(w.Collectives)
}

// guesses counts the collectives of a step of which it is guessed what they depend on, and those
// of which ranges of the framework tell.
func guesses(w *workload.Workload) (guessed, marked int) {
	if w.Flow == nil || len(w.Collectives) <= workload.Iterations(w) { // one a round: a loop
		return 0, 0
	}
	for i := range w.Collectives {
		switch w.EvidenceOf(w.Collectives[i].Members[0]) {
		case workload.Guessed:
			guessed++
		case workload.Annotated:
			marked++
		}
	}
	return guessed, marked
}

// build: a strategy that needs another build of a captured kernel.
func (v *assessment) build() {
	if !v.out.Strategy.Rebuilds {
		return
	}
	for i := range v.w.Pairs {
		for _, id := range v.w.Pairs[i].First {
			op := &v.w.Ops[id]
			switch {
			case op.Kind != trace.Compute:
				continue
			case workload.OfLibrary(op.Name):
				v.addCaveat(unproven, "%s is the library's: a kernel that does this in one is another build, and usually slower",
					trace.Short(op.Name))
			case op.Shape.Kind == workload.Embedding && v.saturated(op):
				v.addCaveat(poor, "%d gathering workgroups saturate the memory; how their stores to peers share it with their loads was not measured", v.wgs(op))
			case op.Shape.Kind == workload.GEMM:
				v.addCaveat(noted, "%s that stores to peers or waits for tiles is another build than the captured kernel",
					trace.Short(op.Name))
			default:
				continue
			}
			return
		}
	}
}

// saturates is the fraction of the best recorded rate from which a gather leaves no memory
// bandwidth.
const saturates = 0.95

// saturated reports whether the workgroups of a gather use all memory bandwidth.
func (v *assessment) saturated(op *workload.Op) bool {
	best := 0.0
	for _, r := range v.m.GPU.Gather.Rows {
		best = max(best, r[1])
	}
	laws := cost.Laws{Machine: v.m, Workload: v.w}
	return best == 0 || laws.Rate(op, v.wgs(op), false) >= saturates*best
}

// programs: another number of persistent workgroups than was captured.
func (v *assessment) programs() {
	n := v.out.Values.Int("programs")
	if n == 0 {
		return
	}
	for i := range v.w.Pairs {
		for _, id := range v.w.Pairs[i].First {
			if op := &v.w.Ops[id]; op.Kind == trace.Compute && op.Tiling.Persistent && op.Tiling.WGs != n {
				v.addCaveat(noted, "%s was captured with %d workgroups, not %d", trace.Short(op.Name), op.Tiling.WGs, n)
				return
			}
		}
	}
}

func (v *assessment) wgs(op *workload.Op) int {
	if n := v.out.Values.Int("programs"); n > 0 {
		return n
	}
	return op.Tiling.WGs
}

// clock: iterations at a clock that the power limit sets, or would.
func (v *assessment) clock() {
	if v.out.Strategy.Kind == plan.Exact || v.out.Scenario.Clock == plan.FullClock {
		return
	}
	c := plan.ClockOf(v.w, v.m, v.out.Scenario, v.out.Changed)
	if off := v.out.ClockOff; off > 0 {
		v.addCaveat(poor, "the clock did not settle: the last round changed durations by another %.1f %%", 100*off)
	}
	settled := c.Settled(v.m, v.out.Scenario, v.out.Time)
	if v.out.Scenario.Clock == plan.SettledClock {
		if settled < fullClock {
			v.addCaveat(noted, "the power limit lowers the clock to %.2f of the maximum; this differs by a few percent between GPUs", settled)
		}
		return
	}
	if known, took, _ := plan.LibraryGEMMs(v.w, v.m, true); known/v.m.Clock.InPlace.Or(1) < took*(1-2*v.m.Matmul.RunSpread.Value) {
		v.addCaveat(noted, "the captured GEMMs take %.0f %% longer than at full clock; another run may be at another clock (--clock)",
			100*(took*v.m.Clock.InPlace.Or(1)/known-1))
	}
	d := c.Demand(v.out.Scenario, v.out.Time)
	if settled < fullClock && timedIterations*d.Time > v.m.Clock.Lasts(0, v.m.Clock.Draw(d, 1)) {
		v.addCaveat(noted, "after some iterations of %.1f ms the power limit lowers the clock to %.2f of the maximum, and the capture may be from before or after that (--clock cool|sustained)", float64(v.out.Time)/1e6, settled)
	}
}

// fullClock is how far from the full clock nobody would see.
const fullClock = 0.97

// timedIterations is how many iterations a measurement of one strategy takes in a row.
const timedIterations = 10

// parts: matrix kernels of unknown size of which a schedule makes smaller ones, whose law is a guess.
func (v *assessment) parts() {
	w := v.out.Changed.Workload
	if w == nil || w.Origins == nil || v.out.Strategy.Kind == plan.Exact {
		return
	}
	cut := make([]bool, len(v.w.Ops)) // or repeated, or left out
	for i := range cut {
		cut[i] = true
	}
	for i := range w.Ops {
		if of := w.Origin(int32(i)); int(of) < len(cut) && w.Ops[i].Dur() == v.w.Ops[of].Dur() {
			cut[of] = false
		}
	}
	var all, unknown trace.Time
	for i := range v.w.Ops {
		op := &v.w.Ops[i]
		all += op.Dur()
		if cut[i] && op.Kind == trace.Compute && op.Shape.Kind == workload.NoShape && workload.HoldsWeights(op) {
			unknown += op.Dur()
		}
	}
	if share := float64(unknown) / float64(max(1, all)); share > mostLost {
		v.addCaveat(noted.or(share > mostGuessed),
			"for %.0f %% of the time kernels of unknown size are cut: as GEMMs of so many rows that take their time, or in proportion to them", 100*share)
	}
}

// How many times larger or smaller than anything measured a GEMM may be.
const (
	shapeFar    = 2.0
	shapeBeyond = 4.0
)

// lookups: GEMMs that the profile knows by its law only, and collectives outside what was measured.
func (v *assessment) lookups() {
	worst, gemm, beyond, size := 0.0, "", 1.0, ""
	for _, q := range v.out.Lookups {
		switch q.Kind {
		case machine.AboutGEMM:
			if from, d := v.m.Nearest(q.M, q.N, q.K); d > worst {
				worst, gemm = d, fmt.Sprintf("a GEMM of %dx%dx%d: the nearest one measured is %dx%dx%d", q.M, q.N,
					q.K, from[0], from[1], from[2])
			}
		case machine.AboutCollective:
			if d, what := v.m.Library.Beyond(q.Op, q.Bytes, q.Ranks, q.Channels); d > beyond {
				beyond, size = d, fmt.Sprintf("%s of %s", q.Op, what)
			}
		}
	}
	if math.IsInf(worst, 1) {
		v.addCaveat(poor, "no GEMM was measured on %s", v.m.Profile)
	} else if worst > shapeFar {
		v.addCaveat(noted.or(worst > shapeBeyond), "%s", gemm)
	}
	if size != "" {
		v.addCaveat(noted.or(beyond > 2), "%s", size)
	}
}

// splitsBatches reports whether a schedule runs an iteration's batch in parts.
func splitsBatches(out engines.Outcome) bool {
	return out.Changed.Workload != nil && slices.ContainsFunc(out.Changed.Workload.Ops, func(op workload.Op) bool { return op.Batch > 0 })
}

// assumed: numbers that nobody measured and that this result hangs on.
func (v *assessment) assumed() {
	for _, a := range machine.Assumptions(*v.m) {
		for _, key := range v.out.Strategy.DependsOn {
			if strings.HasPrefix(a.Key, key) {
				v.addCaveat(noted, "%s of %s is assumed (%s)", a.Key, v.m.Profile, a.Value)
				return
			}
		}
	}
}
