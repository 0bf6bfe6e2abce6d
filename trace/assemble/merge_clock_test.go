package assemble_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// clocked returns a run of one span that began at the given reading of its machine's
// clock.
func clocked(rank int, host string, start trace.Time) *trace.Run {
	var b trace.Builder
	b.AddRank(trace.Rank{ID: rank, Host: host})
	b.Add(trace.Span{
		Start: start, End: start + 10, Kind: trace.Marker, Parent: trace.None, Attr: trace.None,
		Lane: b.Lane(trace.Lane{Kind: trace.HostThread, Peer: trace.None}),
	})
	return b.Finish(trace.Options{HostClock: true})
}

// Runs without a date are aligned by their machine's clock, and start together if they
// are from two machines.
func TestMergeMachineClock(t *testing.T) {
	const boot = 1_000_000
	for _, c := range []struct {
		hosts  [2]string
		second trace.Time
		clock  int64
	}{
		{[2]string{"a", "a"}, 30, boot},
		{[2]string{"a", ""}, 30, boot},
		{[2]string{"a", "b"}, 0, 0},
	} {
		run := must.Have(assemble.Join([]*trace.Run{clocked(0, c.hosts[0], boot), clocked(1, c.hosts[1], boot+30)}, "test"))(t)
		if got := run.Spans[1].Start; got != c.second || run.Clock != c.clock {
			t.Errorf("hosts %q: the second starts at %d, clock %d; want %d and %d", c.hosts, got, run.Clock, c.second, c.clock)
		}
	}
}
