package chrome

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestReadExecution(t *testing.T) {
	const text = `{"schema":"1.0.2-chakra.0.0.4","pid":42,"nodes":[
{"id":9,"name":"later","inputs":{"values":[NaN],"shapes":[[[2,3]],[[1],[4]],[]],"types":["GenericList[Tensor(float)]","GenericList[Tensor(long),Tensor(int)]","Int"]},"attrs":[{"name":"tid","type":"uint64","value":1},{"name":"rf_id","type":"uint64","value":77}]},
{"id":3,"name":"sooner\u0021","input_shapes":[[5]],"input_types":["Tensor(c10::Half)"],"rf_id":6},
{"id":4,"name":"odd","inputs":7,"attrs":{"rf_id":1}}],"finish_ts":1}`
	x := must.Have(ReadExecution(strings.NewReader(text), "d/pytorch_et_3.json", defaultLimit))(t)
	want := &assemble.Execution{File: "d/pytorch_et_3.json", Rank: 3, Process: 42, Operators: []assemble.Recorded{
		{ID: 3, Record: 6, Operator: trace.Operator{Name: "sooner!", Dims: [][]int64{{5}}, Types: []string{"c10::Half"}}},
		{ID: 4, Operator: trace.Operator{Name: "odd"}},
		{ID: 9, Record: 77, Operator: trace.Operator{Name: "later", Dims: [][]int64{{2, 3}, nil, nil}, Lists: [][][]int64{{{1}, {4}}}, Types: []string{"float", "long", "Int"}}},
	}}
	if d := cmp.Diff(want, x, cmpopts.IgnoreUnexported(assemble.Execution{}, assemble.Recorded{})); d != "" {
		t.Error(d)
	}
}

func TestExecutionRank(t *testing.T) {
	for file, want := range map[string]int{
		"rank3_et.json": 3, "7/rank-2.et.json.gz": 2, "et_5.json": 5, "5_et.json": 5, "model.12.et": 12, "host_4.json": 4,
		"chakra_2024_1.et": 1, "et.json": trace.None, "9/et.json": trace.None, "pytorch_et_12345678.json": trace.None,
	} {
		if got := assemble.NewExecution(file).Rank; got != want {
			t.Errorf("%s: rank %d", file, got)
		}
	}
}

// FuzzReadExecution: any input yields a trace or an error with a position.
func FuzzReadExecution(f *testing.F) {
	f.Add(`{"nodes":[{"id":1,"attrs":[{"name":"rf_id","value":"x"},{},3]}]}`)
	f.Add(`{"nodes":[{"id":1,"attrs":[`)
	f.Add(`{"nodes":{"id":1}}`)
	f.Add(`{"pid":99999999999999999999,"nodes":[,,{"inputs":{"shapes":"[[","types":[1]}},]}`)
	f.Add(`{"nodes":[{"id":5,"ctrl_deps":6,"name":"aten::add_","inputs":{"values":[[1,2,0,4,2,"cuda:0"],[[3,2,1,4,2,"cuda:0"]]],"shapes":[[4]],"strides":[[1]]},"outputs":{"values":[[1,2,0,4,2,"cuda:0"]]},"attrs":[{"name":"op_schema","value":"aten::add_(Tensor(a!) self, Tensor[] o) -> Tensor(a!)"}]},{"id":6,"ctrl_deps":5}]}`)
	f.Add(`{"nodes":[{"id":1,"ctrl_deps":1,"inputs":{"values":[[1,2,3,4,5,"cuda:0"]]},"attrs":[{"name":"kernel_backend","value":"triton"}]},{"id":1,"outputs":{"values":[[1,2,3,4,5,"cuda:0"]]}}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		x, err := ReadExecution(strings.NewReader(s), "f", 1<<20)
		for i := 0; err == nil && i < len(x.Operators); i++ {
			for _, a := range x.Accesses(x.Owner(int32(i))) {
				if a.From < 0 || a.To <= a.From || a.Life < 0 {
					t.Errorf("%+v", a)
				}
			}
		}
		var syntax *trace.SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > int64(len(s))) {
			t.Errorf("%v", err)
		}
	})
}

// TestGroupedCollectives: the kernel of a group has the buffers of all collectives in
// it, one that was launched in its own has its own.
func TestGroupedCollectives(t *testing.T) {
	const execution = `{"nodes":[
{"id":2,"name":"record_param_comms","inputs":{"values":[[1,2,0,4,2,"cuda:0"],"send"]},"outputs":{"values":[[1,2,0,4,2,"cuda:0"]]},"attrs":[{"name":"rf_id","value":1}]},
{"id":3,"name":"record_param_comms","inputs":{"values":[[3,4,0,4,2,"cuda:0"],"recv"]},"outputs":{"values":[[3,4,0,4,2,"cuda:0"]]},"attrs":[{"name":"rf_id","value":2}]},
{"id":4,"name":"record_param_comms","inputs":{"values":["wait"]},"attrs":[{"name":"rf_id","value":3}]},
{"id":5,"name":"record_param_comms","inputs":{"values":[[5,6,0,4,2,"cuda:0"],"allreduce"]},"outputs":{"values":[[5,6,0,4,2,"cuda:0"]]},"attrs":[{"name":"rf_id","value":4}]}]}`
	const profile = `{"traceEvents":[
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":10,"dur":5,"args":{"External id":11,"Record function id":1}},
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":20,"dur":5,"args":{"External id":12,"Record function id":2}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":30,"dur":5,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":40,"dur":5,"args":{"correlation":1,"stream":7}},
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":50,"dur":5,"args":{"External id":13,"Record function id":3}},
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":60,"dur":9,"args":{"External id":14,"Record function id":4}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":62,"dur":5,"args":{"correlation":2,"External id":14}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":70,"dur":5,"args":{"correlation":2,"External id":14,"stream":7}}]}`
	x := must.Have(ReadExecution(strings.NewReader(execution), "et.json", defaultLimit))(t)
	run := must.Have(Read(strings.NewReader(profile), Options{File: "p.json", Companion: func(int, func(int64) bool) *assemble.Execution { return x }}))(t)
	var got [][]trace.Access
	for _, s := range run.Spans {
		if s.Kind == trace.Collective {
			got = append(got, run.AccessesOf(run.UsesOf(s)))
		}
	}
	access := func(storage int32, read, write bool) trace.Access {
		return trace.Access{Storage: storage, To: 8, Read: read, Write: write}
	}
	want := [][]trace.Access{{access(2, true, false), access(4, false, true)}, {access(6, true, true)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
