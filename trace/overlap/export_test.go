package overlap

import "github.com/overlapse/overlapse/trace"

// Measure measures a run.
func Measure(run *trace.Run) Metrics { return Collect(run).Metrics() }
