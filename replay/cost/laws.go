// Package cost says how long a kernel or a collective takes that was not seen as it is asked for: in part, with more rows, on
// other channels, on another machine. Kernel and Collective answer all of these: the seen time, times the law's time of what is
// asked over the law's time of what was seen. What is asked as it was seen takes the seen time.
//
//	laws.go        the laws of a machine; how kernels lie on it
//	kernel.go      the time of a kernel, of a part of it, and of one that nobody has seen: products by their tiles, others by
//	               launch, memory and the rest
//	memory.go      how fast workgroups move bytes; what memory takes of a kernel
//	collective.go  the time of a collective, what its channels move, its inverse: the bytes of a time, and what
//	               compute alongside adds
//	elsewhere.go   kernels and collectives on another machine
package cost

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Laws are the laws of a machine for the operations of a workload. They remember what they were asked, and
// are not safe for concurrent use.
type Laws struct {
	Machine  *machine.Machine
	Workload *workload.Workload
	Lookups  *machine.Questions // times of collectives that were looked up in the profile; nil: not noted

	Seen      *Laws                                   // of the machine that operations were seen on; nil: this one
	RanksSeen func(*workload.Collective, []int) []int // ranks that a collective of these ranks was seen on; nil: the same

	launched Memo[launchKey, *workload.Kernel]
	clusters Memo[int, float64]
	factors  Memo[rowsKey, float64]
	parts    Memo[partKey, *workload.Kernel]
	times    Memo[timeKey, float64]

	slowdowns Memo[slowdownKey, slowdown]
	libraries Memo[*int32, *machine.Library] // by the first of the members
}

// An Estimate is how long what was asked for takes alone, and why.
type Estimate struct {
	Op       workload.Op // a kernel as it was asked for, with its time alone
	Alone    trace.Time  // of a collective, ns
	Channels int         // of a collective
	By       float64     // that time over the seen one
	Reason
	roofed
}

// A Reason is why an operation takes its time on a machine that it was not seen on.
type Reason struct {
	Bound string // what limits the operation, or the rest of a kernel's time besides launch and memory
	Law   string
	Sure  bool // the trace shows what limits the operation
}

// roofed is the seconds of a kernel where it was seen and where it is asked for, by what bounds them: its launch, memory, and
// the rest.
type roofed struct{ Was, Is [3]float64 }

// Bounds are what bounds the first parts of a roofed.
var Bounds = [...]string{"launch", theMemory}

func (t *roofed) seconds() float64 { return t.Is[0] + t.Is[1] + t.Is[2] }

// A Memo has the values of keys that were asked for. The zero value is empty.
type Memo[K comparable, T any] map[K]T

// Of is the value of a key, built when it is first asked for.
func (m *Memo[K, T]) Of(key K, build func() T) T {
	x, ok := (*m)[key]
	if !ok {
		x = build()
		if *m == nil {
			*m = Memo[K, T]{}
		}
		(*m)[key] = x
	}
	return x
}

// Residents is the number of workgroups of a footprint that fit on one CU, at least 1.
func (l *Laws) Residents(f program.Footprint) int { return max(1, f.Residents(&l.Machine.GPU)) }

// Slots is the number of workgroups of a footprint that a GPU holds at once.
func (l *Laws) Slots(f program.Footprint) int { return int(l.Machine.GPU.CUs.Value) * l.Residents(f) }

// Together is how many of so many workgroups of a footprint share a CU.
func (l *Laws) Together(f program.Footprint, wgs int) int {
	return min(l.Residents(f), max(1, machine.CeilDiv(wgs, int(l.Machine.GPU.CUs.Value))))
}

// Clustered is machine.GPU.Clustered.
func (l *Laws) Clustered(size int) float64 {
	return l.clusters.Of(size, func() float64 { return l.Machine.GPU.Clustered(size) })
}

// StartsTogether is the cluster size on this machine of a kernel captured with clusters: 0
// if no group of CUs holds such a cluster. A kernel for that machine is built without
// clusters (rule D7).
func (l *Laws) StartsTogether(cluster int) int {
	if cluster > 1 && l.Clustered(cluster) == 0 {
		return 0
	}
	return cluster
}

// FillsSlots reports whether a kernel of unknown shape launched exactly as many workgroups as fit: they
// loop over pieces of work that the trace does not show, and take the next piece when they finish one
// (rule D15).
func (l *Laws) FillsSlots(op *workload.Op) bool {
	t := op.Tiling
	return op.Shape.Kind == workload.NoShape && t.WGs > 0 && t.WGs%int(l.Machine.GPU.CUs.Value) == 0 &&
		t.WGs == int(l.Clustered(l.StartsTogether(t.Cluster)))*l.Residents(op.Footprint)
}

// keepsGrid reports whether a kernel launches the same number of workgroups for any number of rows: one that fills all slots,
// and those of fixedGrids.
func (l *Laws) keepsGrid(op *workload.Op) bool {
	return slices.ContainsFunc(fixedGrids, func(name string) bool { return strings.Contains(op.Name, name) }) || l.FillsSlots(op)
}

// fixedGrids are PyTorch's kernels of such grids: EmbeddingBag (aten/src/ATen/native/cuda/EmbeddingBag.cu: grid = 1024), the
// gradients of a norm's parameters (layer_norm_kernel.cu: a workgroup for 32 columns, which loops over the rows), and launches
// of a list of tensors, of which a shorter list takes fewer (MultiTensorApply.cuh: 320 workgroups each).
var fixedGrids = []string{"EmbeddingBag_updateOutputKernel", "GammaBetaBackwardCUDAKernel", "multi_tensor_apply"}
