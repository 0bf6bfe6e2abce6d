package workload

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// backwardRanges begin the names of ranges in which PyTorch runs the backward pass.
var backwardRanges = []string{"autograd::engine::evaluate_function", "FSDP::pre_backward", "FSDP::post_backward", "FullyShardedDataParallel._pre_backward", "FullyShardedDataParallel._post_backward"}

// A phase is the part of a training step that a range belongs to.
type phase uint8

const (
	noPhase phase = iota
	inBackward
	inOptimizer
)

// markPhases marks the ops that the host launched in the backward pass, or in an
// optimizer's step.
func (src *source) markPhases(run *trace.Run, phases []phase) {
	for i := range src.ops {
		op := &src.ops[i]
		for id := src.facts[i].launch; id != trace.None && !op.Backward && !op.Optimizer; id = run.Spans[id].Parent {
			is := phases[run.Spans[id].Name]
			op.Backward, op.Optimizer = is == inBackward, is == inOptimizer
		}
	}
}

// phasesOf are the phases of ranges by name.
func phasesOf(names []string) []phase {
	is := make([]phase, len(names))
	for i, n := range names {
		for _, prefix := range backwardRanges {
			if strings.HasPrefix(n, prefix) {
				is[i] = inBackward
			}
		}
		if kind, _ := rangeKindOf(n); kind == optimize {
			is[i] = inOptimizer
		}
	}
	return is
}
