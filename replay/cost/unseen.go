package cost

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Unseen is the law's time of a kernel by its sizes, workgroups and bytes. A product takes its tiles, as the library or
// a compiled kernel computes them (rules G1, D11 and G10), and a lookup its waves, of which the last may not reach the
// rate of a full one. Every weight of a matrix-vector product is read once: where the profile has no memory rate by number
// of workgroups, those of its last wave get no more than those of a full one (rule G14). Memory bounds all of them.
// burst is the part of its seconds in which its waves write their output, behind their products (rule K11).
func (l *Laws) Unseen(op *workload.Op) (seconds, burst float64, byMemory bool) {
	gpu, sh, wgs := &l.Machine.GPU, op.Shape, op.Tiling.WGs
	bytes, slots := op.Read+op.Write, int(gpu.CUs.Value)*l.Residents(op.Footprint)
	rate := min(gpu.Memory.Value, gpu.StreamAt(wgs))
	switch sh.Kind {
	case workload.GEMM:
		if compiled(op) {
			rounds, pipe := l.Rounds(op)
			t, rate := op.Tiling, l.Machine.Matmul.Compiled.Or(gpu.Flops.Value)
			tile := 2 * float64(t.TileM*t.TileN) * float64(sh.K) / float64(t.WGs/t.Tiles) * gpu.CUs.Value / rate // with a CU's pipes to itself
			seconds = tile / pipe * rounds
		} else {
			seconds = l.Tiling(op).Seconds
		}
		if gpu.MemoryQueue.Known() {
			burst = float64(sh.M*sh.N*int64(sh.ElemSize)) / gpu.Memory.Value
			seconds += burst
		}
	case workload.GEMV:
		rate = gpu.Read.Value * min(1, gpu.StreamAt(wgs)/gpu.Memory.Value)
		if wgs > slots && !gpu.Stream.Known() {
			rate *= float64(wgs) / float64(machine.CeilDiv(wgs, slots)*slots)
		}
	case workload.Embedding:
		wave := func(n int) float64 { return float64(n) * bytes / float64(wgs) / l.Rate(op, n, false) }
		seconds = float64(wgs/slots) * wave(slots)
		if left := wgs % slots; left > 0 {
			seconds += wave(left)
		}
		return seconds, 0, false
	}
	if moving := bytes / rate; moving > seconds {
		return moving, 0, true
	}
	return seconds, burst, false
}
