package main

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/score"
)

// A strategy that the base cannot predict has no error of the base, and leaves those of others in their rows.
func TestScoresBesideTheBase(t *testing.T) {
	table := cli.Table{Columns: []string{"strategy", "rows", "base", "", "calibrated", ""}}
	addScores(&table, []score.Score{{Strategy: "fused", N: 3, Median: 0.2, P90: 0.4}},
		[]score.Score{{Strategy: "bulk", N: 2, Median: 0.01, P90: 0.02}, {Strategy: "fused", N: 3, Median: 0.1, P90: 0.3}})
	if got, want := fmt.Sprint(table.Rows), "[[bulk 2   1.0 % 2.0 %] [fused 3 20.0 % 40.0 % 10.0 % 30.0 %]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
