// Package dataset reads measurements: rows of benchmarks, of operators under a
// strategy and of whole steps, in one strict schema, and the index of a folder of
// such sets (samples/measurements) with its splits, provenance and checksums. It reads a
// machine's parameters off rows of micro-benchmarks measured on it: one rule a parameter,
// each with its residual.
//
//	row.go        a row; read.go, files of rows; open.go, the index
//	calibrate.go  a profile from rows, in steps.go's order: numbers and tables read off rows directly (number.go, readings.go),
//	              and laws, chosen by rows that are left out (law.go)
//	rows.go       the selection of rows
//	fit.go        where the errors of a law are least
//	gemm.go       the laws: GEMMs, with tiles.go; clock.go; collective.go
//
// [OpenRows] reads one file of rows, for example a user's measurements. [Open] reads an
// index, verifies the checksum of every listed file and reads all rows. Errors are
// *trace.SyntaxError with file and line. Both functions report all errors of their input.
package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A Row is one measurement. There are three kinds, in one schema:
//
//   - a benchmark settles a parameter of a machine profile: Strategy is "isolated",
//     "held_slots", "beside_cublas" and the like, and no trace is needed;
//   - an operator is a run under a strategy, given by Strategy and Params; Trace is the
//     capture that a prediction starts from;
//   - a step (Workload.Kind "step") is a whole training or inference iteration;
//     CapturedUs is the time of the captured variant.
//
// Times are microseconds of the slowest rank, measured without a profiler unless
// Params say otherwise. Bytes are bytes.
type Row struct {
	ID       string   `json:"id"`      // unique in its file, and in a dataset
	Machine  string   `json:"machine"` // "h200x4": profile and number of GPUs
	World    int      `json:"world"`   // ranks
	Workload Workload `json:"workload"`
	Strategy string   `json:"strategy"`
	Params   Params   `json:"params"`
	Us       float64  `json:"us"` // median of several iterations
	MinUs    float64  `json:"min_us"`
	MaxUs    float64  `json:"max_us"`

	// The same measurement repeated by other processes; 0: not repeated.
	AgainUs    float64 `json:"again_us,omitempty"`
	AgainMinUs float64 `json:"again_min_us,omitempty"`
	AgainMaxUs float64 `json:"again_max_us,omitempty"`

	Trace string `json:"trace,omitempty"` // folder or file of the capture, relative to the file of rows

	// Of steps: the variant that Trace holds and the one that was measured, by the
	// settings of the script that ran both. Noisy marks rows whose two measurements
	// differ by more than 5 %; they are not scored.
	CapturedUs      float64        `json:"captured_us,omitempty"`
	CapturedVariant map[string]any `json:"captured_variant,omitempty"`
	MeasuredVariant map[string]any `json:"measured_variant,omitempty"`
	Noisy           bool           `json:"noisy,omitempty"`

	File string `json:"-"`
	Line int    `json:"-"`
}

// Workload describes the measured operations. Fields that its kind does not use are zero.
type Workload struct {
	Kind       string `json:"kind"` // "gemm", "collective", "gemm+collective", "model", "step", ...
	Name       string `json:"name,omitempty"`
	Part       string `json:"part,omitempty"` // of a pair: "compute", "comm", "producer", ...
	M          int64  `json:"m,omitempty"`
	N          int64  `json:"n,omitempty"`
	K          int64  `json:"k,omitempty"`
	DType      string `json:"dtype,omitempty"`
	Collective string `json:"collective,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"` // the larger of one rank's input and output
	Tile       []int  `json:"tile,omitempty"`  // of a compiled kernel: rows, columns, depth
	Tiles      int    `json:"tiles,omitempty"`
	TileBytes  int64  `json:"tile_bytes,omitempty"`
	Embedding
	Layers
	Pairs      string `json:"pairs,omitempty"`
	Pattern    string `json:"pattern,omitempty"` // peer stores: "ring", "spread", "incast", "local"
	What       string `json:"what,omitempty"`
	Framework  string `json:"framework,omitempty"`  // of a step: "ddp", "fsdp", "tp", ...
	SameBuild  bool   `json:"same_build,omitempty"` // bulk and fused run the same kernel, with local or peer pointers
	BackToBack bool   `json:"back_to_back,omitempty"`
}

// An Embedding is a batch of pooled lookups. Layers have a batch as well.
type Embedding struct {
	Batch      int64 `json:"batch,omitempty"`
	Tables     int64 `json:"tables,omitempty"`
	Dim        int64 `json:"dim,omitempty"`
	Pool       int64 `json:"pool,omitempty"`
	LogicalWGs int64 `json:"logical_wgs,omitempty"`
}

// Layers are two GEMMs, of which the second reads what the first writes or a softmax
// of it, or two convolutions of images with as many channels out as in.
type Layers struct {
	Hidden int64 `json:"hidden,omitempty"`
	FFN    int64 `json:"ffn,omitempty"`
	Grids  []int `json:"grids,omitempty"` // workgroups of each kernel
	Height int64 `json:"height,omitempty"`
	Width  int64 `json:"width,omitempty"`
	Filter int64 `json:"filter,omitempty"` // side of a square
}

// op is the collective operation, or UnknownOp.
func (w Workload) op() trace.CollectiveOp {
	op, _ := trace.ParseCollectiveOp(w.Collective)
	return op
}

// Params are how a run was made. Fields that it does not use are zero.
type Params struct {
	Tokens     []int64 `json:"tokens,omitempty"`     // of steps: those of the captured batch, and of the measured one
	Iterations int     `json:"iterations,omitempty"` // of the loop of which Us is one; 0: no loop

	Settings
	State
	Benchmark
	Alongside
}

// Settings are those of a strategy, in the order in which a row's name has them.
type Settings struct {
	Chunks       int     `json:"chunks,omitempty"`
	Channels     int     `json:"channels,omitempty"`      // 0: the library's choice
	Programs     int     `json:"programs,omitempty"`      // workgroups of a compiled kernel
	BucketMB     float64 `json:"bucket_mb,omitempty"`     // DDP: size of a gradient bucket
	Interleave   int     `json:"interleave,omitempty"`    // micro-batches that alternate
	Schedule     string  `json:"schedule,omitempty"`      // pipelines: order of the micro-batches on each stage
	Microbatches int     `json:"microbatches,omitempty"`  // pipelines: micro-batches of a step
	KeepGathered bool    `json:"keep_gathered,omitempty"` // FSDP: parameters are kept gathered until backward
	Carrier      string  `json:"carrier,omitempty"`       // what moves the bytes of gathers
	Sums         string  `json:"sums,omitempty"`          // the same of reduce-scatters and all-reduces
	ScatterGroup string  `json:"scatter_group,omitempty"` // own: reduce-scatters have a communicator of their own
	Copies       string  `json:"copies,omitempty"`        // ahead: copies from the host on a stream of their own
	Order        string  `json:"order,omitempty"`
	Policy       string  `json:"policy,omitempty"`
	Impl         string  `json:"impl,omitempty"`
	CommPriority bool    `json:"comm_priority,omitempty"`
	OwnPriority  bool    `json:"compute_priority,omitempty"` // the compute stream before that of collectives
	LDS          int     `json:"lds,omitempty"`              // KiB of shared memory that each workgroup of compute requests
	Blocks       int     `json:"blocks,omitempty"`           // workgroups of compute, looping over its tiles; 0: one a tile
	Graph        bool    `json:"graph,omitempty"`
}

// A State is that of the GPUs and the host, and what observed them.
type State struct {
	Cool      bool    `json:"cool,omitempty"`            // after a pause: at full clock
	Sustained bool    `json:"sustained,omitempty"`       // measured after the clock has settled
	RestUs    float64 `json:"rest_us,omitempty"`         // idle time of GPUs between iterations
	Queued    bool    `json:"queued,omitempty"`          // enqueued behind other work, so the host is never late
	Profiled  bool    `json:"profiled,omitempty"`        // a profiler was on
	Shapes    bool    `json:"shapes,omitempty"`          // a profiler recorded shapes
	Observer  bool    `json:"execution_trace,omitempty"` // an execution trace was recorded too
	Kernel    bool    `json:"kernel,omitempty"`          // Us is the kernel's duration by a profiler
}

// A Benchmark has the settings and results of single benchmarks.
type Benchmark struct {
	Tiles      int       `json:"tiles,omitempty"`       // stored by each program
	KernelName string    `json:"kernel_name,omitempty"` // the library's
	Kernels    int       `json:"kernels,omitempty"`     // consecutive kernels
	Groups     [][]int   `json:"groups,omitempty"`      // groups of CUs that clusters share
	FillOrder  []int     `json:"fill_order,omitempty"`  // CUs in the order in which a plain grid fills them
	CallUs     float64   `json:"call_us,omitempty"`     // time of the driver's launch calls, by the profiler
	Operators  float64   `json:"operators,omitempty"`   // operators that the profiler recorded per iteration
	Calls      float64   `json:"calls,omitempty"`       // runtime and driver calls, likewise
	Launches   float64   `json:"launches,omitempty"`    // of them: kernels, copies and fills
	GapsUs     []float64 `json:"gaps_us,omitempty"`     // gaps between kernels
	Flags      int       `json:"flags,omitempty"`       // flags that a workgroup posts after its data; 0: 1
	Posts      int       `json:"posts,omitempty"`       // posts of a semaphore
	Waits      int       `json:"waits,omitempty"`       // waits for semaphores that are already posted
	HeldCUs    int       `json:"held_cus,omitempty"`    // CUs held by a kernel that only waits
	HoldUs     float64   `json:"hold_us,omitempty"`     // time for which they are held, from the start
	GapUs      float64   `json:"gap_us,omitempty"`      // pause in a duty cycle
	Fill       string    `json:"fill,omitempty"`        // kernel that runs in the pauses
	FilledUs   float64   `json:"filled_us,omitempty"`   // its time per pause
}

// Alongside has times of several kernels, and what ran at the same time as the measured one.
type Alongside struct {
	EveryUs       []float64 `json:"every_us,omitempty"`         // times of all iterations
	Every10Us     []float64 `json:"every10_us,omitempty"`       // times of every tenth iteration of a duty cycle, beginning with the first
	DurUs         []float64 `json:"dur_us,omitempty"`           // durations of a collective's kernel
	TransferUs    []float64 `json:"transfer_us,omitempty"`      // from the last rank's start to its end
	AloneUs       float64   `json:"alone_us,omitempty"`         // time without concurrent kernels
	ComputeUs     []float64 `json:"compute_us,omitempty"`       // kernels concurrent with a collective
	ComputeAlone  float64   `json:"compute_alone_us,omitempty"` // such a kernel without a concurrent collective
	GEMM          []int64   `json:"gemm,omitempty"`             // M, N, K of a GEMM concurrent with a collective
	GEMMUs        float64   `json:"gemm_us,omitempty"`          // time of that GEMM
	CopyBytes     int64     `json:"copy_bytes,omitempty"`       // size of a concurrent copy to the next rank
	CopyUs        float64   `json:"copy_us,omitempty"`          // time of that copy
	TriadBytes    int64     `json:"triad_bytes,omitempty"`      // memory traffic of a concurrent triad
	TriadPrograms int       `json:"triad_programs,omitempty"`   // workgroups of that triad
	TriadUs       float64   `json:"triad_us,omitempty"`         // time of that triad
}

// check reports the first missing or invalid field of a row.
func (r *Row) check() error {
	switch {
	case r.ID == "":
		return errors.New("id is missing")
	case r.Workload.Kind == "":
		return errors.New("workload.kind is missing")
	case r.Strategy == "":
		return errors.New("strategy is missing")
	case r.World < 1 || r.World > maxWorld:
		return fmt.Errorf("world: %d ranks are not between 1 and %d", r.World, maxWorld)
	case !(r.Us > 0):
		return fmt.Errorf("us: %v is no time", r.Us)
	case r.Workload.Collective != "" && r.Workload.op() == trace.UnknownOp:
		return fmt.Errorf("workload.collective: %q is unknown", r.Workload.Collective)
	case r.Workload.Kind == "gemm" && min(r.Workload.M, r.Workload.N, r.Workload.K) < 1:
		return errors.New("workload: a gemm has m, n and k from 1 on")
	case r.Workload.Kind != "step" && (r.CapturedUs > 0 || r.CapturedVariant != nil || r.MeasuredVariant != nil):
		return errors.New(`captured_us, captured_variant and measured_variant are of steps (workload.kind "step")`)
	case len(r.Params.Tokens) > 0 && (r.Workload.Kind != "step" || len(r.Params.Tokens) != 2 || slices.Min(r.Params.Tokens) < 1 ||
		slices.Max(r.Params.Tokens) > mostTokens):
		return fmt.Errorf("params.tokens: a step has two numbers from 1 to %d: captured tokens, measured ones", mostTokens)
	}
	if err := plausible("", reflect.ValueOf(*r)); err != nil {
		return err
	}
	if size := max(r.Workload.M, r.Workload.N, r.Workload.K); size > math.MaxInt32 {
		return fmt.Errorf("workload: a GEMM of %d", size)
	}
	return nil
}

// most is the largest plausible number of a row: bytes, or microseconds. maxWorld is more ranks
// than any machine has GPUs, mostTokens more than a batch has.
const (
	most       = 1 << 46
	maxWorld   = 1 << 12
	mostTokens = 1 << 20
)

// plausible is an error for a number in a value that is negative or absurd; key names the value.
func plausible(key string, v reflect.Value) (err error) {
	var x float64
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		x = float64(v.Int())
	case reflect.Float64:
		x = v.Float()
	case reflect.Slice:
		for i := range v.Len() {
			err = cmp.Or(err, plausible(key, v.Index(i)))
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
				err = cmp.Or(err, plausible(strings.TrimPrefix(key+"."+name, "."), v.FieldByIndex(f.Index)))
			}
		}
	}
	if !(x >= 0 && x <= most) {
		return fmt.Errorf("%s: %v is not between 0 and %d", key, x, most)
	}
	return err
}
