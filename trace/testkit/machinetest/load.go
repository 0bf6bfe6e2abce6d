// Package machinetest has machines for tests, and compares numbers.
package machinetest

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
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

// Slowdown is the factor of Library.CoRun on the time of a collective, with the latency that it adds.
func Slowdown(l *machine.Library, op trace.CollectiveOp, bytes int64, ranks, channels int, beside machine.CoRunner) float64 {
	factor, _, latency := l.CoRun(op, bytes, ranks, channels, beside)
	if latency == 0 {
		return factor
	}
	return factor + latency/l.Time(op, bytes, ranks, channels)
}

// Clock is a clock that falls, of round numbers.
func Clock() machine.Clock {
	q := func(v float64) machine.Quantity { return machine.Quantity{Value: v, Source: "test"} }
	return machine.Clock{Knee: q(0.64), Exponent: q(0.5), Memory: q(0.5), Link: q(0.25), Hold: q(0.04)}
}

// Off is by what share of the wanted value one differs.
func Off(got, want float64) float64 { return math.Abs(got/want - 1) }
