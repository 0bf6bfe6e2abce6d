package lift

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// recordUses gives the kernels of a drawn run accesses: "A w1[0,8) r2.1[0,4)" has the
// storage, its life, and the bytes; the kernels named AB are of one operator.
func recordUses(t testing.TB, run *trace.Run, lines string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var list []trace.Access
		for _, w := range words[1:] {
			rest := strings.TrimLeft(w, "rw?")
			mode := w[:len(w)-len(rest)]
			a := trace.Access{Read: strings.Contains(mode, "r"), Write: strings.Contains(mode, "w"), Inferred: strings.Contains(mode, "?")}
			if _, err := fmt.Sscanf(rest, "%d.%d[%d,%d)", &a.Storage, &a.Life, &a.From, &a.To); err != nil {
				a.Life = 0
				if _, err := fmt.Sscanf(rest, "%d[%d,%d)", &a.Storage, &a.From, &a.To); err != nil {
					t.Fatalf("%s: %v", w, err)
				}
			}
			list = append(list, a)
		}
		run.Uses = append(run.Uses, trace.Uses{First: int32(len(run.Accesses)), Count: int32(len(list))})
		run.Accesses = append(run.Accesses, list...)
		for _, s := range run.Spans {
			if k := run.Kernel(s); k != nil && strings.Contains(words[0], run.NameOf(s)) {
				k.Uses = int32(len(run.Uses))
			}
		}
	}
}

// showFlow writes a line for each op with edges.
func showFlow(w *workload.Workload) string {
	var b strings.Builder
	for i, edges := range w.Flow {
		for _, e := range edges {
			fmt.Fprintf(&b, "%s %s of %s", w.Ops[i].Name, e.Kind, w.Ops[e.Op].Name)
			if e.Bytes > 0 {
				fmt.Fprintf(&b, ", %d", e.Bytes)
			}
			if e.Reused {
				b.WriteString(", reused")
			}
			if e.Evidence != workload.Exact {
				b.WriteString(", " + e.Evidence.String())
			}
			b.WriteString("\n")
		}
	}
	return strings.TrimSpace(b.String())
}

// TestFlowPasses: the steps to which one recorded step was applied share storages that
// were there before, and not what a step allocates.
func TestFlowPasses(t *testing.T) {
	run := drawing{text: "0 7 |A B A B |"}.run(t)
	recordUses(t, run, "A r1[0,8) w2.1[0,8)\nB r2.1[0,8) rw1[0,8)")
	for i, s := range run.Spans {
		if i >= 2 {
			k := run.Kernel(s)
			u := run.Uses[k.Uses-1]
			u.Pass = 1
			run.Uses = append(run.Uses, u)
			k.Uses = int32(len(run.Uses))
		}
	}
	w := must.Have(Workload(run, Options{}))(t)
	want := [][]workload.Edge{
		nil,
		{{Op: 0, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 8}},
		{{Op: 1, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 8}},
		{{Op: 1, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 8}, {Op: 2, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 8}},
	}
	if d := diff.Diff(want, w.Flow); d != "" {
		t.Error(d)
	}
}

// TestQueries asks a small graph.
func TestQueries(t *testing.T) {
	run := drawing{text: "0 7 |A BB C D |"}.run(t)
	recordUses(t, run, "A w1.1[0,8)\nB r1.1[0,8) w2[0,8)\nC r2[0,8) w1.2[0,8)\nD r2[0,8)")
	w := must.Have(Workload(run, Options{}))(t)
	all := consumersOf(w)
	for op, want := range [][]int32{{1}, {2, 3}, nil, nil} {
		if !slices.Equal(all[op], want) {
			t.Errorf("consumers of %d: %v", op, all[op])
		}
	}
	if got := producers(w, 3); !slices.Equal(got, []int32{1}) {
		t.Errorf("producers %v", got)
	}
	if got := w.Waits(2); len(got) != 1 || got[0].Op != 1 {
		t.Errorf("waits %v", got)
	}
	if w.EvidenceOf(0) != workload.Exact || exactShare(w) != 1 {
		t.Errorf("%v, %v exact", w.EvidenceOf(0), exactShare(w))
	}
	s := workload.Flows(w)
	if s.ChainNs != 4*column || s.ChainOps != 3 || s.Reused != 0 || s.StepNs != 8*column {
		t.Errorf("%+v", s)
	}
	if want := map[string]int{"read after write": 3}; !maps.Equal(s.Edges, want) {
		t.Errorf("%v", s.Edges)
	}
}

// Sizes that the user gives are those of the kernels, and make pairs of GEMMs.
func TestGivenSizes(t *testing.T) {
	list := must.Have(ParseCorrections(strings.NewReader("- {op: A, shape: 256 x 512 x 64, tile: 128x128}\n- {op: B, shape: 256×64×512, type: f32}"), "flow.yaml"))(t)
	w := must.Have(Workload(drawing{text: "0 7 |A B A B |"}.run(t), Options{Dataflow: list}))(t)
	if a, b := w.Ops[0].Shape.String(), w.Ops[1].Shape.String(); a != "gemm 256x512x64 bf16" || b != "gemm 256x64x512 f32" {
		t.Errorf("%s; %s", a, b)
	}
	if n := len(w.Pairs); n != 3 || w.Pairs[0].Direction != workload.ComputeThenCompute || w.Ops[0].Tiling.TileM != 128 {
		t.Errorf("%d pairs, %+v", n, w.Ops[0].Tiling)
	}
}

// FuzzCorrections: any text is a list or an error with a line.
func FuzzCorrections(f *testing.F) {
	f.Add("- {op: A#2, reads: B}\n- {op: A, independent: B}")
	f.Add("- &a [*a]")
	f.Add("- {op: A, shape: 4x4x4, groups: 2, tile: 8x8}")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseCorrections(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		for _, c := range list {
			if c.Op == "" || c.Line < 1 || c.Shape.M < 0 || c.Tile.TileM < 0 {
				t.Errorf("%+v", c)
			}
		}
	})
}

// consumersOf returns, by op, the later ops of its rank that read what it wrote, ascending.
func consumersOf(w *workload.Workload) [][]int32 {
	lists := make([][]int32, len(w.Ops))
	for op, edges := range w.Flow {
		for _, e := range edges {
			if e.Kind == workload.ReadAfterWrite {
				lists[e.Op] = append(lists[e.Op], int32(op))
			}
		}
	}
	return lists
}

// exactShare is the share of ops, 0 to 1, whose dependencies are Exact or Given.
func exactShare(w *workload.Workload) float64 {
	n := 0
	for i := range w.Ops {
		if w.EvidenceOf(int32(i)) >= workload.Exact {
			n++
		}
	}
	return float64(n) / float64(max(1, len(w.Ops)))
}

// producers returns the earlier ops of its rank whose data an op reads, ascending. The
// kernels of one operator read each other's.
func producers(w *workload.Workload, op int32) []int32 {
	var list []int32
	for _, e := range w.Edges(op) {
		if e.Kind == workload.ReadAfterWrite {
			list = append(list, e.Op)
		}
	}
	return list
}

// Dependencies between the nodes of a captured graph are exact, and between nodes there are no
// others: neither by the order of a stream nor by times.
//
//	stream 7 |eager  AAAA  BBBB      EEEE|   B after A, E after C and D, as the file states
//	stream 8 |             CCCCCCC       |   C after A
//	stream 9 |             DD            |   D states nothing: a root of the graph
func TestStatedDependencies(t *testing.T) {
	var events []string
	kernel := func(name string, stream, start, end, correlation, node int) {
		graph := ""
		if node > 0 {
			graph = fmt.Sprintf(`,"graph id":1,"graph node id":%d`, node)
		}
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d%s}}`,
			name, stream, start, end-start, stream, correlation, graph))
	}
	call := func(name string, start, correlation int) {
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":%q,"pid":9,"tid":9,"ts":%d,"dur":1,"args":{"correlation":%d}}`, name, start, correlation))
	}
	call("cudaLaunchKernel", 0, 1)
	call("cudaGraphLaunch", 2, 2)
	kernel("eager", 7, 5, 10, 1, 0)
	kernel("A", 7, 12, 20, 2, 1)
	kernel("B", 7, 21, 30, 2, 2)
	kernel("C", 8, 21, 40, 2, 3)
	kernel("D", 9, 20, 25, 2, 4)
	kernel("E", 7, 41, 50, 2, 5)
	for i, a := range [][4]int{{7, 20, 7, 21}, {7, 20, 8, 21}, {8, 40, 7, 41}, {9, 25, 7, 41}} {
		events = append(events, fmt.Sprintf(`{"ph":"s","id":%d,"pid":0,"tid":%d,"ts":%d,"cat":"ac2g"},{"ph":"f","id":%d,"pid":0,"tid":%d,"ts":%d,"cat":"ac2g"}`,
			1<<40+i, a[0], a[1], 1<<40+i, a[2], a[3]))
	}
	run := must.Have(chrome.Read(strings.NewReader(`{"traceEvents":[`+strings.Join(events, ",")+`]}`), chrome.Options{}))(t)
	w := must.Have(Workload(run, Options{}))(t)
	checkInvariants(t, w)
	var got []string
	for i := range w.Ops {
		line := w.Ops[i].Name + " " + w.EvidenceOf(int32(i)).String()
		for _, e := range w.Edges(int32(i)) {
			line += fmt.Sprintf(", %s %s %s", w.Ops[e.Op].Name, e.Kind, e.Evidence)
		}
		got = append(got, line)
	}
	want := strings.Join([]string{
		"eager guessed",
		"A guessed, eager stream order only guessed",
		"D exact",
		"B exact, A stream order only exact",
		"C exact, A read after write exact",
		"E exact, D read after write exact, C read after write exact",
	}, "\n")
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, d := range w.Ops[5].After {
		if w.Ops[d.Op].Name != "B" && d.Why != workload.Stated {
			t.Errorf("E waits for %s by %s", w.Ops[d.Op].Name, d.Why)
		}
	}
}
