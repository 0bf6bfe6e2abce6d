package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

// shortAnswer is the length of a call and its answer up to which the answer is one line.
const shortAnswer = 130

// A Bench is what the calls of a script of strategies work on.
type Bench struct {
	W *workload.Workload
	M machine.Machine

	given bool   // by "machine"; else an H200 for each rank
	step  string // operations of the last "step"
}

// Scripts runs scripts of strategies. A workload is set by
//
//	step ranks=2              operations, as of plantest.Step; without any, those of the step before, as they were
//	spec Gathered ranks=8     a loop of one GEMM and one collective, of a plantest.Spec: op, mib, gemm and comm in us, ...
//	sample ddp-step           a trace under samples
//	operator td-moe           a file of samples/workloads, or the text of one
//
// and changed by
//
//	machine h200:4 GPU.Memory=4e11     a profile, or "bare:4" or "mesh:4" (plantest.Bare)
//	ops G* Backward=true               fields of operations whose names match
//	rank 3 Tiling.WGs=66               fields of kernels of a rank that are no collectives
//	collectives all Late=40000         fields of collectives, by number or all
//	names vllm::layer                  names that the trace has as well
//	guess-sizes                        bytes of collectives, which the trace does not have
//
// Any other call is a strategy with settings. It answers the time of an iteration, or what is asked for behind "|": see show. "| applies" plans it
// only.
// A package adds calls of its own.
func Scripts(t *testing.T, pattern string, more map[string]func(t testing.TB, b *Bench, c scripttest.Call) string) {
	t.Helper()
	scripttest.Run(t, pattern, func(testing.TB) scripttest.Handler {
		b := &Bench{}
		return func(t testing.TB, c scripttest.Call) string {
			t.Helper()
			if f := more[c.Name]; f != nil {
				return f(t, b, c)
			}
			return b.call(t, c)
		}
	})
}

func (b *Bench) call(t testing.TB, c scripttest.Call) string {
	t.Helper()
	switch c.Name {
	case "step":
		if c.Input != "" {
			b.step = c.Input
		}
		b.W = plantest.Step(t, number(t, c.Set["ranks"]), b.step)
	case "spec":
		b.W = specOf(t, c).Build(t)
	case "sample":
		b.W = plantest.LiftSample(t, c.Args[0])
	case "operator":
		b.given = true
		if c.Input != "" {
			b.W, b.M = plantest.OperatorOf(t, c.Input)
		} else {
			b.W, b.M = plantest.SampleOperator(t, c.Args[0])
		}
	case "names":
		b.W.Run.Names = append(b.W.Run.Names, c.Args...)
	case "guess-sizes":
		for i := range b.W.Collectives {
			b.W.Collectives[i].Bytes = 0
		}
		lift.GuessSizes(b.W, &b.M)
	case "rank":
		for i := range b.W.Ops {
			if op := &b.W.Ops[i]; strconv.Itoa(op.Rank) == c.Args[0] && op.Collective < 0 {
				k := *op.Kernel
				op.Kernel = &k
				setAll(t, op, c.Set)
			}
		}
	case "machine":
		name, gpus, _ := strings.Cut(c.Args[0], ":")
		b.given = true
		switch n, _ := strconv.Atoi(gpus); name {
		case "bare":
			b.M = plantest.Bare(t, n, machine.Switch)
		case "mesh":
			b.M = plantest.Bare(t, n, machine.Mesh)
		default:
			m, err := machine.Load(c.Args[0])
			if err != nil {
				t.Fatal(err)
			}
			b.M = m
		}
		setAll(t, &b.M, c.Set)
	case "ops":
		for i := range b.W.Ops {
			if op := &b.W.Ops[i]; matches(t, c.Args, op.Name) {
				k := *op.Kernel
				op.Kernel = &k
				setAll(t, op, c.Set)
			}
		}
	case "collectives":
		for i := range b.W.Collectives {
			if c.Args[0] == "all" || c.Args[0] == strconv.Itoa(i) {
				setAll(t, &b.W.Collectives[i], c.Set)
			}
		}
	default:
		return b.strategy(t, c)
	}
	return ""
}

// specOf is a Spec by name, changed by its settings.
func specOf(t testing.TB, c scripttest.Call) plantest.Spec {
	t.Helper()
	s := plantest.Spec{}
	if len(c.Args) > 0 {
		s = map[string]plantest.Spec{"Scattered": plantest.Scattered, "Gathered": plantest.Gathered, "Vector": plantest.Vector, "MoeDown": plantest.MoeDown}[c.Args[0]]
	}
	for name, text := range c.Set {
		switch name {
		case "kib":
			s.Bytes = int64(number(t, text)) << 10
		case "gemm":
			s.Gemm = trace.Time(number(t, text)) * 1000
		case "comm":
			s.Comm = trace.Time(number(t, text)) * 1000
		default:
			setAll(t, &s, map[string]string{strings.ToUpper(name[:1]) + name[1:]: text})
		}
	}
	return s
}

// strategy answers a selection.
func (b *Bench) strategy(t testing.TB, c scripttest.Call) string {
	t.Helper()
	settings, shows, _ := strings.Cut(c.Text, "|")
	sel, err := engines.ParseSelection(strings.Join(append([]string{c.Name}, strings.Fields(settings)...), ":"))
	if err != nil {
		return err.Error()
	}
	m := b.M
	if !b.given {
		m = plantest.H200(t, max(2, b.W.World))
	}
	if strings.TrimSpace(shows) == "applies" {
		_, err := schedule.Planned(sel[0].Strategy, b.W, m, sel[0].Values, plan.Scenario{})
		var na *plan.NotApplicable
		switch {
		case errors.As(err, &na):
			return "no: " + na.Why
		case err != nil:
			return "error: " + err.Error()
		}
		return "yes"
	}
	out, err := engines.Run(b.W, m, sel[0], plan.Scenario{}, replay.Options{})
	if err != nil {
		return "error: " + err.Error()
	}
	if out.Result == nil {
		return "no: " + out.Why
	}
	if shows == "" {
		shows = "time"
	}
	var lines []string
	for show := range strings.FieldsSeq(shows) {
		lines = append(lines, b.show(t, out, show)...)
	}
	if one := strings.Join(lines, "; "); len(c.Name)+len(c.Text)+len(one) < shortAnswer {
		return one
	}
	return strings.Join(lines, "\n")
}

// Use sets the machine.
func (b *Bench) Use(m machine.Machine) { b.M, b.given = m, true }

// setAll sets fields by their paths.
func setAll(t testing.TB, of any, set map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(set)) {
		if err := scripttest.SetField(of, path, set[path]); err != nil {
			t.Fatal(err)
		}
	}
}

func matches(t testing.TB, patterns []string, name string) bool {
	t.Helper()
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func micros(d trace.Time) string { return fmt.Sprintf("%.1f", float64(d)/1000) }
