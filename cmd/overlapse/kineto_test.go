package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A kinetoFile is what PyTorch's readers take from a file of its profiler: profile-guided estimation
// (torch/_inductor/fx_passes/profile_guided_estimation.py) and profile_analysis.py.
type kinetoFile struct {
	Devices []struct {
		ID     int    `json:"id"`
		Name   string `json:"name"`
		NumSms int    `json:"numSms"`
	} `json:"deviceProperties"`
	Distributed struct {
		Rank   *int `json:"rank"`
		World  int  `json:"world_size"`
		Groups []struct {
			Name  string `json:"pg_name"`
			Ranks []int  `json:"ranks"`
		} `json:"pg_config"`
	} `json:"distributedInfo"`
	Events []struct {
		Cat, Name string
		Dur       float64
		Args      struct {
			External   int64  `json:"External id"`
			Other      int64  `json:"external id"` // as no tool of PyTorch reads it
			Stream     *int64 `json:"stream"`
			Collective string `json:"Collective name"`
			Ranks      string `json:"Process Group Ranks"`
			Out        int64  `json:"Out msg nelems"`
			DType      string `json:"dtype"`
		} `json:"args"`
	} `json:"traceEvents"`
}

func profileOf(t *testing.T, name string) (p kinetoFile, text []byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil && bytes.HasPrefix(text, []byte("\x1f\x8b")) {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(z)
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p, text
}

// --isolated changes durations of kernels and no other byte: none is longer, and collectives of
// one size take the same time on all ranks.
func TestIsolated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "alone")
	said := string(printed(t, "export", "../../samples/fsdp-step", "--to", "kineto", "--isolated", "-o", dir))
	durations := regexp.MustCompile(`"dur":[0-9.]+`)
	type size struct {
		name string
		out  int64
	}
	took := map[size]map[float64]bool{}
	for _, rank := range []string{"rank0.json", "rank1.json"} {
		before, text := profileOf(t, "../../samples/fsdp-step/"+rank+".gz")
		after, rewritten := profileOf(t, filepath.Join(dir, rank))
		if d := cmp.Diff(durations.ReplaceAllString(string(text), ""), durations.ReplaceAllString(string(rewritten), "")); d != "" {
			t.Errorf("%s: more than durations differ: %.2000s", rank, d)
		}
		shorter := 0
		for i, e := range after.Events {
			was := before.Events[i].Dur
			if e.Dur > was || e.Dur <= 0 && was > 0 || e.Dur != was && e.Cat != "kernel" {
				t.Errorf("%s: %s %s takes %v µs, captured %v", rank, e.Cat, e.Name, e.Dur, was)
			}
			if e.Dur < was {
				shorter++
			}
			if e.Cat == "kernel" && e.Args.Collective != "" {
				key := size{e.Args.Collective, e.Args.Out}
				if took[key] == nil {
					took[key] = map[float64]bool{}
				}
				took[key][e.Dur] = true
			}
		}
		if shorter < 100 || shorter > 373 {
			t.Errorf("%s: %d of 373 kernels are shorter", rank, shorter)
		}
	}
	for key, times := range took { // captured: 0.8 to 1.6 ms
		list := slices.Sorted(maps.Keys(times))
		if list[len(list)-1] > 1.25*list[0] {
			t.Errorf("%v takes %v µs alone", key, list)
		}
	}
	if len(took) != 4 {
		t.Errorf("collectives of %d sizes", len(took))
	}
	for _, want := range []string{
		"overlap.enable_overlap_scheduling = True", `profile_guided_estimations_profile_path = "`, "overlap.compute_overlap_multipler = 1.",
		"every rank reads the same file",
	} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
			t.Errorf("lacks %q:\n%s", want, said)
		}
	}
}

// Characters that reverse or break a line are escaped in copied profiles, and a reader gets the
// same strings.
func TestIsolatedIsPlain(t *testing.T) {
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "alone")
	for _, rank := range []string{"rank0.json", "rank1.json"} {
		_, text := profileOf(t, "../../samples/fsdp-step/"+rank+".gz")
		text = bytes.Replace(text, []byte("NVIDIA H200"), []byte("NVIDIA\u202e\u2028 H200"), 1)
		text = append([]byte(byteOrderMark), bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))...)
		must.Do(t, os.WriteFile(filepath.Join(in, rank), text, 0o666))
	}
	printed(t, "export", in, "--to", "kineto", "--isolated", "-o", dir)
	p, text := profileOf(t, filepath.Join(dir, "rank1.json"))
	if len(p.Devices) == 0 || p.Devices[0].Name != "NVIDIA\u202e\u2028 H200" {
		t.Errorf("devices %+v", p.Devices)
	}
	for _, r := range "\u202e\u2028\ufeff\r" {
		if bytes.ContainsRune(text, r) {
			t.Errorf("%U is not escaped", r)
		}
	}
}

// A replayed schedule has what PyTorch's readers need, and reads as itself.
func TestKinetoOfStrategy(t *testing.T) {
	dir := t.TempDir()
	printed(t, "export", "../../samples/fsdp-step", "--to", "kineto", "--strategy", "multistream:keep_gathered=on", "-o", dir)
	for rank, file := range []string{"rank0.json.gz", "rank1.json.gz"} {
		p, _ := profileOf(t, filepath.Join(dir, file))
		if p.Distributed.Rank == nil || *p.Distributed.Rank != rank || p.Distributed.World != 2 || len(p.Distributed.Groups) == 0 || len(p.Distributed.Groups[0].Ranks) != 2 {
			t.Errorf("%s: %+v", file, p.Distributed)
		}
		if len(p.Devices) != 1 || p.Devices[0].ID != rank || p.Devices[0].NumSms != 132 {
			t.Errorf("%s: %+v", file, p.Devices)
		}
		operators, kernels, known := map[int64]int{}, 0, 0
		for _, e := range p.Events {
			if e.Cat == "cpu_op" {
				operators[e.Args.External]++
			}
		}
		names := map[string]int{}
		for _, e := range p.Events {
			if e.Cat != "kernel" {
				continue
			}
			kernels++
			if e.Args.Stream == nil || e.Dur <= 0 {
				t.Errorf("%s: %+v", file, e)
			}
			if e.Args.External != 0 && operators[e.Args.External] == 1 {
				known++
			}
			if c := e.Args.Collective; c != "" {
				names[c]++
				if !strings.HasPrefix(e.Name, "nccl") || e.Args.Ranks != "[0, 1]" || e.Args.Out == 0 || e.Args.DType != "BFloat16" {
					t.Errorf("%s: %+v", file, e)
				}
			}
		}
		if d := cmp.Diff(map[string]int{"_allgather_base": 7, "_reduce_scatter_base": 7}, names); d != "" {
			t.Error(d)
		}
		if kernels < 300 || known < kernels*2/3 {
			t.Errorf("%s: operators of %d of %d kernels are known", file, known, kernels)
		}
	}
	if text := string(printed(t, "inspect", dir)); !strings.Contains(text, "2 ranks on NVIDIA H200 · 4") {
		t.Error(text)
	}
}

// Every number of an operator that a kernel names is that of one cpu_op: PyTorch's
// profile_analysis fails at others.
func TestOperatorsOfExports(t *testing.T) {
	dir := t.TempDir()
	printed(t, "export", "../../samples/fsdp-step", "--to", "kineto", "-o", dir+"/measured")
	printed(t, "export", "../../samples/fsdp-step", "--to", "kineto", "--strategy", "decompose", "-o", dir+"/decompose")
	printed(t, "export", "../../samples/fsdp-step", "--to", "chrome", "-o", dir+"/measured.json")
	printed(t, "export", "../../samples/fsdp-step", "--to", "chrome", "--strategy", "bulk", "-o", dir+"/bulk.json")
	for file, least := range map[string]int{"measured/rank0.json.gz": 300, "measured/rank1.json.gz": 300, "decompose/rank1.json.gz": 200, "measured.json": 300, "bulk.json": 0} {
		p, _ := profileOf(t, filepath.Join(dir, file))
		operators, named, gathers := map[int64]int{}, 0, 0
		for _, e := range p.Events {
			if e.Cat == "cpu_op" && e.Args.External != 0 {
				operators[e.Args.External]++
			}
		}
		for _, e := range p.Events {
			if e.Args.Collective == "_allgather_base" {
				gathers++
			}
			if id := e.Args.External; e.Cat == "kernel" && id != 0 {
				if named++; operators[id] != 1 {
					t.Fatalf("%s: %d cpu_op with the number %d of %s", file, operators[id], id, e.Name)
				}
			}
		}
		for id, n := range operators {
			if n > 1 {
				t.Errorf("%s: %d cpu_op with the number %d", file, n, id)
			}
		}
		if named < least || gathers == 0 || p.Distributed.Rank == nil || p.Distributed.World != 2 || len(p.Devices) != 1 {
			t.Errorf("%s: %d kernels name an operator; %d all-gathers; %+v", file, named, gathers, p.Distributed)
		}
	}
}

// Holistic Trace Analysis reads what is exported: its parser runs if Python has it, or if
// OVERLAPSE_HTA_PYTHON names a Python that has.
func TestHTA(t *testing.T) {
	python := os.Getenv("OVERLAPSE_HTA_PYTHON")
	if python == "" {
		python = "python3"
	}
	if text, err := exec.Command(python, "-c", "import hta.trace_analysis").CombinedOutput(); err != nil {
		t.Skipf("no Holistic Trace Analysis in %s: %v: %s", python, err, bytes.TrimSpace(text))
	}
	dir := t.TempDir()
	printed(t, "export", "../../samples/fsdp-step", "--to", "kineto", "--strategy", "multistream:keep_gathered=on", "-o", filepath.Join(dir, "kineto"))
	must.Do(t, os.Mkdir(filepath.Join(dir, "chrome"), 0o777))
	printed(t, "export", "../../samples/fsdp-step", "--to", "chrome", "--strategy", "multistream", "-o", filepath.Join(dir, "chrome/rank0.json"))
	text, err := exec.Command(python, "testdata/hta.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Logf("%s", text)
}

// Whether overlap pays is said of each phase of a capture. There is one setting for all: it is on only if it pays for each.
func TestOverlapPaysByPhase(t *testing.T) {
	prefill, decode := workload.Batch{Phase: workload.Prefill, Tokens: 8192}, workload.Batch{Phase: workload.Decode, Tokens: 32}
	overlapped := "7 D20 500 F10\n9 AR20=64 400 D20\n7 E20 500 D20\n7 F20 500 AR20 E20"
	w := plantest.Iterations(t, 2, plantest.Iteration{Text: plantest.Layers(1, 1), Batch: decode}, plantest.Iteration{Text: overlapped, Batch: prefill})
	sel := must.Have(engines.ParseSelection("captured,bulk,multistream"))(t)
	con := &cli.Console{Out: io.Discard, Err: io.Discard, Bar: io.Discard, Quiet: true}
	r := must.Have(results.Of(t.Context(), con, "served", w, plantest.H200(t, 2), sel, plan.Scenario{}, replay.Options{}, false, false))(t)
	got, why := overlapPays(r)
	pays := regexp.MustCompile(`^against collectives in the order of the program: prefill steps: captured \+[\d.]+ %, as early as their data allow \+[\d.]+ %; decode steps: captured -[\d.]+ %, as early as their data allow -[\d.]+ %$`)
	if got != "False" || !pays.MatchString(why) {
		t.Errorf("%s, %s", got, why)
	}
}
