package format

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// marked is a Kineto file with two steps of some products, each with a kernel of the
// given name.
func marked(rank int, kernels ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"distributedInfo":{"rank":%d,"world_size":2},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[`, rank)
	n := 0
	for step := range 2 {
		at := 10_000 * (step + 1)
		fmt.Fprintf(&b, `{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":70,"tid":70,"ts":%d,"dur":9000,"args":{}},`, step, at-5)
		for i, kernel := range kernels {
			n++
			t := at + 100*i
			fmt.Fprintf(&b, `
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":70,"tid":70,"ts":%d,"dur":50,"args":{"External id":%d,"Record function id":0}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":70,"tid":70,"ts":%d,"dur":5,"args":{"correlation":%d,"External id":%d}},
{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":7,"ts":%d,"dur":20,"args":{"correlation":%d,"External id":%d,"stream":7,"device":0}},`,
				t, 900+n, t+10, n, 900+n, kernel, t+40, n, 900+n)
		}
	}
	return b.String() + `{}]}`
}

// usesOf lists, by rank and kernel, the number of accesses and the pass.
func usesOf(run *trace.Run) string {
	var words []string
	for _, s := range run.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		word := fmt.Sprint(run.Ranks[run.RankOf(s)].ID, ":-")
		if n := run.UsesOf(s); n != 0 {
			word = fmt.Sprintf("%d:%d.%d", run.Ranks[run.RankOf(s)].ID, len(run.AccessesOf(n)), run.Uses[n-1].Pass)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestExecutionTrace finds the execution trace beside a profile, or in a folder below,
// and never fails because of one below.
func TestExecutionTrace(t *testing.T) {
	profile, beside := shapeless(0, recordID, 11, 12), recorded(70, 11, 12)
	beside = strings.ReplaceAll(beside, `"name": "aten::mm"`, `"name": "aten::mm", "op_schema": "aten::mm(Tensor self, Tensor(a!) x) -> ()"`)
	step := marked(0, "gemm", "gemm")
	for _, c := range []struct {
		name  string
		files map[string]string
		path  string
		want  string
		note  string
	}{
		{"beside it", map[string]string{"rank0.json": profile, "rank0.et.json": beside}, "", "0:1.0 0:1.0", ""},
		{"beside a file", map[string]string{"rank0.json": profile, "rank0.et.json": beside}, "rank0.json", "0:1.0 0:1.0", ""},
		{"of another run", map[string]string{"rank0.json": profile, "et.json": recorded(70, 1, 2, 3)}, "", "0:- 0:-", "so it is of another run"},
		{
			"below",
			map[string]string{"rank0.json": step, "et/rank0.json": profile, "et/rank0.et.json": beside},
			"",
			"0:1.0 0:1.0 0:1.1 0:1.1", "storages of 4 of 4 operations of rank 0 taken from rank 0",
		},
		{
			"below the folder of a file",
			map[string]string{"rank0.json": step, "et/rank0.json": profile, "et/rank0.et.json": beside},
			"rank0.json",
			"0:1.0 0:1.0 0:1.1 0:1.1", "",
		},
		{"of one step of several", map[string]string{
			"rank0.json":    strings.NewReplacer(`"External id":903,"Record function id":0`, `"External id":903,"Record function id":11`, `"External id":904,"Record function id":0`, `"External id":904,"Record function id":12`).Replace(marked(0, "gemm", "gemm")),
			"rank0.et.json": beside,
		}, "", "0:1.1 0:1.1 0:1.0 0:1.0", "storages of 2 of 2 operations of rank 0 taken from rank 0"},
		{"the folder itself", map[string]string{"rank0.json": step, "et/rank0.json": profile, "et/rank0.et.json": beside}, "et", "0:1.0 0:1.0", ""},
		{
			"of one rank",
			map[string]string{"rank0.json": marked(0, "gemm", "gemm"), "rank1.json": marked(1, "gemm", "gemm"), "et/rank0.json": profile, "et/rank0.et.json": beside},
			"",
			"0:1.0 1:1.0 0:1.0 1:1.0 0:1.1 1:1.1 0:1.1 1:1.1", "storages of 4 of 4 operations of rank 1 taken from rank 0",
		},
		{
			"of another program",
			map[string]string{"rank0.json": marked(0, "a", "b"), "et/rank0.json": profile, "et/rank0.et.json": beside},
			"",
			"0:- 0:- 0:- 0:-", "execution trace ignored for rank 0: 0 of its 4 operations are like those of this trace",
		},
		{
			"damaged",
			map[string]string{"rank0.json": step, "et/rank0.json": profile, "et/rank0.et.json": beside[:len(beside)-80]},
			"",
			"0:- 0:- 0:- 0:-", "execution trace ignored: ",
		},
		{"damaged, of one rank", map[string]string{
			"rank0.json": marked(0, "gemm", "gemm"), "rank1.json": marked(1, "gemm", "gemm"), "et/rank0.json": profile, "et/rank0.et.json": beside, "et/rank1.et.json": beside[:99],
		}, "", "0:1.0 1:1.0 0:1.0 1:1.0 0:1.1 1:1.1 0:1.1 1:1.1", "rank1.et.json:byte 99"},
		{"without its profile", map[string]string{"rank0.json": step, "et/rank0.et.json": beside}, "", "0:- 0:- 0:- 0:-", "execution trace ignored: "},
		{"no execution trace below", map[string]string{"rank0.json": step, "et/rank0.json": step}, "", "0:- 0:- 0:- 0:-", "it has no execution trace of its profile"},
		{"a pattern", map[string]string{"rank0.json": step, "et/rank0.json": profile, "et/rank0.et.json": beside}, "rank*.json", "0:1.0 0:1.0 0:1.1 0:1.1", ""},
		{
			"an archive",
			map[string]string{"all.zip": archivedAs(t, map[string]string{"d/rank0.json": step, "d/et/rank0.json": profile, "d/et/rank0.et.json": beside})},
			"all.zip",
			"0:1.0 0:1.0 0:1.1 0:1.1", "",
		},
		{"an archive of the folder itself", map[string]string{"all.zip": archivedAs(t, map[string]string{"et/rank0.json": profile, "et/rank0.et.json": beside})}, "all.zip", "0:1.0 0:1.0", ""},
		{"an empty folder", map[string]string{"rank0.json": step, "et/readme": "x"}, "", "0:- 0:- 0:- 0:-", "folder ignored"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := must.Have(Open(filepath.Join(folder(t, c.files), c.path), Options{}))(t)
			if got := usesOf(run); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if err := trace.Validate(run); err != nil {
				t.Error(err)
			}
			if notes := fmt.Sprint(run.Ledger); !strings.Contains(notes, c.note) {
				t.Errorf("no %q in %s", c.note, notes)
			}
		})
	}
}
