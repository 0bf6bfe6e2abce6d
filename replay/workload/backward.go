package workload

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// backwardRanges begin the names of ranges in which PyTorch runs the backward pass.
var backwardRanges = []string{"autograd::engine::evaluate_function", "FSDP::pre_backward", "FSDP::post_backward", "FullyShardedDataParallel._pre_backward", "FullyShardedDataParallel._post_backward"}

// markBackward marks the ops that the host launched in the backward pass.
func (src *source) markBackward(run *trace.Run, inBackward []bool) {
	for i := range src.ops {
		id := src.facts[i].launch
		for id != trace.None && !src.ops[i].Backward {
			src.ops[i].Backward = inBackward[run.Spans[id].Name]
			id = run.Spans[id].Parent
		}
	}
}

// backwardNames reports, by name, whether it is that of a range of the backward pass.
func backwardNames(names []string) []bool {
	is := make([]bool, len(names))
	for i, n := range names {
		for _, prefix := range backwardRanges {
			is[i] = is[i] || strings.HasPrefix(n, prefix)
		}
	}
	return is
}
