// Package figure11 draws the page of this folder: Figure 11 of the fused operators' paper (SC'24)
// for each of the five systems, from the samples, and what else their papers draw.
package figure11

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/tui"
)

var update = flag.Bool("update", false, "write README.md")

// pictures are the figures of the page: what it shows, the sample and the strategy.
var pictures = []struct{ title, look, sample, strategy string }{
	{"SC'24: embedding and all-to-all on two nodes", "vectors for the other node first; the workgroup that completes a slice issues its put, the same one of a cluster nearly always; each waits for slices of its own at the end, for 0.2 to 0.4 ms, which is a cell here", "workloads/sc24-embedding-a2a-2nodes.yaml", "fused"},
	{"SC'24: a captured GEMM and its all-to-all", "tiles for the next rank first, the own ones last, each stored as it is done", "moe-down-triton", "fused"},
	{"cuSync: the MLP of GPT-3", "the consumer's tiles fill the slots that the producer's last wave leaves, behind a wait kernel; each tile of the producer posts", "workloads/cusync-gpt3-mlp.yaml", "tilesync"},
	{"cuSync, Figure 2: the same, stream after stream", "the consumer's first tiles wait for the whole producer, whose last wave fills a fifth of the GPU", "workloads/cusync-gpt3-mlp.yaml", "bulk"},
	{"cuSync: a captured MLP, its activation fused", "persistent kernels hold their slots to the end: the consumer starts where the producer's workgroups have ended", "llama70b-prefill", "tilesync"},
	{"Triton-distributed: all-gather and GEMM", "copies bring shard after shard; tiles of the own shard run first, the others as their shards arrive", "workloads/td-ag-gemm.yaml", "onesided"},
	{"Triton-distributed: GEMM and reduce-scatter", "tiles signal, and copies take each shard as its last tile is done", "workloads/td-gemm-rs.yaml", "onesided"},
	{"Triton-distributed: GEMM and reduce-scatter on two nodes", "stages: copies within the node, sums of its eight partial results, and between nodes", "workloads/td-gemm-rs-2nodes.yaml", "onesided"},
	{"Resource-aware: priority of a captured all-reduce", "the collective of one iteration beside the GEMM of the next: its channels get slots in the GEMM's tail", "llama70b-fc2-allreduce", "multistream:priority=on"},
	{"Resource-aware: shaped occupancy", "fewer resident workgroups of the GEMM leave a channel room on every compute unit", "workloads/resource-aware-cb-ar.yaml", "multistream:lds=48"},
	{"T3: FC-2 of T-NLG", "tracked tiles; the tracker starts a DMA transfer when a block is complete", "workloads/t3-tnlg-fc2.yaml", "trigger"},
	{"T3: a captured GEMM, compute first", "the same on a captured kernel and H200, with the memory's arbiter", "llama70b-fc2-allreduce", "trigger:arbitration=mca"},
}

const width, rows = 118, 16

// The page is what the samples give: go test ./samples/figure11 -update writes it.
func TestPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Figure 11 of the five systems\n\nWorkgroups of one GPU over time, as Figure 11 of the fused operators' paper (SC'24) has them, of the systems that overlapse replays. `go test ./samples/figure11 -update` draws the pictures anew. " +
		"Each is of the command above it, cut to one cluster of 16 workgroups; `overlapse report` has them in the report's workgroups, and `samples/pictures/picture.sh` draws them as a file.\n")
	for _, p := range pictures {
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n\n    overlapse view samples/%s --strategy %s --figure11 --print --width %d\n\n```\n%s```\n", p.title, strings.ToUpper(p.look[:1])+p.look[1:], p.sample, p.strategy, width, picture(t, p.sample, p.strategy))
	}
	page.WriteString(siblings(t))
	if *update {
		if err := os.WriteFile("README.md", []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(page.String(), "\n")); d != "" {
		t.Errorf("README.md differs from what the samples give (-update writes it):\n%s", d)
	}
}

// picture is the figure as text.
func picture(t *testing.T, sample, strategy string) string {
	t.Helper()
	var w *workload.Workload
	var m machine.Machine
	if file, ok := strings.CutPrefix(sample, "workloads/"); ok {
		w, m = plantest.SampleOperator(t, strings.TrimSuffix(file, ".yaml"))
	} else {
		w = plantest.LiftSample(t, sample)
		m = plantest.H200(t, w.World)
	}
	name, set, _ := strings.Cut(strategy, ":")
	out := enginetest.Detailed(t, w, m, name, enginetest.Settings(set), replay.Options{Ranks: []int{0}, To: trace.Infinity})
	var text bytes.Buffer
	figure := layout.Figure{Rows: rows}
	if err := tui.Print(&text, []layout.View{{Run: out.Result.Run, Name: strategy}}, width, tui.Options{Figure: &figure}); err != nil {
		t.Fatalf("%s %s: %v", sample, strategy, err)
	}
	return text.String()
}
