package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
)

var update = flag.Bool("update", false, "rewrite what tests compare with")

// The README's picture is what its first command prints.
func TestReadmePicture(t *testing.T) {
	t.Chdir("../..")
	var out, stderr bytes.Buffer
	if code := run([]string{"-q", "replay", "samples/moe-ep4"}, newApp(&console.Console{In: strings.NewReader(""), Out: &out, Err: &stderr})); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr.String())
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

// The README's table of errors is the summary of the dataset's accuracy tables.
func TestReadmeErrors(t *testing.T) {
	t.Chdir("../..")
	const head = "| set | split | rows |"
	table := func(file string) (before, lines, after string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		start := strings.Index(string(text), head)
		if start < 0 {
			t.Fatalf("%s has no table %q", file, head)
		}
		end := len(text)
		if n := strings.Index(string(text[start:]), "\n\n"); n >= 0 {
			end = start + n
		}
		return string(text[:start]), string(text[start:end]), string(text[end:])
	}
	_, want, _ := table("samples/measurements/ACCURACY.md")
	before, got, after := table("README.md")
	if got == want {
		return
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("README.md's table of errors is not that of samples/measurements/ACCURACY.md (go test ./cmd/overlapse -run Readme -update):\n%s\nwant\n%s", got, want)
}
