// Package validate compares predictions with measurements: it turns a measured row
// into a workload, a machine and a strategy, predicts it, and sums up the errors,
// the cost of choosing by prediction and the distances of workgroups from stamps.
// It fits nothing: profiles are calibrated elsewhere, from other rows.
package validate
