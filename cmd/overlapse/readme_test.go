package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

var update = flag.Bool("update", false, "rewrite what tests compare with")

// An answer in the README is what its command prints: the first lines, as many as it shows.
func TestReadmeAnswers(t *testing.T) {
	t.Chdir("../..")
	const fence = "```text\n$ overlapse "
	text := must.Have(os.ReadFile("README.md"))(t)
	parts := strings.Split(string(text), fence)
	if len(parts) < 3 {
		t.Fatalf("README.md shows %d answers, want those of replay and diff", len(parts)-1)
	}
	var result bytes.Buffer // of the replay before
	if code := run([]string{"-q", "replay", "samples/fsdp-step", "--format", "json"}, newApp(&cli.Console{Out: &result, Data: &result, Err: io.Discard})); code != cli.OK {
		t.Fatal(code)
	}
	predicted := filepath.Join(t.TempDir(), "result.json")
	must.Do(t, os.WriteFile(predicted, result.Bytes(), 0o600))
	want := parts[0]
	for _, part := range parts[1:] {
		shown, rest, _ := strings.Cut(part, "```\n")
		command, shown, _ := strings.Cut(shown, "\n")
		var out, stderr bytes.Buffer
		if code := run(append([]string{"-q"}, strings.Fields(strings.Replace(command, "out/result.json", predicted, 1))...), newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Err: &stderr})); code != cli.OK {
			t.Fatalf("%s: exit %d: %s", command, code, stderr.String())
		}
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		more := "" // what the README leaves out
		if n := strings.Count(shown, "\n") - 1; strings.HasSuffix(shown, "...\n") && n < len(lines) {
			lines, more = lines[:n], "...\n"
		}
		want += fence + command + "\n"
		for _, line := range lines {
			want += strings.TrimRight(line, " ") + "\n"
		}
		want += more + "```\n" + rest
	}
	if want == string(text) {
		return
	}
	if *update {
		must.Do(t, os.WriteFile("README.md", []byte(want), 0o644))
		return
	}
	t.Errorf("README.md should be\n%s(go test ./cmd/overlapse -run Readme -update)", want)
}

// The words that the README explains are few, and those of the program's answers.
func TestReadmeWords(t *testing.T) {
	t.Chdir("../..")
	text := must.Have(os.ReadFile("README.md"))(t)
	var out bytes.Buffer
	for _, args := range [][]string{
		{"replay", "samples/fsdp-step"}, {"inspect", "samples/fsdp-step"}, {"diff", "samples/moe-ep4", "samples/fsdp-step"},
	} {
		if code := run(append([]string{"-q"}, args...), newApp(&cli.Console{Out: &out, Err: io.Discard})); code != cli.OK {
			t.Fatal(args, code)
		}
	}
	_, section, _ := strings.Cut(string(text), "\n## Words\n")
	words := regexp.MustCompile(`\*([^*]+)\*`).FindAllStringSubmatch(section, -1)
	if len(words) < 10 || len(words) > 20 {
		t.Errorf("README.md explains %d words", len(words))
	}
	for _, word := range words {
		if !strings.Contains(out.String(), word[1]) {
			t.Errorf("README.md explains %q, which no answer says", word[1])
		}
	}
	_, states, _ := strings.Cut(out.String(), "\nby state\n")
	states, _, _ = strings.Cut(states, "\n\n")
	for _, line := range strings.Split(states, "\n")[1:] { // the names of a rank's states, where columns begin two blanks later
		name, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !strings.Contains(section, "*"+name+"*") {
			t.Errorf("README.md does not explain the state %q", name)
		}
	}
}

// Every line of the README's table of errors is one of the dataset's accuracy tables.
func TestReadmeErrors(t *testing.T) {
	t.Chdir("../..")
	read := func(file string) []string {
		text := must.Have(os.ReadFile(file))(t)
		return strings.Split(string(text), "\n")
	}
	measured := read("samples/measurements/ACCURACY.md")
	lines, checked := read("README.md"), 0
	for i, line := range lines {
		row := regexp.MustCompile(`^\| \S+ \| (?:blind|develop) \|`).FindString(line)
		if row == "" {
			continue
		}
		checked++
		at := slices.IndexFunc(measured, func(s string) bool { return strings.HasPrefix(s, row) })
		if at < 0 || line != measured[at] && !*update {
			t.Errorf("README.md:%d is not a line of samples/measurements/ACCURACY.md (go test ./cmd/overlapse -run Readme -update): %s", i+1, line)
			continue
		}
		lines[i] = measured[at]
	}
	if checked == 0 {
		t.Error("README.md has no table of errors")
	}
	bin := regexp.MustCompile(`(?m)^\| (?:0 to 5|95 to 100) % \| (\d+) \|.*\((\d+)\) \|$`).FindAllStringSubmatch(strings.Join(measured, "\n"), -1)
	if len(bin) != 2 {
		t.Fatalf("ACCURACY.md: %d rows of the surest probabilities, want 2", len(bin))
	}
	said := "Of " + bin[1][1] + " rows that were called at least 95 % likely to be faster, " + bin[1][2] + " were; of " + bin[0][1] + " called at most 5 % likely, " + bin[0][2] + " were."
	if !strings.Contains(strings.Join(lines, "\n"), said) {
		t.Errorf("README.md does not say what ACCURACY.md does: %s", said)
	}
	if *update && !t.Failed() {
		must.Do(t, os.WriteFile("README.md", []byte(strings.Join(lines, "\n")), 0o644))
	}
}
