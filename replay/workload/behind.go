package workload

import (
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// SizeSpread is the relative error of a collective's time within which its size is guessed:
// laws of small collectives are off by up to 10 %, and collectives of a step vary by as much.
const SizeSpread = 0.25

// SizeBehind is the bytes of an all-reduce whose size the trace does not show, by the grid
// of the elementwise kernel that follows it on its stream; 0 if another kernel follows.
// PyTorch's kernels of that name cover threads × vector elements a workgroup
// (aten/src/ATen/native/cuda/CUDALoops.cuh), so the size is rounded up to whole
// workgroups. NCCL's kernels have the type of their elements in their names.
func SizeBehind(w *Workload, c *Collective) int64 { return newFinder(w).sizeBehind(c) }

func (f *finder) sizeBehind(c *Collective) (bytes int64) {
	found := false
	for _, id := range c.Members {
		op := &f.Ops[id]
		f.walk(f.after(id), op, maxSteps, f.after, func(behind *Op, r opRole) bool {
			if found = found || behind.Kind == trace.Compute; behind.Kind == trace.Compute {
				bytes = elements(behind) * elementSize(op.Name)
			}
			return r == ignored
		})
		if found {
			break
		}
	}
	return bytes
}

// elements is the number of elements that a vectorized elementwise kernel covers.
func elements(op *Op) int64 {
	const name = "vectorized_elementwise_kernel<"
	_, rest, ok := strings.Cut(op.Name, name)
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	vector, err := strconv.Atoi(digits)
	if err != nil || vector <= 0 || vector > 16 {
		return 0
	}
	return int64(op.Tiling.WGs) * int64(op.Footprint.Threads) * int64(vector)
}

// elementSize is the bytes of an element of the type in a kernel's name: Sum_bf16.
func elementSize(kernel string) int64 {
	for name, size := range map[string]int64{"_bf16": 2, "_f16": 2, "_f32": 4, "_f64": 8, "_i8": 1, "_u8": 1, "_i32": 4, "_u32": 4, "_i64": 8, "_u64": 8} {
		if strings.Contains(kernel, name) {
			return size
		}
	}
	return 0
}
