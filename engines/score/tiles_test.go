package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	embedded "github.com/overlapse/overlapse/samples"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A tileRow is a line of testdata/h100-tiles.jsonl or h200-tiles.jsonl, which testdata/tiles.cu
// printed on one GPU (nvcc 13.0, -O3 -arch=sm_90, 2026-11-23; the H200 after the rules were
// written): two dependent GEMMs under cuSync's policies and as
// Stream-K, the second one alone with all semaphores posted, and times of workgroups.
type tileRow struct {
	Row        string
	Tile       string
	M, H, F    int
	Splits     json.RawMessage
	Workgroups json.RawMessage
	Mode       string
	WaitKernel bool    `json:"wait_kernel"`
	GPU        float64 `json:"gpu_us"`
	FirstEnds  float64 `json:"first_ends_us"`
	Starts     float64 `json:"second_starts_us"`

	Waits  string
	InLoop int `json:"in_loop"`
	US     float64

	Kernel string
	Mean   float64 `json:"mean_us"`
	First  float64
	Last   float64
}

// policies are the rows' modes; streams are the baseline. Rows by row are of the build by tile, whose loop over K
// tests for waits too, as a policy of one's own has it.
var policies = []struct {
	mode       string
	waitKernel bool
	strategy   string
}{
	{"stream", false, "captured"},
	{"row", true, "tilesync:policy=own"},
	{"row", false, "tilesync:policy=own:waitkernel=off"},
	{"row, B first", false, "tilesync:policy=own:waitkernel=off:reorder=on"},
	{"tile", true, "tilesync:policy=tile"},
	{"tile", false, "tilesync:policy=tile:waitkernel=off"},
	{"tile, B first", true, "tilesync:policy=tile:reorder=on"},
	{"tile, B first", false, "tilesync:policy=tile:waitkernel=off:reorder=on"},
	{"stream-k", false, "tilesync:policy=streamk"},
}

// TestTilesAgainstHardware compares cuSync's policies with an H100 and an H200: time over that of the two kernels
// one after the other, of which the replay gets the times. The cost of a wait inside of the loop
// over K and the rates of one and two workgroups on a CU are those of this kernel, read off rows
// that are not compared.
func TestTilesAgainstHardware(t *testing.T) {
	for _, gpu := range []string{"h100", "h200"} {
		t.Run(gpu, func(t *testing.T) { compareTiles(t, gpu) })
	}
}

func compareTiles(t *testing.T, gpu string) {
	pairs, poll, lone, rate := tileRows(t, "testdata/"+gpu+"-tiles.jsonl")
	m := must.Have(machine.Load(gpu + ":1"))(t)
	m.GPU.Poll.Value = poll / 1e6
	m.Matmul.Compiled.Value, m.Matmul.Lone.Value = rate*m.GPU.CUs.Value, lone*rate*m.GPU.CUs.Value

	var out strings.Builder
	var errors []float64
	fmt.Fprintf(&out, "a wait inside of the loop %.2f us, two workgroups on a CU %.2f TFLOP/s, one %.2f of that\n", poll, rate/1e12, lone)
	for _, rows := range pairs {
		base := rows[slices.IndexFunc(rows, func(r tileRow) bool { return r.Mode == "stream" })]
		set := map[string]string{
			"shape.m": fmt.Sprint(base.M), "shape.k": fmt.Sprint(base.H), "shape.hidden": fmt.Sprint(base.F), "shape.n": fmt.Sprint(base.H), "iterations": "1",
			"kernel.tile": base.Tile, "kernel.split": strings.Trim(strings.ReplaceAll(string(base.Splits), ",", ""), "[]"),
			"kernel.threads": "256", "kernel.registers": "128", "kernel.shared": "40960",
			"times": fmt.Sprintf("%.2f %.2f", base.FirstEnds, base.GPU-base.Starts), "sync": "stream",
		}
		fmt.Fprintf(&out, "%d x %d x %d, tiles of %s in %s parts, %s workgroups\n", base.M, base.H, base.F, base.Tile, base.Splits, base.Workgroups)
		var alone float64
		for _, p := range policies {
			measured := math.Inf(1) // of two rounds
			for _, r := range rows {
				if r.Mode == p.mode && r.WaitKernel == p.waitKernel {
					measured = min(measured, r.GPU)
				}
			}
			if math.IsInf(measured, 1) {
				continue
			}
			j := job{workload: "cusync-gpt3-mlp.yaml", strategy: p.strategy, set: set}
			x := must.Have(j.replay(embedded.Workloads(), &m, nil))(t)
			predicted := must.Have(x.measure(""))(t)
			if p.mode == "stream" {
				alone = predicted
				continue
			}
			is, want := predicted/alone, measured/base.GPU
			fmt.Fprintf(&out, "  %-48s measured %.3f  predicted %.3f\n", p.strategy, want, is)
			if p.mode != "stream-k" {
				errors = append(errors, math.Abs(is-want))
			}
		}
	}
	slices.Sort(errors)
	median, p90 := errors[len(errors)/2], errors[len(errors)*9/10]
	fmt.Fprintf(&out, "waits by row and by tile, %d: median %.1f, 90th percentile %.1f points\n", len(errors), 100*median, 100*p90)
	if median > 0.03 || p90 > 0.07 {
		t.Errorf("median error %.1f, 90th percentile %.1f points of the time one after the other, above 3 and 7", 100*median, 100*p90)
	}
	golden(t, "testdata/"+gpu+"-tiles.golden", out.String())
}

// TestRowBuild compares builds that wait once on an H100, all semaphores posted (testdata/h100-builds.jsonl, as
// h100-tiles.jsonl, 2026-11-28): with a test in the loop over K they take gpu.loop_wait longer than without waits, and
// without one no longer than the round trip (rule T10).
func TestRowBuild(t *testing.T) {
	data := must.Have(os.ReadFile("testdata/h100-builds.jsonl"))(t)
	longer, none := map[string][]float64{}, 0.0
	for line := range bytes.Lines(data) {
		var r tileRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Waits == "none" {
			none = r.US
		}
		longer[r.Waits] = append(longer[r.Waits], r.US/none-1)
	}
	for waits, most := range map[string][2]float64{"row": {0.03, 0.06}, "row only": {0, 0.02}} {
		list := longer[waits]
		slices.Sort(list)
		if median := list[len(list)/2]; len(list) != 20 || median < most[0] || median > most[1] {
			t.Errorf("%s: %d builds, in the median %.3f longer than without waits, want %v", waits, len(list), median, most)
		}
	}
}

// tileRows are the measured pairs by shape, the time in us of a wait inside of the loop of
// workgroups alone on their CUs, the rate of two workgroups on a CU in FLOP/s, and the share of it
// that one alone reaches.
func tileRows(t *testing.T, path string) (pairs [][]tileRow, poll, lone, rate float64) {
	data := must.Have(os.ReadFile(path))(t)
	index, waits := map[string]int{}, map[string]float64{}
	var polls []float64
	for line := range bytes.Lines(data) {
		var r tileRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch r.Row {
		case "pair":
			if r.Mode == "stream-k" && string(r.Workgroups) == "[132, 132]" {
				continue // half of the slots
			}
			shape := fmt.Sprint(r.Tile, r.M, r.H, r.F, string(r.Splits))
			i, ok := index[shape]
			if !ok {
				i = len(pairs)
				index[shape] = i
				pairs = append(pairs, nil)
			}
			pairs[i] = append(pairs[i], r)
		case "waits":
			waits[r.Waits] = r.US
			if r.Waits == "tile" && r.Tile == "64x256" { // at most 96 workgroups on 132 CUs
				polls = append(polls, (r.US-waits["row"])/float64(r.InLoop))
			}
		case "spread":
			switch r.Kernel {
			case "gemm 128x128 m 512 k 12288 split 1": // 192 workgroups: 60 of 132 CUs have two
				lone = r.Last / r.First / 2
			case "gemm 128x128 m 2048 k 12288 split 1": // 768: nearly all have two
				rate = 2 * 2 * 128 * 128 * 12288 / (r.Mean / 1e6)
			}
		}
	}
	slices.Sort(polls)
	return pairs, polls[len(polls)/2], lone, rate
}

// No schedule of the baseline's tiles takes less than they do if all slots always hold some. A published time that is
// shorter, by more than the launch that is assumed, is of other kernels, and apart.
func TestPublishedTimesAreReachable(t *testing.T) {
	papers := must.Have(Papers())(t)
	checked, apart := 0, 0
	for _, c := range papers[slices.Index(PaperNames(), "cusync")].Claims {
		for _, p := range c.Points {
			times := strings.Fields(fmt.Sprint(p.With["times"]))
			if !strings.HasPrefix(c.ID, "CS-raw-") || p.Against != "captured" || len(times) != 2 || strings.Contains(p.Strategy, "parts") {
				continue
			}
			j := job{workload: p.Workload, strategy: "captured", set: keys(p.With)}
			x := must.Have(j.replay(embedded.Workloads(), nil, nil))(t)
			name, ok := p.With["machine"].(string)
			if !ok {
				name = "v100:1" // of the workload file
			}
			m := must.Have(machineNamed(name))(t)
			var base, least float64
			for i, name := range []string{"waves.first", "waves.second"} {
				waves, err := x.measure(name)
				us, bad := strconv.ParseFloat(times[i], 64)
				if err != nil || bad != nil {
					t.Fatal(err, bad)
				}
				base += us
				least += (us - 1e6*m.Launch.Host.Value) * waves / math.Ceil(waves)
			}
			checked++
			if short := base/p.Published < least; short && p.Apart == "" {
				t.Errorf("%s: %s: published %.1f us, the baseline's tiles take %.1f on all slots", c.ID, p.Label, base/p.Published, least)
			} else if short {
				apart++
			}
		}
	}
	if checked < 100 || apart < 8 {
		t.Errorf("%d points checked, %d of them apart", checked, apart)
	}
}

// Convolutions of cuSync's first version do not wait in parts along K that begin behind the first width of a tile: the
// steps of 32 of the parts alternate, and both policies wait for the first tile of a row only (isSync). Their
// points are apart, and those of attention, whose middle kernel waits in one of the workgroups of a tile's rows.
func TestKernelsThatDoNotWaitAreApart(t *testing.T) {
	papers := must.Have(Papers())(t)
	apart := 0
	for _, c := range papers[slices.Index(PaperNames(), "cusync")].Claims {
		for _, p := range c.Points {
			var without bool
			var parts, width, rows int
			tile := strings.Split(strings.Fields(fmt.Sprint(p.With["kernel.tile"]) + " ")[0], "x")
			switch {
			case p.Workload == "cusync-attention.yaml":
				rows, _ = strconv.Atoi(tile[0])
				without = rows > 4 // the most rows of a workgroup (SoftmaxRowTile)
			case p.Workload == "cusync-conv.yaml" && p.As != count:
				width, _ = strconv.Atoi(tile[1])
				parts, _ = strconv.Atoi(fmt.Sprint(p.With["kernel.split"]))
				if _, own, ok := strings.Cut(p.Strategy, ":parts="); ok {
					parts, _ = strconv.Atoi(own)
				}
				without = (parts-1)*32 >= width
			default:
				continue
			}
			if without != strings.Contains(p.Apart, "does not wait") {
				t.Errorf("%s: %s: waits for its input: %t, apart: %q", c.ID, p.Label, !without, p.Apart)
			}
			if without {
				apart++
			}
		}
	}
	if apart != 24+25 {
		t.Errorf("%d points of kernels that do not wait", apart)
	}
}

// TestWavesAgainstHardware compares a GEMM counted in groups of waves (rule W3) and chunks of it with two H200
// (testdata/h200x2-waves.jsonl, printed by testdata/waves.py on 2026-11-28, after the rule was written): time over that of
// the GEMM and the all-reduce one after the other. The replay gets the time of the GEMM alone.
func TestWavesAgainstHardware(t *testing.T) {
	data := must.Have(os.ReadFile("testdata/h200x2-waves.jsonl"))(t)
	var waves, chunks []float64
	for line := range bytes.Lines(data) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r["row"] != "waves" {
			continue
		}
		us := func(name string) float64 { return r[name].(float64) }
		set := map[string]string{
			"machine": "h200:2", "ranks": "2", "shape.m": fmt.Sprint(us("m")), "shape.n": fmt.Sprint(us("n")), "shape.k": fmt.Sprint(us("k")), "times": fmt.Sprint(us("gemm")),
			"kernel.tile": "256x128x64", "kernel.threads": "256", "kernel.registers": "255", "kernel.shared": "147456",
		}
		time := func(strategy string) float64 {
			j := job{workload: "t3-tnlg-fc2.yaml", strategy: strategy, set: set}
			x := must.Have(j.replay(embedded.Workloads(), nil, nil))(t)
			return x.seconds * 1e6
		}
		bulk := time("bulk")
		for name, strategy := range map[string]string{
			"chunks2": "decompose:chunks=2:priority=on", "chunks4": "decompose:chunks=4:priority=on",
			"waves2": "decompose:variant=waves:chunks=2", "waves4": "decompose:variant=waves", "waves8": "decompose:variant=waves:chunks=8",
		} {
			is, want := time(strategy)/bulk, us(name)/((us("bulk")+us("bulk again"))/2)
			t.Logf("k %g: %s measured %.3f predicted %.3f", us("k"), name, want, is)
			if strings.HasPrefix(name, "waves") {
				waves = append(waves, math.Abs(is-want))
			} else {
				chunks = append(chunks, math.Abs(is-want))
			}
		}
	}
	for name, list := range map[string][]float64{"waves": waves, "chunks": chunks} {
		slices.Sort(list) // of a GEMM at the limit of power, k 8192, waves gain nothing; predicted 5 to 8 %
		if median, most := list[len(list)/2], list[len(list)-1]; median > 0.035 || most > 0.10 {
			t.Errorf("%s: median error %.3f, most %.3f of the time one after the other", name, median, most)
		}
	}
}
