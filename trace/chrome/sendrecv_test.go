package chrome

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// NCCL compiles kernels that add nothing for bytes: the operation and the type are those of the range around the launch.
func TestRangesNameSendRecv(t *testing.T) {
	for _, c := range []struct {
		within, dims, dtype, kernel string
		op                          trace.CollectiveOp
		bytes                       int64
	}{
		{"nccl:all_to_all", "[8,1024,8816]", "float", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", trace.AllToAll, 8 * 1024 * 8816 * 4},
		{"nccl:all_reduce", "[19618307]", "float", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", trace.AllReduce, 19618307 * 4},
		{"nccl:_all_gather_base", "[384]", "long", "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)", trace.AllGather, 384 * 8},
		{"nccl:all_reduce", "[64]", "", "ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*)", trace.AllReduce, 128},
		{"nccl:send 0->1", "[64]", "int", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", trace.SendRecv, 256},
		{"aten::linear", "[64]", "int", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", trace.SendRecv, 0},
	} {
		run, err := Read(strings.NewReader(fmt.Sprintf(`{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":%q,"pid":1,"tid":1,"ts":1,"dur":40,"args":{"External id":2,"Input Dims":[%s],"Input type":[%q]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":4,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":21,"ts":20,"dur":90,"args":{"External id":7,"correlation":7,"device":0,"stream":21}}]}`,
			c.within, c.dims, c.dtype, c.kernel)), Options{File: "nccl.json"})
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Comms[0]; got.Op != c.op || got.In != c.bytes {
			t.Errorf("%s within %s: %s of %d B, want %s of %d", c.kernel, c.within, got.Op, got.In, c.op, c.bytes)
		}
	}
}

// An all-to-all without sizes of its parts has equal ones.
func TestEvenParts(t *testing.T) {
	for sizes, want := range map[string]bool{`"In split size":"[]","Out split size":"[]",`: true, `"In split size":"[0, 64]","Out split size":"[0, 64]",`: false, "": false} {
		run, err := Read(strings.NewReader(`{"traceEvents":[{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":21,"ts":20,"dur":90,
"args":{`+sizes+`"Collective name":"all_to_allv","In msg nelems":64,"Out msg nelems":64,"dtype":"BFloat16","Group size":2,"device":0,"stream":21}}]}`), Options{File: "nccl.json"})
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Comms[0]; got.Op != trace.AllToAll || got.Even != want {
			t.Errorf("%s: %+v", sizes, got)
		}
	}
}

// What an all-to-all keeps for its own rank is not sent; parts of rows, and what cannot be the parts, are told apart.
func TestSentParts(t *testing.T) {
	for parts, want := range map[string]int64{"[0, 64]": 128, "[16, 48]": 96, "[2, 6]": 96, "[64, 0]": 0, "[0, 63]": 0, "[0, 64, 0]": 0, "[0, -64]": 0, "[0, ...]": 0} {
		run, err := Read(strings.NewReader(`{"distributedInfo":{"backend":"nccl","rank":0,"world_size":2},"traceEvents":[{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":21,"ts":20,"dur":90,
"args":{"In split size":"`+parts+`","Out split size":"`+parts+`","Collective name":"all_to_allv","In msg nelems":64,"Out msg nelems":64,"dtype":"BFloat16","Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","device":0,"stream":21}}]}`), Options{File: "nccl.json"})
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Comms[0].Sent; got != want {
			t.Errorf("%s: %d bytes, want %d", parts, got, want)
		}
	}
}

// A kernel launched in a coalesced range carries what its thread recorded since the range before.
func TestCoalescedMessages(t *testing.T) {
	record := func(at int, name, peer string) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":%d,"dur":4,"args":{"External id":%d,"Collective name":%q,%q:1,"In msg nelems":64,"Out msg nelems":64,"dtype":"BFloat16","Group size":2,"Process Group Name":"0"}},`, at, at, name, peer)
	}
	launch := func(at int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"user_annotation","name":"nccl:coalesced","pid":1,"tid":1,"ts":%d,"dur":40,"args":{}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":1,"tid":1,"ts":%d,"dur":4,"args":{"correlation":%d}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":17,"ts":%d,"dur":30,"args":{"correlation":%d,"device":0,"stream":17}}`, at, at+5, at, at+20, at)
	}
	run, err := Read(strings.NewReader(`{"traceEvents":[`+record(100, "send", "Dst Rank")+launch(110)+","+
		record(200, "send", "Dst Rank")+record(210, "recv", "Src Rank")+launch(220)+","+launch(300)+`]}`), Options{File: "pipe.json"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []trace.Comm{{Peer: 1, In: 128}, {Peer: 1, In: 128, Out: 128}, {Peer: trace.None}} {
		if got := run.Comms[i]; got.Op != trace.SendRecv || got.Peer != want.Peer || got.In != want.In || got.Out != want.Out {
			t.Errorf("kernel %d: %+v, want %+v", i, got, want)
		}
	}
}
