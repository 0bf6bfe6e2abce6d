//go:build !unix

package chrome

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
