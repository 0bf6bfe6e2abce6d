// Package operator makes a run from a workload file: one operator with its sizes, or a graph of
// operators, for machines and shapes without a capture. The run is the bulk-synchronous schedule of
// the operator. Every duration is a roofline on a machine's profile, and the run is
// marked as estimated (trace.Run.Estimated).
//
//	operator.go  a workload file, and the operators that it can name
//	parse.go     reads one
//	graph.go     its graph of operators, as steps of a rank
//	cost.go      sizes, launch and time of a step
//	schedule.go  the steps of all ranks and iterations as a run
package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// A File is a workload file. Sizes are counts; the list of operations explains them.
type File struct {
	Path       string
	Operator   string
	Machine    string // a profile with its number of GPUs, or a profile's file
	Ranks      int    // 0: one per GPU of the machine
	Iterations int    // independent ones, each marked as a step
	Type       string // "bf16", "f16", "f32"
	Kernel     kernel
	Channels   int       // workgroups of a collective; 0: as the library chooses
	Times      []float64 // seconds of each compute kernel, in order, from elsewhere; nil: rooflines
	Sync       sync      // what Times include

	shape  map[string]int64
	graph  graph          // of the operator, or instead of one
	groups map[string]int // of a graph: number of neighbouring ranks, by name
	lines  map[string]int // of the file, by key

	dataflow bool // it is a graph, which says what operators read
}

// A sync is what the times of a file include beside the kernels (rule H9).
type sync string

// The ways in which kernels are timed.
const (
	syncStream sync = ""      // nothing
	syncEvent  sync = "event" // from event to event on a stream, idle before the first: its launch, and the gaps before the others
	syncHost   sync = "host"  // the host's launch of each kernel, when the one before has ended, and its wait for the end
	syncClear  sync = "clear" // as host, with a fill before each kernel whose tiles are in parts along K, as in CUTLASS' operator()
)

// clearing is the seconds by which a fill before it delays a kernel that a host waits for: between 12.58 less
// 10.70 us on one H100 and 10.32 less 9.05 us on one H200 (engines/score/testdata/h*00-tiles.jsonl, rows host).
const clearing = 1.6e-6

// A kernel describes the workgroups of a file's GEMMs that do not run in the matrix
// library. Zero fields are taken from the machine's profile. Lists have an entry per GEMM,
// in order; the last one stands for the GEMMs behind it.
type kernel struct {
	Tiles     []tile
	Splits    []int // parts along K of each tile, each a workgroup; nil: one
	Threads   int
	Registers int   // per thread
	Shared    []int // bytes
	Launches  int   // number of sequential kernels that a lookup is split into; 0: one
}

// A tile is the output elements of one workgroup, and the elements along K of the parts of
// both inputs that it holds in shared memory at once; 0: not given.
type tile struct{ M, N, Depth int }

// shared is the bytes of shared memory that a tile of known depth takes: the parts that it
// multiplies and the next ones, which are loaded meanwhile (rule G14). Else 0.
func (t tile) shared(elemSize int64) int { return 2 * (t.M + t.N) * t.Depth * int(elemSize) }

// at is the entry of a list for the i-th GEMM; zero if the list is empty.
func at[T any](list []T, i int) (x T) {
	if len(list) == 0 {
		return x
	}
	return list[min(i, len(list)-1)]
}

// An operation is one operator that a file can name.
type operation struct {
	name  string
	sizes []string // keys of shape, all required
	types []string
	split string // the size that is divided equally among the ranks; "" none
	graph string // its nodes, with their sizes in the order of nodeKinds: products of numbers and keys
}

var (
	halves = []string{"bf16", "f16"}
	floats = []string{"bf16", "f16", "f32"}
	gemm   = []string{"m", "n", "k"}
)

// operations lists the operators that a file can name. m, n and k are the sizes of a
// rank's GEMM C[m,n] = A[m,k]·B[k,n]; after an all-gather, A is the gathered matrix.
var operations = []operation{
	// Each rank looks up its tables for the samples of all ranks: batch·tables sums of pooling rows
	// of dim elements. Each rank receives the sums of its share of the batch and reorders them.
	{
		"embedding+all_to_all",
		[]string{"batch", "tables", "dim", "pooling"},
		floats, "batch",
		"embedding batch tables dim pooling; all_to_all batch*tables*dim; permute batch*tables*dim",
	},
	{"gemv+all_reduce", []string{"m", "k"}, floats, "", "gemv m k; all_reduce m"},
	{"gemm+all_reduce", gemm, halves, "", "gemm m n k; all_reduce m*n"},
	{"gemm+all_to_all", gemm, halves, "m", "gemm m n k; all_to_all m*n"},
	{"gemm+reduce_scatter", gemm, halves, "m", "gemm m n k; reduce_scatter m*n"},
	{"all_gather+gemm", gemm, halves, "m", "all_gather m*k; gemm m n k"},
	// hidden is the width between the two: [m,k]·[k,hidden], then [m,hidden]·[hidden,n].
	{"gemm+gemm", []string{"m", "k", "hidden", "n"}, halves, "", "gemm m hidden k; gemm m n hidden"},
	// The heads of a rank have width columns in total: [m,hidden]·[hidden,3·width], attention of m tokens to
	// context, [m,width]·[width,hidden].
	{
		"attention",
		[]string{"m", "hidden", "width", "context"},
		halves, "",
		"gemm m 3*width hidden; attention m width context; gemm m hidden width",
	},
	// Two convolutions with square filters, equal numbers of input and output channels, one output per input position.
	{
		"conv+conv",
		[]string{"batch", "height", "width", "channels", "filter"},
		halves, "",
		"conv batch height width channels filter; conv batch height width channels filter",
	},
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

// world is the number of ranks that the operator runs on.
func (f *File) world(m machine.Machine) (int, error) {
	ranks := cmp.Or(f.Ranks, m.GPUs)
	if ranks > m.GPUs {
		return 0, f.fault("ranks", "choose a machine with as many GPUs", "%d ranks on %s, which has %d GPUs", ranks, m.Name, m.GPUs)
	}
	op, _ := operationNamed(f.Operator)
	if n := f.shape[op.split]; op.split != "" && n%int64(ranks) != 0 {
		return 0, f.fault(op.split, fmt.Sprintf("give a multiple of %d", ranks), "%s: %d does not divide over %d ranks", op.split, n, ranks)
	}
	return ranks, f.checkGroups(ranks, m)
}

// fault is an error about a key of the file.
func (f *File) fault(key, cure, format string, args ...any) error {
	e := &trace.SyntaxError{File: f.Path, Msg: fmt.Sprintf(format, args...), Cure: cure}
	if line, ok := f.lines[key]; ok {
		e.Pos, e.Unit = int64(line), "line"
	}
	return e
}

// Setting is what the file asks for, without its name, its ranks and the number of iterations: files of one setting have
// the same text.
func (f *File) Setting() string {
	g := *f
	g.Path, g.Ranks, g.Iterations, g.lines = "", 0, 0, nil
	if i := strings.LastIndexByte(g.Machine, 'x'); i > 0 { // h200x4 is h200:4
		if n, err := strconv.Atoi(g.Machine[i+1:]); err == nil {
			g.Machine = fmt.Sprintf("%s:%d", g.Machine[:i], n)
		}
	}
	return fmt.Sprintf("%+v", g)
}
