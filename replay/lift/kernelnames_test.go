package lift

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

// Scripts of what names of kernels say:
//
//	role NAME         what its work is limited by; of attention, the phase that runs it
//	tile NAME         its tile, and whether workgroups share tiles
//	norm NAME         the rows that 32 workgroups of it normalise
//	deepgemm NAME     columns and depth of the product, and the tile
//	batch NAME        the batch of a range
//	shape aten::mm dims=8x4,4x2,- types=float,float     what an operator multiplies or looks up, in so many batches; "-" is no tensor
//	elementwise ...   what it reads and writes, bytes
func TestNamesOfKernels(t *testing.T) {
	role := map[workload.Class]string{
		workload.ClassUnknown: "unknown", workload.ClassSweep: "sweep", workload.ClassLight: "light", workload.ClassMatrix: "matrix",
		workload.ClassLookup: "lookup", workload.ClassDense: "dense",
	}
	scripttest.Run(t, "testdata/names/*.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string {
			switch name := c.Text; c.Name {
			case "role":
				name = trace.Demangle(name)
				text := cmp.Or(role[workload.ClassOf(name)], "heavy")
				switch is, prefill, decode := attention(name); {
				case prefill:
					text += ", prefill"
				case decode:
					text += ", decode"
				case is:
					text += ", attention"
				}
				return text
			case "tile":
				return tileText(name)
			case "norm":
				op := &workload.Op{Kernel: &workload.Kernel{Name: name, Tiling: workload.Tiling{WGs: 32}}, Kind: trace.Compute}
				return fmt.Sprint(normRows(op), " rows")
			case "deepgemm":
				n, k, tile, ok := deepGEMM(name)
				return fmt.Sprintf("%d columns, depth %d, tile %v: %t", n, k, tile, ok)
			case "batch":
				b := batchOf(name)
				return fmt.Sprintf("%q, %d requests, %d tokens", b.Phase, b.Requests, b.Tokens)
			case "shape":
				s, batch := shapeOf(operatorOf(t, c))
				return fmt.Sprintf("%q, %d", s, batch)
			case "elementwise":
				s, reads, writes := elementwise(operatorOf(t, c))
				return fmt.Sprintf("%q, reads %g, writes %g", s, reads, writes)
			}
			t.Fatalf("no call %s", c.Name)
			return ""
		}
	})
}

func operatorOf(t testing.TB, c scripttest.Call) *trace.Operator {
	t.Helper()
	op := &trace.Operator{Name: c.Args[0]}
	if types := c.Set["types"]; types != "" {
		op.Types = strings.Split(strings.ReplaceAll(types, "␣", " "), ",")
	}
	for dims := range strings.SplitSeq(c.Set["dims"], ",") {
		var sides []int64
		if dims != "-" {
			sides = sidesOf(t, dims)
		}
		op.Dims = append(op.Dims, sides)
	}
	return op
}

func tileText(name string) string {
	text := "none"
	if tile, ok := nameTile(name); ok {
		text = fmt.Sprintf("%dx%d", tile.first, tile.second)
		if tile.along1st > 0 {
			text += fmt.Sprintf(" by %dx%d", tile.along1st, tile.along2nd)
		}
		if tile.transposed {
			text += " transposed"
		}
	}
	if sharesTiles.MatchString(strings.ToLower(name)) {
		text += ", shared"
	}
	return text
}
