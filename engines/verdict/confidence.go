package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Level is the reliability of a prediction. Measured errors by level are in `overlapse
// validate` and in the README.
type Level string

// The levels, best first.
const (
	High   Level = "high"
	Medium Level = "medium"
	Low    Level = "low"
)

// Levels lists them, best first.
func Levels() []Level { return []Level{High, Medium, Low} }

// A Confidence is a level and its main reason: the strongest caveat or, for High, the
// measurements behind the prediction.
type Confidence struct {
	Level Level  `json:"level"`
	Why   string `json:"why"`
}

// A caveat is a reason against a prediction.
type caveat struct {
	level Level
	why   string
}

// ConfidenceOf returns the reliability of an outcome and the reason. It depends on the
// sources of the numbers and never on measured times of strategies.
func ConfidenceOf(w *workload.Workload, out compare.Outcome) Confidence {
	if out.Result == nil {
		return Confidence{}
	}
	v := assessment{w: w, out: out, m: &out.Machine}
	for _, ask := range []func(){v.otherGPU, v.machine, v.basis, v.rescaled, v.untested, v.dataflow, v.shapes, v.sizes, v.host, v.build, v.programs, v.race, v.clock, v.assumed} {
		ask()
	}
	for _, part := range out.Strategy.Parts { // a mix is at most as reliable as its parts
		v.out.Selection = part
		for _, ask := range []func(){v.untested, v.build, v.programs} {
			ask()
		}
	}
	for _, level := range []Level{Low, Medium} {
		if i := slices.IndexFunc(v.caveats, func(d caveat) bool { return d.level == level }); i >= 0 {
			return Confidence{level, v.caveats[i].why}
		}
	}
	return Confidence{High, v.basisText()}
}

// An assessment collects the caveats of one prediction.
type assessment struct {
	w       *workload.Workload
	out     compare.Outcome
	m       *machine.Machine
	caveats []caveat
}

func (v *assessment) addCaveat(level Level, format string, args ...any) {
	v.caveats = append(v.caveats, caveat{level, fmt.Sprintf(format, args...)})
}

func (v *assessment) basisText() string {
	if v.out.Strategy.Exact {
		return "every kernel as it was measured"
	}
	return "kernels as captured, parts as measured on this machine"
}

// machine: a profile without benchmarks.
func (v *assessment) machine() {
	if t := v.m.Library.AllReduce.Times; (len(t.Rows) == 0 || t.Mark != machine.Sourced) && (!v.out.Strategy.Exact || v.retargeted()) {
		v.addCaveat(Low, "no benchmark of %s: %d numbers of its profile are assumed (overlapse calibrate measures them)", v.m.Profile, guessed(v.m))
	}
}

// otherGPU: a kernel of the trace that cannot run on the machine's GPU.
func (v *assessment) otherGPU() {
	for i := range v.w.Ops {
		if op := &v.w.Ops[i]; op.Kind == trace.Compute {
			if err := program.Fits(v.m, op.Footprint); err != nil {
				v.addCaveat(Low, "the trace is of another GPU than %s: %s: %v", v.m.Name, plan.ShortName(op.Name), err)
				return
			}
		}
	}
}

func guessed(m *machine.Machine) (n int) {
	for _, a := range profile.Assumptions(*m) {
		if !a.Absent {
			n++
		}
	}
	return n
}

// basis: information that the trace does not have.
func (v *assessment) basis() {
	if v.w.Run.Estimated != "" {
		v.addCaveat(Low, "no kernel was measured: %s", v.w.Run.Estimated)
	}
	if v.w.Captured < v.w.World {
		level := Medium
		if v.w.Captured == 1 {
			level = Low
		}
		v.addCaveat(level, "%d of %d ranks were captured; the others are assumed to do the same", v.w.Captured, v.w.World)
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
		level, guessed, why := Medium, r.Guessed(), ""
		if guessed > mostGuessed {
			level = Low
		}
		if guessed > 0.005 {
			why = fmt.Sprintf("; for %.0f %% of the captured time the trace does not show which law holds", 100*guessed)
		}
		v.addCaveat(level, "captured on %s and scaled to %s by laws%s", r.From, r.To, why)
	}
	if r.Ranks > 0 {
		level := Medium
		if r.Ranks > mostGrown*r.Was || v.m.Nodes() > r.On.Nodes() {
			level = Low
		}
		v.addCaveat(level, "%d ranks were captured, not %d: collectives follow the library's law, and the delays of more hosts are not known", r.Was, r.Ranks)
	}
}

// untested: strategies and variants that were not run on hardware for this project.
func (v *assessment) untested() {
	switch {
	case v.out.Strategy.Bound && !v.out.Strategy.Exact:
		v.addCaveat(Low, "a bound, not a schedule that can run")
	case v.out.Strategy.Future:
		v.addCaveat(Low, "no GPU has the hardware that this needs")
	}
	if never := plan.Unmeasured(v.out.Selection, v.out.Changed.Ops()); len(never) > 0 && (v.out.Strategy.Exact || !v.out.Strategy.Bound) {
		v.addCaveat(Low, "no run on hardware is behind %s of %s", strings.Join(never, ", "), v.out.Strategy.Name)
	}
}

// dataflow: collectives that a schedule moves by dependencies that nobody recorded.
func (v *assessment) dataflow() {
	if !v.out.Strategy.Loop || v.w.Flow == nil || len(v.w.Collectives) <= workload.Iterations(v.w) { // one a round: a loop
		return
	}
	guessed, marked := 0, 0
	for i := range v.w.Collectives {
		switch v.w.EvidenceOf(v.w.Collectives[i].Members[0]) {
		case workload.Guessed:
			guessed++
		case workload.Annotated:
			marked++
		}
	}
	const record = "an execution trace beside the profile shows them: torch.profiler.ExecutionTraceObserver"
	switch n := len(v.w.Collectives); {
	case 2*guessed > n:
		v.addCaveat(Low, "what %d of %d collectives depend on is guessed; %s", guessed, n, record)
	case guessed+marked > 0:
		v.addCaveat(Medium, "what %d of %d collectives depend on follows from ranges of the framework or is guessed; %s", guessed+marked, n, record)
	}
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
				v.addCaveat(Low, "%s is the library's: a kernel that does this in one is another build, and usually slower", plan.ShortName(op.Name))
			case op.Shape.Kind == workload.Embedding && v.saturated(v.wgs(op)):
				v.addCaveat(Low, "%d gathering workgroups saturate the memory; how their stores to peers share it with their loads was not measured", v.wgs(op))
			case op.Shape.Kind == workload.GEMM:
				v.addCaveat(Medium, "%s that stores to peers or waits for tiles is another build than the captured kernel", plan.ShortName(op.Name))
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

// saturated reports whether n workgroups of a gather use all memory bandwidth.
func (v *assessment) saturated(wgs int) bool {
	best := 0.0
	for _, r := range v.m.GPU.Gather.Rows {
		best = max(best, r[1])
	}
	return best == 0 || v.m.GPU.GatherAt(wgs, false) >= saturates*best
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
				v.addCaveat(Medium, "%s was captured with %d workgroups, not %d", plan.ShortName(op.Name), op.Tiling.WGs, n)
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

// hostSpread is how many times longer one host takes to issue than another of the
// same kind: four took 7.9, 12, 21 and 23 us a GEMM (host_issue in samples/measurements
// and behind the profile h200).
const hostSpread = 3

// host: time in which a device waits for its host, which another machine or load
// changes. What the first iteration waited for is a cold start's and left out.
func (v *assessment) host() {
	if v.out.Values["graph"] == "on" {
		return
	}
	worst := hostWait(v.w, v.out)
	l := &v.m.Launch
	alone, issue := 1e9*max(l.Host.Or(0), l.Compiled.Or(0)), v.issue()
	switch whole := float64(v.out.Time); {
	case hostSpread*issue > whole:
		v.addCaveat(Low, "host-bound on a slow host: issuing an iteration takes %.0f to %.0f us, depending on the host", issue/1e3, hostSpread*issue/1e3)
	case worst > 0.2:
		why := "host-bound: devices wait %.0f %% of the time for a launch"
		if !v.w.Unprofiled && v.w.Run.Estimated == "" {
			why += ", the profiler's part included"
		}
		v.addCaveat(Low, why, 100*worst)
	case worst > 0.05:
		v.addCaveat(Medium, "GPUs wait %.0f %% of the time for the host", 100*worst)
	case v.out.Strategy.Inside && hostSpread*alone > whole/5:
		v.addCaveat(Medium, "a slow host needs %.0f of %.0f us to launch the one kernel", hostSpread*alone/1e3, whole/1e3)
	}
}

// issue is the nanoseconds that a host takes to enqueue one iteration on one
// rank, at the profile's pace.
func (v *assessment) issue() float64 {
	l := &v.m.Launch
	var each float64
	kernel := l.Host.Or(0)
	if v.out.Strategy.Inside {
		kernel = l.Compiled.Or(kernel)
	}
	run := v.out.Result.Run
	for _, s := range run.Spans {
		if id := plan.OriginOf(run, s); id >= 0 && v.w.Ops[id].Graph {
			continue
		}
		switch s.Kind {
		case trace.Collective:
			each += l.HostCollective.Or(0)
		case trace.Compute:
			each += kernel
		}
	}
	return each * 1e9 / float64(max(1, v.w.World)*max(1, workload.Iterations(v.w)))
}

// clock: iterations at a clock that the power limit sets, or would.
func (v *assessment) clock() {
	if v.out.Strategy.Exact || v.out.Scenario.Clock == plan.FullClock {
		return
	}
	c := plan.ClockOf(v.w, v.m, v.out.Scenario)
	if off := v.out.ClockOff; off > 0 {
		v.addCaveat(Medium, "the clock did not settle: the last round changed durations by another %.1f %%", 100*off)
	}
	settled := c.Settled(v.m, v.out.Scenario, v.out.Time)
	if v.out.Scenario.Clock == plan.SettledClock {
		if settled < fullClock {
			v.addCaveat(Medium, "the power limit lowers the clock to %.2f of the maximum; this differs by a few percent between GPUs", settled)
		}
		return
	}
	if known, took, _ := plan.LibraryGEMMs(v.w, v.m, true); known/v.m.Clock.InPlace.Or(1) < took*(1-2*v.m.Matmul.RunSpread.Value) {
		v.addCaveat(Medium, "the captured GEMMs take %.0f %% longer than at full clock; another run may be at another clock (--clock)", 100*(took*v.m.Clock.InPlace.Or(1)/known-1))
	}
	d := c.Demand(v.out.Scenario, v.out.Time)
	if settled < fullClock && timedIterations*d.Time > v.m.Clock.Lasts(0, v.m.Clock.Draw(d, 1)) {
		v.addCaveat(Medium, "after some iterations of %.1f ms the power limit lowers the clock to %.2f of the maximum, and the capture may be from before or after that (--clock cool|sustained)", float64(v.out.Time)/1e6, settled)
	}
}

// fullClock is how far from the full clock nobody would see.
const fullClock = 0.97

// timedIterations is how many iterations a measurement of one strategy takes in a row.
const timedIterations = 10

// How many times larger or smaller than anything measured a GEMM may be.
const (
	shapeFar    = 2.0
	shapeBeyond = 4.0
)

// shapes: GEMMs that the profile knows by its law only.
func (v *assessment) shapes() {
	var far machine.Question
	var from [3]int64
	worst := 0.0
	for _, q := range v.out.Lookups {
		if q.Kind != machine.AboutGEMM || v.m.Answered(q) {
			continue
		}
		if shape, d := v.m.Nearest(q.M, q.N, q.K); d > worst {
			far, from, worst = q, shape, d
		}
	}
	of := func() string {
		return fmt.Sprintf("a GEMM of %dx%dx%d: the nearest one measured is %dx%dx%d", far.M, far.N, far.K, from[0], from[1], from[2])
	}
	switch {
	case math.IsInf(worst, 1):
		v.addCaveat(Low, "no GEMM was measured on %s", v.m.Profile)
	case worst > shapeBeyond:
		v.addCaveat(Low, "%s", of())
	case worst > shapeFar:
		v.addCaveat(Medium, "%s", of())
	}
}

// sizes: collectives outside what was measured.
func (v *assessment) sizes() {
	worst, why := 1.0, ""
	for _, q := range v.out.Lookups {
		if q.Kind != machine.AboutCollective {
			continue
		}
		if d, what := v.m.Library.Beyond(q.Op, q.Bytes, q.Ranks, q.Channels); d > worst {
			worst, why = d, fmt.Sprintf("%s of %s", q.Op, what)
		}
	}
	switch {
	case worst > 2:
		v.addCaveat(Low, "%s", why)
	case worst > 1:
		v.addCaveat(Medium, "%s", why)
	}
}

// race: who gets the compute units first differs from run to run.
func (v *assessment) race() {
	if v.out.Races.Any() {
		v.addCaveat(Medium, "dispatch order varies between runs: %s to %s (--seeds shows the spread)", explain.Micros(v.out.Best), explain.Micros(v.out.Worst))
	}
}

// assumed: numbers that nobody measured and that this result hangs on.
func (v *assessment) assumed() {
	for _, a := range profile.Assumptions(*v.m) {
		for _, key := range v.out.Strategy.DependsOn {
			if strings.HasPrefix(a.Key, key) {
				v.addCaveat(Medium, "%s of %s is assumed (%s)", a.Key, v.m.Profile, a.Value)
				return
			}
		}
	}
}
