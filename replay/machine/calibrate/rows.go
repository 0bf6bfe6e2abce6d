package calibrate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A Row is one measurement: a micro-benchmark that settles a parameter, or a
// strategy on a workload. Times are microseconds, of the slowest rank.
type Row struct {
	ID       string   `json:"id"`
	Machine  string   `json:"machine"` // "h200x4"
	World    int      `json:"world"`   // ranks
	Workload Workload `json:"workload"`
	Strategy string   `json:"strategy"` // "isolated", "held_slots", "decompose", ...
	Params   Params   `json:"params"`
	Us       float64  `json:"us"` // median of several iterations
	MinUs    float64  `json:"min_us"`
	MaxUs    float64  `json:"max_us"`
	Trace    string   `json:"trace,omitempty"` // folder of the bulk-synchronous capture to start from

	File string `json:"-"`
	Line int    `json:"-"`
}

// Workload is what was run. What a kind has no use for is zero.
type Workload struct {
	Kind       string `json:"kind"`
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
	Batch      int64  `json:"batch,omitempty"`
	Tables     int64  `json:"tables,omitempty"`
	Dim        int64  `json:"dim,omitempty"`
	Pool       int64  `json:"pool,omitempty"`
	LogicalWGs int64  `json:"logical_wgs,omitempty"`
	Hidden     int64  `json:"hidden,omitempty"`
	FFN        int64  `json:"ffn,omitempty"`
	Grids      []int  `json:"grids,omitempty"` // workgroups of producer and consumer
	Pairs      string `json:"pairs,omitempty"`
	Pattern    string `json:"pattern,omitempty"` // peer stores: "ring", "spread", "incast", "local"
	What       string `json:"what,omitempty"`
	SameBuild  bool   `json:"same_build,omitempty"`
	BackToBack bool   `json:"back_to_back,omitempty"`
}

// Params is how it was run. What a strategy has no use for is zero.
type Params struct {
	Channels     int       `json:"channels,omitempty"` // 0: the library's choice
	Chunks       int       `json:"chunks,omitempty"`
	Iterations   int       `json:"iterations,omitempty"`
	Programs     int       `json:"programs,omitempty"` // workgroups of a compiled kernel
	Tiles        int       `json:"tiles,omitempty"`    // a program stores
	CommPriority bool      `json:"comm_priority,omitempty"`
	Order        string    `json:"order,omitempty"`
	Impl         string    `json:"impl,omitempty"`
	Policy       string    `json:"policy,omitempty"`
	Graph        bool      `json:"graph,omitempty"`
	Cool         bool      `json:"cool,omitempty"`        // after a pause: at full clock
	Sustained    bool      `json:"sustained,omitempty"`   // after so many iterations that the clock has settled
	RestUs       float64   `json:"rest_us,omitempty"`     // in which GPUs idle between iterations
	Queued       bool      `json:"queued,omitempty"`      // behind other work, so that the host is never late
	Kernel       bool      `json:"kernel,omitempty"`      // Us is the kernel as a profiler has it
	KernelName   string    `json:"kernel_name,omitempty"` // the library's
	Groups       [][]int   `json:"groups,omitempty"`      // of CUs that clusters share
	FillOrder    []int     `json:"fill_order,omitempty"`  // CUs in the order in which a plain grid fills them
	Profiled     bool      `json:"profiled,omitempty"`    // a profiler was on
	CallUs       float64   `json:"call_us,omitempty"`     // the driver's launch calls, as it had them
	Flags        int       `json:"flags,omitempty"`       // a workgroup posts behind its data; 0: 1
	Posts        int       `json:"posts,omitempty"`       // of a semaphore
	Waits        int       `json:"waits,omitempty"`       // for semaphores that are posted already
	HeldCUs      int       `json:"held_cus,omitempty"`
	HoldUs       float64   `json:"hold_us,omitempty"`
	GapUs        float64   `json:"gap_us,omitempty"`
	AloneUs      float64   `json:"alone_us,omitempty"`
	DurUs        []float64 `json:"dur_us,omitempty"`
	ComputeUs    []float64 `json:"compute_us,omitempty"`
	GEMM         []int64   `json:"gemm,omitempty"`       // M, N, K of the product beside a collective
	Fill         string    `json:"fill,omitempty"`       // what runs in the pauses of a duty cycle
	FilledUs     float64   `json:"filled_us,omitempty"`  // how long that is
	Every10Us    []float64 `json:"every10_us,omitempty"` // every tenth time of a duty cycle, from the first on
}

// Op is the collective operation, UnknownOp where there is none.
func (w Workload) Op() trace.CollectiveOp {
	op, _ := trace.ParseCollectiveOp(w.Collective)
	return op
}

// ReadRows reads a file of rows, one JSON object a line; empty lines are
// skipped, and so are keys that no rule reads. Errors are *trace.SyntaxError
// with the line, all of them joined; the good rows come back with them.
func ReadRows(r io.Reader, file string) ([]Row, error) {
	var rows []Row
	var errs []error
	fail := func(line int, cure string, err error) {
		errs = append(errs, &trace.SyntaxError{File: file, Pos: int64(line), Unit: "line", Msg: err.Error(), Cure: cure})
	}
	ids := map[string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		row := Row{File: file, Line: n}
		if err := json.Unmarshal(text, &row); err != nil {
			fail(n, "each line is one JSON object: id, machine, world, workload, strategy, params, us, min_us, max_us", fmt.Errorf("no row: %w", err))
			continue
		}
		if err := row.check(); err != nil {
			fail(n, "", err)
			continue
		}
		if first, twice := ids[row.ID]; twice {
			fail(n, "give every row an id of its own", fmt.Errorf("id %q stands on line %d already", row.ID, first))
			continue
		}
		ids[row.ID] = n
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		fail(n+1, "", err)
	}
	return rows, errors.Join(errs...)
}

// check reports the first thing that a row lacks.
func (r *Row) check() error {
	switch {
	case r.ID == "":
		return errors.New("id is missing")
	case r.Workload.Kind == "":
		return errors.New("workload.kind is missing")
	case r.Strategy == "":
		return errors.New("strategy is missing")
	case r.World < 1:
		return fmt.Errorf("world: %d ranks", r.World)
	case !(r.Us > 0):
		return fmt.Errorf("us: %v is no time", r.Us)
	case r.Workload.Collective != "" && r.Workload.Op() == trace.UnknownOp:
		return fmt.Errorf("workload.collective: %q is unknown", r.Workload.Collective)
	}
	return nil
}

// idList names rows in a source: "c0012 to c0030, c0086 (20 rows)". Runs of
// numbered ids that follow each other in the file are drawn together.
func idList(rows []Row) string {
	var parts []string
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].File == rows[j-1].File && rows[j].Line == rows[j-1].Line+1 {
			j++
		}
		if j-i > 2 {
			parts = append(parts, rows[i].ID+" to "+rows[j-1].ID)
		} else {
			for _, r := range rows[i:j] {
				parts = append(parts, r.ID)
			}
		}
		i = j
	}
	if len(parts) > 6 {
		parts = append(parts[:3], "...", parts[len(parts)-1])
	}
	if len(rows) > 2 {
		return fmt.Sprintf("%s (%d rows)", strings.Join(parts, ", "), len(rows))
	}
	return strings.Join(parts, ", ")
}
