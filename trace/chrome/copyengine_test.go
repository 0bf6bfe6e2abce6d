package chrome

import (
	"bytes"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A copy that a collective issued itself goes to a peer; one of an operator within the
// collective's is a copy within the device.
func TestCopyEngineCollective(t *testing.T) {
	const text = `{"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":0,"dur":50,"args":{"External id":1,"Collective name":"_allgather_base","In msg nelems":64,"Out msg nelems":256,"Group size":4,"dtype":"BFloat16","Process Group Name":"0"}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyBatchAsync","pid":1,"tid":1,"ts":5,"dur":5,"args":{"correlation":7,"External id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::copy_","pid":1,"tid":1,"ts":20,"dur":20,"args":{"External id":2}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":25,"dur":5,"args":{"correlation":8,"External id":2}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":22,"ts":100,"dur":30,"args":{"correlation":7,"External id":1,"device":0,"stream":22,"bytes":128}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy PtoP (Device -> Device)","pid":0,"tid":22,"ts":135,"dur":30,"args":{"correlation":7,"External id":1,"device":0,"stream":22,"bytes":128}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":7,"ts":200,"dur":30,"args":{"correlation":8,"External id":2,"device":0,"stream":7,"bytes":128}}
]}`
	run := must.Have(Read(strings.NewReader(text), Options{File: "rank0.json"}))(t)
	var dirs []trace.CopyDir
	for _, s := range run.Spans {
		if c := run.Copy(s); c != nil {
			dirs = append(dirs, c.Dir)
		}
	}
	if len(dirs) != 1 || dirs[0] != trace.DeviceToDevice {
		t.Errorf("copies %v, want that of the operator", dirs)
	}
	if len(run.Collectives) != 1 || len(run.Comms) != 1 || !run.Comms[0].Engines {
		t.Fatalf("%d collectives: %+v", len(run.Collectives), run.Comms)
	}
	if c := &run.Collectives[0]; c.Op != trace.AllGather || c.Bytes != 512 || c.Members[0].End-c.Members[0].Start != 65_000 {
		t.Errorf("%+v: want the gather from its first copy to its last", c)
	}
}

// A gather that the program makes of copies between barriers is written as the profiler recorded it, and read as the same gather.
func TestCopiesBetweenBarriers(t *testing.T) {
	const barrier = `"name":"c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)","pid":0,"tid":34`
	const text = `{"distributedInfo":{"backend":"nccl","rank":0,"world_size":2},"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::copy_","pid":1,"tid":1,"ts":0,"dur":9,"args":{"External id":3}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":2,"dur":5,"args":{"correlation":8,"External id":3}},
{"ph":"X","cat":"kernel",` + barrier + `,"ts":100,"dur":4,"args":{"stream":34,"correlation":7,"grid":[1,1,1],"block":[32,1,1]}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy PtoP (Device -> Device)","pid":0,"tid":34,"ts":106,"dur":60,"args":{"stream":34,"correlation":8,"External id":3,"bytes":4096}},
{"ph":"X","cat":"kernel",` + barrier + `,"ts":168,"dur":4,"args":{"stream":34,"correlation":9,"grid":[1,1,1],"block":[32,1,1]}}
]}`
	run := must.Have(Read(strings.NewReader(text), Options{File: "rank0.json"}))(t)
	var file bytes.Buffer
	must.Do(t, WriteRank(&file, run, 0, nil))
	again := must.Have(Read(&file, Options{File: "rank0.json"}))(t)
	for _, run := range []*trace.Run{run, again} {
		if len(run.Collectives) != 1 {
			t.Fatalf("%d collectives", len(run.Collectives))
		}
		if c := &run.Collectives[0]; c.Op != trace.AllGather || c.Bytes != 8192 || c.Size != 2 || c.Members[0].End-c.Members[0].Start != 72_000 {
			t.Errorf("%+v: want a gather of 8192 bytes", c)
		}
	}
}
