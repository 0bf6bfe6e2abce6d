package chrome

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Levels of the allocator's memory on a device belong to the rank of their thread, in order of time;
// those of the host are left out.
func TestMemoryRecords(t *testing.T) {
	level := func(ts, device, bytes string) string {
		return `{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":7,"tid":7,"ts":` + ts + `,"args":{"Total Allocated":` + bytes + `,"Device Type":` + device + `,"Device Id":0}},`
	}
	in := `{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H200"}],"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[` +
		`{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":7,"ts":100,"dur":50,"args":{"External id":1}},` +
		level("120", "1", "4096") + level("110", "1", "1024") + level("130", "0", "99") +
		`{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":200,"dur":10,"args":{"External id":1,"device":0,"stream":7,"correlation":1}}]}`
	run := must.Have(Read(strings.NewReader(in), Options{File: "a.json"}))(t)
	must.Do(t, trace.Validate(run))
	want := []trace.MemoryLevel{{At: 10_000, Bytes: 1024}, {At: 20_000, Bytes: 4096}}
	if diff := cmp.Diff(want, run.Ranks[0].Memory); diff != "" {
		t.Error(diff)
	}
}
