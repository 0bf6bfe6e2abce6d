package lift

import (
	"strings"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Engine is what serves a model, as far as names of kernels and ranges show it: it decides how a
// profile that shows more is recorded.
type Engine uint8

// The engines.
const (
	NoEngine Engine = iota
	SGLang
	VLLM
)

// EngineOf finds what served the model.
func EngineOf(run *trace.Run) Engine {
	engine := NoEngine
	for _, name := range run.Names {
		switch {
		case strings.Contains(name, "sglang"), strings.Contains(name, "sgl_kernel"), strings.Contains(name, "sgl_hip"), strings.HasPrefix(name, "void moe_fused_gate_kernel"), strings.HasPrefix(name, "step[") && kernel.BatchOf(name).Phase != workload.NoPhase:
			return SGLang // it has kernels of vLLM too
		case strings.Contains(name, "vllm"), strings.HasPrefix(name, "execute_") && strings.Contains(name, "_generation_"):
			engine = VLLM
		}
	}
	return engine
}

// noteUnknownSizes adds a note about collectives of unknown size.
func (l *lifter) noteUnknownSizes() {
	n := 0
	for i := range l.Collectives {
		if c := &l.Collectives[i]; c.Bytes == 0 && c.Op != trace.Barrier && !c.Part {
			n++
		}
	}
	l.noteCount(n, "collective", "collectives", "of unknown size")
}
