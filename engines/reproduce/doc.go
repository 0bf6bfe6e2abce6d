// Package reproduce compares published claims with replays of their experiments, point by
// point. A point is one published number with the workload, strategy and baseline that it
// belongs to. The claims of each paper are in one file of the folder claims.
//
//	paper.go    the files: papers, claims, points
//	rules.go    tolerances, and when a claim counts as reproduced
//	measure.go  what is read off a replay
//	marks.go    the marks of Figure 11 of the fused operators
//	run.go      replays all points
//
// No constant of overlapse comes from a point that is scored.
package reproduce
