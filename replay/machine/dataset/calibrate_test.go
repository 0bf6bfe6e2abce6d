package dataset

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// measured are the rows that the shipped h200 profile is read off.
func measured(t *testing.T) []Row {
	t.Helper()
	var all []Row
	for _, set := range []string{"h200x4-benchmarks", "h200x4-collectives", "h200-gemms", "h200x2-beside", "h200x2-host"} {
		all = append(all, setOf(t, set)...)
	}
	return all
}

var shipped = sync.OnceValues(func() (*Dataset, error) { return Open(repository) })

// setOf are the rows of a set of the repository's dataset.
func setOf(t *testing.T, name string) []Row {
	t.Helper()
	d := must.Have(shipped())(t)
	i := slices.IndexFunc(d.Sets, func(s Set) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no set %s", name)
	}
	return d.Sets[i].Rows
}

// results are the calibrations that several tests look at.
var results = map[string]Calibrated{}

// calibrated is CalibrateMachine, once for each profile's own rows.
func calibrated(t *testing.T, rows []Row, base machine.Machine) Calibrated {
	t.Helper()
	return trace.Memo(results, base.Name, func() Calibrated { return must.Have(CalibrateMachine(rows, base))(t) })
}

// The shipped profiles are what calibration reads off their rows, to the byte: numbers, and laws that no fit predicts better
// over rows that are left out (rule E6). The rows of h100 are one run of capture.py on one GPU, without those of the
// host: a container's host is no property of the GPU.
func TestShippedAreCalibrated(t *testing.T) {
	host := func(r Row) bool { return r.Workload.Kind == "host_issue" || r.Workload.Kind == "host_loop" }
	for name, rows := range map[string][]Row{
		"h200": measured(t), "h100": slices.DeleteFunc(slices.Clone(setOf(t, "h100-capture")), host),
	} {
		shipped := must.Have(machine.Load(name))(t)
		res := calibrated(t, rows, shipped)
		for _, c := range res.Choices {
			if t.Logf("%s: %-40s %.4f", name, c.Law, c.Base); c.How != "" {
				t.Errorf("%s: %s: %.4f over left-out rows, %s %.4f", name, c.Law, c.Base, c.How, c.Err)
			}
		}
		var want bytes.Buffer
		must.Do(t, machine.WriteYAML(res.Machine, &want))
		golden(t, "../profiles/"+name+".yaml", want.String())
	}
}

// Without rows nothing changes, and every rule says what it would need.
func TestCalibrateNothing(t *testing.T) {
	base := machinetest.Load(t, "a100")
	res := must.Have(CalibrateMachine(nil, base))(t)
	if d := cmp.Diff(base, res.Machine); d != "" {
		t.Error(d)
	}
	for _, f := range res.Fits {
		if f.Missing == "" || len(f.Rows) != 0 || f.Value == "" {
			t.Errorf("%+v", f)
		}
	}
}

// Rows of strategies are for validation: adding them changes nothing, nor does the order of rows.
func TestCalibrateIgnoresStrategiesAndOrder(t *testing.T) {
	base := machinetest.Load(t, "h200")
	var rows []Row
	for i, strategy := range []string{"bulk", "decompose", "multistream", "fused", "onesided", "tilesync"} {
		for _, kind := range []string{"gemm+collective", "embedding+collective", "gemv+collective", "gemm+gemm", "model", "collective"} {
			rows = append(rows, Row{
				ID: fmt.Sprint(strategy, kind), World: 4, Strategy: strategy, Us: float64(100 + i), Line: i,
				Workload: Workload{Kind: kind, M: 8192, N: 8192, K: 2048, Collective: "all_reduce", Bytes: 128 << 20, Part: "compute", DType: "f32", Embedding: Embedding{Batch: 512, Tables: 64, Pool: 64, Dim: 256}, Tile: []int{128, 128, 64}, Tiles: 1024, Layers: Layers{Grids: []int{192, 192}, Hidden: 1024, FFN: 1024}},
				Params:   Params{Settings: Settings{Channels: 2, Programs: 132}, State: State{Cool: true, Queued: true}, Alongside: Alongside{AloneUs: 90}},
			})
		}
	}
	if _, err := CalibrateMachine(rows, base); err == nil || !strings.Contains(err.Error(), "none of 36 rows is an isolated benchmark") {
		t.Errorf("got %v", err)
	}
	isolated := measured(t)
	one := calibrated(t, isolated, base)
	rows = append(rows, isolated...)
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	two := must.Have(CalibrateMachine(rows, base))(t)
	entries := machine.Entries(&two.Machine)
	for i, e := range machine.Entries(&one.Machine) {
		if e.Quantity != nil && e.Quantity.Value != entries[i].Quantity.Value {
			t.Errorf("%s: %v and %v", e.Key, e.Quantity, entries[i].Quantity)
		}
		if e.Table != nil {
			if d := cmp.Diff(e.Table.Rows, entries[i].Table.Rows); d != "" {
				t.Errorf("%s:\n%s", e.Key, d)
			}
		}
	}
}

// Rows made by the law give the law's parameters back.
func TestCalibrateInvertsTheLaw(t *testing.T) {
	truth := machinetest.Load(t, "h200")
	truth.Library.Name = "one protocol"
	base, other := machinetest.Load(t, "h200"), machinetest.Load(t, "a100")
	for _, op := range machine.RecordedOps {
		truth.Library.Of(op).Times = machine.Table{Mark: machine.Unknown}
		*base.Library.Of(op) = *other.Library.Of(op)
		base.Library.Of(op).Channels = truth.Library.Of(op).Channels
	}
	var rows []Row
	for _, op := range machine.RecordedOps {
		for _, world := range []int{2, 4} {
			for _, channels := range []int{0, 1, 2, 8, 12, 16, 32} {
				for bytes := int64(4 << 10); bytes <= 512<<20; bytes *= 2 {
					us := (truth.Library.Time(op, bytes, world, channels) + truth.Launch.Timing.Value) * 1e6
					rows = append(rows, Row{
						ID: fmt.Sprint(op, world, channels, bytes), World: world, Strategy: "isolated", Us: us, Line: len(rows) + 1,
						Workload: Workload{Kind: "collective", Collective: op.String(), Bytes: bytes}, Params: Params{Settings: Settings{Channels: channels}, State: State{Queued: true}},
					})
				}
			}
		}
	}
	res := must.Have(CalibrateMachine(rows, base))(t)
	m := res.Machine
	for _, op := range machine.RecordedOps {
		want, got := truth.Library.Of(op), m.Library.Of(op)
		for _, c := range []struct {
			name      string
			got, want machine.Quantity
			within    float64
		}{
			{"send", got.Send, want.Send, 0.01},
			{"receive", got.Receive, want.Receive, 0.02},
			{"link", got.Link, want.Link, 0.01},
			{"smooth", got.Smooth, want.Smooth, 0.03},
			{"alpha", got.Alpha, want.Alpha, 0.25}, // 64 KiB are some bytes
		} {
			if off(c.got.Value, c.want.Value) > c.within {
				t.Errorf("%v %s: %v, made with %v", op, c.name, c.got, c.want)
			}
		}
	}
	for _, bytes := range []int64{3 << 20, 100 << 20} {
		if a, b := m.Library.Time(trace.AllReduce, bytes, 2, 10), truth.Library.Time(trace.AllReduce, bytes, 2, 10); off(a, b) > 0.02 {
			t.Errorf("%d bytes: %v s, made with %v", bytes, a, b)
		}
	}
}

// With one number of ranks only, the base's two kinds of steps are scaled together.
func TestCalibrateOneWorld(t *testing.T) {
	base := machinetest.Load(t, "a100")
	was := base.Library.AllGather
	var rows []Row
	for i, channels := range []int{1, 2, 1, 2} {
		bytes := int64(1 << (30 - i/2))
		us := 2e6*was.InChannels(trace.AllGather, 4, float64(channels), float64(bytes)) + base.Launch.Timing.Value*1e6
		rows = append(rows, Row{
			ID: fmt.Sprint("r", i), World: 4, Strategy: "isolated", Us: us, Line: i,
			Workload: Workload{Kind: "collective", Collective: "all_gather", Bytes: bytes}, Params: Params{Settings: Settings{Channels: channels}, State: State{Queued: true}},
		})
	}
	res := must.Have(CalibrateMachine(rows, base))(t)
	if c := res.Machine.Library.AllGather; off(c.Send.Value, was.Send.Value/2) > 0.001 || off(c.Receive.Value, was.Receive.Value/2) > 0.001 {
		t.Errorf("send %v, receive %v; they were %v and %v", c.Send, c.Receive, was.Send, was.Receive)
	}
}

// Where rows contradict each other, the base's value stays, and the result says so.
func TestCalibrateContradiction(t *testing.T) {
	copied := func(id string, mib int64, us float64) Row {
		return Row{ID: id, World: 4, Strategy: "isolated", Us: us, Workload: Workload{Kind: "p2p_copy_ring", Bytes: mib << 20}}
	}
	base := machinetest.Load(t, "h200")
	res := must.Have(CalibrateMachine([]Row{copied("a", 16, 900), copied("b", 256, 700)}, base))(t)
	for _, f := range res.Fits {
		if f.Key == "fabric.egress" && (!strings.Contains(f.Kept, "the rows contradict each other") || res.Machine.Fabric.Egress != base.Fabric.Egress) {
			t.Errorf("%+v, machine %v", f, res.Machine.Fabric.Egress)
		}
	}
}

// A few benchmarks more on a profile's own machine add to its tables and hardly
// move its laws; on another machine they are all that its tables hold.
func TestCalibrateNarrows(t *testing.T) {
	base := machinetest.Load(t, "h200")
	law := base.GroupedWithTile(1, 3000, 8192, 7168, 256, 128)
	row := func(machine string) []Row {
		return []Row{
			{ID: "p", Machine: machine, World: 1, Strategy: "isolated", Us: law.Seconds*1e6 + 7, Workload: Workload{Kind: "gemm", M: 3000, N: 8192, K: 7168}, Params: Params{State: State{Cool: true}}},
			{ID: "c", Machine: machine, World: 4, Strategy: "isolated", Us: 400, Workload: Workload{Kind: "collective", Collective: "all_reduce", Bytes: 48 << 20}, Params: Params{Settings: Settings{Channels: 6}, State: State{Queued: true}}},
		}
	}
	res := must.Have(CalibrateMachine(row("h200x4"), base))(t)
	m := res.Machine
	if was, is := len(base.Matmul.Shapes.Rows), len(m.Matmul.Shapes.Rows); is != was+1 {
		t.Errorf("%d GEMMs, there were %d", is, was)
	}
	if was, is := len(base.Library.AllReduce.Times.Rows), len(m.Library.AllReduce.Times.Rows); is != was+1 {
		t.Errorf("%d times of all-reduces, there were %d", is, was)
	}
	if off(m.Matmul.Rate.Value, base.Matmul.Rate.Value) > 0.02 {
		t.Errorf("one GEMM moves the rate from %v to %v", base.Matmul.Rate, m.Matmul.Rate)
	}
	other := must.Have(CalibrateMachine(row("h100x4"), base))(t)
	if n := len(other.Machine.Library.AllReduce.Times.Rows); n != 1 {
		t.Errorf("another machine's table has %d times, one was measured", n)
	}
}

func TestNearest(t *testing.T) {
	m := machinetest.Load(t, "h200")
	for _, c := range []struct {
		m, n, k int64
		shape   [3]int64
		factor  float64
	}{
		{8192, 8192, 7168, [3]int64{8192, 8192, 7168}, 1},
		{4096, 8192, 14336, [3]int64{4096, 4096, 14336}, 2},
		{16384, 2048, 3584, [3]int64{8192, 4096, 3584}, 2},
	} {
		if shape, factor := m.Nearest(c.m, c.n, c.k); shape != c.shape || off(factor, c.factor) > 1e-9 {
			t.Errorf("%dx%dx%d: %v at %v, want %v at %v", c.m, c.n, c.k, shape, factor, c.shape, c.factor)
		}
	}
	for _, c := range []struct {
		bytes           int64
		ranks, channels int
		factor          float64
		what            string
	}{
		{100 << 20, 4, 10, 1, ""},
		{100 << 20, 8, 10, 2, "8 ranks"},
		{4 << 30, 4, 24, 4096.0 / 896, "4294967296 bytes"},
		{100 << 20, 4, 64, 2, "64 channels"},
	} {
		factor, what := m.Library.Beyond(trace.AllReduce, c.bytes, c.ranks, c.channels)
		if off(factor, c.factor) > 1e-9 || !strings.HasPrefix(what, c.what) {
			t.Errorf("%+v: %v, %q", c, factor, what)
		}
	}
}

// What the capture script measures settles every cost of launching, flags and
// semaphores, but for the order of events, which is no time, and for
// launch.timing, whose collectives this file leaves out.
func TestCaptureSettlesLaunching(t *testing.T) {
	res := must.Have(CalibrateMachine(setOf(t, "h200x2-launch"), machinetest.Load(t, "h200")))(t)
	settled := map[string]string{}
	for _, fit := range res.Fits {
		if fit.Missing == "" {
			settled[fit.Key] = fit.Value
		}
	}
	for key, want := range map[string]string{
		"launch.gap": "1.28 us", "launch.memset_gap": "3.1 us", "launch.hop": "1.31 us", "launch.graph": "1.233 us",
		"launch.host": "23.35 us", "launch.compiled": "31.78 us", "launch.call": "6.5 us", "launch.host_event": "30.23 us",
		"launch.host_collective": "98.07 us", "launch.barrier": "3.62 us",
		"gpu.post": "0.37 us", "gpu.poll": "0.3617 us",
		"fabric.fence": "0.925 us", "fabric.latency": "0.715 us", "fabric.message": "0.0116 us",
	} {
		if settled[key] != want {
			t.Errorf("%s: %q, want %s", key, settled[key], want)
		}
	}
}

var update = flag.Bool("update", false, "rewrite what tests compare with")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want := must.Have(os.ReadFile(file))(t)
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (run with -update):\n%s", file, d)
	}
}
