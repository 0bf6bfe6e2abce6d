package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what tests compare with")

// The README's picture is what its first command prints.
func TestReadmePicture(t *testing.T) {
	t.Chdir("../..")
	var out, talk bytes.Buffer
	if code := run([]string{"-q", "replay", "samples/moe-ep4"}, &app{in: strings.NewReader(""), out: &out, err: &talk}); code != exitOK {
		t.Fatalf("exit %d: %s", code, talk.String())
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	want := "```text\n" + strings.Join(lines, "\n") + "\n```\n"
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.Index(text, []byte("```text\n"))
	if start < 0 {
		t.Fatal("README.md has no picture")
	}
	end := start + len("```text\n") + bytes.Index(text[start+len("```text\n"):], []byte("```\n")) + len("```\n")
	if got := string(text[start:end]); got != want {
		if *update {
			if err := os.WriteFile("README.md", []byte(string(text[:start])+want+string(text[end:])), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("README.md shows\n%swant\n%s(go test ./cmd/overlapse -run Readme -update)", got, want)
	}
}

// The README's figures of errors are those of the goldens.
func TestReadmeErrors(t *testing.T) {
	t.Chdir("../..")
	var want strings.Builder
	want.WriteString("```text\n")
	for i, x := range []struct{ title, file string }{
		{"four H200, rows of data/h200/validate.jsonl", "errors.golden"},
		{"four H200, rows of samples/measurements/2026-11-22-h200x4-fifth, measured before they were predicted", "errors-h200x4-fifth.golden"},
		{"four H200, rows of samples/measurements/2026-11-22-h200x4-fifth/clock.jsonl: its loops at full clock and sustained", "errors-h200x4-clock.golden"},
		{"two H200, rows of samples/measurements/2026-11-21-h200x2, measured before they were predicted", "errors-h200x2.golden"},
		{"two H200, rows of samples/measurements/2026-11-21-h200x2-second, with fused Triton kernels", "errors-h200x2-second.golden"},
		{"two H200, rows of samples/measurements/2026-11-21-h200x2-third, measured before they were predicted", "errors-h200x2-third.golden"},
		{"two H200, rows of samples/measurements/2026-11-22-h200x2-fourth, measured before they were predicted", "errors-h200x2-fourth.golden"},
		{"two H200, rows of samples/measurements/2026-11-21-h200x2-models: whole models at full clock, with rests, and sustained", "errors-h200x2-models.golden"},
		{"four H200, rows of samples/measurements/2026-11-22-h200x4-models: the same", "errors-h200x4-models.golden"},
		{"two H200, rows of samples/measurements/2026-11-22-h200x2-flags, matrix-vector products", "errors-h200x2-flags.golden"},
		{"workgroups, distance from stamps in percent of the kernel", "stamps.golden"},
	} {
		golden, err := os.ReadFile("engines/validate/testdata/" + x.file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(golden), "\n\n")
		if i > 0 {
			want.WriteString("\n")
		}
		want.WriteString(x.title + "\n" + strings.TrimRight(head, "\n") + "\n")
	}
	want.WriteString("```\n")
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "\n## Errors\n")
	head, block, ok2 := strings.Cut(rest, "```text\n")
	_, after, ok3 := strings.Cut(block, "```\n")
	if !ok || !ok2 || !ok3 {
		t.Fatal("README.md has no section Errors with a block of figures")
	}
	if got := string(text); got != before+"\n## Errors\n"+head+want.String()+after {
		if *update {
			if err := os.WriteFile("README.md", []byte(before+"\n## Errors\n"+head+want.String()+after), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Error("README.md's section Errors is not what the goldens in engines/validate/testdata say (go test ./cmd/overlapse -run Readme -update)")
	}
}
