package chrome

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

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
	x, err := ReadExecution(strings.NewReader(execution), "et.json", defaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Read(strings.NewReader(profile), Options{File: "p.json", Companion: func(int, func(int64) bool) *assemble.Execution { return x }})
	if err != nil {
		t.Fatal(err)
	}
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
