package cost

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Unseen is the time of a kernel that nobody has seen, in seconds.
type Unseen struct {
	Seconds  float64
	Burst    float64 // of it: of a wave's output, written behind its products (rule K11)
	ByMemory bool    // memory needs all of it for the bytes
}

// Unseen is the law's time of a kernel by its sizes, workgroups and bytes. A product takes its tiles, as the library or
// a compiled kernel computes them (rules G1, D11 and G10), and a lookup its waves, of which the last may not reach the
// rate of a full one. Every weight of a matrix-vector product is read once: where the profile has no memory rate by number
// of workgroups, those of its last wave get no more than those of a full one (rule G14). Memory bounds all of them.
func (l *Laws) Unseen(op *workload.Op) (x Unseen) {
	gpu, sh, wgs := &l.Machine.GPU, op.Shape, op.Tiling.WGs
	bytes, slots := op.Read+op.Write, int(gpu.CUs.Value)*l.Residents(op.Footprint)
	rate := min(gpu.Memory.Value, gpu.StreamAt(wgs))
	switch sh.Kind {
	case workload.GEMM:
		if compiled(op) {
			x.Seconds = l.alone(op) / l.LonePipe(op) * l.Rounds(op)
		} else {
			x.Seconds = l.Tiling(op).Seconds
		}
		if gpu.MemoryQueue.Known() {
			x.Burst = float64(sh.M*sh.N*int64(sh.ElemSize)) / gpu.Memory.Value
			x.Seconds += x.Burst
		}
	case workload.GEMV:
		rate = gpu.Read.Value * min(1, gpu.StreamAt(wgs)/gpu.Memory.Value)
		if wgs > slots && !gpu.Stream.Known() {
			rate *= float64(wgs) / float64(machine.CeilDiv(wgs, slots)*slots)
		}
	case workload.Embedding:
		wave := func(n int) float64 { return float64(n) * bytes / float64(wgs) / l.Rate(op, n, false) }
		x.Seconds = float64(wgs/slots) * wave(slots)
		if left := wgs % slots; left > 0 {
			x.Seconds += wave(left)
		}
		return x
	}
	if moving := bytes / rate; moving > x.Seconds {
		x = Unseen{Seconds: moving, ByMemory: true}
	}
	return x
}

// CompiledRate is the flop per second of compiled tiles on all CUs.
func CompiledRate(m *machine.Machine) (rate machine.Quantity, key string) {
	if m.Matmul.Compiled.Known() {
		return m.Matmul.Compiled, "matmul.compiled"
	}
	return m.GPU.Flops, "gpu.flops"
}

// alone is the seconds of a compiled tile, or of its part along K, with a CU's pipes to itself.
func (l *Laws) alone(op *workload.Op) float64 {
	rate, _ := CompiledRate(l.Machine)
	t := op.Tiling
	return 2 * float64(t.TileM*t.TileN) * float64(op.Shape.K) / float64(max(1, t.WGs/t.Tiles)) * l.Machine.GPU.CUs.Value / rate.Value
}

// Among is the law's time, in seconds, of a collective among n ranks that fill one node after another, on at most so many
// channels.
func (l *Laws) Among(n int, op trace.CollectiveOp, bytes int64, channels int) float64 {
	return timeOf(l.Machine, &l.Machine.Library, op, bytes, n, channels)
}
