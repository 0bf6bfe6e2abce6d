// Package fluid shares resources among flows with max-min fairness. It models rates,
// sizes and times only; the meaning of the flows is left to the caller.
//
// A resource has a capacity. A path crosses resources, each at a cost: how much of
// the resource one unit of a flow takes. A flow takes a path, has a limit on its
// rate and a weight. Flows of one path, limit and weight are members of a class
// (an equivalence class): they have one rate. The rate of a flow without a path is
// its limit.
//
// The level of a flow is its rate divided by its weight. The rates are max-min fair:
// the level of a flow can only be raised by lowering that of a flow with an equal or
// lower level. They are computed by water-filling (Bertsekas and Gallager, Data Networks,
// 2nd edition, section 6.5.2; rule R2), once per instant at which something changed:
//
//  1. Tally: enter the classes whose members or limits changed into the rate table
//     of their path, and add the path's maximum rate to the demand on its resources.
//     The demand is bounded by the narrowest resource of the path.
//  2. Find the connected component of each path that changed. Only resources whose
//     demand exceeds their capacity connect paths; other resources hold no flow back.
//  3. Raise the level of all paths of the component from 0. A class whose rate reaches
//     its limit is fixed at the limit. When a resource is full, the remaining classes
//     of every path through it are fixed at the current level.
//  4. Commit: classes that are held back get the level of their path; set timers
//     for the next completions.
//
// A class has one clock: the amount that a member has sent since the class began. A
// member is done when the clock reaches the value set at its start, so a change of rate
// updates no member:
//
//	clock  |            done a    done b
//	       |          _.-'----------'--
//	       |      _.-'   slope: the rate of one member
//	       |___.-'
//	       +----+------------------------ time
//	         a,b join
//
// Completions are rounded up to whole units of time (rule Z2).
//
// Components of more than ExactPaths paths are solved approximately (approx.go).
// One fast path is exact: flows on uncontended resources need no class.
//
// Files in the order in which a flow meets them:
//
//	system.go       the system, and one instant of it
//	path.go         paths, and the flows that each holds back
//	uncontended.go  flows that nothing limits
//	class.go        classes, and their members from Join to End
//	resource.go     demand on resources, and what they moved
//	solve.go        the rates; approx.go of large components
package fluid

// none is the absent value of indices and times.
const none = -1

// last bounds times. Sums of two times below it do not overflow.
const last int64 = 1 << 60

// exactPaths is the largest number of paths of a component that is solved exactly
// at every change.
const exactPaths = 256

// Boundless is the rate of a flow without a limit.
const Boundless = 1e15

// An owner owns the flows among which a System shares resources.
type owner interface {
	// Schedule requests a call of Complete with the timer at a time. A timer for
	// which Pending returns false at that time is outdated.
	Schedule(at int64, t Timer)
	// MemberOf returns the membership of a flow.
	MemberOf(id int64) *Member
	// Dropped reports that a class without members has been discarded. Its number
	// is reused.
	Dropped(class int32)
	// Contended reports that the uncontended flows of a path must join classes.
	Contended(path int32)
	// Demanded lists the observed resources whose demand has changed. The owner may
	// set their capacities.
	Demanded(resources []int32)
}

// A Timer identifies a deadline of a System.
type Timer int32

// The timers: 2·class is the completion of a class's first member, 2·path+1 that of the first member
// of a path's held classes, recompute a solve of a large component.
const recompute Timer = none

// A System is resources, paths and classes of flows.
type System struct {
	ExactPaths int // components of more paths are solved approximately

	// Meter, if not nil, is called with what a resource moved in an interval, and with
	// whether it was full. Intervals of a resource come in any order and overlap; those in
	// which it was full do not.
	Meter func(resource int32, amount float64, full bool, from, to int64)

	owner     owner
	resources []resource
	solving
	paths     []path
	ways      []int32   // the resources of one path after another
	listed    []bool    // by way: the path is in the resource's paths
	costs     []float64 // costs of ways
	lastCosts int32     // index in costs of the last ones used
	classes   []class
	free      []int32 // discarded classes, for reuse
	rowSlab   slab[row]
	heldSlab  slab[heldClass]
	entrySlab slab[entry]
	approx    approx
	pending
	commits uint32 // number of commits so far
	seq     uint64
}

// pending is what changed since the last Solve, which clears it.
type pending struct {
	touched   []int32 // classes to update before time advances
	altered   []int32 // classes to tally: on a path, with changed members or limit
	dirty     []int32 // paths whose rows changed
	changed   []int32 // paths to solve
	moved     []int32 // paths whose next completion may have changed
	demanded  []int32 // observed resources whose demand changed
	contended []int32 // resources that have uncontended flows and may have become oversubscribed
}

// A solving is the state of the search for a component and of the solve of its rates; it is kept for its memory.
type solving struct {
	residuals  []residual // by resource, of a solve
	states     []state    // by path, of a solve
	visits     []int      // by path: none if it has no classes, else the last search that visited it, plus one when settled
	search     int
	component  []int32       // paths of the component being solved
	members    []int32       // its resources
	open       int           // its unsettled paths
	known      bool          // it begins with those of the last large component
	nextLimits priorityQueue // its paths, by the level of their next row
	nextFull   priorityQueue // its resources, by a lower bound of the level at which they are full
}

// New returns a system without resources.
func New(owner owner) *System {
	return &System{
		ExactPaths: exactPaths, owner: owner, solving: solving{search: 2}, commits: 1,
		approx: approx{alarm: none, staleSince: last},
	}
}

// A Crossing is the use of a resource by a path: Cost units of it per unit of flow.
type Crossing struct {
	Resource int32
	Cost     float64
}

// Calm reports whether nothing has changed since the last Solve.
func (s *System) Calm() bool {
	return len(s.touched)+len(s.dirty)+len(s.changed)+len(s.moved)+len(s.demanded)+len(s.contended) == 0 && !s.approx.due
}

// Solve finds the rates of all flows from now on.
func (s *System) Solve(now int64) {
	if s.Calm() {
		s.commits++
		return
	}
	s.resolveContention(now)
	s.solve(now)
	s.commit(now)
}

// Pending reports whether the timer is due now, and clears it.
func (s *System) Pending(t Timer, now int64) bool {
	alarm := &s.approx.alarm
	switch {
	case t == recompute:
	case t%2 == 0:
		alarm = &s.classes[t/2].alarm
	default:
		alarm = &s.paths[t/2].alarm
	}
	if *alarm != now {
		return false
	}
	*alarm = none
	return true
}

// Complete removes the members that are done now from the classes of the timer, and
// appends their flows. The caller must call End for each flow before the next Join.
func (s *System) Complete(t Timer, now int64, into []int64) []int64 {
	take := s.take
	switch {
	case t == recompute:
		s.approx.due = true
		return into
	case t%2 != 0:
		take = s.takeHeld
	}
	id, ok := take(int32(t/2), now, true)
	for ; ok; id, ok = take(int32(t/2), now, false) {
		into = append(into, id)
	}
	return into
}

func (s *System) schedule(alarm *int64, at int64, t Timer) {
	*alarm = at
	s.owner.Schedule(at, t)
}
