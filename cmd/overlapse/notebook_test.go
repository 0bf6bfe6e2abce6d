package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
)

// printed is what a command prints.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, stderr bytes.Buffer
	if code := run(append(args, "-q"), newApp(&console.Console{In: strings.NewReader(""), Out: &out, Data: &out, Err: &stderr})); code != cli.OK {
		t.Fatalf("%q: exit %d: %s", args, code, stderr.String())
	}
	return out.Bytes()
}

func parquetRows[T any](t *testing.T, data []byte) []T {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if version, _ := f.Lookup(schema.VersionKey); version != fmt.Sprint(schema.Version) {
		t.Errorf("%s is %q", schema.VersionKey, version)
	}
	rows, err := parquet.Read[T](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Parquet has the rows of JSON. What SCHEMA.md tells
// Python to do works, where Python has the libraries.
func TestNotebook(t *testing.T) {
	const sample = "../../samples/llama70b-fc2-allreduce"
	page, err := os.ReadFile("SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"replay", sample}
	printed(t, append(args, "-o", filepath.Join(dir, "out"))...)
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, "out", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	rows := parquetRows[results.Row](t, read("result.parquet"))
	for i, row := range parquetRows[results.Row](t, printed(t, append(args, "--format", "parquet")...)) {
		if i >= len(rows) || row.Strategy != rows[i].Strategy || row.Time != rows[i].Time {
			t.Errorf("row %d of --format parquet is %+v", i, row)
		}
	}
	var result results.Replayed
	if err := json.Unmarshal(read("result.json"), &result); err != nil {
		t.Fatal(err)
	}
	if result.Schema != schema.Version || len(rows) != len(result.Rows)+1 { // and no change, simulated
		t.Fatalf("schema %d, %d rows of Parquet, %d of JSON", result.Schema, len(rows), len(result.Rows))
	}
	recommended, banded := "", 0
	for i, row := range rows[:len(result.Rows)] {
		x := result.Rows[i]
		if row.Strategy != x.Strategy || row.Settings != x.Settings || row.Time != x.Time || row.Fastest != x.Fastest || row.Slowest != x.Slowest ||
			row.PFaster != x.PFaster || row.Reason != x.Confidence.Why || row.Applies != x.Applies || row.Why != x.Why {
			t.Errorf("row %d: Parquet %+v, JSON %+v", i, row, x)
		}
		if row.Applies && (row.Fastest > row.Time || row.Time > row.Slowest || row.Reason == "") || !row.Applies && row.Why == "" {
			t.Errorf("row %d: %+v", i, row)
		}
		if row.Recommended {
			recommended += row.Strategy
		}
		if row.PFaster > 0 {
			banded++
		}
	}
	if recommended != result.Verdict.Strategy || banded == 0 {
		t.Errorf("recommended %q, verdict %q, %d rows with a probability", recommended, result.Verdict.Strategy, banded)
	}
	var runs []string
	for _, row := range parquetRows[schema.Span](t, read("spans.parquet")) {
		if !slices.Contains(runs, row.Run) {
			runs = append(runs, row.Run)
		}
	}
	if len(runs) < 4 || runs[0] != "captured" || runs[1] != "bulk" {
		t.Errorf("spans.parquet has spans of %q", runs)
	}
	blocks := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 3 {
		t.Fatalf("SCHEMA.md has %d blocks of Python", len(blocks))
	}
	for _, b := range blocks {
		lines := strings.Split(strings.TrimSpace(string(b[1])), "\n")
		t.Run(lines[0], func(t *testing.T) { inPython(t, dir, lines) })
	}
}

// inPython runs three lines, if an installed Python can import what the first one names.
func inPython(t *testing.T, dir string, lines []string) {
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	needs := lines[0]
	if strings.Contains(lines[1], "pd.read_parquet") {
		needs += "; pd.io.parquet.get_engine('auto')"
	}
	var why string
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if text, err := exec.Command(python, "-c", needs).CombinedOutput(); err != nil {
			words := strings.Split(strings.TrimSpace(string(text)), "\n")
			why += python + ": " + words[len(words)-1] + "; "
			continue
		}
		c := exec.Command(python, "-c", strings.Join(lines, "\n"))
		c.Dir = dir
		text, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(text), "bulk") {
			t.Errorf("%v\n%s", err, text)
		}
		return
	}
	t.Skip(why)
}

// The notebook runs and draws three pictures: by jupyter, with Parquet or CSV, as that
// Python's pandas has it.
func TestNotebookRuns(t *testing.T) {
	jupyter, err := exec.LookPath("jupyter")
	if err != nil {
		t.Skip("no jupyter: apt-get install jupyter-nbconvert python3-ipykernel python3-matplotlib python3-pandas")
	}
	if text, err := exec.Command("/usr/bin/python3", "-c", "import pandas, matplotlib, ipykernel").CombinedOutput(); err != nil {
		t.Skipf("%s", text)
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlapse"), []byte("#!/bin/sh\nOVERLAPSE_TEST_MAIN=1 exec "+self+" \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	sample, err := filepath.Abs("../../samples/moe-ep4")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(jupyter, "nbconvert", "--to", "notebook", "--execute", "--output-dir", dir, "--output", "ran", "../../samples/notebooks/overlap.ipynb")
	c.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "TRACE="+sample)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ran.ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(`"image/png"`)); n != 3 || !bytes.Contains(text, []byte("decompose")) {
		t.Errorf("%d pictures in %d bytes", n, len(text))
	}
}

// The spans in JSON, Parquet and CSV are the same.
func TestSpanTables(t *testing.T) {
	const sample = "../../samples/moe-ep4"
	rows := parquetRows[schema.Span](t, printed(t, "export", sample, "--to", "parquet"))
	var found struct {
		Schema int           `json:"schema"`
		Spans  []schema.Span `json:"spans"`
	}
	if err := json.Unmarshal(printed(t, "export", sample, "--to", "json"), &found); err != nil {
		t.Fatal(err)
	}
	if found.Schema != schema.Version || len(rows) < 50 {
		t.Errorf("schema %d, %d rows", found.Schema, len(rows))
	}
	if d := cmp.Diff(rows, found.Spans); d != "" {
		t.Error(d)
	}
	lines := strings.Split(strings.TrimSpace(string(printed(t, "export", sample, "--to", "csv"))), "\n")
	if len(lines) != len(rows)+1 {
		t.Errorf("%d lines of CSV, %d rows", len(lines), len(rows))
	}
	withBytes := slices.ContainsFunc(rows, func(r schema.Span) bool {
		return r.Bytes != nil && *r.Bytes == 134217728 && r.Collective == "all_to_all"
	})
	without := slices.ContainsFunc(rows, func(r schema.Span) bool { return r.Bytes == nil && r.Kind == "compute" })
	if !withBytes || !without {
		t.Errorf("bytes of an all-to-all: %v, none of a kernel: %v", withBytes, without)
	}
}
