package assemble

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives random tests one seed, unless the command line gives another.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
