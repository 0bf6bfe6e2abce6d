package lift

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestEmptyRuns(t *testing.T) {
	var none, idle trace.Builder
	idle.AddRank(trace.Rank{World: 4})
	for name, run := range map[string]*trace.Run{"no rank": none.Finish(trace.Options{}), "no span": idle.Finish(trace.Options{})} {
		w := must.Have(Workload(run, Options{}))(t)
		checkInvariants(t, w)
		if len(w.Notes) == 0 || w.Notes[len(w.Notes)-1] != "the run holds no device operation" {
			t.Errorf("%s: notes %q", name, w.Notes)
		}
		workload.Of(w, nil)
	}
}
