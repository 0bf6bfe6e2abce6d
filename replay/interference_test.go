package replay

import (
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A collective on one of nine CUs takes 1000 ns alone and twice as long alongside
// compute on the other eight, as calibrated. Beside less it takes less, in
// proportion to what compute occupies of them.
func TestInterferenceFollowsOccupancy(t *testing.T) {
	took := func(wgs int, share float64) program.Time {
		c := kernel("collective", 1, []program.Phase{{Op: program.Store, Bytes: 1000, Peer: 1, Time: 1000, Slowdown: 2}})
		c.Kernel.Kind = trace.Collective
		streams := []program.Stream{{Commands: []program.Command{c}}}
		if wgs > 0 {
			streams = append(streams, program.Stream{Commands: []program.Command{kernel("compute", wgs, work(10_000), pipe(share))}})
		}
		return ends(mustSimulate(t, small(2, 9), prog(streams, nil), Options{}).Run)["collective"]
	}
	for _, c := range []struct {
		name  string
		wgs   int
		share float64
		want  program.Time
	}{
		{"alone", 0, 1, 1000},
		{"one workgroup of few threads", 1, 1.0 / 64, 1002},
		{"one CU", 1, 1, 1125},
		{"half of them", 4, 1, 1500},
		{"all, half used", 8, .5, 1500},
		{"all that the collective leaves", 8, 1, 2000},
	} {
		if got := took(c.wgs, c.share); got != c.want {
			t.Errorf("%s: the collective takes %d ns, want %d", c.name, got, c.want)
		}
	}
	last := program.Time(0)
	for n := range 9 {
		if got := took(n, .7); got <= last {
			t.Errorf("alongside %d workgroups it takes %d ns, alongside %d %d", n, got, n-1, last)
		} else {
			last = got
		}
	}
}

// So does a collective that is marked as slowed by channels: these slow compute alone (rule I10).
func TestInterferenceOfCollectives(t *testing.T) {
	for _, free := range []bool{false, true} {
		c := kernel("collective", 1, []program.Phase{{Op: program.Store, Bytes: 1000, Peer: 1, Time: 1000, Slowdown: 2}})
		c.Kernel.Kind, c.Kernel.Channels, c.Kernel.Free = trace.Collective, true, free
		p := prog([]program.Stream{{Commands: []program.Command{c}}, {Commands: []program.Command{kernel("compute", 8, work(10_000))}}}, nil)
		cus := 9
		if free {
			cus = 8
		}
		if got := ends(mustSimulate(t, small(2, cus), p, Options{}).Run)["collective"]; got != 2000 {
			t.Errorf("free %t: the collective takes %d ns, want 2000", free, got)
		}
	}
}

// One workgroup of matrix instructions is enough for the onset; the rest grows
// with the CUs that compute, to the same as without an onset.
func TestInterferenceBeginsAtOnset(t *testing.T) {
	for _, c := range []struct {
		wgs    int
		matrix bool
		want   program.Time
	}{{0, true, 1000}, {1, false, 1125}, {1, true, 1213}, {4, true, 1550}, {8, true, 2000}} {
		k := kernel("collective", 1, []program.Phase{{Op: program.Store, Bytes: 1000, Peer: 1, Time: 1000, Slowdown: 2}})
		k.Kernel.Kind, k.Kernel.Onset = trace.Collective, .1
		compute := kernel("compute", c.wgs, work(10_000))
		compute.Kernel.Matrix = c.matrix
		p := prog([]program.Stream{{Commands: []program.Command{k}}, {Commands: []program.Command{compute}}}, nil)
		if got := ends(mustSimulate(t, small(2, 9), p, Options{}).Run)["collective"]; got != c.want {
			t.Errorf("alongside %d workgroups (matrix: %t) the collective takes %d ns, want %d", c.wgs, c.matrix, got, c.want)
		}
	}
}

// What interferes is what works at that instant: compute that ends halfway
// through leaves the rest of the collective at its full rate.
func TestInterferenceEndsWithCompute(t *testing.T) {
	c := kernel("collective", 1, []program.Phase{{Op: program.Store, Bytes: 1000, Peer: 1, Time: 1000, Slowdown: 2}})
	c.Kernel.Kind = trace.Collective
	p := prog([]program.Stream{{Commands: []program.Command{c}}, {Commands: []program.Command{kernel("compute", 8, work(600))}}}, nil)
	if got := ends(mustSimulate(t, small(2, 9), p, Options{}).Run)["collective"]; got != 1300 {
		t.Errorf("the collective takes %d ns, want 600 at half its rate and 700 at its own", got)
	}
}

// A kernel that waits for memory takes longer alongside channels that move bytes, in
// proportion to the CUs that they hold, and not alongside channels that wait.
func TestChannelsDelayMemory(t *testing.T) {
	for _, c := range []struct {
		channels int
		wait     bool
		want     program.Time
	}{{0, false, 1000}, {2, false, 1250}, {4, false, 1500}, {4, true, 1000}} {
		phase := program.Phase{Op: program.Store, Bytes: 1000, Peer: 1, Time: 10_000}
		if c.wait {
			phase = program.Phase{Op: program.Sleep, Time: 10_000}
		}
		k := kernel("collective", c.channels, []program.Phase{phase})
		k.Kernel.Kind = trace.Collective
		slowed := work(1000)
		slowed[0].Slowdown = 2
		compute := kernel("compute", 4, slowed)
		compute.Kernel.Channels = true
		p := prog([]program.Stream{{Commands: []program.Command{k}}, {Commands: []program.Command{compute}}}, nil)
		if got := ends(mustSimulate(t, small(2, 8), p, Options{}).Run)["compute"]; got != c.want {
			t.Errorf("alongside %d channels (waiting: %t) it takes %d ns, want %d", c.channels, c.wait, got, c.want)
		}
	}
}
