// Package machinetest has machines for tests, and compares numbers.
package machinetest

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
)

// Load is Load of a profile that must be good.
func Load(t testing.TB, name string) machine.Machine {
	t.Helper()
	m, err := machine.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Clock is a clock that falls, of round numbers.
func Clock() machine.Clock {
	q := func(v float64) machine.Quantity { return machine.Quantity{Value: v, Source: "test"} }
	return machine.Clock{Knee: q(0.64), Exponent: q(0.5), Memory: q(0.5), Link: q(0.25), Hold: q(0.04)}
}

// Off is by what share of the wanted value one differs.
func Off(got, want float64) float64 { return math.Abs(got/want - 1) }
