package dataset

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// Predictions against the shared rows. The profile is read off these rows, so
// this says how well its laws and interpolation hold what was measured, not
// how well they foretell.
func TestTimeAgainstRows(t *testing.T) {
	m := machinetest.Load(t, "h200")
	byOp := map[trace.CollectiveOp][]float64{}
	for _, r := range measured(t) {
		if r.Workload.Kind != "collective" || r.Strategy != "isolated" || r.Us*1e-6 < hostBound {
			continue
		}
		op := r.Workload.op()
		got := m.Library.Time(op, r.Workload.Bytes, r.World, r.Params.Channels) + m.Launch.Timing.Value
		e := off(got, r.Us*1e-6)
		if e > 0.2 {
			t.Errorf("%s: %v of %d bytes, %d channels: %.1f us, measured %.1f", r.ID, op, r.Workload.Bytes, r.Params.Channels, got*1e6, r.Us)
		}
		byOp[op] = append(byOp[op], e)
	}
	for _, op := range machine.RecordedOps {
		if e := median(byOp[op]); e > 0.005 {
			t.Errorf("%v: median error %.2f %% of %d rows", op, 100*e, len(byOp[op]))
		}
	}
}

// What is recorded for four ranks foretells two: the law carries over, with
// the recorded ratios of four ranks on it.
func TestTimeOfOtherRanks(t *testing.T) {
	m := machinetest.Load(t, "h200")
	for _, op := range machine.RecordedOps {
		c := *m.Library.Of(op)
		all := c.Times.Rows
		c.Times.Rows = nil
		for _, r := range all {
			if r[0] == 4 {
				c.Times.Rows = append(c.Times.Rows, r)
			}
		}
		var res, byWire []float64
		for _, r := range all {
			if r[0] != 2 || r[2] < 4<<20 {
				continue
			}
			law := c.Law(op, 2, r[1], r[2]) * c.Ratio(op, 2, r[1], r[2])
			res = append(res, off(law, r[3]))
			// What counting bytes on the wire gives: the four ranks' time for as many.
			four := r[2] * machine.Sends(op, 2) / 2 / (machine.Sends(op, 4) / 4)
			byWire = append(byWire, off(c.Law(op, 4, r[1], four)*c.Ratio(op, 4, r[1], four), r[3]))
		}
		steps, wire := median(res), median(byWire)
		t.Logf("%v: median error by steps %.1f %%, by wire bytes %.1f %%", op, 100*steps, 100*wire)
		if steps > 0.11 || steps > wire/2 {
			t.Errorf("%v: median error by steps %.1f %%, by wire bytes %.1f %%", op, 100*steps, 100*wire)
		}
	}
}

func TestSlowdownAgainstRows(t *testing.T) {
	m := machinetest.Load(t, "h200")
	kinds := map[string]machine.CoRunKind{"beside_cublas": machine.CoRunLibrary, "beside_triton": machine.CoRunTiles, "beside_membound": machine.CoRunMemory}
	errors := map[machine.CoRunKind][]float64{}
	for _, r := range measured(t) {
		n, ok := kinds[r.Strategy]
		if !ok {
			continue
		}
		got := machinetest.Slowdown(&m.Library, r.Workload.op(), r.Workload.Bytes, r.World, r.Params.Channels, machine.CoRunner{Kind: n, Load: 1})
		errors[n] = append(errors[n], off(got, r.Us/r.Params.AloneUs))
	}
	for _, n := range []machine.CoRunKind{machine.CoRunLibrary, machine.CoRunTiles, machine.CoRunMemory} {
		if e := median(errors[n]); e > 0.04 {
			t.Errorf("neighbour %d: median error %.1f %% of %d rows", n, 100*e, len(errors[n]))
		}
	}
}
