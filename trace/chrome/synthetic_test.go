package chrome

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// synthetic writes a Kineto file of one rank with exactly n events, similar to a
// training job: operators around the calls that launch kernels, arrows between them,
// and an all-reduce after every tenth kernel. Names are made up; sizes and shares are
// realistic.
func synthetic(w io.Writer, rank, world, events int) error {
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, `{"schemaVersion":1,"deviceProperties":[{"id":%d,"name":"NVIDIA H200","numSms":132,"warpSize":32}],
"distributedInfo":{"backend":"nccl","rank":%[1]d,"world_size":%d,"nccl_version":"2.28.9"},"displayTimeUnit":"ms","baseTimeNanoseconds":1790857026000000000,"traceEvents":[
`, rank, world)
	s := synthesizer{w: out, rank: rank, left: events, host: 4318151435000000, device: 4318151435020000}
	for s.left > 0 {
		s.launch()
	}
	fmt.Fprintf(out, `],"traceName":"synthetic"}`)
	return out.Flush()
}

type synthesizer struct {
	w            *bufio.Writer
	rank, left   int
	n            int   // launches so far
	host, device int64 // ns
	comma        bool
}

func (s *synthesizer) event(format string, args ...any) {
	if s.left == 0 {
		return
	}
	s.left--
	if s.comma {
		s.w.WriteString(",\n")
	}
	s.comma = true
	fmt.Fprintf(s.w, format, args...)
}

func micro(ns int64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }

// launch writes the six events of one kernel.
func (s *synthesizer) launch() {
	s.n++
	n, pid := s.n, 4000+s.rank
	correlation, external := 300000+n, 2*n
	const host = `{"ph":"X","cat":"%s","name":"%s","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{%s}}`
	outer := [...]string{"aten::linear", "aten::layer_norm", "aten::scaled_dot_product_attention", "autograd::engine::evaluate_function: MmBackward0"}[n%4]
	inner := [...]string{"aten::addmm", "aten::native_layer_norm", "aten::_scaled_dot_product_flash_attention", "aten::mm"}[n%4]
	s.event(host, "cpu_op", outer, pid, pid, micro(s.host), micro(19000), fmt.Sprintf(`"External id":%d`, external))
	s.event(host, "cpu_op", inner, pid, pid, micro(s.host+1000), micro(15000),
		fmt.Sprintf(`"External id":%d,"Input Dims":[[%d,4096],[4096,%d]],"Input type":["c10::BFloat16","c10::BFloat16"]`, external+1, 128<<(n%7), 1024<<(n%5)))
	s.event(host, "cuda_runtime", "cudaLaunchKernel", pid, pid, micro(s.host+3000), micro(4100), fmt.Sprintf(`"External id":%d,"cbid":211,"correlation":%d`, external+1, correlation))
	s.event(`{"ph":"s","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g"}`, correlation, pid, pid, micro(s.host+3000))
	name, stream, dur, extra := kernels[n%len(kernels)], 7, int64(9000+n%5000), ""
	at := s.device
	if n%10 == 0 {
		name, stream, dur = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 30000-int64(s.rank)
		extra = `,"Collective name":"allreduce","In msg nelems":8388608,"Out msg nelems":8388608,"Group size":8,"dtype":"BFloat16","Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]"`
		at += int64(s.rank)
	}
	s.event(`{"ph":"X","cat":"kernel","name":"%s","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"External id":%d,"device":%d,"stream":%d,"correlation":%d,"registers per thread":168,"shared memory":213204,"grid":[%d,66,1],"block":[384,1,1]%s}}`,
		name, s.rank, stream, micro(at), micro(dur), external+1, s.rank, stream, correlation, 2+n%64, extra)
	s.event(`{"ph":"f","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g","bp":"e"}`, correlation, s.rank, stream, micro(at))
	s.host += 20000
	s.device += 40500
}

var kernels = [...]string{
	"nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_TNN",
	"void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
	"flash_fwd_kernel",
	"triton_red_fused_add_mean_mul_pow_rsqrt_0",
}

func TestSynthetic(t *testing.T) {
	const events = 6001
	var b bytes.Buffer
	must.Do(t, synthetic(&b, 3, 8, events))
	run := must.Have(Read(&b, Options{}))(t)
	checkRun(t, run)
	if n := accounted(run); n != events {
		t.Errorf("%d of %d events are accounted for", n, events)
	}
	for _, k := range run.Kernels {
		if k.Op == trace.None {
			t.Fatalf("kernel without operator: %+v", k)
		}
	}
	if c := run.Comms[len(run.Comms)-1]; len(run.Comms) != 100 || c.Seq != 99 || c.In != 16<<20 {
		t.Errorf("%d collectives, the last %+v", len(run.Comms), c)
	}
}
