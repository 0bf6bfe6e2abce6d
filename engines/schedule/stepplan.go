// Package schedule is the writer of programs, and the strategies that leave operations whole and choose the stream, the
// order and the resources they run with: captured, bulk, ideal and multistream. A strategy of pairs writes its pairs, and
// this package all other operations, in their places. Files in the order in which a step passes them:
//
//	captured.go, bulk.go, multistream.go, ideal.go   the strategies and the bound; copies.go, of copies from the host
//	stepplan.go     Planned: plans any strategy; what a schedule of a step may change
//	step.go         the operations of all ranks in the order of issue, and what waits for what; serial.go, one order of all ranks
//	async.go        collectives that ran alongside compute, and keep their places
//	preps.go        copies that prepare collectives
//	buckets.go      gradients in other buckets; gathers.go, parameters gathered earlier, once or again
//	chains.go       micro-batches that alternate
//	reading.go      the pipeline of a capture; order.go, the orders of schedules; pipelineplan.go, their pieces; samples.go, kernels
//	                that depend on the samples of one; halves.go, of backward in two; handover.go, between threads;
//	                messages.go, between stages; pipeline.go, in place of the captured step
//	occupancy.go    compute of other grids
//	beside.go       what computes alongside each collective
//	stepwrite.go    writes a rank: streams, waits, gaps, kernels and pairs; blocked.go, gaps beside streams that wait
package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Settings of schedules of whole steps, shared by bulk and multistream.
var (
	bucketParam = plan.Param{
		Name: "bucket_mb", Default: "0", Doc: "steps: MiB of gradients that an all-reduce sums (DDP's bucket_cap_mb); the first bucket closes at 1 MiB unless the captured one does not; 0: as captured",
		Tune: []int{12, 25, 50, 100, 200}, Measured: []string{plan.AnyNumber}, Costs: "larger buckets start later",
		Ops: []trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter},
	}
	keepParam = plan.Param{
		Name: "keep_gathered", Default: "captured", Choices: []string{"captured", "on", "off"}, Doc: "steps: on, no second gather in backward (fully_shard's reshard_after_forward=False); off, a second gather",
		Measured: []string{"captured", "on", "off"}, Costs: "on keeps what forward gathers (parameters; keys and values) until backward",
		Ops: plan.OnlyGathers,
	}
	scatterGroupParam = plan.Param{
		Name: "scatter_group", Default: plan.AsCaptured,
		Choices: []string{plan.AsCaptured, ownGroup}, Measured: []string{plan.AsCaptured, ownGroup},
		Doc:   "steps: own, reduce-scatters have a communicator of their own and run beside all-gathers (rule S24)",
		Costs: "the buffers of one more communicator", Ops: []trace.CollectiveOp{trace.ReduceScatter},
	}
)

const ownGroup = "own"

// stepOptions are the settings of a schedule of a step.
type stepOptions struct {
	values plan.Values
	serial bool // compute keeps away from collectives
	keep   bool // every collective keeps its place
	loop   bool // iterations do not depend on each other
	pipe   *pipelinePlan
}

// Planned plans a strategy and returns the planner after it has written the program. It also holds the races of the
// program and the profile lookups. It returns a NotApplicable error if the strategy does not apply.
func Planned(e plan.Strategy, w *workload.Workload, m machine.Machine, v plan.Values, sc plan.Scenario) (*plan.Planner, error) {
	pl, err := e.Begin(w, m, v, sc)
	if err != nil {
		return nil, err
	}
	if pl.WriteRank == nil { // what no pair replaces keeps its place
		if why := planStep(pl, stepOptions{keep: true}); why != "" {
			return nil, &plan.NotApplicable{Strategy: e.Name, Why: why}
		}
	}
	pl.Write()
	if why := tooManyFlags(pl); why != "" {
		return nil, &plan.NotApplicable{Strategy: e.Name, Why: why}
	}
	return pl, nil
}

// inPlace reports whether collectives stay where they were captured, on their streams too.
func (o *stepOptions) inPlace() bool { return o.keep && o.pipe == nil }

// planStep writes the workload as a step: see type step.
func planStep(pl *plan.Planner, o stepOptions) (why string) {
	v := o.values
	if len(pl.Workload.Collectives) == 0 && !o.serial && !o.keep {
		return "no collective was found"
	}
	if pl.Workload.Flow == nil { // nothing is known: every collective keeps its place
		pl.Workload = pl.Workload.Copy()
		pl.Workload.Flow = make([][]workload.Edge, len(pl.Workload.Ops))
	}
	s := newStep(pl, o)
	without := func(setting string) (why string) { // it changes nothing
		o.values = maps.Clone(v)
		delete(o.values, setting)
		return planStep(pl, o)
	}
	if v["keep_gathered"] == "on" && !s.keepGathered() {
		if !s.keepsGathered() {
			return "keep_gathered=on keeps nothing: backward uses no parameters that forward has gathered"
		}
		return without("keep_gathered")
	}
	if v["keep_gathered"] == "off" && s.gathersAgain() && !s.keepsGathered() {
		return without("keep_gathered")
	}
	if v[scatterGroupParam.Name] == ownGroup && !s.sharesGroup() {
		return without(scatterGroupParam.Name)
	}
	for row := range s.w.Collectives {
		if !s.leftOut(int32(row)) && (!s.async[row] || v.Int("bucket_mb") > 0) {
			s.findPreps(row)
		}
	}
	if mb := v.Int("bucket_mb"); mb > 0 && s.hasBuckets(int64(mb)<<20) {
		return without("bucket_mb")
	}
	s.move()
	if o.pipe != nil {
		s.pipeline(o.pipe)
	} else if why := s.group(v); why != "" {
		return why
	}
	if n := v.Int("interleave"); n > 0 {
		if why := s.interleave(n); why != "" {
			return why
		}
	}
	ahead := v.Int("prefetch")
	switch limited, moved := s.settle(ahead); {
	case ahead == 0:
	case !limited:
		return "prefetch moves nothing: no parameters are gathered"
	case !moved && !slices.Contains(s.async, false): // all runs beside compute, and gathers are as far ahead as captured
		return without("prefetch")
	}
	pl.Memory.Bytes += s.kept/int64(max(1, workload.Iterations(s.w))) + s.ahead + s.flattened()
	for _, c := range s.gathers() {
		if (v["keep_gathered"] == "on" || v.Int("prefetch") > 0) && (c.Guessed || c.Bytes == 0 && !c.Earlier) {
			pl.Memory.Lack("gathered parameters of unknown size")
		}
	}
	sw := &stepWriter{step: s, channels: limitsOf(v), priority: v["priority"] == "on", leaves: occupancyOf(v)}
	if why := sw.leaves.refusesAll(pl); sw.leaves != (occupancy{}) && why != "" {
		return why
	}
	sw.write()
	return ""
}

// sharesGroup reports whether some reduce-scatter has its communicator in common with a gather.
func (s *step) sharesGroup() bool {
	scatters := map[int32]bool{}
	for i := range s.w.Collectives {
		if c := &s.w.Collectives[i]; s.apart(c) {
			scatters[c.Group] = true
		}
	}
	return slices.ContainsFunc(s.w.Collectives, func(c workload.Collective) bool {
		return c.Op == trace.AllGather && !c.Foreign && scatters[c.Group]
	})
}

// leftOut reports whether the schedule leaves a collective out.
func (s *step) leftOut(row int32) bool { return s.dropped[s.w.Collectives[row].Members[0]] }

// group makes the exchanges: the captured collectives, gradients in other buckets, gathers
// again. It returns the reason why it cannot, or "".
func (s *step) group(v plan.Values) string {
	if mb := v.Int("bucket_mb"); mb > 0 {
		if why := s.regroup(int64(mb) << 20); why != "" {
			return why
		}
	} else {
		for row := range s.w.Collectives {
			if !s.leftOut(int32(row)) {
				s.exchange(row)
			}
		}
	}
	if v["keep_gathered"] == "off" && !s.gatherAgain() && !s.gathersAgain() {
		return "keep_gathered=off gathers nothing again: backward uses no parameters that forward has gathered"
	}
	return ""
}

// settle decides when the host issues every exchange and what it and compute wait for. It
// reports whether prefetch holds for any gather, and moves any.
func (s *step) settle(prefetch int) (prefetched, moved bool) {
	for i, x := range s.exchanges {
		x.index = i
	}
	for _, x := range s.exchanges {
		s.placedFirst(x)
	}
	s.need()
	before := s.issues()
	prefetched = s.limitPrefetch(prefetch)
	moved = !slices.Equal(before, s.issues())
	s.sort()
	s.limitReductions()
	s.limitBuffers(s.values.Int("buffers"))
	return prefetched, moved
}

// issues says of every member of an exchange in front of which item it is issued, and how much it waits for.
func (s *step) issues() (all [][3]int32) {
	for _, x := range s.exchanges {
		for k := range x.members {
			m := &x.members[k]
			all = append(all, [3]int32{m.place, int32(len(m.deps)), int32(len(m.after))})
		}
	}
	return all
}

// flattened is how much larger the buffer is that gradients are copied into for a bucket than the
// captured one. Buckets that gradients are views of have as many bytes in all, whatever their size.
func (s *step) flattened() int64 {
	var captured, now int64
	for _, x := range s.exchanges {
		if !x.copied {
			continue
		}
		if x.members[0].back > 0 {
			now = max(now, x.coll.Bytes)
		}
		for _, row := range x.carries {
			if len(s.preps[row]) > 0 {
				captured = max(captured, s.w.Collectives[row].Bytes)
			}
		}
	}
	return now - captured
}

// limitBuffers has compute of a loop wait for the collective so many iterations back (rule W6).
func (s *step) limitBuffers(n int) {
	for i := n; n > 0 && i < len(s.pl.Pairs); i++ {
		row := s.pl.Pairs[i-n].Collective
		for _, id := range s.pl.Pairs[i].First {
			it := s.items[s.w.Ops[id].Rank][s.at[id]]
			it.waits = append(it.waits, s.carriers[row]...)
		}
	}
}

// kindParams are the workgroups of collectives of one kind, where they differ from those of all others.
var kindParams = [...]plan.Param{
	channelsOf("gather_channels", "all-gathers", plan.OnlyGathers),
	channelsOf("sum_channels", "reduce-scatters and all-reduces", sums),
}

var sums = []trace.CollectiveOp{trace.ReduceScatter, trace.AllReduce}

// channelsOf is a parameter of the collectives of a kind.
func channelsOf(name, kind string, ops []trace.CollectiveOp) plan.Param {
	return plan.Param{
		Name: name, Default: "0", Experimental: true, Ops: ops,
		Doc:   "steps: workgroups of " + kind + " alone; 0: as channels says",
		Costs: "fewer leave compute units to compute and move fewer bytes a second",
	}
}

// triedChannels are the workgroups of a kind that tuning tries.
var triedChannels = []int{4, 8, 16}

// ofKinds are numbers of workgroups of the gathers and of the sums of a step apart, for a step that has both.
func ofKinds(w *workload.Workload) (settings []string) {
	for _, p := range kindParams {
		does := func(c workload.Collective) bool { return !c.Foreign && !c.Engines && slices.Contains(p.Ops, c.Op) }
		if !slices.ContainsFunc(w.Collectives, does) {
			return nil
		}
	}
	for _, n := range triedChannels {
		for _, p := range kindParams {
			settings = append(settings, fmt.Sprintf("%s=%d", p.Name, n))
		}
		for _, m := range triedChannels {
			settings = append(settings, fmt.Sprintf("%s=%d:%s=%d", kindParams[0].Name, n, kindParams[1].Name, m))
		}
	}
	return settings
}

// A limits is the workgroups that collectives are set to, by kind; 0: as captured.
type limits struct{ all, gathers, sums int }

func limitsOf(v plan.Values) limits {
	return limits{v.Int("channels"), v.Int(kindParams[0].Name), v.Int(kindParams[1].Name)}
}

// of is the number of workgroups that a collective is set to.
func (l limits) of(c *workload.Collective) int {
	kind := 0
	switch {
	case slices.Contains(kindParams[0].Ops, c.Op):
		kind = l.gathers
	case slices.Contains(kindParams[1].Ops, c.Op):
		kind = l.sums
	}
	return cmp.Or(kind, l.all)
}

// tooManyFlags is the reason why the program that was written cannot be simulated, or "".
func tooManyFlags(pl *plan.Planner) string {
	n, world := pl.Program.Flags.Len(), pl.Workload.World
	if n <= mostFlags {
		return ""
	}
	ranks := max(1, int(float64(world)*math.Sqrt(mostFlags/float64(n))))
	return fmt.Sprintf("%d flags between %d ranks take too much memory to simulate (a job of at most %d ranks)", n, world, ranks)
}

// mostFlags bounds the flags of a program, of which one takes about 100 bytes: where every rank has
// one for each of its peers, a large job has many.
const mostFlags = 1 << 24
