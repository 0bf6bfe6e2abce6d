package plan_test

import (
	"flag"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/enginetest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

func TestScripts(t *testing.T) { enginetest.Scripts(t, "testdata/*.txt", nil) }
