package rapidtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Without a seed two runs draw the same, with a seed of 0 they do not.
func TestSeed(t *testing.T) {
	if os.Getenv("RAPIDTEST_DRAW") != "" {
		Check(t, func(t *rapid.T) { t.Log(rapid.Uint64().Draw(t, "number")) })
		return
	}
	drawn := func(args ...string) string {
		c := exec.Command(os.Args[0], append([]string{"-test.run=^TestSeed$", "-rapid.log", "-rapid.nofailfile", "-rapid.checks=20"}, args...)...)
		c.Env = []string{"RAPIDTEST_DRAW=1"}
		text, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		var numbers []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "draw number") {
				_, number, _ := strings.Cut(line, "draw number")
				numbers = append(numbers, number)
			}
		}
		if len(numbers) < 20 {
			t.Fatalf("drew %q", text)
		}
		return strings.Join(numbers, "")
	}
	fixed := drawn()
	if drawn() != fixed || drawn("-rapid.seed="+Seed) != fixed {
		t.Error("two runs without a seed draw differently")
	}
	if fresh := drawn("-rapid.seed=0"); drawn("-rapid.seed=2") == fixed || fresh == drawn("-rapid.seed=0") {
		t.Error("a seed that is given changes nothing")
	}
}
