// Package fluid shares resources among flows max-min fairly. It knows rates,
// sizes and times, and nothing of who sends what.
//
// A resource has a capacity. A path crosses resources, each at a cost: how much of
// the resource one unit of a flow takes. A flow takes a path, has a limit on its
// rate and a weight. Flows of one path, limit and weight are members of a class
// (an equivalence class): they have one rate. A flow without a path goes at its
// limit.
//
// The level of a flow is its rate over its weight. The rates are max-min fair: no
// flow could have a higher level but at the cost of one whose level is no higher.
// They are found by water-filling (Bertsekas and Gallager, Data Networks, 2nd
// edition, section 6.5.2; rules R2 and R4), once for every instant at which something changed:
//
//  1. Tally: enter the classes whose members or limits changed into the rate table
//     of their path, and what the path could send at most into the demand on its
//     resources. The demand is bounded by the narrowest resource of the path.
//  2. Find the connected component of each path that changed. Only resources whose
//     demand exceeds their capacity connect paths: others hold nothing back.
//  3. Raise the level of all paths of the component from 0. A class whose level
//     reaches its limit stays there. When a resource is full, the rest of every
//     path through it stays at the level reached.
//  4. Commit: classes that are held back go at the level of their path; set timers
//     for the next completions.
//
// A class keeps one clock of what each member has done since it began. A member is
// done when the clock reaches the value that it was given at its start, so that a
// change of rate touches no member:
//
//	clock  |            done a    done b
//	       |          _.-'----------'--
//	       |      _.-'   slope: the rate of one member
//	       |___.-'
//	       +----+------------------------ time
//	         a,b join
//
// Completions are rounded up to whole units of time (rule Z1).
//
// Components of more than ExactPaths paths are solved approximately (approx.go).
// Two fast paths are exact: flows on resources that are not contended need no class
// (uncontended.go), and flows that are sure to be held back share one class
// (aggregate.go).
package fluid
