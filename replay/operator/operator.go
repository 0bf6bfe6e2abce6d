// Package operator makes a run out of a workload file: one operator with its
// sizes, for machines and shapes that nobody has captured yet. The run is the
// bulk-synchronous schedule of that operator, every duration a roofline on a
// machine's profile, and says so (trace.Run.Estimated); from there on it is a
// run like any other.
package operator

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// A File is a workload file. Sizes are counts; what they count is said where
// the operator is listed.
type File struct {
	Path       string
	Operator   string
	Machine    string // a profile with its number of GPUs, or a profile's file
	Ranks      int    // 0: as many as the machine has GPUs
	Iterations int    // independent ones, each marked as a step
	Type       string // "bf16", "f16", "f32"
	Kernel     Kernel
	Channels   int // workgroups of a collective; 0: as the library chooses

	shape map[string]int64
	lines map[string]int // of the file, by key
}

// A Kernel is what a file says of the workgroups of its GEMMs where they are
// not the matrix library's. Zero fields are left to the machine's profile.
type Kernel struct {
	TileM, TileN int // output elements of a tile
	Threads      int
	Registers    int // a thread
	Shared       int // bytes
	Launches     int // kernels that a lookup is cut into, one after another; 0: one
}

// An operation is one operator that a file can name.
type operation struct {
	name  string
	sizes []string // keys of shape, all of them needed
	types []string
	split string // the size that is cut into equal parts, one a rank; "" none
	steps func(b *bench)
}

var (
	halves = []string{"bf16", "f16"}
	floats = []string{"bf16", "f16", "f32"}
)

// operations lists what a file can name. m, n and k are those of a rank's
// GEMM C[m,n] = A[m,k]·B[k,n], with A gathered where an all-gather precedes it.
var operations = []operation{
	// Of every rank, tables of its own are looked up for the samples of all: batch·tables sums of pooling rows
	// of dim elements. Ranks get back the sums of their share of the batch, and bring them in order.
	{"embedding+all_to_all", []string{"batch", "tables", "dim", "pooling"}, floats, "batch", func(b *bench) {
		b.lookup(b.size("batch"), b.size("tables"), b.size("dim"), b.size("pooling"))
		all := b.size("batch") * b.size("tables") * b.size("dim")
		b.collective(trace.AllToAll, all)
		b.shuffle(all)
	}},
	{"gemv+all_reduce", []string{"m", "k"}, floats, "", func(b *bench) {
		b.matvec(b.size("m"), b.size("k"))
		b.collective(trace.AllReduce, b.size("m"))
	}},
	{"gemm+all_reduce", []string{"m", "n", "k"}, halves, "", func(b *bench) {
		b.gemm(b.size("m"), b.size("n"), b.size("k"))
		b.collective(trace.AllReduce, b.size("m")*b.size("n"))
	}},
	{"gemm+all_to_all", []string{"m", "n", "k"}, halves, "m", func(b *bench) {
		b.gemm(b.size("m"), b.size("n"), b.size("k"))
		b.collective(trace.AllToAll, b.size("m")*b.size("n"))
	}},
	{"gemm+reduce_scatter", []string{"m", "n", "k"}, halves, "m", func(b *bench) {
		b.gemm(b.size("m"), b.size("n"), b.size("k"))
		b.collective(trace.ReduceScatter, b.size("m")*b.size("n"))
	}},
	{"all_gather+gemm", []string{"m", "n", "k"}, halves, "m", func(b *bench) {
		b.collective(trace.AllGather, b.size("m")*b.size("k"))
		b.gemm(b.size("m"), b.size("n"), b.size("k"))
	}},
	// hidden is the width between the two: [m,k]·[k,hidden], then [m,hidden]·[hidden,n].
	{"gemm+gemm", []string{"m", "k", "hidden", "n"}, halves, "", func(b *bench) {
		b.gemm(b.size("m"), b.size("hidden"), b.size("k"))
		b.gemm(b.size("m"), b.size("n"), b.size("hidden"))
	}},
	// A rank's heads are width columns wide: [m,hidden]·[hidden,3·width], each of the m tokens against context, and back to hidden.
	{"attention", []string{"m", "hidden", "width", "context"}, halves, "", func(b *bench) {
		b.gemm(b.size("m"), 3*b.size("width"), b.size("hidden"))
		b.attention(b.size("m"), b.size("width"), b.size("context"))
		b.gemm(b.size("m"), b.size("hidden"), b.size("width"))
	}},
	// Two convolutions of square filters, as many channels out as in, one output an input position.
	{"conv+conv", []string{"batch", "height", "width", "channels", "filter"}, halves, "", func(b *bench) {
		for range 2 {
			b.convolution(b.size("batch"), b.size("height"), b.size("width"), b.size("channels"), b.size("filter"))
		}
	}},
}

func operationNames() []string {
	var names []string
	for _, o := range operations {
		names = append(names, o.name)
	}
	return names
}

func operationNamed(name string) (operation, bool) {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	if i < 0 {
		return operation{}, false
	}
	return operations[i], true
}

// world is how many ranks the operator runs on.
func (f *File) world(m machine.Machine) (int, error) {
	ranks := f.Ranks
	if ranks == 0 {
		ranks = m.GPUs
	}
	if ranks > m.GPUs {
		return 0, f.fault("ranks", "choose a machine with as many GPUs", "%d ranks on %s, which has %d GPUs", ranks, m.Name, m.GPUs)
	}
	op, _ := operationNamed(f.Operator)
	if n := f.shape[op.split]; op.split != "" && n%int64(ranks) != 0 {
		return 0, f.fault(op.split, fmt.Sprintf("give a multiple of %d", ranks), "%s: %d does not divide over %d ranks", op.split, n, ranks)
	}
	return ranks, nil
}

// fault is an error about a key of the file.
func (f *File) fault(key, cure, format string, args ...any) error {
	e := &trace.SyntaxError{File: f.Path, Msg: fmt.Sprintf(format, args...), Cure: cure}
	if line, ok := f.lines[key]; ok {
		e.Pos, e.Unit = int64(line), "line"
	}
	return e
}
