package verdict

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// An event is one of a Chrome trace.
type event = map[string]any

// events are those of the ranks of a sample, by rank.
func events(t testing.TB, sample string) (files []map[string]any, list [][]event) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../../samples", sample, "rank*.json.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal(sample, err)
	}
	for _, path := range paths {
		f := must.Have(os.Open(path))(t)
		z := must.Have(gzip.NewReader(f))(t)
		var file struct {
			Rest   map[string]any
			Events []event `json:"traceEvents"`
		}
		text := json.NewDecoder(z)
		var all map[string]json.RawMessage
		must.Do(t, text.Decode(&all))
		must.Do(t, json.Unmarshal(all["traceEvents"], &file.Events))
		file.Rest = map[string]any{}
		for k, v := range all {
			file.Rest[k] = v
		}
		files, list = append(files, file.Rest), append(list, file.Events)
		f.Close()
	}
	return files, list
}

// write makes a folder of ranks with these events.
func write(t testing.TB, files []map[string]any, list [][]event) string {
	t.Helper()
	to := t.TempDir()
	for i := range list {
		file := maps.Clone(files[i])
		file["traceEvents"] = list[i]
		data := must.Have(json.Marshal(file))(t)
		must.Do(t, os.WriteFile(filepath.Join(to, fmt.Sprintf("rank%d.json", i)), data, 0o644))
	}
	return to
}

// onDevice reports whether an event is a kernel or a copy.
func onDevice(e event) bool { return e["cat"] == "kernel" || e["cat"] == "gpu_memcpy" }

// mutate changes the events of ranks as four bytes each say: what, on which rank (or on all), from which event on
// of 256 parts of the list, and how much.
func mutate(list [][]event, code []byte) [][]event {
	out := make([][]event, len(list))
	copy(out, list)
	for ; len(code) >= 4; code = code[4:] {
		what, rank, from, amount := code[0]%8, int(code[1])%(len(list)+1), int(code[2]), float64(code[3])
		for r := range out {
			if rank < len(list) && rank != r {
				continue
			}
			begin := from * len(out[r]) / 256
			end := min(len(out[r]), begin+1+int(amount)*len(out[r])/256)
			var edited []event
			for i, e := range out[r] {
				if i < begin || i >= end || !onDevice(e) {
					edited = append(edited, e)
					continue
				}
				e = maps.Clone(e)
				args, _ := e["args"].(map[string]any)
				args = maps.Clone(args)
				e["args"] = args
				switch what {
				case 0: // drop
					continue
				case 1: // copy
					twin := maps.Clone(e)
					twin["ts"] = number(e, "ts") + 0.5
					edited = append(edited, twin)
				case 2: // shift
					e["ts"] = number(e, "ts") + (amount-128)*50
				case 3: // stretch
					e["dur"] = number(e, "dur") * amount / 16
				case 4: // another grid
					if args != nil {
						args["grid"] = []any{amount * amount * amount * 127, 1, 1}
					}
				case 5: // other bytes
					for _, key := range []string{"In msg nelems", "Out msg nelems"} {
						if n, ok := args[key].(float64); ok {
							args[key] = n * amount
						}
					}
				case 6: // another stream
					if args != nil {
						args["stream"] = amount
						e["tid"] = amount
					}
				case 7: // another launch
					if n, ok := args["correlation"].(float64); ok {
						args["correlation"] = n + amount
					}
				}
				edited = append(edited, e)
			}
			out[r] = edited
		}
	}
	return out
}

// stepMark matches the annotation of an iteration.
var stepMark = regexp.MustCompile(`#[0-9]+$`)

// first is the first n iterations of a rank: what the others would only repeat.
func first(n int, all []event) []event {
	var ends []float64
	for _, e := range all {
		if name, _ := e["name"].(string); e["cat"] == "user_annotation" && stepMark.MatchString(name) {
			ends = append(ends, number(e, "ts")+number(e, "dur"))
		}
	}
	end := math.Inf(1)
	if slices.Sort(ends); len(ends) > n {
		end = ends[n-1]
	}
	gone := map[any]bool{}
	for _, e := range all {
		if !onDevice(e) && number(e, "ts") > end && correlation(e) != nil {
			gone[correlation(e)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(e event) bool {
		if onDevice(e) || e["cat"] == "gpu_memset" {
			return gone[correlation(e)]
		}
		return number(e, "ts") > end
	})
}

// drawn and drawnSeed are how many inputs of FuzzPlanner are drawn, without the coverage that -fuzz collects and that costs
// as much as the planner; CONTRIBUTING.md says how to hunt.
var (
	drawn     = flag.Int("planner.inputs", 8, "inputs of FuzzPlanner that are drawn")
	drawnSeed = flag.Uint64("planner.seed", 1, "seed that they are drawn with")
)

// FuzzPlanner continues where the readers' targets end: it changes what valid traces say, plans and simulates one of the
// strategies beside the captured schedule, and judges it. No strategy panics, every number is finite and every time
// positive, memory stays below a gibibyte, and nothing is likely or certain on a trace that is damaged, which is said first.
// The first byte of an input is the sample, the second the strategy, the others what changes. One input in eight is of two
// iterations, of which all outcomes of races and the rank that others wait for are simulated; the others are of one iteration
// and one outcome of its races.
func FuzzPlanner(f *testing.F) {
	rng := rand.New(rand.NewPCG(*drawnSeed, 0))
	for i := range *drawn {
		code := []byte{byte(i), byte(rng.Uint32())}
		for range 1 + rng.IntN(3) {
			code = append(code, byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()>>rng.IntN(8)))
		}
		f.Add(code)
	}
	names := []string{"llama70b-fc2-allreduce", "moe-down-triton", "moe-ep4", "llama70b-fc2-allreduce", "moe-down-triton"} // moe-ep4 takes longest
	files, lists := make([][]map[string]any, len(names)), make([][2][][]event, len(names))
	for i, name := range names {
		var all [][]event
		files[i], all = events(f, name)
		for _, rank := range all {
			rank = slices.DeleteFunc(rank, func(e event) bool { return e["cat"] == "ac2g" || e["ph"] == "M" }) // arrows and names
			for n := range lists[i] {
				lists[i][n] = append(lists[i][n], first(n+1, rank))
			}
		}
	}
	sel := must.Have(engines.ParseSelection("all"))(f)
	f.Fuzz(func(t *testing.T, code []byte) {
		t.Parallel()
		if len(code) < 6 || len(code) > 18 {
			return
		}
		at, list, late := int(code[0])%len(names), 0, false
		if int(code[0])/len(names)%8 == 0 {
			list, late = 1, true
		}
		others := sel[1:]
		planned(t, write(t, files[at], mutate(lists[at][list], code[2:])), []plan.Selection{sel[0], others[int(code[1])%len(others)]}, lift.Options{}, late)
	})
}

// noNumber finds what fmt prints of numbers that are not finite.
var noNumber = regexp.MustCompile(`\bNaN\b|[+-]Inf\b`)

// A kernel whose end is lost runs beside nothing: multistream's collective has no mean of slowdowns over no time.
func TestKernelWithoutTime(t *testing.T) {
	files, list := events(t, "measurements/2026-11-21-h200x2-second/traces/pipe_gpt2xl_fc2_all_to_all_w2")
	kernels := slices.DeleteFunc(slices.Clone(list[1]), func(e event) bool { return e["cat"] != "kernel" })
	kernels[14]["dur"] = 0 // a GEMM
	sel := must.Have(engines.ParseSelection("captured,multistream"))(t)
	planned(t, write(t, files, list), sel, lift.Options{}, true)
}

// planned checks what the planner says about a trace, if it can be read, and returns the strategies that it calls likely. The
// rank that others wait for is looked for if findLate.
func planned(t *testing.T, path string, sel []plan.Selection, o lift.Options, findLate bool) (likely []string) {
	t.Helper()
	run, err := format.Open(path, format.Options{})
	if err != nil {
		t.Log("refused:", err)
		return nil
	}
	w, err := lift.Workload(run, o)
	if err != nil || len(w.Ops) == 0 {
		t.Log("nothing to plan:", err)
		return nil
	}
	m := plantest.H200(t, w.World)
	lift.GuessSizes(w, &m)
	if w, err = engines.Isolate(w, m, nil); err != nil {
		t.Fatal(err)
	}
	outcomes := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{Like: true}, nil))(t)
	must.Do(t, engines.Defect(outcomes...))
	if outcomes[0].Result == nil {
		t.Log("nothing is compared:", outcomes[0].Why)
		return nil // the captured schedule cannot run
	}
	list := predicted(w, outcomes[0], outcomes)
	var late *overlap.LateRank
	if findLate {
		late = LateRank(w, outcomes[0])
	}
	v, damage := Judge(w, outcomes[0], list, late), DamageOf(w)
	if damage != "" && (!strings.Contains(v.Sentences[0], damage) || v.Confidence.Level == High) {
		t.Errorf("%s confidence beside damage, which is not the first to be said: %q", v.Confidence.Level, v.Sentences)
	}
	said := v.Sentences
	for _, p := range list {
		said = append(said, p.Why, p.Evidence.Why)
	}
	for _, text := range said {
		if noNumber.MatchString(text) {
			t.Errorf("a number is none in %q", text)
		}
	}
	for _, p := range list {
		name := p.Selection.String()
		if p.Result == nil {
			continue
		}
		if p.Time <= 0 || p.Expected <= 0 || p.Best <= 0 {
			t.Errorf("%s: time %d, expected %d, best %d", name, p.Time, p.Expected, p.Best)
		}
		if p.likely() && p.Change < 0 {
			likely = append(likely, name)
		}
		c := p.Confidence.Chance
		for _, x := range []float64{p.Change, c.PFaster, p.Evidence.Spread, p.Evidence.Rest} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Errorf("%s: change %v, chance %+v, evidence %+v", name, p.Change, c, p.Evidence)
			}
		}
		if damage != "" && (c.PFaster >= Likely || p.Confidence.Level == High) {
			t.Errorf("%s is likely (%.2f, %s) although the trace is damaged: %s", name, c.PFaster, p.Confidence.Level, damage)
		}
	}
	var memory runtime.MemStats
	if runtime.ReadMemStats(&memory); memory.Sys > 1<<30 {
		t.Errorf("%d MiB of memory", memory.Sys>>20)
	}
	return likely
}
