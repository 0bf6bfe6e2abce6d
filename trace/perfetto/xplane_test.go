package perfetto

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

var update = flag.Bool("update", false, "rewrite goldens")

// A planeWriter writes a plane, and the numbers of the names in it.
type planeWriter struct {
	message
	names map[string]uint64
}

// number is that of a name of an event (4) or a statistic (5), with more of its metadata.
func (p *planeWriter) number(field protowire.Number, name string, more message) uint64 {
	if p.names == nil {
		p.names = map[string]uint64{}
	}
	key := strconv.Itoa(int(field)) + name
	if p.names[key] == 0 {
		p.names[key] = uint64(len(p.names) + 1)
		p.message = p.m(field, message{}.n(1, p.names[key]).m(2, append(message{}.n(1, p.names[key]).s(2, name), more...)))
	}
	return p.names[key]
}

// stats are statistics in a field: names and values, which are numbers, texts or messages.
func (p *planeWriter) stats(field protowire.Number, list ...any) (m message) {
	for i := 0; i+1 < len(list); i += 2 {
		s := message{}.n(1, p.number(5, list[i].(string), nil))
		switch v := list[i+1].(type) {
		case int:
			s = s.n(4, uint64(v))
		case string:
			s = s.n(7, p.number(5, v, nil))
		case message:
			s = s.m(6, v)
		}
		m = m.m(field, s)
	}
	return m
}

// event is an event from a microsecond on, for some.
func (p *planeWriter) event(name string, start, dur int, list ...any) message {
	return append(message{}.n(1, p.number(4, name, nil)).n(2, uint64(start)*1e6).n(3, uint64(dur)*1e6), p.stats(4, list...)...)
}

func (p *planeWriter) line(id uint64, name string, events ...message) {
	l := message{}.n(1, id).s(2, name).n(3, 1000)
	for _, e := range events {
		l = l.m(4, e)
	}
	p.message = p.m(3, l)
}

// array is the shape of an array of bfloat16, and tuple that of a tuple.
func array(dims ...uint64) message {
	m := message{}.n(2, 16)
	for _, d := range dims {
		m = m.n(3, d)
	}
	return m
}

func tuple(parts ...message) message {
	m := message{}.n(2, 13)
	for _, p := range parts {
		m = m.m(4, p)
	}
	return m
}

// hlo is an instruction with operands, and more fields.
func hlo(id uint64, name, opcode string, shape message, operands []uint64, more message) message {
	m := message{}.s(1, name).s(2, opcode).m(3, shape).m(7, message{}.s(2, "jit(step)/"+name)).n(35, id)
	for _, o := range operands {
		m = m.n(36, o)
	}
	return append(m, more...)
}

// stepHLO is a step of two devices: it gathers a parameter beside a fusion, multiplies both, sums the product over the devices and
// changes the parameter by it.
func stepHLO() message {
	computation := func(id, root uint64, instructions ...message) message {
		c := message{}.n(5, id).n(6, root)
		for _, i := range instructions {
			c = c.m(2, i)
		}
		return c
	}
	axis := message{}.m(1, message{}.m(1, message{}.s(1, "x").n(2, 2))).m(2, message{})
	axes := message{}.m(2, message{}.n(1, 1).n(2, 2).n(3, 2).n(4, 0))
	gemm := `{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}`
	entry := computation(1, 10,
		hlo(1, "p.0", "parameter", array(4, 8), nil, nil),
		hlo(8, "p.1", "parameter", array(2, 8), nil, message{}.n(9, 1)),
		hlo(2, "all-gather-start", "async-start", tuple(tuple(array(4, 8)), array(8, 8)), []uint64{1}, message{}.n(38, 2)),
		hlo(4, "loop_convert_fusion.1", "fusion", array(2, 8), []uint64{8}, nil),
		hlo(3, "all-gather-done", "async-done", array(8, 8), []uint64{2}, nil),
		hlo(5, "custom-call.5", "custom-call", tuple(array(2, 8), array(64)), []uint64{4, 3}, message{}.s(28, "__cublas$lt$matmul").s(43, gemm)),
		hlo(6, "get-tuple-element.6", "get-tuple-element", array(2, 8), []uint64{5}, nil),
		hlo(7, "all-reduce.7", "all-reduce", array(2, 8), []uint64{6}, message{}.n(71, 1).n(26, 1).m(87, axes)),
		hlo(9, "loop_subtract_fusion.9", "fusion", array(4, 8), []uint64{1, 7}, nil),
		hlo(10, "tuple.10", "tuple", tuple(array(4, 8), array(2, 8)), []uint64{9, 7}, nil))
	gather := computation(2, 21,
		hlo(20, "param", "parameter", array(4, 8), nil, nil),
		hlo(21, "all-gather.21", "all-gather", array(8, 8), []uint64{20}, message{}.n(71, 1).n(26, 1).m(93, axis)))
	order := message{}
	for _, id := range []uint64{1, 8, 2, 4, 3, 5, 6, 7, 9, 10} {
		order = order.n(1, id)
	}
	devices := message{}.n(1, 1).n(2, 2).m(3, message{}.n(1, 0)).m(3, message{}.n(1, 1))
	return message{}.m(1, message{}.s(1, "jit_step").m(3, gather).m(3, entry).n(6, 1).m(7, message{}.m(1, message{}.n(1, 1).m(2, order))).
		m(8, message{}.m(1, message{}.n(1, 0))).m(15, devices))
}

// stepPlanes is a profile of two steps on two GPUs of one process.
func stepPlanes() []byte {
	modules := &planeWriter{message: message{}.s(2, "/host:metadata")}
	modules.number(4, "jit_step(3)", modules.stats(5, "Hlo Proto", stepHLO(), "program_id", 3))
	host := &planeWriter{message: message{}.s(2, "/host:CPU")}
	var space message
	var marks []message
	for device := range 2 {
		gpu := &planeWriter{message: message{}.s(2, fmt.Sprint("/device:GPU:", device))}
		gpu.message = append(gpu.message, gpu.stats(6, "gpu_device_name", "NVIDIA H200", "core_count", 132)...)
		var main, gathers, calls []message
		for step := range 2 {
			at, c := 1000*step, 100*device+10*step
			of := func(c int, op string) []any {
				return []any{"correlation_id", c, "hlo_op", op, "hlo_module", "jit_step", "program_id", 3, "kernel_details", "regs:96 static_shared:16 dynamic_shared:32 grid:24,2,1 block:512,1,1"}
			}
			gathers = append(gathers, gpu.event("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", at+100, 50, of(c+1, "all-gather.21")...))
			main = append(main,
				gpu.event("loop_convert_fusion", at+100, 20, append(of(c+2, "command_buffer"), "cuda_graph_node_id", 7<<32|1)...),
				gpu.event("Memset 0", at+150, 5, "correlation_id", c+2, "hlo_op", "command_buffer", "hlo_module", "jit_step", "program_id", 3, "Memset_details", "kind:unknown num_bytes:4 async:0"),
				gpu.event("nvjet_sm90_tst_128x128", at+160, 100, append(of(c+2, "command_buffer"), "cuda_graph_node_id", 7<<32|2)...),
				gpu.event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", at+270, 30, of(c+3, "all-reduce.7")...),
				gpu.event("loop_subtract_fusion", at+300, 10, of(c+4, "loop_subtract_fusion.9")...))
			launch := func(c, from int, name string) message {
				return host.event(name, from, 5, "device_id", strconv.Itoa(device), "correlation_id", c)
			}
			calls = append(calls,
				host.event(fmt.Sprintf("[%d] Execute (jit_step)", device), at+10, 80, "global_device_id", device, "name", "jit_step"),
				host.event("all-gather-start", at+20, 10), launch(c+1, at+22, "ncclDevKernel_AllGather_RING_LL"),
				host.event("all-gather-done", at+35, 2), launch(c+2, at+40, "cuGraphLaunch (CudaGraph:45)"),
				launch(c+3, at+50, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), launch(c+4, at+60, "loop_subtract_fusion"))
			if device == 0 {
				marks = append(marks, host.event("train", at, 50, "step_num", step+5), host.event("$frame", at, 50))
			}
		}
		gpu.line(uint64(7+device), fmt.Sprintf("Stream #%d(Compute)", 7+device), main...)
		gpu.line(uint64(20+device), fmt.Sprintf("Stream #%d(Compute)", 20+device), gathers...)
		host.line(uint64(50+device), fmt.Sprint("py_xla_execute/", device), calls...)
		space = space.m(1, gpu.message)
	}
	host.line(40, "python3", marks...)
	return append(space.m(1, host.message), message{}.m(1, modules.message)...)
}

// describeXLA is what a run has of a program that XLA compiled.
func describeXLA(run *trace.Run) string {
	var b strings.Builder
	for i, r := range run.Ranks {
		fmt.Fprintf(&b, "rank %d of %d on %s, by %s\n", r.ID, r.World, r.Device.Name, r.Compiler)
		for _, s := range run.Spans {
			if run.RankOf(s) != i || !s.Kind.OnDevice() {
				if run.RankOf(s) == i && strings.Contains(run.NameOf(s), "#") {
					fmt.Fprintf(&b, "%6d %s\n", s.Start/1000, run.NameOf(s))
				}
				continue
			}
			name, _, _ := strings.Cut(run.NameOf(s), "(")
			fmt.Fprintf(&b, "%6d +%d %d %s", s.Start/1000, s.Dur()/1000, run.Lanes[s.Lane].ID, name)
			if k := run.Kernel(s); k != nil {
				if o := run.Operator(k); o != nil {
					fmt.Fprintf(&b, " of %s %v", o.Name, o.Dims)
				}
				if k.Launch != trace.None {
					fmt.Fprintf(&b, " by %s", run.NameOf(run.Spans[k.Launch]))
				}
			}
			if c := run.Comm(s); c != nil && c.Group != trace.None {
				fmt.Fprintf(&b, " %s %d to %d %s in %v", c.Op, c.In, c.Out, c.DType, run.Groups[c.Group].Ranks)
			}
			for _, a := range run.AccessesOf(run.UsesOf(s)) {
				word := map[[2]bool]string{{true, false}: "reads", {false, true}: "writes", {true, true}: "changes"}[[2]bool{a.Read, a.Write}]
				fmt.Fprintf(&b, " %s %d.%d-%d", word, a.Storage, a.From, a.To)
			}
			b.WriteString("\n")
		}
	}
	for _, w := range run.Waits {
		fmt.Fprintf(&b, "rank %d: stream %d from call %d waits for stream %d before call %d\n", w.Rank, w.Stream, w.Correlation, w.On, w.Record)
	}
	for _, e := range run.Ledger.Entries {
		fmt.Fprintf(&b, "%s %s ×%d\n", e.Action, e.Reason, e.Count)
	}
	return b.String()
}

// On one GPU no call names the device that it runs a module on: the call that starts it is of the iteration that is marked.
func TestXPlaneStepsOfOneGPU(t *testing.T) {
	gpu := &planeWriter{message: message{}.s(2, "/device:GPU:0")}
	host := &planeWriter{message: message{}.s(2, "/host:CPU")}
	var work, calls []message
	for step := range 3 {
		at := 1000 * step
		calls = append(calls, host.event("train", at, 60, "step_num", step),
			host.event("Execute (jit_step)", at+10, 40, "name", "jit_step"),
			host.event("cuGraphLaunch (CudaGraph:2)", at+20, 20, "correlation_id", step+1))
		work = append(work, gpu.event("fusion", at+100, 50, "correlation_id", step+1, "hlo_op", "command_buffer", "hlo_module", "jit_step",
			"kernel_details", "grid:24,1,1 block:512,1,1"))
	}
	gpu.line(7, "Stream #7(Compute)", work...)
	host.line(40, "python3", calls...)
	run := must.Have(ReadXPlane(bytes.NewReader(message{}.m(1, gpu.message).m(1, host.message)), "vm.xplane.pb"))(t)
	var marks []string
	for _, s := range run.Spans {
		if name := run.NameOf(s); strings.Contains(name, "#") {
			marks = append(marks, fmt.Sprint(name, " ", s.Start/1000))
		}
	}
	if got := strings.Join(marks, ", "); got != "train#0 10, train#1 1010, train#2 2010" {
		t.Errorf("marks: %s", got)
	}
}

// Programs of one name have numbers: those of their metadata, in versions without the statistic. Without its number, a kernel is
// of none of them.
func TestXPlaneModulesOfOneName(t *testing.T) {
	product := func(rows, number uint64) message {
		gemm := `{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}`
		entry := message{}.n(5, 1).n(6, 3)
		for _, i := range []message{
			hlo(1, "p.0", "parameter", array(rows, 8), nil, nil), hlo(2, "p.1", "parameter", array(8, 16), nil, message{}.n(9, 1)),
			hlo(3, "custom-call.1", "custom-call", array(rows, 16), []uint64{1, 2}, message{}.s(28, "__cublas$gemm").s(43, gemm)),
		} {
			entry = entry.m(2, i)
		}
		proto := message{}.m(1, message{}.s(1, "jit_dot").m(3, entry).n(6, 1).m(7, message{}.m(1, message{}.n(1, 1).m(2, message{}.n(1, 1).n(1, 2).n(1, 3)))))
		stat := message{}.n(1, 1).m(6, proto)
		return message{}.n(1, number).m(2, message{}.n(1, number).s(2, fmt.Sprintf("jit_dot(%d)", number)).m(5, stat))
	}
	modules := message{}.s(2, "/host:metadata").m(5, message{}.n(1, 1).m(2, message{}.n(1, 1).s(2, "Hlo Proto"))).m(4, product(4, 21)).m(4, product(32, 34))
	gpu := &planeWriter{message: message{}.s(2, "/device:GPU:0")}
	var kernels []message
	for i, program := range []int{34, 21, 0} {
		stats := []any{"hlo_op", "custom-call.1", "hlo_module", "jit_dot", "kernel_details", "grid:1,1,1 block:64,1,1"}
		if program > 0 {
			stats = append(stats, "program_id", program)
		}
		kernels = append(kernels, gpu.event("Cijk", 100*i, 10, stats...))
	}
	gpu.line(1, "Stream #16(Kernel)", kernels...)
	run := must.Have(ReadXPlane(bytes.NewReader(message{}.m(1, gpu.message).m(1, modules)), "host.xplane.pb"))(t)
	var got []string
	for i := range run.Kernels {
		if o := run.Operator(&run.Kernels[i]); o != nil {
			got = append(got, fmt.Sprint(o.Dims[0]))
		} else {
			got = append(got, "unknown")
		}
	}
	if want := []string{"[32 8]", "[4 8]", "unknown"}; !cmp.Equal(got, want) {
		t.Errorf("operands %v, want %v", got, want)
	}
}

func TestReadXPlane(t *testing.T) {
	run := must.Have(ReadXPlane(bytes.NewReader(stepPlanes()), "host.xplane.pb"))(t)
	must.Do(t, trace.Validate(run))
	checkGolden(t, "xplane.golden", describeXLA(run))
	k := run.Kernel(run.Spans[len(run.Spans)-1])
	if s := run.Setup(k); s.Grid != [3]int32{24, 2, 1} || s.Block != [3]int32{512, 1, 1} || s.Registers != 96 || s.Shared != 48 {
		t.Errorf("%+v", s)
	}
	if len(run.Collectives) != 4 || len(run.Collectives[0].Members) != 2 {
		t.Errorf("%d collectives are matched", len(run.Collectives))
	}
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want := must.Have(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// capturedStep is a step of a tensor parallel transformer on two GPUs of type H200: of the profile that JAX 0.11.2 wrote, without
// what the reader does not use.
func capturedStep(tb testing.TB) []byte {
	tb.Helper()
	f := must.Have(os.Open("testdata/jax_tp.xplane.pb.gz"))(tb)
	defer f.Close()
	z := must.Have(gzip.NewReader(f))(tb)
	return must.Have(io.ReadAll(z))(tb)
}

func TestReadCapturedXPlane(t *testing.T) {
	run := must.Have(ReadXPlane(bytes.NewReader(capturedStep(t)), "jax_tp.xplane.pb"))(t)
	must.Do(t, trace.Validate(run))
	text := strings.SplitAfter(describeXLA(run), "\n")
	const layer = 60 // its lines
	checkGolden(t, "jax_tp.golden", strings.Join(text[:layer], ""))
	if n := run.Ledger.Count(trace.Skipped); n != 0 || len(run.Ranks) != 2 || len(text) != 1070 {
		t.Errorf("%d ranks, %d lines, %v", len(run.Ranks), len(text), run.Ledger)
	}
}

// TestBadXPlane: what is broken has its place, and what is no work of a GPU says so.
func TestBadXPlane(t *testing.T) {
	whole := stepPlanes()
	cpu := &planeWriter{message: message{}.s(2, "/host:CPU")}
	cpu.line(1, "python3", cpu.event("train", 1, 2))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"cut":                 {whole[:len(whole)/2], "the file ends inside a plane (it may be cut short: copy it again)"},
		"no plane":            {[]byte{0x0a, 2, 0xff, 0xff}, "a plane is not a protobuf message (is this a profile of JAX?)"},
		"an impossible plane": {protowire.AppendVarint([]byte{0x0a}, 1<<40), "a plane of 1099511627776 bytes: the most is 1073741824"},
		"no GPU": {
			message{}.m(1, cpu.message),
			"no stream of a GPU: no slices (profile a program on GPUs (jax.profiler.trace): others have no streams)",
		},
	} {
		_, err := ReadXPlane(bytes.NewReader(c.data), "x")
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestXPlaneTimes: a time that no run has is left out and counts as damage.
func TestXPlaneTimes(t *testing.T) {
	gpu := &planeWriter{message: message{}.s(2, "/device:GPU:0")}
	far := append(message{}.n(1, gpu.number(4, "late", nil)), message{}.n(2, 1<<63).n(3, 1<<63)...)
	gpu.line(1, "Stream #1(Compute)", gpu.event("k", 1, 2, "kernel_details", "grid:1,1,1"), far)
	gpu.message = gpu.m(3, message{}.s(2, "Stream #1(Compute)").n(3, 1<<63).m(4, gpu.event("k", 1, 2)))
	run := must.Have(ReadXPlane(bytes.NewReader(message{}.m(1, gpu.message)), "x"))(t)
	if n := run.Ledger.Count(trace.Skipped); n != 2 || len(run.Kernels) != 1 {
		t.Errorf("%d kernels, %d events skipped: %v", len(run.Kernels), n, run.Ledger)
	}
}

func FuzzReadXPlane(f *testing.F) {
	f.Add(stepPlanes())
	f.Add(capturedStep(f))
	f.Add([]byte{0x0a, 2, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := ReadXPlane(bytes.NewReader(data), "x")
		if err != nil {
			var syntax *trace.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("%v", err)
			}
			return
		}
		must.Do(t, trace.Validate(run))
	})
}
