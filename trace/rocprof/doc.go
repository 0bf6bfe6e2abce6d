// Package rocprof reads what AMD's profilers write, and the per-workgroup CSV
// files that share their conventions. Columns are found by name, whatever
// their case or order, so that every generation of a file reads the same.
package rocprof

import (
	"errors"

	"github.com/overlapse/overlapse/trace"
)

// ErrNoTimes is the cause of an error about files that hold nothing with a time.
var ErrNoTimes = errors.New("nothing with a time")

// earliestUnix tells clocks apart: a count of nanoseconds from here on (the
// year 2001) is since 1970; a clock that counts from the start of the machine
// would have to run for 31 years to reach it.
const earliestUnix = 1e18

// setEpoch says when a run began that began at this reading of its clock.
func setEpoch(run *trace.Run, first int64) {
	if first >= earliestUnix {
		run.Epoch = first
	}
}
