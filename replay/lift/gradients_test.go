package lift

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// sumOn issues an all-reduce of so many elements of two bytes on a stream.
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

// run is what was issued.
func (c *capture) run(t testing.TB) *trace.Run {
	t.Helper()
	body := must.Have(json.Marshal(map[string]any{"schemaVersion": 1, "distributedInfo": map[string]any{"backend": "nccl", "rank": 0, "world_size": 2}, "traceEvents": c.events}))(t)
	file := filepath.Join(t.TempDir(), "rank0.json")
	must.Do(t, os.WriteFile(file, body, 0o600))
	return must.Have(format.Open(file, format.Options{}))(t)
}

// sumsOf lists what every collective reads, and what copies and kernels named "use" read, of how many bytes.
func sumsOf(w *workload.Workload) string {
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

// issue issues what lines say, with what is indented below each within it (see TestScripts).
func (c *capture) issue(t testing.TB, lines []string) {
	t.Helper()
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	for len(lines) > 0 {
		line := lines[0]
		end := 1
		for end < len(lines) && depth(lines[end]) > depth(line) {
			end++
		}
		inner := lines[1:end]
		within := func() { c.issue(t, inner) }
		lines = lines[end:]
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		number := func() int { return integer(t, rest[strings.LastIndexByte(rest, ' ')+1:]) }
		switch word {
		case "in":
			name, sizes, _ := strings.Cut(rest, " of ")
			var shape [][]int
			for size := range strings.FieldsSeq(sizes) {
				shape = append(shape, []int{integer(t, size)})
			}
			c.in(name, within, shape...)
		case "kernel":
			c.kernel(rest)
		case "gradient", "taken":
			name, _, _ := strings.Cut(rest, " ")
			if word == "taken" {
				within = nil
			}
			c.gradient(name, number(), within)
		case "sum":
			c.sumOn(9, number())
		case "sum-here":
			c.sumOn(7, number())
		case "gather", "scatter":
			kernel := map[string]string{"gather": "ncclDevKernel_AllGather_RING_LL", "scatter": "ncclDevKernel_ReduceScatter_RING_LL"}[word]
			c.launch(kernel, 9, 8, map[string]any{"Collective name": "_allgather_base", "In msg nelems": 512, "Out msg nelems": 1024, "Group size": 2, "dtype": "BFloat16"})
		default:
			t.Fatalf("nothing is issued by %q", line)
		}
	}
}
