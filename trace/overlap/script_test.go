package overlap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

// Scripts of drawn runs, in columns:
//
//	draw             a timeline (see there); times, idle (its causes) of rank 0, collectives, straggling and path are asked of it
//	changes          operations "before" and "after" a change (see operations), and what it changes
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		var run *trace.Run
		return func(t testing.TB, c scripttest.Call) string {
			switch c.Name {
			case "draw":
				run = timeline(t, c.Input)
				return ""
			case "changes":
				before, after := rowsOf(t, c.Input, "before"), rowsOf(t, c.Input, "after")
				changes, said := ChangesOf([]trace.Rank{{ID: 0}}, operations(before...), operations(after...), 1e6*trace.Time(len(before[0])))
				return strings.Join(append(changesDrawn(changes, said), said), "\n")
			}
			ask := asks[c.Name]
			if ask == nil {
				t.Fatalf("no call %s", c.Name)
			}
			return ask(t, Measure(run))
		}
	})
}

var asks = map[string]func(t testing.TB, m Metrics) string{
	"times": func(t testing.TB, m Metrics) string {
		b := m.Ranks[0].Breakdown
		return strings.TrimSuffix(columns(t, "total", b.Total, "compute", b.Compute, "transfer", b.Transfer, "waiting", b.Waiting, "copies", b.Copies, "idle", b.Idle, "hidden", b.Hidden)+"; "+
			columns(t, "communicates", b.Communication, "overlapped", b.Overlapped, "exposed", b.Exposed, "copying", b.Copy, "overlapped copying", b.OverlappedCopy), "; ")
	},
	"idle": func(t testing.TB, m Metrics) string {
		c := m.Ranks[0].IdleCauses
		return columns(t, "host", c.Host, "sync", c.Sync, "launch", c.Launch, "queued", c.Queued, "unknown", c.Unknown)
	},
	"collectives": func(t testing.TB, m Metrics) string {
		var lines []string
		for _, c := range m.Collectives {
			line := columns(t, "arrive", c.Arrive, "depart", c.Depart, "transfer", c.Transfer) + fmt.Sprintf("; rank %d is last", c.Late)
			for _, member := range c.Members {
				line += fmt.Sprintf(", rank %d waits %d", member.Rank, member.Wait/column)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	},
	"straggling": func(t testing.TB, m Metrics) string {
		var lines []string
		for _, r := range m.Ranks {
			s := r.Straggling
			lines = append(lines, fmt.Sprintf("rank %d: %s; last %d times", r.Rank, columns(t, "waited", s.Waited, "delayed", s.Delayed), s.Late))
		}
		return strings.Join(lines, "\n")
	},
	"path": func(t testing.TB, m Metrics) string {
		var steps []string
		for _, s := range m.CriticalPath.Steps {
			steps = append(steps, fmt.Sprintf("%d %s %s %d-%d", s.Rank, s.Kind, s.Name, s.Start/column, s.End/column))
		}
		return strings.Join(steps, ", ")
	},
}

// columns are names and times that are whole numbers of columns, but for those of none.
func columns(t testing.TB, pairs ...any) string {
	t.Helper()
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		took, _ := pairs[i+1].(trace.Time)
		if took%column != 0 {
			t.Errorf("%v: %d is not a whole number of columns", pairs[i], took)
		}
		if took != 0 {
			list = append(list, fmt.Sprint(pairs[i], " ", int64(took/column)))
		}
	}
	return strings.Join(list, ", ")
}

// rowsOf are the cells of rows of a name.
func rowsOf(t testing.TB, text, name string) (rows []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		label, cells, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok {
			t.Fatalf("not a row: %q", line)
		}
		if strings.TrimSpace(label) == name {
			rows = append(rows, strings.TrimSuffix(cells, "|"))
		}
	}
	return rows
}
