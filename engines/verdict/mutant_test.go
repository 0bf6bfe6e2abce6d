package verdict

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// mutants, mutantSeed and mutantsOf are how many traces TestMutants draws, from which seed, and from which folders beside the
// samples; CONTRIBUTING.md says how to hunt.
var (
	mutants    = flag.Int("mutants", 16, "traces that TestMutants draws")
	mutantSeed = flag.Uint64("mutants.seed", 1, "seed that they are drawn with")
	mutantsOf  = flag.String("mutants.of", "", "also change the traces of these folders, a pattern")
)

// A mutant is a trace of a sample that a mutation changes in place.
type mutant struct {
	*rand.Rand
	files []map[string]any
	list  [][]event
}

// rank is one of the ranks.
func (m *mutant) rank() int { return m.IntN(len(m.list)) }

// ranks are one rank, or all of them in one of four cases.
func (m *mutant) ranks() (list []int) {
	if m.IntN(4) > 0 {
		return []int{m.rank()}
	}
	for r := range m.list {
		list = append(list, r)
	}
	return list
}

// one is one of the given values.
func one[T any](m *mutant, values ...T) T { return values[m.IntN(len(values))] }

// some calls edit for some of the events of ranks of a category ("": all): a share that is drawn for all.
func (m *mutant) some(category string, edit func(e, args event)) {
	share := one(m, 0.02, 0.2, 1)
	for _, r := range m.ranks() {
		for _, e := range m.list[r] {
			if (category == "" || e["cat"] == category) && m.Float64() < share {
				edit(e, argsOf(e))
			}
		}
	}
}

// set gives a field of some events one of the values.
func (m *mutant) set(category, field string, values ...any) {
	value := one(m, values...)
	m.some(category, func(e, args event) {
		if _, has := args[field]; has {
			args[field] = value
			return
		}
		if _, has := e[field]; has {
			e[field] = value
		}
	})
}

// scale multiplies numbers of some events by a factor.
func (m *mutant) scale(category string, by float64, fields ...string) {
	m.some(category, func(e, args event) {
		for _, field := range fields {
			for _, of := range []event{e, args} {
				if x, is := of[field].(float64); is {
					of[field] = x * by
				}
			}
		}
	})
}

// info is what a rank's file says of the job.
func (m *mutant) info(r int) event {
	is, _ := m.files[r]["distributedInfo"].(event)
	if is == nil {
		is = event{}
	}
	return is
}

// marks are the annotations of a rank's iterations.
func (m *mutant) marks(r int) (list []event) {
	for _, e := range m.list[r] {
		if name, _ := e["name"].(string); strings.HasSuffix(fmt.Sprint(e["cat"]), "user_annotation") && stepMark.MatchString(name) {
			list = append(list, e)
		}
	}
	return list
}

// of are the events of a rank of a category.
func (m *mutant) of(r int, category string) (list []event) {
	for _, e := range m.list[r] {
		if e["cat"] == category {
			list = append(list, e)
		}
	}
	return list
}

// argsOf are the arguments of an event; without any a map that is not the event's.
func argsOf(e event) event {
	args, _ := e["args"].(event)
	if args == nil {
		args = event{}
	}
	return args
}

// mutations are mutations that keep the files readable: what a broken job, a broken merge or a broken exporter writes.
var mutations = []struct {
	name string
	do   func(m *mutant)
}{
	{"files of two ranks swapped", func(m *mutant) {
		a, b := m.rank(), m.rank()
		m.list[a], m.list[b] = m.list[b], m.list[a]
	}},
	{"rank is the number of another", func(m *mutant) { m.info(m.rank())["rank"] = one[any](m, 0.0, 1.0, 7.0, -1.0, 1e9, "1") }},
	{"another world", func(m *mutant) { m.info(m.rank())["world_size"] = one[any](m, 0.0, 1.0, 2.0, 3.0, 64.0, 1e9, -4.0) }},
	{"groups of other ranks", func(m *mutant) {
		m.info(m.rank())["pg_config"] = one[any](m, nil, []any{}, []any{event{"pg_name": "0", "pg_size": 2.0, "ranks": []any{0.0, 0.0}}}, []any{event{"pg_name": "0", "pg_size": -1.0, "ranks": []any{5.0, 1e12}}})
	}},
	{"a rank's events are those of another", func(m *mutant) { m.list[m.rank()] = slices.Clone(m.list[m.rank()]) }},
	{"all events twice", func(m *mutant) {
		r := m.rank()
		m.list[r] = append(m.list[r], m.list[r]...)
	}},
	{"events in another order", func(m *mutant) {
		l := m.list[m.rank()]
		m.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	}},
	{"times in another unit", func(m *mutant) {
		by := one(m, 1000, 0.001, 1e6, 1e-6)
		fields := one(m, []string{"ts", "dur"}, []string{"dur"}, []string{"ts"})
		for _, r := range m.ranks() {
			for _, e := range m.list[r] {
				for _, f := range fields {
					if x, is := e[f].(float64); is {
						e[f] = x * by
					}
				}
			}
		}
	}},
	{"times without their fraction", func(m *mutant) {
		grain := one(m, 1.0, 100, 1000, 1e6)
		for _, r := range m.ranks() {
			for _, e := range m.list[r] {
				if x, is := e["ts"].(float64); is {
					e["ts"] = float64(int64(x/grain)) * grain
				}
			}
		}
	}},
	{"another base of times", func(m *mutant) { m.files[m.rank()]["baseTimeNanoseconds"] = one[any](m, 0.0, -1e18, 1e18, "x", nil) }},
	{"a clock that drifts", func(m *mutant) {
		by := one(m, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1, 2)
		l := m.list[m.rank()]
		start := number(l[0], "ts")
		for _, e := range l {
			if x, is := e["ts"].(float64); is {
				e["ts"] = start + (x-start)*by
			}
		}
	}},
	{"a clock that jumps", func(m *mutant) {
		by := one(m, -1e4, -100, 100, 1e4, 1e7)
		device := m.IntN(2) == 0
		l := m.list[m.rank()]
		at := number(l[m.IntN(len(l))], "ts")
		for _, e := range l {
			if x, is := e["ts"].(float64); is && x > at && (!device || onDevice(e)) {
				e["ts"] = x + by
			}
		}
	}},
	{"negative durations", func(m *mutant) { m.scale(one(m, "kernel", "cuda_runtime", "cpu_op", "user_annotation", ""), -1, "dur") }},
	{"no durations", func(m *mutant) { m.scale(one(m, "kernel", "cuda_runtime", "cpu_op", "user_annotation", ""), 0, "dur") }},
	{"endless durations", func(m *mutant) {
		m.scale(one(m, "kernel", "cuda_runtime", "user_annotation"), one(m, 1e3, 1e6, 1e12), "dur")
	}},
	{"durations that overlap on a stream", func(m *mutant) { m.scale("kernel", 1+4*m.Float64(), "dur") }},
	{"fields of other types", func(m *mutant) {
		m.set("", one(m, "ts", "dur", "name", "cat", "pid", "tid", "args", "grid", "block", "correlation", "stream"), nil, "", "x", "-1", true, []any{}, event{}, 1e300, -1e300, 0.5)
	}},
	{"iterations that end early", func(m *mutant) {
		r := m.rank()
		marks := m.marks(r)
		if len(marks) == 0 {
			return
		}
		mark := marks[m.IntN(len(marks))]
		end := number(mark, "ts") + number(mark, "dur")*m.Float64()
		device := m.IntN(2) == 0
		m.list[r] = slices.DeleteFunc(slices.Clone(m.list[r]), func(e event) bool { return number(e, "ts") > end && (!device || onDevice(e)) })
	}},
	{"iterations that begin late", func(m *mutant) {
		r := m.rank()
		marks := m.marks(r)
		if len(marks) == 0 {
			return
		}
		mark := marks[m.IntN(len(marks))]
		begin := number(mark, "ts") + number(mark, "dur")*m.Float64()
		m.list[r] = slices.DeleteFunc(slices.Clone(m.list[r]), func(e event) bool { return number(e, "ts") < begin && e["ph"] != "M" })
	}},
	{"marks of iterations", func(m *mutant) {
		for _, r := range m.ranks() {
			for i, mark := range m.marks(r) {
				switch m.IntN(6) {
				case 0:
					mark["name"] = one(m, "ProfilerStep#0", "ProfilerStep#-1", "ProfilerStep#99999999999999999999", "ProfilerStep#", "")
				case 1:
					mark["name"] = fmt.Sprint("ProfilerStep#", 10-i)
				case 2:
					mark["dur"] = number(mark, "dur") * one(m, 0.01, 0.5, 1.5, 3)
				case 3:
					mark["ts"] = number(mark, "ts") + number(mark, "dur")*one(m, -1, -0.5, 0.5, 1)
				}
			}
		}
	}},
	{"correlations of kernels of another stream", func(m *mutant) {
		l := m.of(m.rank(), "kernel")
		for _, e := range l {
			if m.IntN(3) == 0 {
				argsOf(e)["correlation"] = argsOf(one(m, l...))["correlation"]
			}
		}
	}},
	{"correlations of later launches", func(m *mutant) {
		l, by := m.of(m.rank(), "kernel"), one(m, 1, 2, 7, -1)
		ids := make([]any, len(l))
		for i, e := range l {
			ids[i] = argsOf(e)["correlation"]
		}
		for i, e := range l {
			argsOf(e)["correlation"] = ids[((i+by)%len(l)+len(l))%len(l)]
		}
	}},
	{"correlations that are none", func(m *mutant) {
		m.set(one(m, "kernel", "cuda_runtime", "cuda_driver"), "correlation", 0.0, -1.0, 1e18, 1.5, "7")
	}},
	{"external ids", func(m *mutant) {
		m.set(one(m, "kernel", "cpu_op", "user_annotation"), "External id", 0.0, -1.0, 1e18, 5.0)
	}},
	{"one stream for all", func(m *mutant) {
		for _, r := range m.ranks() {
			for _, e := range m.list[r] {
				if onDevice(e) {
					argsOf(e)["stream"], e["tid"] = 7.0, 7.0
				}
			}
		}
	}},
	{"a stream for each", func(m *mutant) {
		for _, r := range m.ranks() {
			for i, e := range m.of(r, "kernel") {
				argsOf(e)["stream"], e["tid"] = float64(100+i), float64(100+i)
			}
		}
	}},
	{"streams that are none", func(m *mutant) { m.set("kernel", "stream", -1.0, 1e18, 0.0, "7") }},
	{"devices", func(m *mutant) {
		m.set(one(m, "kernel", "gpu_memcpy"), one(m, "device", "pid", "context"), -1.0, 1.0, 63.0, 1e9)
	}},
	{"groups with another name on a rank", func(m *mutant) {
		m.set(one(m, "kernel", "cpu_op", ""), "Process Group Name", "9", "", "mesh_tp", 0.0)
	}},
	{"groups of other ranks in collectives", func(m *mutant) {
		m.set("kernel", "Process Group Ranks", "[0, 1]", "[]", "[3, 2, 1, 0]", "[0, 0, 0, 0]", "[0, 1, 2, 3, ...]", "[-1]", "x")
	}},
	{"groups of another size", func(m *mutant) { m.set("kernel", "Group size", 0.0, 1.0, 2.0, 3.0, 1e9, -4.0) }},
	{"sizes of a rank", func(m *mutant) {
		m.scale("kernel", one(m, 0, -1, 0.5, 2, 1.0/3, 1e-7, 1e6, 1e12), "In msg nelems", "Out msg nelems")
	}},
	{"sizes in one direction", func(m *mutant) {
		m.scale("kernel", one(m, 0, 0.25, 4, 1e6), one(m, "In msg nelems", "Out msg nelems"))
	}},
	{"split sizes", func(m *mutant) {
		m.set("kernel", one(m, "In split size", "Out split size"), "[1, 2, 3, 4]", "[0, 0, 0, 0]", "[-5, 5, 1, 1]", "[1", "[9223372036854775807, 9223372036854775807]")
	}},
	{"another type of elements", func(m *mutant) { m.set("", "dtype", "Float", "Double", "Byte", "", "Unknown", "ComplexDouble", 4.0) }},
	{"collectives of another kind", func(m *mutant) {
		m.set("kernel", "Collective name", "allreduce", "_allgather_base", "_reduce_scatter_base", "broadcast", "send", "recv", "barrier", "all_to_allv", "", "x")
	}},
	{"kernels named as collectives", func(m *mutant) {
		name := one(m, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "ncclDevKernel_SendRecv(x)", "ncclKernel", "rccl_main_kernel", "nvshmem_put")
		m.some("kernel", func(e, _ event) { e["name"] = name })
	}},
	{"collectives named as kernels", func(m *mutant) {
		name := one(m, "sm90_xmma_gemm_bf16_128x128x64", "elementwise_kernel", "Memcpy DtoD", "", strings.Repeat("x", 5000), "a\x1b[31m\u202eb")
		m.some("kernel", func(e, _ event) {
			if isCollective(e) {
				e["name"] = name
			}
		})
	}},
	{"collectives in another order on a rank", func(m *mutant) {
		var l []event
		for _, e := range m.list[m.rank()] {
			if isCollective(e) {
				l = append(l, e)
			}
		}
		for i := len(l) - 1; i > 0; i -= 1 + m.IntN(3) {
			l[i]["args"], l[i-1]["args"] = l[i-1]["args"], l[i]["args"]
			l[i]["name"], l[i-1]["name"] = l[i-1]["name"], l[i]["name"]
		}
	}},
	{"a collective fewer on a rank", func(m *mutant) {
		r, n := m.rank(), 0
		k := 1 + m.IntN(3)
		m.list[r] = slices.DeleteFunc(slices.Clone(m.list[r]), func(e event) bool {
			if !isCollective(e) {
				return false
			}
			n++
			return n%k == 0
		})
	}},
	{"grids and blocks", func(m *mutant) {
		m.set("kernel", one(m, "grid", "block"), []any{0.0, 0.0, 0.0}, []any{-1.0, 1.0, 1.0}, []any{2147483647.0, 65535.0, 65535.0}, []any{1.0}, []any{}, []any{1.5, 2.0, 2.0}, "1x1x1")
	}},
	{"resources of kernels", func(m *mutant) {
		m.set("kernel", one(m, "registers per thread", "shared memory", "blocks per SM"), 0.0, -1.0, 255.0, 1e6, 1e15)
	}},
	{"shapes", func(m *mutant) {
		m.set("cpu_op", one(m, "Input Dims", "Input type", "Input Strides", "Concrete Inputs"), []any{}, nil, []any{[]any{0.0, 0.0}, []any{0.0, 0.0}, []any{0.0, 0.0}},
			[]any{[]any{1e9, 1e9}, []any{1e9, 1e9}}, []any{[]any{-8.0, 8.0}, []any{8.0, 8.0}}, []any{"", "", ""}, []any{[]any{3.0, 5.0}, []any{7.0, 11.0}})
	}},
	{"host calls behind their kernels", func(m *mutant) {
		by := one(m, 1e3, 1e4, 1e5, -1e5)
		m.some(one(m, "cuda_runtime", "cuda_driver", "cpu_op"), func(e, _ event) { e["ts"] = number(e, "ts") + by })
	}},
	{"host calls gone", func(m *mutant) {
		category, share := one(m, "cuda_runtime", "cuda_driver", "cpu_op", "ac2g", "user_annotation", "gpu_user_annotation"), one(m, 0.1, 0.5, 1)
		for _, r := range m.ranks() {
			m.list[r] = slices.DeleteFunc(slices.Clone(m.list[r]), func(e event) bool { return e["cat"] == category && m.Float64() < share })
		}
	}},
	{"host calls of another name", func(m *mutant) {
		m.set("cuda_runtime", "name", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaGraphLaunch", "cudaEventSynchronize", "cudaMemcpyAsync", "cudaMalloc", "")
	}},
	{"one thread for all", func(m *mutant) { m.set(one(m, "cuda_runtime", "cpu_op", ""), "tid", 1.0, -1.0, "main") }},
	{"one iteration longer than the others", func(m *mutant) {
		by := one(m, 2.0, 10, 0.1)
		for _, r := range m.ranks() {
			if marks := m.marks(r); len(marks) > 0 {
				mark := marks[len(marks)-1]
				for _, e := range m.of(r, "kernel") {
					if number(e, "ts") > number(mark, "ts") {
						e["dur"] = number(e, "dur") * by
					}
				}
			}
		}
	}},
	{"the device", func(m *mutant) {
		m.files[m.rank()]["deviceProperties"] = one[any](m, nil, []any{}, []any{event{"id": 0.0, "name": "x\x1b", "numSms": 0.0, "totalGlobalMem": -1.0}}, []any{event{"id": 0.0, "name": "NVIDIA H200", "numSms": 1e9, "warpSize": 0.0}}, "x")
	}},
}

// TestMutants draws traces with one to three of the mutations, plans and simulates the captured schedule and another strategy, and
// judges: it asks for what FuzzPlanner does, and that nothing is likely that is not on the trace as it was, unless damage is said. It
// shares no kind of change with FuzzPlanner, which changes single kernels by four bytes.
func TestMutants(t *testing.T) {
	folders := []string{"llama70b-fc2-allreduce", "moe-ep4", "moe-down-triton"}
	more := must.Have(filepath.Glob(*mutantsOf))(t)
	for _, folder := range more {
		absolute := must.Have(filepath.Abs(folder))(t)
		from := must.Have(filepath.Abs("../../samples"))(t)
		relative := must.Have(filepath.Rel(from, absolute))(t)
		folders = append(folders, relative)
	}
	sel := must.Have(engines.ParseSelection("all"))(t)
	type text struct{ files, list []byte }
	texts := make([]text, len(folders))
	usual := make([]map[string]bool, len(folders)) // strategies that are likely on the trace as it is
	for i, folder := range folders {
		files, list := events(t, folder)
		for rank := range list {
			list[rank] = first(2, list[rank])
		}
		texts[i] = text{encoded(t, files), encoded(t, list)}
		usual[i] = map[string]bool{}
		path := write(t, files, list)
		for _, unprofiled := range []bool{true, false} {
			for _, name := range planned(t, path, sel, lift.Options{Unprofiled: unprofiled}, true) {
				usual[i][name] = true
			}
		}
	}
	for n := range *mutants {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			at := n % len(folders)
			m := &mutant{Rand: rand.New(rand.NewPCG(*mutantSeed, uint64(n)))}
			decoded(t, texts[at].files, &m.files)
			decoded(t, texts[at].list, &m.list)
			kinds := []string{folders[at]}
			for i := range 1 + m.IntN(3) {
				kind := mutations[m.IntN(len(mutations))]
				if i == 0 && n < len(mutations) {
					kind = mutations[n]
				}
				kinds = append(kinds, kind.name)
				kind.do(m)
			}
			other := sel[1:][m.IntN(len(sel)-1)]
			t.Logf("%s, %q", other, kinds)
			for _, name := range planned(t, write(t, m.files, m.list), []plan.Selection{sel[0], other}, lift.Options{Unprofiled: n%2 == 0}, true) {
				if !usual[at][name] {
					t.Errorf("%s is likely, which it is not on the trace as it was, and no damage is said", name)
				}
			}
		})
	}
}

func encoded(t *testing.T, x any) []byte {
	t.Helper()
	return must.Have(json.Marshal(x))(t)
}

func decoded(t *testing.T, data []byte, x any) {
	t.Helper()
	must.Do(t, json.Unmarshal(data, x))
}

// A rank without calls of its host is not late by them: the captured schedule of one iteration runs.
func TestRankWithoutCalls(t *testing.T) {
	files, list := events(t, "moe-ep4")
	for rank := range list {
		begin := number((&mutant{list: list}).marks(rank)[1], "ts")
		list[rank] = slices.DeleteFunc(list[rank], func(e event) bool {
			launched := strings.HasPrefix(fmt.Sprint(e["cat"]), "cuda_") || e["cat"] == "cpu_op"
			return e["ph"] != "M" && number(e, "ts") >= begin || rank == 3 && launched
		})
	}
	run := must.Have(format.Open(write(t, files, list), format.Options{}))(t)
	for _, unprofiled := range []bool{false, true} {
		w := must.Have(lift.Workload(run, lift.Options{Unprofiled: unprofiled}))(t)
		out, err := engines.Run(w, plantest.H200(t, w.World), engines.CapturedSelection(), plan.Scenario{}, replay.Options{Like: true})
		if err != nil || out.Result == nil || out.Time <= 0 {
			t.Errorf("without the profiler %v: %s %v", unprofiled, out.Why, err)
		}
	}
}
