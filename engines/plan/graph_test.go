package plan

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// In a graph kernels follow each other sooner than collectives of the library follow them;
// a profile without these times has one for both.
func TestGraphLaunches(t *testing.T) {
	for name, want := range map[string][2]trace.Time{"h200": {420, 2400}, "mi300x": {1226, 1226}} {
		pl := &Planner{Machine: plantest.Profile(t, name)}
		kernel, collective := &workload.Op{Collective: -1}, &workload.Op{}
		if got := [2]trace.Time{pl.graphLaunch(kernel), pl.graphLaunch(collective)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
