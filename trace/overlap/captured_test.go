package overlap

import (
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// captured reads a trace of the folder that lies beside the checkout.
func captured(t testing.TB, elem ...string) *trace.Run {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "..", "shared", "data"}, elem...)...)
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("%v: needs the captured traces beside the checkout", err)
	}
	defer f.Close()
	z := must.Have(gzip.NewReader(f))(t)
	return must.Have(chrome.Read(z, chrome.Options{File: filepath.Base(path)}))(t)
}

// The overlap of files that other tools measure too.
func TestCapturedOverlap(t *testing.T) {
	for _, c := range []struct {
		folder, file string
		percent      float64
	}{
		{"nccl_parser_config", "nccl_data.json.gz", 15.609},
		{"negative_queue_length_values_check", "rank0.json.gz", 1.359},
	} {
		run := captured(t, "traces", "HTA", c.folder, c.file)
		if got, ok := Measure(run).Ranks[0].OverlapPercent(); !ok || math.Abs(got-c.percent) > 0.0005 {
			t.Errorf("%s: %.4f %%, want %.3f", c.folder, got, c.percent)
		}
	}
}

// Four GPUs that all-reduce: every collective is matched, and every kernel of
// one ends within microseconds of the others.
func TestCapturedCollectives(t *testing.T) {
	var runs []*trace.Run
	for _, rank := range []string{"rank0", "rank1", "rank2", "rank3"} {
		runs = append(runs, captured(t, "h200", "traces", "bulk_llama70b_fc2_tp4_all_reduce", rank+".json.gz"))
	}
	run := must.Have(assemble.Join(runs, "test"))(t)
	m := Measure(run)
	if len(m.Collectives) == 0 {
		t.Fatal("no collectives")
	}
	for _, c := range m.Collectives {
		if len(c.Members) != 4 || c.Op != trace.AllReduce || c.Transfer <= 0 {
			t.Errorf("collective %d of %d members: %v, transfer %d", c.Seq, len(c.Members), c.Op, c.Transfer)
		}
	}
	for _, r := range m.Ranks {
		if r.Total != r.Times.Total() {
			t.Errorf("rank %d does not add up: %+v", r.Rank, r.Breakdown)
		}
	}
}

func BenchmarkMeasure(b *testing.B) {
	run := captured(b, "traces", "HTA", "negative_queue_length_values_check", "rank0.json.gz")
	b.ReportAllocs()
	for b.Loop() {
		Measure(run)
	}
	b.ReportMetric(float64(b.N)*float64(len(run.Spans))/b.Elapsed().Seconds()/1e6, "Mspans/s")
}
