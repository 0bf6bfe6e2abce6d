package operator_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

// Scripts of workload files: "run h200:4" runs the file that follows on a machine, and shows the operations of an iteration of the
// last rank, the bytes that kernels read, the pairs, and the first note, or what is wrong with the file.
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string {
			f, err := operator.Parse(strings.NewReader(c.Input), "w.yaml", nil)
			var run *trace.Run
			if err == nil {
				run, err = f.Run(load(t, c.Text))
			}
			var located *trace.SyntaxError
			switch {
			case err == nil:
				return shown(t, must.Have(lift.Workload(run, lift.Options{}))(t))
			case !errors.As(err, &located) || located.File != "w.yaml":
				t.Errorf("%v is not located", err)
			}
			return err.Error()
		}
	})
}

func shown(t testing.TB, w *workload.Workload) string {
	t.Helper()
	var lines []string
	ids := w.Ranks[w.World-1]
	for _, id := range ids {
		op := &w.Ops[id]
		line := op.Name
		switch {
		case op.Step > 0:
			continue
		case op.Collective >= 0:
			line += fmt.Sprintf(" of %d bytes", w.Collectives[op.Collective].Bytes)
		case op.Kind == trace.Compute:
			line += fmt.Sprintf(": %s, %d workgroups, %d tiles of %dx%d, reads %.0f bytes", op.Shape, op.Tiling.WGs, op.Tiling.Tiles, op.Tiling.TileM, op.Tiling.TileN, op.Read)
		}
		lines = append(lines, line)
	}
	for _, p := range w.Pairs {
		last := len(p.First) - 1
		first, second := slices.Index(ids, p.First[last]), slices.Index(ids, p.Second[last])
		lines = append(lines, fmt.Sprintf("%s on %d ranks: operations %d and %d, confidence %.2f", p.Direction, len(p.First), first+1, second+1, p.Confidence))
	}
	if w.Run.Estimated == "" {
		t.Error("not marked as estimated")
	}
	return strings.Join(append(lines, w.Notes[0]), "\n")
}
