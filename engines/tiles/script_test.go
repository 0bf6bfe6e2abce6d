package tiles_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

// Beside the calls of enginetest.Scripts:
//
//	nodes 4x2              a bare machine of so many GPUs, as nodes of so many; "mesh": with meshes in them
//	mlp batch=1024 ...     a plantest.Mlp, of the fields given; Mlp512 without any
//	attention 1024         plantest.SelfAttention
//	chain up:1024:512 down:512:1024    GEMMs of 512 rows and 20 us: name, columns, sum
//	conv 256               two convolutions of 3x3 positions of so many channels
//	through KERNEL         two GEMMs with a kernel between them
//	held KERNEL            the same; the kernel waits for one of 1 ms on another stream
//	gather-experts 8192    workload file of so many tokens; "two-streams": the gather on its own; scatter-experts
//	drop-pairs             no pairs were found
func TestScripts(t *testing.T) {
	set := func(f func(t testing.TB, b *enginetest.Bench, c scripttest.Call)) func(testing.TB, *enginetest.Bench, scripttest.Call) string {
		return func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string {
			f(t, b, c)
			return ""
		}
	}
	enginetest.Scripts(t, "testdata/*.txt", map[string]func(t testing.TB, b *enginetest.Bench, c scripttest.Call) string{
		"nodes": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			var gpus, node int
			scan(t, c.Args[0], "%dx%d", &gpus, &node)
			m := bareNodes(t, gpus, node)
			if slices.Contains(c.Args, "mesh") {
				m.Fabric.Topology = machine.Mesh
				m.Fabric.Pair.Value = m.Fabric.Egress.Value / 3
			}
			for path, text := range c.Set {
				must.Do(t, scripttest.SetField(&m, path, text))
			}
			b.Use(m)
		}),
		"mlp": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			s := plantest.Mlp512
			if len(c.Set) > 0 {
				s = plantest.Mlp{Ranks: 1, Steps: 4}
			}
			for name, text := range c.Set {
				must.Do(t, scripttest.SetField(&s, strings.ToUpper(name[:1])+name[1:], text))
			}
			b.W = s.Build(t)
		}),
		"attention": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			b.W = plantest.SelfAttention(number(t, c.Args[0])).Build(t)
		}),
		"chain": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			s := plantest.Chain{Ranks: 1, Steps: 2, M: 512}
			for _, word := range c.Args {
				d := plantest.Dense{Dur: 20_000}
				d.Name, word, _ = strings.Cut(word, ":")
				scan(t, word, "%d:%d", &d.N, &d.K)
				s.GEMMs = append(s.GEMMs, d)
			}
			b.W = s.Build(t)
		}),
		"conv": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			x := plantest.Dense{N: number(t, c.Args[0]), K: 9 * number(t, c.Args[0]), Dur: 60_000}
			first, second := x, x
			first.Name, second.Name = "conv 1", "conv 2"
			b.W = plantest.Chain{Ranks: 1, Steps: 4, M: 56 * 56 * 12, GEMMs: []plantest.Dense{first, second}}.Build(t)
		}),
		"through": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) { b.W = through(t, c.Text) }),
		"held":    set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) { b.W = held(t, c.Text) }),
		"gather-experts": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			text := fmt.Sprintf(gatherExperts, number(t, c.Args[0]))
			if slices.Contains(c.Args, "two-streams") {
				text = strings.Replace(text, "name: gather}", "name: gather, stream: communication}", 1)
			}
			b.W, _ = plantest.OperatorOf(t, text)
		}),
		"scatter-experts": set(func(t testing.TB, b *enginetest.Bench, c scripttest.Call) {
			b.W, _ = plantest.OperatorOf(t, fmt.Sprintf(scatterExperts, number(t, c.Args[0])))
		}),
		"drop-pairs": set(func(_ testing.TB, b *enginetest.Bench, _ scripttest.Call) { b.W.Pairs = nil }),
	})
}

// A gather of tokens, a permutation and a grouped GEMM of four experts, and a grouped GEMM,
// a sum and a scatter; two rows a token, compiled tiles of 128×256.
const (
	gatherExperts = `
machine: h200:4
iterations: 3
type: bf16
shape: {tokens: %d, hidden: 4096, inner: 1536}
graph:
  - {op: all_gather, count: tokens*hidden, name: gather}
  - {op: permute, count: 2*tokens*hidden, after: gather, name: rows}
  - {op: grouped_gemm, m: 2*tokens, n: inner, k: hidden, groups: 4, tile: 128x256, after: rows}
`
	scatterExperts = `
machine: h200:4
iterations: 3
type: bf16
shape: {tokens: %d, hidden: 4096, inner: 1536}
graph:
  - {op: grouped_gemm, m: 2*tokens, n: hidden, k: inner, groups: 4, tile: 128x256}
  - {op: sum, count: tokens*hidden, width: hidden, parts: 2}
  - {op: reduce_scatter, count: tokens*hidden}
`
)

// through is two dependent GEMMs with a kernel between them.
func through(t testing.TB, name string) *workload.Workload {
	t.Helper()
	return inLoop(t, name)
}

// held is through behind a kernel on another stream, for which the kernel between the GEMMs waits.
func held(t testing.TB, name string) *workload.Workload {
	t.Helper()
	w := inLoop(t, name, plantest.Dense{Name: "load", N: 128, K: 128, Dur: 1_000_000})
	var load, before int32 = -1, -1 // the last one of each stream
	for i := range w.Ops {
		op := &w.Ops[i]
		last := &before
		if op.Name == "load" {
			op.Queue, last = 8, &load
		}
		if op.After = nil; *last >= 0 {
			op.After = []workload.Dep{{Op: *last, Why: workload.StreamOrder}}
		}
		if op.Name == name {
			op.After = append(op.After, workload.Dep{Op: load, Why: workload.HostWait})
		}
		*last = op.ID
	}
	return w
}

// inLoop is a loop of fc1 and fc2 with a kernel between them, behind other kernels.
func inLoop(t testing.TB, name string, others ...plantest.Dense) *workload.Workload {
	t.Helper()
	first, second := plantest.Dense{Name: "fc1", N: 4096, K: 1024, Dur: 60_000}, plantest.Dense{Name: "fc2", N: 1024, K: 4096, Dur: 60_000}
	between := plantest.Dense{Name: name, N: 4096, K: 1, Dur: 10_000, Kind: workload.Elementwise}
	w := plantest.Chain{Ranks: 1, Steps: 4, M: 1024, GEMMs: append(others, first, between, second)}.Build(t)
	var pairs []workload.Pair
	for i := range w.Ops {
		switch op := &w.Ops[i]; op.Name {
		case name:
			op.Read, op.Write = 2*1024*4096, 2*1024*4096
		case "fc2":
			p := w.Pairs[0]
			p.Step, p.First, p.Second = op.Step, []int32{op.ID - 2}, []int32{op.ID}
			pairs = append(pairs, p)
		}
	}
	w.Pairs = pairs
	return w
}

// bareNodes is the bare machine as nodes of so many GPUs, each with a NIC of its
// own through which a shard takes 100 µs too.
func bareNodes(t testing.TB, gpus, node int) machine.Machine {
	m := plantest.Bare(t, gpus, machine.Switch)
	rate := m.Fabric.Pair
	m.Network, m.Library.Network = machine.Network{}, machine.Network{}
	m.Network.Node.Value, m.Network.NICs.Value, m.Network.Topology = float64(node), float64(node), machine.Switch
	m.Network.Egress, m.Network.Ingress = rate, rate
	return m
}

func scan(t testing.TB, text, format string, into ...any) {
	t.Helper()
	if _, err := fmt.Sscanf(text, format, into...); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	return must.Have(strconv.ParseInt(text, 10, 64))(t)
}
