package format

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestParts(t *testing.T) {
	var got []string
	for _, p := range parts([]string{
		"d/11_agent_info.csv", "d/11_kernel_trace.csv", "d/12_kernel_trace.csv", "d/12_kernel_trace.csv.gz", "d/13_kernel_trace.csv", "d/13_results.db", "d/13_results.json",
		"d/rank0.json.gz", "d/rank0_wg_trace.csv", "d/x.json", "d/x.rpd",
	}) {
		got = append(got, strings.Join(p.paths, " ")+" | "+strings.Join(p.twice, " "))
	}
	want := []string{
		"d/11_agent_info.csv d/11_kernel_trace.csv | ",
		"d/12_kernel_trace.csv d/12_kernel_trace.csv.gz | ",
		"d/13_results.db | d/13_kernel_trace.csv d/13_results.json",
		"d/rank0.json.gz | ",
		"d/rank0_wg_trace.csv | ",
		"d/x.rpd | d/x.json",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A folder with a thread trace is one, whatever else lies in it.
func TestOpenThreadTrace(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"occupancy.json": `{"0":[[100,6,1,0,1,2],[300,6,1,0,0,2]],"dispatches":{"2":"k"}}`,
		"code.json":      `{"code":[]}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run, err := Open(dir, Options{})
	if err != nil || len(run.Spans) != 2 || run.Spans[1].Kind != trace.Workgroup {
		t.Errorf("%v, %v", run, err)
	}
}

// TestOpenXLA: of what JAX's profiler writes into the folder that it was given, the last profile is read, and of its two forms the one
// that has the programs.
func TestOpenXLA(t *testing.T) {
	data := must.Have(os.ReadFile("../perfetto/testdata/jax_tp.xplane.pb.gz"))(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"plugins/profile/2026_01_01/host.xplane.pb": "no profile", "plugins/profile/2026_01_02/host.xplane.pb": string(data),
		"plugins/profile/2026_01_02/host.trace.json.gz": "not read",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, path := range []string{dir, dir + "/plugins/profile/2026_01_02", dir + "/plugins/profile/2026_01_02/host.xplane.pb"} {
		run, err := Open(path, Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if len(run.Ranks) != 2 || run.Ranks[0].Compiler != trace.XLA || len(run.Collectives) != 24 {
			t.Errorf("%s: ranks %+v, %d collectives", path, run.Ranks, len(run.Collectives))
		}
	}
}

// A progress ends at the sizes of the files and at the number of events of all of them.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	var size, events int64
	for rank, n := range []int64{3, 5000} {
		event := `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":0,"args":{"stream":7}}`
		text := `{"distributedInfo":{"rank":` + string(rune('0'+rank)) + `},"traceEvents":[` + strings.Repeat(event+",", int(n)) + `]}`
		must.Do(t, os.WriteFile(filepath.Join(dir, "rank"+string(rune('0'+rank))+".json"), []byte(text), 0o600))
		size, events = size+int64(len(text)), events+n
	}
	for _, path := range []string{dir, filepath.Join(dir, "rank1.json")} {
		var p Progress
		run := must.Have(Open(path, Options{Progress: &p}))(t)
		if got := p.Events.Load(); got != int64(len(run.Spans)) || p.Total.Load() != p.Read.Load() || !strings.HasSuffix(p.File(), ".json") {
			t.Errorf("%s: %d of %d bytes, %d events, last %q", path, p.Read.Load(), p.Total.Load(), got, p.File())
		}
		if path == dir && (p.Total.Load() != size || p.Events.Load() != events) {
			t.Errorf("%d bytes and %d events, want %d and %d", p.Total.Load(), p.Events.Load(), size, events)
		}
	}
}
