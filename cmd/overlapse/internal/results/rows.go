package results

import (
	"iter"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/viz/plain"
)

// A Row is a strategy's row of CSV and result.parquet. Rows of several files can be put together.
type Row struct {
	Path        string  `parquet:"path,dict"`
	Machine     string  `parquet:"machine,dict"`
	Ranks       int64   `parquet:"ranks"`
	Strategy    string  `parquet:"strategy,dict"`
	Settings    string  `parquet:"settings,dict"`
	Applies     bool    `parquet:"applies"`
	Recommended bool    `parquet:"recommended"` // by the verdict
	Time        int64   `parquet:"time_ns,optional"`
	Fastest     int64   `parquet:"fastest_ns,optional"`
	Slowest     int64   `parquet:"slowest_ns,optional"`
	Captured    int64   `parquet:"captured_ns"` // the captured schedule, replayed
	Change      float64 `parquet:"change"`
	Compute     int64   `parquet:"compute_ns"`
	Transfer    int64   `parquet:"transfer_ns"`
	Waiting     int64   `parquet:"waiting_ns"`
	Copies      int64   `parquet:"copies_ns"`
	Idle        int64   `parquet:"idle_ns"`
	Hidden      int64   `parquet:"hidden_ns"`
	PeakMemory  int64   `parquet:"peak_memory_bytes"` // difference to the captured schedule
	MemoryLeast bool    `parquet:"peak_memory_least"` // it is a lower bound
	Bubble      float64 `parquet:"bubble_share"`      // of a pipeline
	Limit       string  `parquet:"limited_by,dict"`
	PFaster     float64 `parquet:"p_faster"` // probability of at least 1 % less time than the captured schedule
	Error       float64 `parquet:"error"`    // half the 80 % interval of change
	Confidence  string  `parquet:"confidence,dict"`
	Reason      string  `parquet:"confidence_why,dict"`
	Why         string  `parquet:"why,dict"` // why it does not apply
	Effort      string  `parquet:"effort,dict"`
	Basis       string  `parquet:"basis,dict"`     // measured, or estimated for a workload file
	Seeds       int64   `parquet:"seeds,optional"` // of --seeds, and the times over them
	SeedFastest int64   `parquet:"seed_fastest_ns,optional"`
	SeedMedian  int64   `parquet:"seed_median_ns,optional"`
	SeedSlowest int64   `parquet:"seed_slowest_ns,optional"`
}

// Table are the strategies as rows of a table.
func (r *Replayed) Table() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		all := r.Rows
		if r.Control != nil {
			all = append(slices.Clone(all), r.Control.row)
		}
		for _, row := range all {
			recommended := row.Applies && row.Strategy == r.Verdict.Strategy && maps.Equal(row.Parameters, r.Verdict.Parameters)
			var seeds [4]int64
			if s := row.Seeds; s != nil {
				seeds = [4]int64{int64(len(s.Times)), int64(s.Fastest()), int64(s.Median()), int64(s.Slowest())}
			}
			if !yield(Row{
				plain.Line(r.Path), plain.Line(r.Machine), int64(r.Ranks), row.Strategy, row.Settings, row.Applies, recommended, row.Time, row.Fastest, row.Slowest, r.base,
				row.Change, int64(row.Compute), int64(row.Transfer), int64(row.Waiting), int64(row.Copies), int64(row.Idle), int64(row.Hidden), row.PeakMemory, len(row.MemoryLacks) > 0, row.Bubble, plain.Line(row.Limit), row.PFaster, row.Error, string(row.Confidence.Level),
				plain.Line(row.Confidence.Why), plain.Line(row.Why), string(row.Effort), r.basis(), seeds[0], seeds[1], seeds[2], seeds[3],
			}) {
				return
			}
		}
	}
}
