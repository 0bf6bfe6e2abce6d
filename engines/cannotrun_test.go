package engines

import (
	"errors"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
)

// Only a deadlock of the captured schedule is the trace's fault.
func TestCannotRunNamesACure(t *testing.T) {
	deadlock := &replay.DeadlockError{At: 7, Chain: []string{`GPU 0: stream "a" waits`}}
	for _, c := range []struct {
		strategy plan.Strategy
		err      error
		cure     bool
	}{{schedule.Captured, deadlock, true}, {schedule.Bulk, deadlock, false}, {schedule.Captured, errors.New("fits on no compute unit"), false}} {
		out := Outcome{Selection: plan.Selection{Strategy: c.strategy}, Err: c.err}
		why := out.cannotRun()
		if !strings.HasPrefix(why, "cannot run: "+c.err.Error()) || strings.Contains(why, "capture the same steps on all ranks") != c.cure {
			t.Errorf("%s, %v: %s", c.strategy.Name, c.err, why)
		}
	}
}
