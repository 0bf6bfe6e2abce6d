package lift

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A server writes the trace of a serving engine: its host launches, the device follows.
type server struct {
	events    []string
	now       int // of the host, µs
	free      int // of queue 7, µs
	launches  int
	withoutIt bool // the host is not traced
}

func (s *server) event(cat, name string, ts, dur, tid int, args string) {
	s.events = append(s.events, fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":%d,"tid":%d,"ts":%d,"dur":%d,"args":{%s}}`, cat, name, map[bool]int{true: 0, false: 1}[cat == "kernel"], tid, ts, dur, args))
}

// launch has the host launch kernels, one letter each, by one call.
func (s *server) launch(call, kernels string) {
	s.launches++
	correlation := fmt.Sprintf(`"correlation":%d,"stream":7,"device":0`, s.launches)
	if !s.withoutIt {
		s.event("cuda_runtime", call, s.now, 2, 3, correlation)
	}
	names := map[rune]string{'A': "BatchMLAPageAttentionKernel", 'P': "PrefillWithKVCacheKernel", 'U': "kernel_unified_attention_2d", 'G': "CUDA graph 4", 'B': "void mul_mat_q<(ggml_type)12, 128, false>", 'V': "void mul_mat_vec_q<(ggml_type)12, 1, false, false>"}
	s.free = max(s.free, s.now+5)
	for _, k := range kernels {
		name, ok := names[k]
		if !ok {
			name = string(k)
		}
		s.event("kernel", name, s.free, 9, 7, correlation)
		s.free += 10
	}
	s.now += 4
}

func (s *server) eager(kernels string) {
	for _, k := range kernels {
		s.launch("cudaLaunchKernel", string(k))
	}
}

func (s *server) graph(kernels string) { s.launch("cudaGraphLaunch", kernels) }

// wait has the host take in the results of what ends by now.
func (s *server) wait() {
	s.event("cuda_runtime", "cudaEventSynchronize", s.now, 3, 3, "")
	s.now += 4
}

// decode and prefill are passes of five layers: embedding, layers, head.
const decode, prefill = "E" + "NQAOM" + "NQAOM" + "NQAOM" + "NQAOM" + "NQAOM" + "H", "E" + "NQPOM" + "NQPOM" + "NQPOM" + "NQPOM" + "NQPOM" + "H"

// serve writes what a line says: "10x eager xy; graph decode; wait". Words are kernels, "decode" and "prefill" those of a pass,
// "decode8" with eight layers; "decode8:21" leaves out what is before its 21st kernel, "decode8-21" what is from there on.
func (s *server) serve(t testing.TB, line string) {
	t.Helper()
	times := 1
	if n, rest, ok := strings.Cut(line, "x "); ok {
		times, line = integer(t, n), rest
	}
	for range times {
		for part := range strings.SplitSeq(line, ";") {
			words := strings.Fields(part)
			kernels := ""
			for _, word := range words[1:] {
				switch word {
				case "decode":
					word = decode
				case "prefill":
					word = prefill
				case "decode8", "decode8:21", "decode8-21":
					deep := "E" + strings.Repeat("NQAOM", 8) + "H"
					word = map[string]string{"decode8": deep, "decode8:21": deep[21:], "decode8-21": deep[:21]}[word]
				}
				kernels += word
			}
			switch words[0] {
			case "eager":
				s.eager(kernels)
			case "graph":
				s.graph(kernels)
			case "wait":
				s.wait()
			case "hostless": // from now on
				s.withoutIt = true
			case "hosted":
				s.withoutIt = false
			default:
				t.Fatalf("no %s", words[0])
			}
		}
	}
}

// run is what was written.
func (s *server) run(t testing.TB) *trace.Run {
	t.Helper()
	return must.Have(chrome.Read(strings.NewReader(`{"schemaVersion":1,"traceEvents":[`+strings.Join(s.events, ",")+`]}`), chrome.Options{File: "rank0.json"}))(t)
}

// A marked step in which nothing was launched is no iteration, and a launch that loads a kernel is
// told from the others.
func TestWarmUp(t *testing.T) {
	s := server{now: 10}
	s.event("user_annotation", "ProfilerStep#1", 1, 5, 3, "")
	s.event("user_annotation", "ProfilerStep#2", 8, 9000, 3, "")
	s.eager("abcd")
	s.now += 500
	s.launches++
	s.event("cuda_runtime", "cudaLaunchKernel", s.now, 6000, 3, fmt.Sprintf(`"correlation":%d`, s.launches))
	s.event("kernel", "loaded", s.now+6001, 9, 7, fmt.Sprintf(`"correlation":%d,"stream":7,"device":0`, s.launches))
	s.now, s.free = s.now+6020, s.now+6020
	s.eager("efgh")
	run := s.run(t)
	w := must.Have(Workload(run, Options{}))(t)
	if len(w.Steps) != 1 || w.Steps[0].Name != "ProfilerStep#2" || w.Ops[0].Step != 0 {
		t.Errorf("steps %+v, want the second", w.Steps)
	}
	if loads := w.Hosts[0].Loads; loads != 5_998_000 {
		t.Errorf("%d ns of loading kernels, want 5998 µs", loads)
	}
}

// Without marks an iteration of training ends with the last step of its optimizers: two without a backward pass between them are of
// one iteration, what follows the last is of none, and ranks with different numbers of them are cut otherwise.
func TestStepsEndWithOptimizers(t *testing.T) {
	capture := func(iterations int) *trace.Run {
		s := server{now: 10}
		update := func(name string) {
			s.event("user_annotation", "Optimizer.step#"+name, s.now, 20, 3, "")
			s.now += 5
			s.eager("o")
			s.now += 20
		}
		for range iterations {
			s.eager("fg")
			s.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", s.now, 10, 4, "")
			s.eager("b")
			update("AdamW.step")
			update("SGD.step")
		}
		s.eager("x")
		run := s.run(t)
		return run
	}
	steps := func(run *trace.Run) (list []int32, names int) {
		w := must.Have(Workload(run, Options{}))(t)
		for _, op := range w.Ops {
			list = append(list, op.Step)
		}
		return list, len(w.Steps)
	}
	got, n := steps(capture(3))
	if want := []int32{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, -1}; n != 3 || !slices.Equal(got, want) {
		t.Errorf("%d steps, %v, want %v", n, got, want)
	}
	if got, n := steps(capture(1)); n != 0 || got[0] != -1 {
		t.Errorf("one optimizer step makes %d iterations: %v", n, got)
	}
}
