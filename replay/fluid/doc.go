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
// Two fast paths are exact: flows on uncontended resources need no class
// (uncontended.go), and flows that are certain to be held back share one class
// (aggregate.go).
package fluid
