package machine_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine/machinetest"
	"github.com/overlapse/overlapse/trace"
)

// SizesOf finds the size that Time was asked about.
func TestSizesOfInvertsTime(t *testing.T) {
	m := machinetest.Load(t, "h200")
	lib := &m.Library
	for _, op := range []trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll} {
		for _, ranks := range []int{2, 4, 8} {
			for bytes := int64(1 << 20); bytes <= 1<<30; bytes *= 4 {
				for _, channels := range []int{4, 0} {
					seconds := lib.Time(op, bytes, ranks, channels)
					least, most := lib.SizesOf(op, seconds, ranks, channels, 0.05)
					if least > bytes || most < bytes {
						t.Errorf("%s of %d bytes on %d ranks, %d channels: %.1f us, %d to %d bytes", op, bytes, ranks, channels, seconds*1e6, least, most)
					}
					if bytes >= 16<<20 && float64(most) > 1.25*float64(least) {
						t.Errorf("%s of %d bytes on %d ranks: range of %d to %d bytes is too wide", op, bytes, ranks, least, most)
					}
				}
			}
		}
	}
}

// A small all-reduce takes hardly longer than a smaller one: only its channels tell its
// size. NCCL 2.28 runs 2 channels for 16 KiB on 2 ranks and 1 on 4 ranks.
func TestSizesOfSmall(t *testing.T) {
	m := machinetest.Load(t, "h200")
	lib := &m.Library
	seconds := lib.Time(trace.AllReduce, 16<<10, 2, 0)
	if least, most := lib.SizesOf(trace.AllReduce, seconds, 2, 0, 0.1); least > 1<<10 || most < 16<<10 {
		t.Errorf("channels unknown: %d to %d bytes, want 0 to 16 KiB in the range", least, most)
	}
	seconds = lib.Time(trace.AllReduce, 16<<10, 2, 2)
	if least, most := lib.SizesOf(trace.AllReduce, seconds, 2, 2, 0.1); least > 16<<10 || most < 16<<10 || most-least > 16<<10 {
		t.Errorf("2 channels: %d to %d bytes, want 16 KiB in a range of 16 KiB", least, most)
	}
	if least, most := lib.SizesOf(trace.AllReduce, 3600, 2, 0, 0.1); least != 0 || most != 0 {
		t.Errorf("an hour: %d to %d bytes, want none", least, most)
	}
}
