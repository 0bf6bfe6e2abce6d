// Package longtest says whether a run of the tests has the long ones: whole matrices and captures of whole steps.
package longtest

import (
	"os"
	"testing"
)

// Asked reports whether long tests run: OVERLAPSE_LONG is 1, as .ci/run sets it, and not with -short.
func Asked() bool { return os.Getenv("OVERLAPSE_LONG") == "1" && !testing.Short() }
