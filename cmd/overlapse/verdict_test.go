package main

import (
	"bytes"
	"encoding/json"
	stdhtml "html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

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
