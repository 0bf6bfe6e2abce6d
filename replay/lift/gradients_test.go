package lift

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A capture writes a Kineto file of one rank, whose host issues kernels of 10 µs each.
type capture struct {
	shapes bool // record them
	events []map[string]any
	at     int // host time, µs
	id     int // of calls
}

// in marks a range around what f issues. shape is of its first input; a list of several makes
// the first input a list.
func (c *capture) in(name string, f func(), shape ...[]int) {
	c.at++
	e := map[string]any{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": c.at}
	c.id++
	args := map[string]any{"External id": c.id}
	if c.shapes && len(shape) > 0 {
		args["Input Dims"], args["Input type"] = []any{shape[0]}, []string{"c10::BFloat16"}
		if len(shape) > 1 {
			args["Input Dims"], args["Input type"] = []any{shape}, []string{"TensorList"}
		}
	}
	c.events = append(c.events, e)
	f()
	c.at++
	e["args"], e["dur"] = args, c.at-e["ts"].(int)
}

// launch issues a kernel, or a copy, and its call.
func (c *capture) launch(name string, stream, grid int, more map[string]any) {
	c.at++
	c.id++
	args := map[string]any{"correlation": c.id, "stream": stream, "device": 0, "grid": []int{grid, 1, 1}, "block": []int{128, 1, 1}}
	for k, v := range more {
		args[k] = v
	}
	cat := "kernel"
	if strings.HasPrefix(name, "Memcpy") {
		cat = "gpu_memcpy"
	}
	c.events = append(c.events,
		map[string]any{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": c.at, "dur": 1, "args": map[string]any{"correlation": c.id}},
		map[string]any{"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": 1000 + 100*c.at, "dur": 10, "args": args})
	c.at++
}

func (c *capture) kernel(name string) { c.launch(name, 7, 1, nil) }

// sum issues an all-reduce of so many elements of two bytes on a stream of its own.
func (c *capture) sum(elements int) { c.sumOn(9, elements) }

func (c *capture) sumOn(stream, elements int) {
	c.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", stream, 8, map[string]any{
		"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "Group size": 2, "dtype": "BFloat16",
	})
}

// gradient makes a parameter's gradient and adds it, with a kernel if it is accumulated into.
func (c *capture) gradient(name string, elements int, hook func()) {
	c.in("autograd::engine::evaluate_function: MmBackward0", func() { c.kernel("mm " + name) })
	c.in("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", func() {
		c.in("torch::autograd::AccumulateGrad", func() {}, []int{elements / 2, 2})
		if hook != nil {
			c.launch("vectorized_elementwise_kernel<4, "+name+">", 7, (elements+511)/512, nil)
			hook()
		}
	})
}

// lift is the capture's workload.
func (c *capture) lift(t *testing.T) *workload.Workload {
	t.Helper()
	body := must.Have(json.Marshal(map[string]any{"schemaVersion": 1, "distributedInfo": map[string]any{"backend": "nccl", "rank": 0, "world_size": 2}, "traceEvents": c.events}))(t)
	file := filepath.Join(t.TempDir(), "rank0.json")
	must.Do(t, os.WriteFile(file, body, 0o600))
	run := must.Have(format.Open(file, format.Options{}))(t)
	return must.Have(Workload(run, Options{}))(t)
}

// sumsOf lists what every collective reads, and what copies read and are read by.
func (c *capture) sumsOf(t *testing.T) string {
	t.Helper()
	w := c.lift(t)
	name := func(id int32) string {
		op := &w.Ops[id]
		if op.Kind == trace.Collective {
			return fmt.Sprint("sum", w.Collectives[op.Collective].Seq)
		}
		short := strings.TrimSuffix(strings.TrimPrefix(op.Name, "vectorized_elementwise_kernel<4, "), ">")
		return strings.Fields(short)[0] + strings.TrimPrefix(short[len(strings.Fields(short)[0]):], " ")
	}
	var b strings.Builder
	for _, id := range w.Ranks[0] {
		var list []string
		for _, e := range w.Flow[id] {
			if e.Recorded() && (w.Ops[id].Kind == trace.Collective || strings.Contains(w.Ops[id].Name, "Copy") || strings.Contains(w.Ops[id].Name, "Memcpy") || strings.Contains(w.Ops[id].Name, "use")) {
				list = append(list, strings.TrimSuffix(fmt.Sprint(name(e.Op), " ", e.Bytes), " 0"))
			}
		}
		if len(list) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", name(id), strings.Join(list, ", "))
		}
	}
	return strings.TrimSpace(b.String())
}

// Kernels that add to a gradient are marked, with DDP's copies into a bucket, and its sum is not.
func TestGradientsAreMarked(t *testing.T) {
	c := capture{}
	c.kernel("forward")
	c.gradient("a", 1024, func() { c.sum(1024) })
	var got []string
	for _, op := range c.lift(t).Ops {
		if op.Gradient && op.Rank == 0 {
			got = append(got, op.Name)
		}
	}
	if want := []string{"vectorized_elementwise_kernel<4, a>"}; !slices.Equal(got, want) {
		t.Errorf("%q add to gradients, not %q", got, want)
	}
}

// PyTorch's pipelining makes gradients of weights by calls of its own and adds them to the parameters'
// outside of autograd. What it adds up for such a call is no gradient of a parameter.
func TestGradientsOfHalvesAreMarked(t *testing.T) {
	c := capture{}
	c.in("PP:1F0", func() { c.in("aten::add_", func() { c.kernel("forward") }) })
	c.in("PP:1W0", func() {
		c.in("aten::add", func() { c.kernel("sum") })
		c.in("autograd::engine::evaluate_function: MmBackward0", func() { c.in("aten::add_", func() { c.kernel("within") }) })
		c.in("aten::add_", func() { c.kernel("a") })
	})
	c.in("aten::add_", func() { c.kernel("behind") })
	c.sum(1024)
	var got []string
	for _, op := range c.lift(t).Ops {
		if op.Gradient && op.Rank == 0 {
			got = append(got, op.Name)
		}
	}
	if want := []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("%q add to gradients, not %q", got, want)
	}
}

// TestBuckets: which gradients a bucket holds follows from their sizes, or without shapes from
// the grids of the kernels that add them, and from the collective's.
func TestBuckets(t *testing.T) {
	none := func() {}
	for _, c := range []struct {
		name  string
		write func(c *capture)
		want  string
	}{
		{"DDP", func(c *capture) {
			c.gradient("a", 1<<20, func() { c.sum(1 << 20) })
			c.gradient("b", 2048, none)
			c.gradient("c", 1<<20, func() { c.sum(1<<20 + 2048) })
		}, "sum0: a 2097152\nsum1: b 4096, c 2097152"},
		{"a bucket waits for the one before, and the gradients of the next are ready earlier", func(c *capture) {
			c.gradient("a", 1<<20, none)
			c.gradient("b", 1<<19, none) // of the second bucket
			c.gradient("c", 1<<18, func() { c.sum(1<<20 + 1<<18) })
			c.gradient("d", 1<<18, func() { c.sum(1<<19 + 1<<18) })
		}, "sum0: a 2097152, c 524288\nsum1: b 1048576, d 524288"},
		{"two buckets are full at once", func(c *capture) {
			c.gradient("a", 1<<20, none)
			c.gradient("b", 1<<19, func() { c.sum(1 << 20); c.sum(1 << 19) })
		}, "sum0: a 2097152\nsum1: b 1048576"},
		{"DDP copies gradients out of buckets", func(c *capture) {
			c.gradient("a", 1<<20, none)
			c.gradient("b", 1<<19, func() { c.sum(1<<20 + 1<<19) })
			c.gradient("c", 1<<18, func() { c.sum(1 << 18) })
			for _, x := range []string{"a", "b", "c"} {
				c.in("torch.distributed.ddp.reducer::copy_bucket_to_grad", func() { c.kernel("Copy " + x) })
			}
		}, "sum0: a 2097152, b 1048576\nsum1: c 524288\nCopya: sum0\nCopyb: sum0\nCopyc: sum1"},
		{"behind the backward pass, through a buffer", func(c *capture) {
			c.gradient("a", 1<<20, none)
			c.gradient("b", 1<<20, none)
			c.gradient("c", 1<<19, none)
			c.gradient("d", 1<<18, none)
			c.in("aten::cat", func() { c.kernel("CatArrayBatchedCopy") }, []int{1 << 20}, []int{1 << 20})
			c.sum(1 << 21)
			c.kernel("Memcpy DtoD (Device -> Device)")
			c.kernel("Memcpy DtoD (Device -> Device)")
			c.sum(1 << 19) // alone: in place
			c.sum(1 << 18)
		}, "CatArrayBatchedCopy: a 2097152, b 2097152\nsum0: CatArrayBatchedCopy\nMemcpyDtoD (Device -> Device): sum0\nMemcpyDtoD (Device -> Device): sum0\nsum1: c 1048576\nsum2: d 524288"},
		{"an all-reduce of the next forward pass sums no gradients, though it has the size of one", func(c *capture) {
			c.gradient("a", 1<<20, none)
			c.kernel("gemm")
			c.sum(1 << 20)
		}, ""},
	} {
		for _, shapes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, shapes %v", c.name, shapes), func(t *testing.T) {
				k := capture{shapes: shapes}
				c.write(&k)
				if d := diff.Diff(c.want, k.sumsOf(t)); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// TestHookOnTheComputeStream: a synchronous communication hook runs on the stream of compute. What
// backward launches behind it does not read the sum; what the hook launches does.
func TestHookOnTheComputeStream(t *testing.T) {
	c := capture{}
	c.gradient("a", 1<<20, func() { c.sumOn(7, 1<<20); c.kernel("useInHook") })
	c.kernel("use")
	c.gradient("b", 1<<20, func() { c.sumOn(7, 1<<20) })
	c.in("Optimizer.step#SGD.step", func() { c.kernel("useInOptimizer") })
	w := c.lift(t)
	var got []string
	for _, id := range w.Ranks[0] {
		for _, e := range w.Flow[id] {
			if e.Kind == workload.ReadAfterWrite && w.Ops[e.Op].Kind == trace.Collective {
				got = append(got, fmt.Sprint(w.Ops[id].Name, " reads sum", w.Collectives[w.Ops[e.Op].Collective].Seq))
			}
		}
	}
	if d := diff.Diff([]string{"useInHook reads sum0", "useInOptimizer reads sum0", "useInOptimizer reads sum1"}, got); d != "" {
		t.Error(d)
	}
}

// TestBucketOfOtherOrder: a buffer's parts may be in the order of parameters, which only shapes
// tell. Gradients that autograd takes over without a kernel are made by a product.
func TestBucketOfOtherOrder(t *testing.T) {
	c := capture{shapes: true}
	c.gradient("a", 1<<20, nil)
	c.gradient("b", 1<<19, nil)
	c.gradient("c", 1<<18, nil)
	c.in("aten::cat", func() { c.kernel("CatArrayBatchedCopy") }, []int{1 << 18}, []int{1 << 20})
	c.sum(1<<20 + 1<<18)
	if d := diff.Diff("CatArrayBatchedCopy: mma 2097152, mmc 524288\nsum0: CatArrayBatchedCopy", c.sumsOf(t)); d != "" {
		t.Error(d)
	}
}

// TestKeptParameters: backward reads what forward has gathered, unless it gathers again.
func TestKeptParameters(t *testing.T) {
	for _, c := range []struct {
		again bool
		want  string
	}{
		{false, "sum0: in\nCopyout: sum0\nuse: Copyout\nuse2: Copyout"},
		{true, "sum0: in\nCopyout: sum0\nuse: Copyout\nsum1: in\nCopyout: sum1\nuse2: Copyout"},
	} {
		k := capture{}
		gather := func() {
			k.in("FSDP::all_gather (blocks.0)", func() {
				k.kernel("in")
				k.launch("ncclDevKernel_AllGather_RING_LL", 9, 8, map[string]any{"Collective name": "_allgather_base", "In msg nelems": 512, "Out msg nelems": 1024, "Group size": 2, "dtype": "BFloat16"})
			})
			k.in("FSDP::all_gather_copy_out (blocks.0)", func() { k.kernel("Copy out") })
		}
		gather()
		k.kernel("use")
		k.kernel("other")
		k.in("FSDP::pre_backward (blocks.0)", func() {
			if c.again {
				gather()
			}
		})
		k.in("autograd::engine::evaluate_function: MmBackward0", func() { k.kernel("use2") })
		if d := diff.Diff(c.want, k.sumsOf(t)); d != "" {
			t.Error(d)
		}
	}
}

// fully_shard gathers into a buffer that has the rank's own shard in its place; other gathers, and sums, do not lie in their
// output (rule C30).
func TestGathersOfFullyShardAreInPlace(t *testing.T) {
	k := capture{}
	communicate := func(name string) func() {
		return func() {
			k.kernel("in")
			k.launch("ncclDevKernel_"+name, 9, 8, map[string]any{"Collective name": "_allgather_base", "In msg nelems": 512, "Out msg nelems": 1024, "Group size": 2, "dtype": "BFloat16"})
		}
	}
	k.in("FSDP::all_gather (blocks.0)", communicate("AllGather_RING_LL"))
	k.in("FSDP::post_backward_reduce (blocks.0)", communicate("ReduceScatter_RING_LL"))
	communicate("AllGather_RING_LL")()
	var in []bool
	w := k.lift(t)
	for _, id := range w.Ranks[0] {
		op := &w.Ops[id]
		if op.Kind == trace.Collective {
			in = append(in, op.InPlace)
		} else if op.InPlace {
			t.Errorf("%s is no gather", op.Name)
		}
	}
	if !slices.Equal(in, []bool{true, false, false}) {
		t.Errorf("in place: %v", in)
	}
}
