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

func TestForwardPasses(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(s *server)
		want string // phases and number of operations
	}{
		{"a graph launch and what follows", func(s *server) {
			for range 10 {
				s.eager("xy")
				s.graph(decode)
				s.eager("s")
				s.wait()
			}
		}, "decode 32" + strings.Repeat(", decode 30", 8) + ", decode 28"},
		{"graphs without a wait", func(s *server) {
			s.graph(decode)
			s.graph(decode)
		}, "decode 27, decode 27"},
		{"llama.cpp captures prompts, of many tokens, and decodes", func(s *server) {
			s.graph(strings.ReplaceAll(strings.ReplaceAll(decode, "Q", "B"), "A", "U"))
			s.graph(strings.ReplaceAll(strings.ReplaceAll(decode, "Q", "V"), "A", "U"))
		}, " 27, decode 27"},
		{"one eager pass between waits", func(s *server) {
			s.eager("x")
			s.wait()
			s.eager(prefill)
			s.wait()
		}, "prefill 28"},
		{"a prompt between decodes", func(s *server) {
			s.graph(decode)
			s.wait()
			s.eager(prefill + "s")
			s.wait()
			s.graph(decode)
			s.wait()
		}, "decode 27, prefill 28, decode 27"},
		{"only some layers of the first and of the last pass", func(s *server) {
			deep := "E" + strings.Repeat("NQAOM", 8) + "H"
			s.withoutIt = true
			s.graph(deep[21:])
			s.withoutIt = false
			s.graph(deep)
			s.graph(deep)
			s.graph(deep[:21])
		}, "decode 42, decode 42"},
		{"graphs of pieces, with attention between", func(s *server) {
			for range 2 {
				s.graph("ENQ")
				for range 4 {
					s.eager("U")
					s.graph("OMNQ")
				}
				s.eager("U")
				s.graph("OMH")
				s.wait()
			}
		}, " 27,  27"},
		{"kernels alone, which repeat with their layers", func(s *server) {
			s.withoutIt = true
			for range 3 {
				s.eager(prefill)
			}
		}, "prefill 27, prefill 27, prefill 27"},
		{"graphs recorded as a whole", func(s *server) {
			for range 3 {
				s.eager("xGs")
			}
		}, " 4,  3,  2"},
		{"pieces recorded as a whole, with attention between", func(s *server) {
			for range 3 {
				s.eager("GUGUG")
			}
		}, ""},
		{"kernels alone, behind a program's start and in front of its end", func(s *server) {
			s.withoutIt = true
			s.eager("abcabdabe")
			for range 3 {
				s.eager(prefill)
			}
			s.eager("yz")
		}, "prefill 27, prefill 27, prefill 27"},
		{"a start longer than what repeats", func(s *server) {
			s.withoutIt = true
			for i := range 60 {
				s.eager(string(rune('0' + i)))
			}
			s.eager(prefill + prefill)
		}, ""},
		{"layers alone", func(s *server) {
			s.withoutIt = true
			s.eager("NQPOMNQPOMNQPOMNQPOM")
		}, ""},
		{"nothing repeats", func(s *server) {
			s.eager("abcdefgh")
			s.wait()
			s.eager("ijklmnop")
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := server{now: 10}
			c.does(&s)
			run := must.Have(chrome.Read(strings.NewReader(`{"schemaVersion":1,"traceEvents":[`+strings.Join(s.events, ",")+`]}`), chrome.Options{File: "rank0.json"}))(t)
			w := must.Have(Workload(run, Options{}))(t)
			checkInvariants(t, w)
			ops := make([]int, len(w.Steps))
			for i := range w.Ops {
				if at := w.Ops[i].Step; at >= 0 {
					ops[at]++
				}
			}
			var got []string
			for i, step := range w.Steps {
				got = append(got, fmt.Sprintf("%s %d", step.Batch.Phase, ops[i]))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("steps %q, want %q", text, c.want)
			}
		})
	}
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
	run := must.Have(chrome.Read(strings.NewReader(`{"schemaVersion":1,"traceEvents":[`+strings.Join(s.events, ",")+`]}`), chrome.Options{File: "rank0.json"}))(t)
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
		run := must.Have(chrome.Read(strings.NewReader(`{"schemaVersion":1,"traceEvents":[`+strings.Join(s.events, ",")+`]}`), chrome.Options{File: "rank0.json"}))(t)
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
