package schedule_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

// Beside the calls of enginetest.Scripts:
//
//	edges annotated             what all operations read is of that evidence; "unsized": of unknown size, "guessed": between GEMMs
//	apart 1                     a collective was matched on each rank alone
//	lose 0                      the recording of a rank has no kernels
//	later B1 us=4               operations run later
//	serving decode tokens=32    the step is one of serving
//	settings                    answers the settings that are tried beside single ones
//	pipeline stages=4 micros=8  a capture of a pipeline (made)
//	load all_reduce gemm=2      a schedule.Load
func TestScripts(t *testing.T) {
	enginetest.Scripts(t, "testdata/*.txt", map[string]func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string{
		"edges": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			edges(t, b.W, c.Args[0])
			return ""
		},
		"apart": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			w, i := b.W, number(t, c.Args[0])
			apart := w.Collectives[i]
			alone := apart.Members[1]
			w.Collectives[i].Members, apart.Members = apart.Members[:1:1], []int32{alone}
			w.Ops[alone].Collective = int32(len(w.Collectives))
			w.Collectives = append(w.Collectives, apart)
			return ""
		},
		"lose": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			b.W.Ranks[number(t, c.Args[0])] = nil
			return ""
		},
		"later": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			by := trace.Time(number(t, c.Set["us"])) * 1000
			for i := range b.W.Ops {
				if op := &b.W.Ops[i]; slices.Contains(c.Args, op.Name) {
					op.Start, op.End = op.Start+by, op.End+by
				}
			}
			return ""
		},
		"serving": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			phase := map[string]workload.Phase{"prefill": workload.Prefill, "decode": workload.Decode}[c.Args[0]]
			serving(b.W, workload.Batch{Phase: phase, Tokens: int64(number(t, c.Set["tokens"]))})
			return ""
		},
		"load": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			op, _ := trace.ParseCollectiveOp(c.Args[0])
			b.W = schedule.Load{Op: op, Gemm: float64(number(t, c.Set["gemm"]))}.Build(t, b.M)
			return ""
		},
		"settings": func(_ testing.TB, b *enginetest.Bench, _ scripttest.Call) string {
			_, list := schedule.Settings(b.W)
			return fmt.Sprint(list)
		},
		"pipeline": func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			s := made{us: 100}
			for name, text := range c.Set {
				n := number(t, text)
				switch name {
				case "stages":
					s.stages = n
				case "micros":
					s.micros = n
				case "layers":
					s.layers = n
				case "us":
					s.us = trace.Time(n)
				case "rows":
					s.rows = int64(n)
				case "tensor":
					s.tensor = n
				}
			}
			s.inference, s.ring, s.data = slices.Contains(c.Args, "inference"), slices.Contains(c.Args, "ring"), slices.Contains(c.Args, "data")
			s.oneQueue = slices.Contains(c.Args, "one-queue")
			b.W = s.build(t)
			for i := range b.W.Run.Comms {
				if slices.Contains(c.Args, "unknown-peers") {
					b.W.Run.Comms[i].Peer = trace.None
				}
			}
			return ""
		},
	})
}

func edges(t testing.TB, w *workload.Workload, as string) {
	t.Helper()
	for i := range w.Flow {
		for k := range w.Flow[i] {
			switch e := &w.Flow[i][k]; as {
			case "annotated":
				e.Evidence = workload.Annotated
			case "unsized":
				e.Bytes = 0
			case "guessed":
				if w.Ops[e.Op].Collective < 0 && w.Ops[i].Collective < 0 {
					e.Kind, e.Evidence = workload.StreamOnly, workload.Guessed
				}
			default:
				t.Fatalf("no evidence %s", as)
			}
		}
	}
}

// serving makes the one step of a workload one of serving.
func serving(w *workload.Workload, batch workload.Batch) *workload.Workload {
	w.Steps = []workload.Step{{Name: "step", Batch: batch}}
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Step = 0
		if op.Collective < 0 {
			k := *op.Kernel
			k.Name, k.Shape, k.Dense = "nvjet_"+strings.TrimPrefix(k.Name, "nvjet_"), workload.Shape{}, false
			op.Kernel = &k
		}
	}
	w.TimeSteps()
	return w
}

func number(t testing.TB, text string) int {
	t.Helper()
	n := must.Have(strconv.Atoi(text))(t)
	return n
}
