// Package rapidtest runs property tests with a seed that is the same in every run.
package rapidtest

import (
	"flag"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Seed is the seed where neither -rapid.seed nor RAPID_SEED gives one. A seed of 0 draws a fresh one in each run.
const Seed = "1"

var seeded sync.Once

// Check is rapid.Check with Seed.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	seeded.Do(func() {
		_, given := os.LookupEnv("RAPID_SEED")
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.seed" })
		if given {
			return
		}
		if err := flag.Set("rapid.seed", Seed); err != nil {
			t.Fatal(err)
		}
	})
	rapid.Check(t, property)
}
