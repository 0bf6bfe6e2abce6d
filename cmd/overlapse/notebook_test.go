package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// printed is what a command prints.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, stderr bytes.Buffer
	if code := run(append(args, "-q"), newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Data: &out, Err: &stderr})); code != cli.OK {
		t.Fatalf("%q: exit %d: %s", args, code, stderr.String())
	}
	return out.Bytes()
}

// csvRows are the rows of a CSV table, by column.
func csvRows(t *testing.T, r io.Reader) (rows []map[string]string) {
	t.Helper()
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatal(len(lines), err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// CSV has the rows of JSON. What SCHEMA.md tells
// Python to do works, where Python has the libraries.
func TestNotebook(t *testing.T) {
	const sample = "../../samples/llama70b-fc2-allreduce"
	page := must.Have(os.ReadFile("SCHEMA.md"))(t)
	dir := t.TempDir()
	args := []string{"replay", sample}
	printed(t, append(args, "-o", filepath.Join(dir, "out"))...)
	read := func(name string) []byte {
		data := must.Have(os.ReadFile(filepath.Join(dir, "out", name)))(t)
		return data
	}
	rows := csvRows(t, bytes.NewReader(read("result.csv")))
	if d := cmp.Diff(rows, csvRows(t, bytes.NewReader(printed(t, append(args, "--format", "csv")...)))); d != "" {
		t.Errorf("--format csv: %s", d)
	}
	var result results.Replayed
	must.Do(t, json.Unmarshal(read("result.json"), &result))
	if result.Schema != results.Version || len(rows) != len(result.Rows)+1 { // and no change, simulated
		t.Fatalf("schema %d, %d rows of CSV, %d of JSON", result.Schema, len(rows), len(result.Rows))
	}
	recommended, banded := "", 0
	for i, row := range rows[:len(result.Rows)] {
		x := result.Rows[i]
		applies := row["applies"] == "true"
		ns := func(t int64) string {
			if t == 0 {
				return ""
			}
			return fmt.Sprint(t)
		}
		want := []string{x.Strategy, x.Settings, fmt.Sprint(x.Applies), ns(x.Time), ns(x.Fastest), ns(x.Slowest), strconv.FormatFloat(x.PFaster, 'g', 6, 64), x.Confidence.Why, x.Why}
		got := []string{row["strategy"], row["settings"], row["applies"], row["time_ns"], row["fastest_ns"], row["slowest_ns"], row["p_faster"], row["confidence_why"], row["why"]}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("row %d: JSON and CSV differ: %s", i, d)
		}
		if applies && (x.Fastest > x.Time || x.Time > x.Slowest || row["confidence_why"] == "") || !applies && row["why"] == "" {
			t.Errorf("row %d: %v", i, row)
		}
		if row["recommended"] == "true" {
			recommended += row["strategy"]
		}
		if x.PFaster > 0 {
			banded++
		}
	}
	if recommended != result.Verdict.Strategy || banded == 0 {
		t.Errorf("recommended %q, verdict %q, %d rows with a probability", recommended, result.Verdict.Strategy, banded)
	}
	var runs []string
	z := must.Have(gzip.NewReader(bytes.NewReader(read("spans.csv.gz"))))(t)
	for _, row := range csvRows(t, z) {
		if !slices.Contains(runs, row["run"]) {
			runs = append(runs, row["run"])
		}
	}
	if len(runs) != 2 || runs[0] != "captured" { // and the best other one
		t.Errorf("spans.csv.gz has spans of %q", runs)
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

// The notebook runs and draws three pictures: by jupyter.
func TestNotebookRuns(t *testing.T) {
	jupyter, err := exec.LookPath("jupyter")
	if err != nil {
		t.Skip("no jupyter: apt-get install jupyter-nbconvert python3-ipykernel python3-matplotlib python3-pandas")
	}
	if text, err := exec.Command("/usr/bin/python3", "-c", "import pandas, matplotlib, ipykernel").CombinedOutput(); err != nil {
		t.Skipf("%s", text)
	}
	dir := t.TempDir()
	self := must.Have(os.Executable())(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "overlapse"), []byte("#!/bin/sh\nOVERLAPSE_TEST_MAIN=1 exec "+self+" \"$@\"\n"), 0o777))
	sample := must.Have(filepath.Abs("../../samples/moe-ep4"))(t)
	c := exec.Command(jupyter, "nbconvert", "--to", "notebook", "--execute", "--output-dir", dir, "--output", "ran", "../../samples/notebooks/overlap.ipynb")
	c.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "TRACE="+sample)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text := must.Have(os.ReadFile(filepath.Join(dir, "ran.ipynb")))(t)
	if n := bytes.Count(text, []byte(`"image/png"`)); n != 3 || !bytes.Contains(text, []byte("decompose")) {
		t.Errorf("%d pictures in %d bytes", n, len(text))
	}
}

// The spans in JSON and CSV are the same.
func TestSpanTables(t *testing.T) {
	const sample = "../../samples/moe-ep4"
	var found struct {
		Schema int            `json:"schema"`
		Spans  []results.Span `json:"spans"`
	}
	must.Do(t, json.Unmarshal(printed(t, "export", sample, "--to", "json"), &found))
	if found.Schema != results.Version || len(found.Spans) < 50 {
		t.Errorf("schema %d, %d rows", found.Schema, len(found.Spans))
	}
	var want []map[string]string
	for _, r := range found.Spans {
		known := func(n *int64) string {
			if n == nil {
				return ""
			}
			return fmt.Sprint(*n)
		}
		want = append(want, map[string]string{
			"run": r.Run, "rank": fmt.Sprint(r.Rank), "stream": r.Stream, "kind": r.Kind, "name": r.Name, "start_ns": fmt.Sprint(r.Start), "duration_ns": fmt.Sprint(r.Duration),
			"workgroups": known(r.Workgroups), "collective": r.Collective, "bytes": known(r.Bytes),
		})
	}
	if d := cmp.Diff(want, csvRows(t, bytes.NewReader(printed(t, "export", sample, "--to", "csv")))); d != "" {
		t.Error(d)
	}
	withBytes := slices.ContainsFunc(found.Spans, func(r results.Span) bool {
		return r.Bytes != nil && *r.Bytes == 134217728 && r.Collective == "all_to_all"
	})
	without := slices.ContainsFunc(found.Spans, func(r results.Span) bool { return r.Bytes == nil && r.Kind == "compute" })
	if !withBytes || !without {
		t.Errorf("bytes of an all-to-all: %v, none of a kernel: %v", withBytes, without)
	}
}
