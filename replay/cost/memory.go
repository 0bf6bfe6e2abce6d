package cost

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Stream is the time in which each of n workgroups moves bytes from or to memory (rule M4); 0 on a machine whose
// memory's rate is not known.
func (l *Laws) Stream(bytes float64, n int) trace.Time {
	if rate := l.Machine.GPU.StreamAt(n); rate > 0 {
		return trace.Time(bytes*float64(n)/rate*1e9 + 0.5)
	}
	return 0
}

// Rate is the bytes a second that n workgroups of a kernel reach together while memory bounds it: of random reads if it
// looks rows up, with toPeers in the build whose results may go to peers (rule M4).
func (l *Laws) Rate(op *workload.Op, n int, toPeers bool) float64 {
	gpu, k := &l.Machine.GPU, op.Shape.Kind
	if k != workload.Embedding && k != workload.EmbeddingGrad || !gpu.Gather.Known() && !gpu.Crowding.Known() {
		return gpu.StreamAt(n)
	}
	return gpu.LookupAt(n, op.Footprint.Threads, toPeers && gpu.GatherFused.Known())
}

// TileOn is the factor on the time of a workgroup's tile if n of them compute instead of as many as were seen: fewer have
// more cache and power each in a compiled GEMM (rule G11), and more of the memory's rate in a kernel that memory bounds
// (rule M4). With toPeers the n are of the build whose results may go to peers.
func (l *Laws) TileOn(op *workload.Op, n, seen int, toPeers bool) float64 {
	switch op.Shape.Kind {
	case workload.GEMM:
		if machine.Exposed(l.MemoryLoad(op)) < 1 { // its operands are streamed
			return float64(n) / l.Machine.GPU.StreamAt(n) * l.Machine.GPU.StreamAt(seen) / float64(seen)
		}
		return l.Machine.TileTimeFactor(n) / l.Machine.TileTimeFactor(seen)
	case workload.Embedding, workload.EmbeddingGrad, workload.Elementwise:
		return float64(n) / l.Rate(op, n, toPeers) * l.Rate(op, seen, false) / float64(seen)
	}
	return 1
}

// Sum is the least seconds in which PyTorch adds n partial results to so many bytes; 0 if unknown (rule M4).
func (l *Laws) Sum(written float64, n int) float64 {
	if rate := l.Machine.GPU.SumAt(n); rate > 0 {
		return written / rate
	}
	return 0
}

// MemoryLoad is the share of the memory's rate that an operation uses alone; 0 if its traffic is unknown.
func (l *Laws) MemoryLoad(op *workload.Op) float64 {
	took, rate := seconds(op.DurAlone()), l.Machine.GPU.Memory.Value
	if took <= 0 || rate <= 0 {
		return 0
	}
	return (op.Read + op.Write) / took / rate
}

// Launch is what it costs the profile's host to issue an operation, seconds: a library's kernel and a collective of the library
// take what the framework's calls do, a kernel of the program's own what its launcher does; a library enqueues its fills with
// the kernel behind (rule H2). library: collectives are the library's.
func (l *Laws) Launch(op *workload.Op, library bool) float64 {
	at := &l.Machine.Launch
	switch {
	case l.Workload.IsFill(op):
		return 0
	case op.Collective >= 0 && library:
		return at.HostCollective.Or(at.Host.Or(0))
	case op.Compiled:
		return at.Compiled.Or(at.Host.Or(0))
	}
	return at.Host.Or(0)
}

// GEMMReads is the bytes that a GEMM reads from memory: its inputs, and for each wave of tiles
// again the panels of both that the wave shares, unless the last-level cache still has them.
// The cache holds what passes through it: the inputs and, unless that bypasses it, the output
// (rule M12). 0 if the operation is no GEMM of known tiles.
func (l *Laws) GEMMReads(op *workload.Op, bypass bool) float64 {
	s, t := op.Shape, op.Tiling
	if s.Kind != workload.GEMM || t.TileM <= 0 || t.TileN <= 0 {
		return 0
	}
	rows, cols := machine.CeilDiv(int(s.M), t.TileM), machine.CeilDiv(int(s.N), t.TileN)
	wave := min(rows*cols, l.Slots(op.Footprint))
	panels := int64(min(rows, machine.CeilDiv(wave, cols))*t.TileM + min(cols, wave)*t.TileN) // of one wave, in rows of K
	e := float64(s.ElemSize)
	inputs := float64((s.M+s.N)*s.K) * e
	again := max(0, float64(int64(machine.CeilDiv(rows*cols, wave))*panels*s.K)*e-inputs)
	through := inputs
	if !bypass {
		through += float64(s.M*s.N) * e
	}
	return inputs + again*(1-l.Machine.GPU.HitShare(through))
}
