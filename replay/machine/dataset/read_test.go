package dataset

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const goodRow = `{"id": "c1", "machine": "h200x4", "world": 4, "workload": {"kind": "collective", "collective": "all_reduce", "bytes": 4096}, "strategy": "isolated", "params": {"channels": 4}, "us": 28.5, "min_us": 25, "max_us": 57}`

func TestReadRows(t *testing.T) {
	rows := must.Have(readRows(strings.NewReader(goodRow+"\n\n  \n"+strings.Replace(goodRow, "c1", "c2", 1)), "a.jsonl"))(t)
	if len(rows) != 2 || rows[1].ID != "c2" || rows[1].Line != 4 || rows[1].File != "a.jsonl" {
		t.Fatalf("got %+v", rows)
	}
	r := rows[0]
	if r.World != 4 || r.Workload.op() != trace.AllReduce || r.Workload.Bytes != 4096 || r.Params.Channels != 4 || r.Us != 28.5 {
		t.Errorf("got %+v", r)
	}
}

func TestReadRowsErrors(t *testing.T) {
	edit := func(old, with string) string {
		if !strings.Contains(goodRow, old) {
			t.Fatalf("%q is not in the row", old)
		}
		return strings.Replace(goodRow, old, with, 1)
	}
	for _, c := range []struct{ text, want string }{
		{edit(`"id": "c1"`, `"id": ""`), "a.jsonl:line 1: id is missing"},
		{edit(`"kind": "collective", `, ``), "a.jsonl:line 1: workload.kind is missing"},
		{edit(`"isolated"`, `""`), "a.jsonl:line 1: strategy is missing"},
		{edit(`"us": 28.5`, `"us": 0`), "a.jsonl:line 1: us: 0 is no time"},
		{edit(`"us": 28.5`, `"us": -3`), "a.jsonl:line 1: us: -3 is no time"},
		{edit(`"world": 4`, `"world": 0`), "a.jsonl:line 1: world: 0 ranks are not between 1 and 4096"},
		{edit(`"world": 4`, `"world": 9223372036854775807`), "a.jsonl:line 1: world: 9223372036854775807 ranks are not between 1 and 4096"},
		{edit(`"us": 28.5`, `"us": 1e308`), "a.jsonl:line 1: us: 1e+308 is not between 0 and 70368744177664"},
		{edit(`"min_us": 25`, `"min_us": -1`), "a.jsonl:line 1: min_us: -1 is not between 0 and 70368744177664"},
		{edit(`"channels": 4`, `"channels": 4, "every_us": [1, 1e300]`), "a.jsonl:line 1: params.every_us: 1e+300 is not between 0 and 70368744177664"},
		{edit(`"channels": 4`, `"channels": 9223372036854775807`), "a.jsonl:line 1: params.channels: 9.223372036854776e+18 is not between 0 and 70368744177664"},
		{edit(`all_reduce`, `all_seduce`), `a.jsonl:line 1: workload.collective: "all_seduce" is unknown`},
		{edit(`"channels": 4`, `"tokens": [4, 64]`), `a.jsonl:line 1: params.tokens: a step has two numbers from 1 to 1048576: captured tokens, measured ones`},
		{edit(`"us": 28.5`, `"us": 28.5, "captured_us": 3`), `a.jsonl:line 1: captured_us, captured_variant and measured_variant are of steps (workload.kind "step")`},
		{"\n" + goodRow + "\n" + goodRow, `a.jsonl:line 3: id "c1" is on line 2 already (give every row an id of its own)`},
		{goodRow + "\n{", "a.jsonl:line 2: no JSON object (each line is one JSON object: id, machine, world, workload, strategy, params, us, min_us, max_us)"},
		{edit(`"channels": 4`, `"chanels": 4`), `a.jsonl:line 1: unknown key "params.chanels" (see the schema in samples/measurements/README.md)`},
		{edit(`"channels": 4`, `"Channels": 4`), `a.jsonl:line 1: unknown key "params.Channels" (see the schema in samples/measurements/README.md)`},
		{edit(`"us": 28.5`, `"us": 28.5, "us": 3`), `a.jsonl:line 1: key "us" stands twice`},
		{`{"id": 3}`, "a.jsonl:line 1: id: not a string (each line is one JSON object: id, machine, world, workload, strategy, params, us, min_us, max_us)"},
	} {
		_, err := readRows(strings.NewReader(c.text), "a.jsonl")
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// A bad line does not hide the good ones.
func TestReadRowsKeepsGoodRows(t *testing.T) {
	rows, err := readRows(strings.NewReader("{\n"+goodRow+"\nnull"), "a.jsonl")
	if len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 2 {
		t.Errorf("%d errors: %v", n, err)
	}
}

func FuzzReadRows(f *testing.F) {
	f.Add(goodRow)
	f.Add("null\n{}\n[")
	f.Fuzz(func(t *testing.T, s string) {
		lines := int64(strings.Count(s, "\n") + 2)
		_, err := readRows(strings.NewReader(s), "f")
		var se *trace.SyntaxError
		if errors.As(err, &se) && (se.Pos < 1 || se.Pos > lines) {
			t.Errorf("line %d of %d", se.Pos, lines)
		}
	})
}

func TestIDList(t *testing.T) {
	rows := func(lines ...int) []Row {
		var list []Row
		for _, n := range lines {
			list = append(list, Row{ID: "c" + string(rune('0'+n)), Line: n})
		}
		return list
	}
	for _, c := range []struct {
		rows []Row
		want string
	}{
		{rows(1), "c1"},
		{rows(1, 2), "c1, c2"},
		{rows(1, 2, 3, 5), "c1 to c3, c5 (4 rows)"},
	} {
		if got := idList(c.rows); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestWhere(t *testing.T) {
	c := &calibration{rows: []Row{
		{ID: "a", Strategy: "isolated", Workload: Workload{Kind: "gap", What: "hops"}, Params: Params{Benchmark: Benchmark{Flags: 2}, State: State{Queued: true}}},
		{ID: "b", Strategy: "isolated", Workload: Workload{Kind: "gap", What: "same", Bytes: 16 << 20}},
		{ID: "c", Strategy: "bulk", Workload: Workload{Kind: "gap", Bytes: 1}, Params: Params{Benchmark: Benchmark{Flags: 64}}},
	}}
	for selection, want := range map[string]string{
		"kind gap": "ab", "kind gap; of all kinds": "ab", "kind sum": "", "kind sum or gap, what same": "b", "kind gap, with queued": "a", "kind gap, without flags": "b",
		"kind gap, strategy bulk": "c", "bytes from 16 MiB": "b", "bytes to 15 MiB": "a", "flags 0 or from 3": "b", "flags 2": "a", "strategy isolated or bulk, flags from 2": "ac",
	} {
		got := ""
		for _, r := range c.where(selection) {
			got += r.ID
		}
		if got != want {
			t.Errorf("%s: %q, want %q", selection, got, want)
		}
	}
}

// A census gives the groups back; a fill order that is another one is a residual.
func TestReadGroups(t *testing.T) {
	row := Row{
		ID: "x", World: 1, Strategy: "isolated", Us: 1, Workload: Workload{Kind: "cu_groups"},
		// Two lone pairs, 4-5 and 6-7, and a group of four.
		Params: Params{Benchmark: Benchmark{Groups: [][]int{{0, 1, 2, 3}, {4, 5}, {6, 7}}, FillOrder: []int{4, 6, 5, 7, 0, 2, 1, 3}}},
	}
	base := machinetest.Load(t, "h200")
	base.GPU.CUs.Value = 8
	for residual, order := range map[float64][]int{0: {4, 6, 5, 7, 0, 2, 1, 3}, 0.25: {0, 6, 5, 7, 4, 2, 1, 3}} {
		row.Params.FillOrder = order
		c := &calibration{rows: []Row{row}, m: base}
		f := readGroups(c)
		if f.residual != residual || !slices.EqualFunc(f.table, [][]float64{{2, 2}, {4, 1}}, slices.Equal) {
			t.Errorf("%v: %v, residual %v", order, f.table, f.residual)
		}
	}
}

// A tile's cluster is the one most often named; tiles without a name keep theirs.
func TestReadClusters(t *testing.T) {
	c := &calibration{m: machine.Machine{Matmul: machine.Matmul{Clusters: machine.Table{Rows: [][]float64{{128, 128, 1, 2}, {192, 192, 1, 1}}}}}}
	for _, name := range []string{
		"nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN", "nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_TNN", "nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NTN",
		"nvjet_sm90_tst_160x128_64x5_2x4_h_bz_NNN", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn", "",
	} {
		c.rows = append(c.rows, Row{Strategy: "isolated", Workload: Workload{Kind: "gemm"}, Params: Params{Benchmark: Benchmark{KernelName: name}}})
	}
	f := readClusters(c)
	got := tidy(f.table, []machine.Dimension{machine.Count, machine.Count, machine.Count, machine.Count})
	want := [][]float64{{128, 128, 1, 2}, {160, 128, 2, 4}, {192, 192, 2, 1}}
	if !slices.EqualFunc(got, want, slices.Equal) || len(f.rows) != 4 {
		t.Errorf("%v from %d rows, want %v", got, len(f.rows), want)
	}
}
