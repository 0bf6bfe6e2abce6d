package main

import (
	"bytes"
	"context"
	"encoding/json"
	stdhtml "html"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/viz/tui"
)

// The view of a trace that is replayed and that of the folder that replay -o writes say the
// same, of one strategy and of several.
func TestViewsOfAFolder(t *testing.T) {
	for _, strategy := range []string{"bulk,multistream:channels=4,onesided", "multistream:channels=4"} {
		dir := filepath.Join(t.TempDir(), "out")
		if code := run([]string{"replay", "../../samples/moe-ep4", "--strategy", strategy, "-o", dir, "-q"}, newApp(&cli.Console{Out: io.Discard, Err: io.Discard})); code != cli.OK {
			t.Fatal(code)
		}
		var of [2]tui.Options
		for i, path := range []string{"../../samples/moe-ep4", dir} {
			o := viewOptions{Flags: cli.Flags{Path: path}}
			if i == 0 {
				o.Strategy = strategy
			}
			a := newApp(&cli.Console{Out: io.Discard, Err: io.Discard})
			if _, _, err := a.views(context.Background(), o, &of[i]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(of[0].Times[1:], of[1].Times, cmpopts.IgnoreFields(tui.Time{}, "Step")); diff != "" || of[0].Verdict != of[1].Verdict || of[1].Verdict == "" {
			t.Errorf("%s: verdicts %q and %q, times %s", strategy, of[0].Verdict, of[1].Verdict, diff)
		}
	}
}

// Defect 1: the terminal, the report, the Markdown summary and the JSON recommend the same.
func TestOneVerdict(t *testing.T) {
	dir := t.TempDir()
	var out, notes bytes.Buffer
	a := newApp(&cli.Console{Out: &out, Err: &notes, Quiet: true})
	if code := run([]string{"replay", "../../samples/workloads/td-gemm-rs.yaml", "--strategy", "bulk,fused,onesided,trigger", "-o", dir}, a); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, notes.String())
	}
	read := func(name string) string {
		b := must.Have(os.ReadFile(filepath.Join(dir, name)))(t)
		return string(b)
	}
	var result struct {
		Verdict struct {
			Sentences []string `json:"sentences"`
		} `json:"verdict"`
	}
	if err := json.Unmarshal([]byte(read("result.json")), &result); err != nil || len(result.Verdict.Sentences) == 0 {
		t.Fatalf("result.json has no verdict (%v)", err)
	}
	report := stdhtml.UnescapeString(read("report.html"))
	for i, sentence := range result.Verdict.Sentences {
		for name, text := range map[string]string{"the terminal": out.String(), "report.html": report} {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), sentence) { // lines are wrapped
				t.Errorf("%s lacks sentence %d: %s", name, i, sentence)
			}
		}
	}
	first, _, _ := strings.Cut(result.Verdict.Sentences[0], "(")
	if !strings.Contains(read("summary.md"), cli.Markdown(first)) {
		t.Errorf("summary.md lacks %q", first)
	}
}

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
