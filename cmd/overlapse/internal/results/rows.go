package results

import (
	"iter"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/viz/plain"
)

// A Row is a strategy's row of CSV. Rows of several files can be put together.
type Row struct {
	Path        string  `json:"path"`
	Machine     string  `json:"machine"`
	Ranks       int64   `json:"ranks"`
	Strategy    string  `json:"strategy"`
	Settings    string  `json:"settings"`
	Applies     bool    `json:"applies"`
	Recommended bool    `json:"recommended"` // by the verdict
	Experiment  bool    `json:"experimental"`
	Time        int64   `json:"time_ns,omitempty"`
	Fastest     int64   `json:"fastest_ns,omitempty"`
	Slowest     int64   `json:"slowest_ns,omitempty"`
	Captured    int64   `json:"captured_ns"` // the captured schedule, replayed
	Change      float64 `json:"change"`
	Compute     int64   `json:"compute_ns"`
	Transfer    int64   `json:"transfer_ns"`
	Waiting     int64   `json:"waiting_ns"`
	Copies      int64   `json:"copies_ns"`
	Idle        int64   `json:"idle_ns"`
	Hidden      int64   `json:"hidden_ns"`
	PeakMemory  int64   `json:"peak_memory_bytes"` // difference to the captured schedule
	MemoryLeast bool    `json:"peak_memory_least"` // it is a lower bound
	Bubble      float64 `json:"bubble_share"`      // of a pipeline
	Limit       string  `json:"limited_by"`
	PFaster     float64 `json:"p_faster"` // probability of at least 1 % less time than the captured schedule
	Error       float64 `json:"error"`    // half the 80 % interval of change
	Confidence  string  `json:"confidence"`
	Reason      string  `json:"confidence_why"`
	Why         string  `json:"why"` // why it does not apply
	Effort      string  `json:"effort"`
	Phase       string  `json:"phase"`           // the steps that the row is about, where phases are answered apart
	Basis       string  `json:"basis"`           // measured, or estimated for a workload file
	Seeds       int64   `json:"seeds,omitempty"` // of --seeds, and the times over them
	SeedFastest int64   `json:"seed_fastest_ns,omitempty"`
	SeedMedian  int64   `json:"seed_median_ns,omitempty"`
	SeedSlowest int64   `json:"seed_slowest_ns,omitempty"`
}

// recommended reports whether the verdict, on the row's phase, recommends it.
func (r *Replayed) recommended(row *replayRow) bool {
	v := &r.Verdict
	if v.Kind == verdict.ByPhase {
		if row.phase == 0 {
			return false
		}
		v = &v.Phases[row.phase-1]
	}
	return row.Applies && row.Strategy == v.Strategy && maps.Equal(row.Parameters, v.Parameters)
}

// Table are the strategies as rows of a table.
func (r *Replayed) Table() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		all := r.Rows
		if r.Control != nil {
			all = slices.Concat(all, r.Control.rows)
		}
		for i := range all {
			if !yield(r.tableRow(&all[i])) {
				return
			}
		}
	}
}

func (r *Replayed) tableRow(row *replayRow) Row {
	var seeds [4]int64
	if s := row.Seeds; s != nil {
		seeds = [4]int64{int64(len(s.Times)), int64(s.Fastest()), int64(s.Median()), int64(s.Slowest())}
	}
	return Row{
		plain.Line(r.Path), plain.Line(r.Machine), int64(r.Ranks), row.Strategy, row.Settings,
		row.Applies, r.recommended(row), row.Experimental, row.Time, row.Fastest, row.Slowest, int64(r.reference.Of(row.phase).Expected),
		row.Change, int64(row.Compute), int64(row.Transfer), int64(row.Waiting), int64(row.Copies), int64(row.Idle), int64(row.Hidden), row.PeakMemory, len(row.MemoryLacks) > 0, row.Bubble, plain.Line(row.Limit), row.PFaster, row.Error, string(row.Confidence.Level),
		plain.Line(row.Confidence.Why), plain.Line(row.Why), string(row.Effort), row.Phase, r.basis(), seeds[0], seeds[1], seeds[2], seeds[3],
	}
}
