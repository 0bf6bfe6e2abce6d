package engines_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

var update = flag.Bool("update", false, "rewrite what tests compare with")

// matrixMachines are the machines of the conformance matrix: every topology, one
// node and several, both vendors.
var matrixMachines = []struct{ name, kind string }{
	{"h200x4", "NVIDIA, switch"},
	{"a100x4", "NVIDIA, switch"},
	{"h800x16", "NVIDIA, two nodes of eight on a switch"},
	{"mi300x:4", "AMD, mesh"},
	{"mi210x4", "AMD, mesh"},
	{"t3x8", "AMD CUs, ring"},
	{"torus128x4", "AMD, torus of nodes of one GPU"},
	{"mi210ibx2", "AMD, two nodes of one GPU"},
}

// matrixOperators are the operators of the conformance matrix, in small.
var matrixOperators = []struct{ name, text string }{
	{"gemm+all_to_all", "shape: {m: 4096, n: 4096, k: 2048}"},
	{"gemm+reduce_scatter", "shape: {m: 4096, n: 4096, k: 2048}"},
	{"gemm+all_reduce", "shape: {m: 4096, n: 4096, k: 2048}"},
	{"all_gather+gemm", "shape: {m: 4096, n: 4096, k: 2048}"},
	{"gemv+all_reduce", "shape: {m: 8192, k: 4096}"},
	{"embedding+all_to_all", "shape: {batch: 1024, tables: 8, dim: 256, pooling: 70}\nkernel: {launches: 8}"},
	{"gemm+gemm", "shape: {m: 1024, k: 4096, hidden: 2048, n: 4096}"},
	{"attention", "shape: {m: 1024, hidden: 4096, width: 1024, context: 1024}"},
	{"conv+conv", "shape: {batch: 8, height: 28, width: 28, channels: 128, filter: 3}\nkernel: {tile: 64x64, threads: 256, registers: 64, shared: 16384}"},
}

// matrixSpecs are further workloads, on the first machine's kind only.
var matrixSpecs = []struct {
	name string
	spec plantest.Spec
}{
	{"all_to_all", plantest.MoeDown},
	{"all_reduce", plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 1_220_000, Comm: 640_000, Channels: 24}},
	{"reduce_scatter of 2 ranks", plantest.Spec{Ranks: 2, Steps: 2, Op: trace.ReduceScatter, Bytes: 64 << 20, Gemm: 304_000, Comm: 100_000, Channels: 16}},
	{"all_gather of 8 ranks", plantest.Spec{Ranks: 8, Steps: 2, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 170_000, Channels: 32, Reverse: true}},
	{"all_reduce of 64 KiB", plantest.Vector},
	{"late rank", plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllToAll, Bytes: 64 << 20, Gemm: 304_000, Comm: 153_000, Channels: 32, Late: 50_000}},
	{"all_to_all before a GEMM", plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllToAll, Bytes: 64 << 20, Gemm: 304_000, Comm: 153_000, Channels: 32, Reverse: true}},
	{"one iteration", plantest.Spec{Ranks: 4, Steps: 1, Op: trace.AllToAll, Bytes: 1 << 20, Gemm: 20_000, Comm: 25_000, Channels: 8}},
}

// A matrixRow is a workload on a machine.
type matrixRow struct {
	machine, workload string
	w                 *workload.Workload
	m                 machine.Machine
}

const ofSpecs = "h200: NVIDIA, switch, workloads without a workload file"

func matrixRows(t *testing.T) (rows []matrixRow) {
	for _, on := range matrixMachines {
		m := must.Have(machine.Load(on.name))(t)
		for _, op := range matrixOperators {
			w, m := plantest.OperatorOf(t, fmt.Sprintf("operator: %s\nmachine: %s\nranks: %d\niterations: 2\ntype: f16\n%s\n", op.name, on.name, m.GPUs, op.text))
			rows = append(rows, matrixRow{on.name, op.name, w, m})
		}
	}
	for _, s := range matrixSpecs {
		rows = append(rows, matrixRow{ofSpecs, s.name, s.spec.Build(t), plantest.H200(t, s.spec.Ranks)})
	}
	return rows
}

// matrixColumns are every strategy, and behind it those settings of it that serve other pairs.
func matrixColumns(t *testing.T) (columns []plan.Selection) {
	settings := must.Have(engines.ParseSelection("decompose:variant=waves,decompose:variant=ring,onesided:impl=oneshot,onesided:impl=ll:blocks=128"))(t)
	engines := must.Have(engines.ParseSelection("all"))(t)
	for _, e := range engines {
		columns = append(columns, e)
		for _, s := range settings {
			if s.Strategy.Name == e.Strategy.Name {
				columns = append(columns, s)
			}
		}
	}
	return columns
}

func columnName(s plan.Selection) string {
	return strings.TrimSpace(s.Strategy.Name + " " + s.Strategy.String(s.Values))
}

// applies is the cell of a strategy that has a result. Any other is a key of refusals.
const applies = "yes"

// refusals are the reasons for which a strategy may not apply, by what their message contains.
var refusals = []struct{ cell, meaning, contains string }{
	{"-", "the workload has no pair of operations that the strategy serves", " found"},
	{"-", "", "needs an all-gather before a GEMM or a reduce-scatter behind one"},
	{"-", "", "the collectives here come first"},
	{"-", "", "each rank runs one GEMM"},
	{"-", "", "no GEMM"},
	{"small", "the messages are too large for the protocol", "is for small messages"},
	{"ring", "what is stored directly needs a switch or a link between any two GPUs", "a link between any two"},
	{"nodes", "the strategy serves this pair within a node only", "between nodes is for impl=ll"},
	{"large", "engines leave collectives of this size to the library", "up to which engines use such a kernel"},
	{"one", "one iteration has no next one to overlap", "has no next iteration"},
}

func cellOf(t *testing.T, out engines.Outcome) string {
	if out.Result != nil {
		return applies
	}
	for _, r := range refusals {
		if strings.Contains(out.Why, r.contains) {
			return r.cell
		}
	}
	t.Errorf("a refusal of no known class: %q", out.Why)
	return "?"
}

// oneNodeMachines are those on which every strategy applies to something: stores into a peer's
// memory need a node's links.
var oneNodeMachines = []string{"h200x4", "a100x4", "mi300x:4", "mi210x4", "t3x8"}

// A cellKey is a row and column of the matrix.
type cellKey struct{ machine, workload, column string }

// TestConformance fills the matrix of workloads on machines and strategies. What a strategy
// applies to, and why not to the rest, is a golden: one that loses a yes no longer serves what it
// was published for. Every result is as conform asks.
func TestConformance(t *testing.T) {
	rows, columns := matrixRows(t), matrixColumns(t)
	cells := map[cellKey]string{}
	for _, r := range rows {
		for _, s := range columns {
			name := columnName(s)
			t.Run(r.machine+"/"+r.workload+"/"+name, func(t *testing.T) {
				cells[cellKey{r.machine, r.workload, name}] = conform(t, s, r.w, r.m)
			})
		}
	}
	for _, s := range columns {
		for _, on := range oneNodeMachines {
			if !slices.ContainsFunc(rows, func(r matrixRow) bool { return cells[cellKey{on, r.workload, columnName(s)}] == applies }) {
				t.Errorf("%s applies to nothing on %s", columnName(s), on)
			}
		}
	}
	goldenIs(t, "testdata/conformance.golden", matrixText(rows, columns, cells))
}

// goldenIs compares a text with a file of the package, or rewrites it with -update.
func goldenIs(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want := must.Have(os.ReadFile(name))(t)
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (run with -update if it should):\n%s", name, d)
	}
}

// matrixText is the matrix, a block for each machine.
func matrixText(rows []matrixRow, columns []plan.Selection, cells map[cellKey]string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "What each strategy applies to.\n\n%s\tapplies\n", applies)
	for _, r := range refusals {
		if r.meaning != "" {
			fmt.Fprintf(&b, "%s\t%s\n", r.cell, r.meaning)
		}
	}
	last := ""
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		if r.machine != last {
			tw.Flush()
			fmt.Fprintf(&b, "\n%s\n", r.title())
			for _, s := range columns {
				fmt.Fprintf(tw, "\t%s", s.Strategy.Name)
			}
			fmt.Fprintln(tw)
			for _, s := range columns {
				_, setting, _ := strings.Cut(columnName(s), "=")
				fmt.Fprintf(tw, "\t%s", setting)
			}
			fmt.Fprintln(tw)
			last = r.machine
		}
		fmt.Fprintf(tw, "%s", r.workload)
		for _, s := range columns {
			fmt.Fprintf(tw, "\t%s", cells[cellKey{r.machine, r.workload, columnName(s)}])
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (r *matrixRow) title() string {
	for _, on := range matrixMachines {
		if on.name == r.machine {
			return on.name + ": " + on.kind
		}
	}
	return r.machine
}
