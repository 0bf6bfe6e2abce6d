package plan

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// NCCL's model, by hand: of two Hopper GPUs without multicast the workgroups that reach the links' rate; of eight the two that
// multicast takes, as a capture of H20 has them (Tencent-Hunyuan/UniRL pull request 467); of few bytes words with flags.
func TestSymmetricKernel(t *testing.T) {
	const gib = 1 << 30
	load := func(name string, gpus int) machine.Machine {
		m := must.Have(machine.Load(name))(t)
		return m.Resize(gpus)
	}
	for _, c := range []struct {
		name       string
		m          machine.Machine
		op         trace.CollectiveOp
		bytes      float64
		ranks      int
		workgroups int
		us, within float64
	}{
		{"two without multicast", load("h200", 2), trace.AllGather, 512 << 20, 2, 9, 837.3, 0.04}, // measured on two H200
		{"the same of 64 MiB", load("h200", 2), trace.AllGather, 64 << 20, 2, 9, 115.7, 0.09},
		{"loaded parts", load("h200", 2), trace.ReduceScatter, 512 << 20, 2, 9, 1547.6, 0.04},
		{"loaded parts of 64 MiB", load("h200", 2), trace.ReduceScatter, 64 << 20, 2, 9, 207.5, 0.06},
		{"loaded parts of 16 MiB", load("h200", 2), trace.ReduceScatter, 16 << 20, 2, 9, 57.2, 0.08},
		{"loaded sums", load("h200", 2), trace.AllReduce, 512 << 20, 2, 7, 2327.6, 0.04},
		{"loaded sums of 16 MiB", load("h200", 2), trace.AllReduce, 16 << 20, 2, 7, 79.9, 0.06},
		{"eight with multicast", load("h200", 8), trace.AllGather, 512 << 20, 8, 2, 1e6 * 448 / 1024 / 320, 0.1},
		{"a sum in the switch", load("h200", 8), trace.AllReduce, 512 << 20, 8, 2, 1e6 * 576 / 1024 / 480, 0.1},
		{"few bytes", load("h200", 8), trace.AllReduce, 4096, 8, 5, 4.5, 0.2},
		{"no bytes", load("h200", 8), trace.AllGather, 0, 8, 1, 4.5, 0.1},
		{"GPUs of AMD", load("mi300x", 8), trace.AllGather, gib, 8, 0, 0, 0},
		{"messages", load("h200", 8), trace.AllToAll, gib, 8, 0, 0, 0},
	} {
		seconds, workgroups := symmetricKernel(&c.m, c.op, c.bytes, c.ranks)
		if workgroups != c.workgroups || math.Abs(1e6*seconds-c.us) > c.within*c.us {
			t.Errorf("%s: %.1f us by %d workgroups, want %.1f by %d", c.name, 1e6*seconds, workgroups, c.us, c.workgroups)
		}
	}
}
