package overlap

import (
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"strings"
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

// A layer of experts as PyTorch's profiler writes it for DeepEP: the kernels that send
// tokens are communication, the one that counts them is compute.
//
//	stream 7   |layout GGGGG           |
//	stream 22  |       nn DDDDDDDD CCCC|
func TestDeepEPCommunicates(t *testing.T) {
	const text = `{"traceEvents": [
{"ph":"X","cat":"kernel","name":"void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*)","pid":0,"tid":7,"ts":0,"dur":10,"args":{"stream":7,"device":0,"grid":[20,1,1],"block":[256,1,1],"correlation":1}},
{"ph":"X","cat":"kernel","name":"void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int)","pid":0,"tid":22,"ts":10,"dur":10,"args":{"stream":22,"device":0,"grid":[9,1,1],"block":[128,1,1],"correlation":2}},
{"ph":"X","cat":"kernel","name":"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)","pid":0,"tid":22,"ts":20,"dur":100,"args":{"stream":22,"device":0,"grid":[20,1,1],"block":[768,1,1],"correlation":3}},
{"ph":"X","cat":"kernel","name":"void deep_gemm::fp8_gemm_kernel<4096u, 7168u>(float*)","pid":0,"tid":7,"ts":120,"dur":50,"args":{"stream":7,"device":0,"grid":[132,1,1],"block":[384,1,1],"correlation":4}},
{"ph":"X","cat":"kernel","name":"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)","pid":0,"tid":22,"ts":150,"dur":60,"args":{"stream":22,"device":0,"grid":[20,1,1],"block":[768,1,1],"correlation":5}}
]}`
	run := must.Have(chrome.Read(strings.NewReader(text), chrome.Options{File: "rank0.json"}))(t)
	var ops []trace.CollectiveOp
	for _, s := range run.Spans {
		if s.Kind == trace.Collective {
			ops = append(ops, run.Comm(s).Op)
		}
	}
	if len(ops) != 3 || ops[0] != trace.Barrier || ops[1] != trace.AllToAll || ops[2] != trace.AllToAll {
		t.Errorf("operations %v", ops)
	}
	b := Measure(run).Ranks[0].Breakdown
	if b.Communication != 170_000 || b.Exposed != 150_000 || b.Overlapped != 20_000 || b.Compute != 60_000 {
		t.Errorf("communication %d, exposed %d, overlapped %d, compute %d ns", b.Communication, b.Exposed, b.Overlapped, b.Compute)
	}
}
