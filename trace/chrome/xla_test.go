package chrome

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// TestXLA: what JAX's profiler writes as JSON: processes are GPUs, threads their streams, and kernels name instructions of the
// program, which the file does not have.
func TestXLA(t *testing.T) {
	events := []string{
		`{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}}`, `{"ph":"M","pid":1,"tid":24,"name":"thread_name","args":{"name":"Stream #24(Compute,Memset)"}}`,
		`{"ph":"M","pid":2,"name":"process_name","args":{"name":"/device:GPU:1"}}`, `{"ph":"M","pid":2,"tid":42,"name":"thread_name","args":{"name":"Stream #42(Compute)"}}`,
		`{"ph":"M","pid":2,"tid":43,"name":"thread_name","args":{"name":"Steps"}}`,
		`{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}}`, `{"ph":"M","pid":701,"tid":9,"name":"thread_name","args":{"name":"python3"}}`,
		`{"ph":"X","pid":2,"tid":43,"ts":0,"dur":900,"name":"0"}`,
	}
	for device := range 2 {
		host := fmt.Sprintf(`{"ph":"X","pid":701,"tid":%d,`, 10+device)
		for step := range 2 {
			at, c := 1000*step, 10*device+100*step
			gpu := fmt.Sprintf(`{"ph":"X","pid":%d,"tid":%d,`, 1+device, 24+18*device)
			events = append(
				events,
				host+fmt.Sprintf(`"ts":%d,"dur":80,"name":"Execute","args":{"global_device_id":"%d","name":"jit_step"}}`, at+1, device),
				host+fmt.Sprintf(`"ts":%d,"dur":2,"name":"AcquireGpuClique","args":{"clique_key":"devices=2:[0,1]; local_participants=2"}}`, at+2),
				host+fmt.Sprintf(`"ts":%d,"dur":2,"name":"loop_fusion","args":{"correlation_id":"%d","device_id":"%d"}}`, at+5, c+1, device),
				host+fmt.Sprintf(`"ts":%d,"dur":2,"name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL","args":{"correlation_id":"%d","device_id":"%d"}}`, at+8, c+2, device),
				gpu+fmt.Sprintf(`"ts":%d,"dur":50,"name":"loop_fusion","args":{"correlation_id":"%d","hlo_module":"jit_step","hlo_op":"loop_fusion","kernel_details":"regs:16 static_shared:0 dynamic_shared:64 grid:32,2,1 block:128,1,1 occ_pct:100"}}`, at+100, c+1),
				gpu+fmt.Sprintf(`"ts":%d,"dur":30,"name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)","args":{"correlation_id":"%d","hlo_module":"jit_step","hlo_op":"all-reduce.5","kernel_details":"grid:24,1,1 block:512,1,1"}}`, at+150, c+2),
				gpu+fmt.Sprintf(`"ts":%d,"dur":3,"name":"all_reduce_67_0_fusion_1","args":{"hlo_module":"jit_step","hlo_op":"all-reduce.67.0-fusion.1","kernel_details":"grid:1,1,1 block:32,1,1"}}`, at+190),
				gpu+fmt.Sprintf(`"ts":%d,"dur":1,"name":"Memset 3","args":{"hlo_op":"custom-call.1","Memset_details":"kind:device num_bytes:4 async:1"}}`, at+195),
				gpu+fmt.Sprintf(`"ts":%d,"dur":2,"name":"MemcpyD2D","args":{"memcpy_details":"kind_src:device kind_dst:device size:4096 dest:0 async:1"}}`, at+197),
			)
		}
	}
	run, err := Read(strings.NewReader(`{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[`+strings.Join(events, ",")+`,{}]}`), Options{File: "host.trace.json"})
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Validate(run); err != nil {
		t.Fatal(err)
	}
	if len(run.Ranks) != 2 || run.Ranks[1].ID != 1 || run.Ranks[1].World != 2 || run.Ranks[0].Compiler != trace.XLA {
		t.Errorf("ranks %+v", run.Ranks)
	}
	var got []string
	for _, s := range run.Spans {
		if run.RankOf(s) != 1 || !s.Kind.OnDevice() && !strings.Contains(run.NameOf(s), "#") || s.Start > 500_000 {
			continue
		}
		name, _, _ := strings.Cut(run.NameOf(s), "(")
		text := fmt.Sprintf("%s %s", name, s.Kind)
		if k := run.Kernel(s); k != nil {
			text += fmt.Sprint(" ", run.Setup(k).Grid, k.Launch != trace.None)
		}
		if c := run.Comm(s); c != nil {
			text += fmt.Sprint(" ", c.Op, run.Groups[c.Group].Ranks)
		}
		if c := run.Copy(s); c != nil {
			text += fmt.Sprint(" ", c.Dir, c.Bytes)
		}
		got = append(got, text)
	}
	want := `jit_step#0 marker
loop_fusion compute [32 2 1] true
ncclDevKernel_AllReduce_Sum_bf16_RING_LL collective [24 1 1] true all_reduce [0 1]
all_reduce_67_0_fusion_1 collective [1 1 1] false all_reduce [0 1]
Memset 3 copy fill 4
MemcpyD2D copy device to device 4096`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if n := run.Ledger.Count(trace.Skipped); n != 1 {
		t.Errorf("%v", run.Ledger)
	}
	_, err = Read(strings.NewReader(`[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"k"}]`), Options{File: "x.json"})
	if err == nil || !strings.Contains(err.Error(), "no stream of a GPU has an event") {
		t.Error(err)
	}
}
