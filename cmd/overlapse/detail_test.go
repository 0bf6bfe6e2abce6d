package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// The results of a training step of two ranks are files to open: its millions
// of workgroups are skipped with a note, and recorded for a window.
func TestStepResults(t *testing.T) {
	path := "../../../shared/data/steps/h200x2/traces/h200x2_fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue"
	if !longtest.Asked() || !isDir(path) {
		t.Skip("needs the captured step " + filepath.Base(path))
	}
	size := func(o replayOptions) (bytesWritten int64, notes string) {
		var out, stderr bytes.Buffer
		a := newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Err: &stderr})
		o.Flags, o.format, o.ranks = cli.Flags{Path: path, Strategy: "bulk,fused"}, "table", []int{0}
		o.dir = filepath.Join(t.TempDir(), "out")
		must.Do(t, a.replay(t.Context(), o))
		info := must.Have(os.Stat(filepath.Join(o.dir, "timeline.json.gz")))(t)
		return info.Size(), stderr.String()
	}
	whole, notes := size(replayOptions{window: results.Iteration})
	if whole > 5e6 || !strings.Contains(notes, "recorded without workgroups") {
		t.Errorf("a timeline of %d bytes; notes: %s", whole, notes)
	}
	part, notes := size(replayOptions{window: "10ms-11ms", full: true})
	if part < whole || strings.Contains(notes, "without workgroups") {
		t.Errorf("the timeline of a part has %d bytes, the whole one without workgroups %d; notes: %s", part, whole, notes)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Lanes of simulated runs have names, and replayed kernels have the grid of the captured ones.
func TestShownRuns(t *testing.T) {
	var out, stderr bytes.Buffer
	a := newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Err: &stderr})
	q := cli.Flags{Path: "../../samples/llama70b-fc2-allreduce", Strategy: "all"}
	sel, w, m, err := cli.Prepare(&a.Reader, q, engines.ParseSelection)
	if err != nil {
		t.Fatal(err)
	}
	r := must.Have(results.Of(t.Context(), a.Console, q.Path, w, m, sel, q.Scenario(), replay.Options{}, true, false))(t)
	for _, out := range r.Outcomes {
		if out.Result == nil {
			continue
		}
		run := out.Result.Run
		for l := range run.Lanes {
			if label := run.LaneLabel(trace.LaneID(l)); strings.Contains(label, "-") {
				t.Errorf("%s has a lane %q", run.Name, label)
			}
		}
		for _, s := range run.Spans {
			op := plan.OriginOf(run, s)
			if k := run.Kernel(s); run.Name == "captured" && k != nil && op >= 0 {
				is, was := run.Setup(k), w.Run.Setup(w.Run.Kernel(w.Run.Spans[w.Ops[op].Span]))
				if is.Grid != was.Grid || is.Block != was.Block {
					t.Errorf("%s has grid %v of %v, was captured with %v of %v", run.NameOf(s), is.Grid, is.Block, was.Grid, was.Block)
				}
			}
		}
	}
}
