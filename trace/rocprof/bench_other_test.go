//go:build !unix

package rocprof

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
