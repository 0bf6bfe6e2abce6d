package trace

import (
	"math"
	"testing"
)

// Numbers of workgroups and threads do not overflow: what no launch has is unknown.
func TestVolume(t *testing.T) {
	for _, c := range []struct {
		extents [3]int32
		want    int
	}{
		{[3]int32{}, 0},
		{[3]int32{132, 1, 1}, 132},
		{[3]int32{2, 3, 5}, 30},
		{[3]int32{math.MaxInt32, 1, 1}, math.MaxInt32},
		{[3]int32{math.MaxInt32, 2, 1}, 0},
		{[3]int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, 0},
		{[3]int32{-4, -4, 1}, 0},
	} {
		if got := (Setup{Grid: c.extents}).WGs(); got != c.want {
			t.Errorf("%v: %d workgroups", c.extents, got)
		}
		if got := (Setup{Block: c.extents}).Threads(); got != c.want {
			t.Errorf("%v: %d threads", c.extents, got)
		}
	}
}
