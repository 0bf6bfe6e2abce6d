package results

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// emitted writes what a selection needs, and returns the files by name and what was said.
func emitted(t *testing.T, selection string, target plan.Target, where ...string) (map[string]string, string) {
	t.Helper()
	sel := must.Have(engines.ParseSelection(selection))(t)
	a := verdict.Advice{Where: where}
	a.Ways, a.Effort = plan.How(sel[0], target)
	dir, said := filepath.Join(t.TempDir(), "new", "out"), bytes.Buffer{}
	must.Do(t, Emit(&cli.Console{Err: &said}, &cli.Set{}, dir, verdict.Verdict{Strategy: sel[0].Strategy.Name, Advice: &a}))
	found := map[string]string{}
	list, _ := os.ReadDir(dir)
	for _, f := range list {
		text := must.Have(os.ReadFile(filepath.Join(dir, f.Name())))(t)
		found[f.Name()] = string(text)
	}
	return found, said.String()
}

func TestEmit(t *testing.T) {
	sums, gathers, exchange := []trace.CollectiveOp{trace.AllReduce}, []trace.CollectiveOp{trace.AllGather}, []trace.CollectiveOp{trace.AllToAll}
	for _, c := range []struct {
		selection string
		target    plan.Target
		want      map[string]string // a line of each file; no others
		said      string
	}{
		{"multistream:channels=8:bucket_mb=50", plan.Target{Ops: sums, Vendor: plan.NVIDIA, Channels: 24, Framework: plan.DDP}, map[string]string{"overlapse.env": "NCCL_MAX_CTAS=8", "overlapse.py": "options.config.min_ctas = options.config.max_ctas = 8"}, "wrote"},
		{"multistream:bucket_mb=50", plan.Target{Ops: sums}, map[string]string{"overlapse.sh": "MEGATRON_ARGS+=(--ddp-bucket-size $((50 * 1048576 / 4)))", "overlapse.py": "model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=50, gradient_as_bucket_view=True)"}, "wrote"},
		{"multistream:prefetch=2:keep_gathered=on", plan.Target{Ops: gathers, Framework: plan.FSDP}, map[string]string{"overlapse.py": "    fully_shard(block, reshard_after_forward=False)"}, "wrote"},
		{"multistream:interleave=2", plan.Target{Ops: exchange, Vendor: plan.NVIDIA}, map[string]string{"overlapse.sh": "VLLM_ARGS+=(--enable-dbo)"}, "wrote"},
		{"onesided:gemm=chunks", plan.Target{Ops: gathers, Vendor: plan.NVIDIA}, map[string]string{"overlapse.py": "torch._inductor.config._micro_pipeline_tp = True", "overlapse.sh": `VLLM_ARGS+=(--compilation-config '{"pass_config": {"fuse_gemm_comms": true}}')`}, "wrote"},
		{"fused", plan.Target{Ops: exchange, Vendor: plan.NVIDIA}, map[string]string{}, "nothing is written: fused takes work that is no setting (own kernel)"},
	} {
		got, said := emitted(t, c.selection, c.target, "gemm\nrm -rf / #\u2028import os\r\x1b]0;x\a")
		if !strings.Contains(said, c.said) {
			t.Errorf("%s: %q", c.selection, said)
		}
		for name, text := range got {
			if line, ok := c.want[name]; !ok || !slices.Contains(strings.Split(text, "\n"), line) {
				t.Errorf("%s: %s has no line %q:\n%s", c.selection, name, line, text)
			}
			for _, bad := range []string{"\nrm", "\nimport os", "\x1b", "\r", "\u2028"} {
				if strings.Contains(text, bad) {
					t.Errorf("%s: %s has %q outside of a comment", c.selection, name, bad)
				}
			}
			checkSyntax(t, name, text)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d files, want %d", c.selection, len(got), len(c.want))
		}
	}
	said := bytes.Buffer{}
	if err := Emit(&cli.Console{Err: &said}, &cli.Set{}, t.TempDir(), verdict.Verdict{}); err != nil || !strings.Contains(said.String(), "no change is recommended") {
		t.Errorf("%v, %q", err, said.String())
	}
}

// checkSyntax has the shell and Python read a file, where there are some.
func checkSyntax(t *testing.T, name, text string) {
	t.Helper()
	check := exec.Command("sh", "-n")
	switch filepath.Ext(name) {
	case ".sh":
		check = exec.Command("bash", "-n")
	case ".py":
		check = exec.Command("python3", "-c", "import sys; compile(sys.stdin.read(), 'overlapse.py', 'exec')")
	}
	if check.Err != nil {
		return
	}
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s\n%s", name, err, out, text)
	}
}
