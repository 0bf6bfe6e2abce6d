package trace_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

// Scripts of what names of kernels say:
//
//	kernel NAME     its operation, ranks, shots and norm if it communicates, with "*" if it is of another library; what it
//	                communicates beside compute; whether its name only looks as if it did; else compute
//	short NAME      what people call it
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string {
			switch c.Name {
			case "short":
				return fmt.Sprintf("%q", trace.Short(c.Text))
			case "kernel":
				return communication(c.Text)
			}
			t.Fatalf("no call %s", c.Name)
			return ""
		}
	})
}

func communication(kernel string) string {
	var says []string
	if trace.Communicates(kernel) {
		op := trace.KernelOp(kernel).String()
		if trace.OfAnotherLibrary(kernel) {
			op += "*"
		}
		says = append(says, op)
	}
	if n := trace.RanksInKernel(kernel); n > 0 {
		says = append(says, fmt.Sprint(n, " ranks"))
	}
	if shots := trace.ShotsOf(kernel); shots != "" {
		says = append(says, string(shots))
	}
	if trace.WithNorm(kernel) {
		says = append(says, "with a norm")
	}
	if _, _, fused := trace.Fused(kernel); fused != "" {
		says = append(says, "computes with "+fused)
	}
	if trace.LooksLikeCommunication(kernel) {
		says = append(says, "looks like communication")
	}
	if says == nil {
		return "compute"
	}
	return strings.Join(says, ", ")
}
