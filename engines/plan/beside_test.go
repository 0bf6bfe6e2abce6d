package plan

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Kernels of known bytes alongside a collective of 256 MiB, and alongside one that waits for its peer, take as long as they
// were measured to on two H200. What fills the memory loses nothing to channels that wait, and to others what they move.
func TestKernelsBesideChannels(t *testing.T) {
	f := must.Have(os.Open("../../samples/measurements/2026-11-23-h200x2-beside/kernels.csv"))(t)
	defer f.Close()
	rows := must.Have(csv.NewReader(f).ReadAll())(t)
	number := func(s string) float64 {
		v, _ := strconv.ParseFloat(s, 64)
		return v
	}
	var moving, waiting []float64
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		kernel, wgs, alone, megabytes, channels := row[0], int(number(row[1])), number(row[2]), number(row[3]), int(number(row[5]))
		collective := map[string]trace.CollectiveOp{"all_reduce": trace.AllReduce, "all_gather": trace.AllGather, "reduce_scatter": trace.ReduceScatter}[row[4]]
		key := kernel + row[4] + row[5]
		if megabytes == 0 || collective == trace.UnknownOp || kernel == "cat_strided" || kernel == "softmax_f32" || seen[key] {
			continue // a strided concatenation is not bound by memory, a softmax has workgroups of another size
		}
		seen[key] = true
		bytes := min(megabytes*1e6, plantest.H200(t, 2).GPU.Memory.Value*alone*1e-6) // rule M1
		op := workload.Op{Read: bytes * 2 / 3, Write: bytes / 3}
		if kernel == "fill_180MB" {
			op.Read, op.Write = 0, bytes
		}
		for _, c := range []struct {
			wait     trace.Time
			measured float64
			off      *[]float64
		}{{0, number(row[6]), &moving}, {10_000, number(row[7]), &waiting}} {
			if c.wait > 0 && channels != 24 {
				continue // measured alongside 24
			}
			took := besideFor(t, op, wgs, trace.Time(alone*1000), collective, channels, c.wait)
			off := took/1000/c.measured - 1
			if most := 132.0 / float64(132-channels); kernel == "add_180MB" && took/1000/alone > most+0.02 {
				t.Errorf("%v, %d channels: an addition that fills the memory takes %.2f times as long, at most %.2f by its compute units", collective, channels, took/1000/alone, most)
			}
			*c.off = append(*c.off, math.Abs(off))
			t.Logf("%-12s %v, %2d channels, waiting %5t: %.2f of the time alone, measured %.2f (%+.0f %%)", kernel, collective, channels, c.wait > 0, took/1000/alone, c.measured/alone, 100*off)
		}
	}
	for _, c := range []struct {
		what         string
		off          []float64
		median, most float64
	}{{"moving", moving, 0.06, 0.2}, {"waiting", waiting, 0.05, 0.12}} {
		slices.Sort(c.off)
		if median, most := c.off[len(c.off)/2], c.off[len(c.off)-1]; median > c.median || most > c.most {
			t.Errorf("alongside channels that are %s kernels are %.3f off in the median and %.3f at most", c.what, median, most)
		}
	}
}

// besideFor is the time that a kernel takes alongside a collective whose peer comes so many µs later, ns.
func besideFor(t *testing.T, op workload.Op, wgs int, alone trace.Time, collective trace.CollectiveOp, channels int, wait trace.Time) (took float64) {
	t.Helper()
	const bytes = 256 << 20
	m := plantest.H200(t, 2)
	load := (op.Read + op.Write) / Seconds(alone) / m.GPU.Memory.Value
	slowed := m.Library.Time(collective, bytes, 2, channels) * machinetest.Slowdown(&m.Library, collective, bytes, 2, channels, machine.CoRunner{Kind: machine.CoRunMemory, Load: load})
	name := map[trace.CollectiveOp]string{trace.AllReduce: "AR", trace.AllGather: "AG", trace.ReduceScatter: "RS"}[collective]
	w := plantest.Step(t, 2, fmt.Sprintf("9 %s1=256 %.0f\n7 add 123", name, 1e6*slowed))
	for i := range w.Ops {
		at := &w.Ops[i]
		switch {
		case at.Collective >= 0 && at.Rank == 1:
			at.Start, at.End = at.Start+1000*wait, at.End+1000*wait
		case at.Collective < 0:
			at.Start = 20_000
			at.End, at.Read, at.Write = at.Start+alone, op.Read, op.Write
			at.Kernel = &workload.Kernel{Name: "add", Shape: workload.Shape{Kind: workload.Elementwise}, Tiling: workload.Tiling{WGs: wgs}, Footprint: program.Footprint{Threads: 128, Registers: 32}}
		}
	}
	w.Collectives[0].Channels = channels
	pl := must.Have(NewPlanner(w, m, Scenario{}))(t)
	pl.AtCapturedStarts(slices.Repeat([]bool{true}, len(w.Ops)))
	r := must.Have(replay.Simulate(m, pl.Write(), replay.Options{}))(t)
	for _, s := range r.Run.Spans {
		if r.Run.NameOf(s) == "add" && r.Run.RankOf(s) == 0 {
			took = float64(s.End - s.Start)
		}
	}
	return took
}

// Workgroups that all run at once are not slower where channels hold compute units: what each moves does not fill a unit. Of a
// kernel of unknown bytes the most workgroups on a unit decide.
func TestOneRoundByItsBytes(t *testing.T) {
	m := plantest.H200(t, 1)
	for _, c := range []struct {
		bytes float64
		want  float64 // of the time alone, with 24 of 132 units held
	}{{0, 1.5}, {400e6, 1}} {
		op, w := streamer(256)
		op.Read, op.Write = c.bytes, 0
		op.Kernel = &workload.Kernel{Moves: true, Tiling: workload.Tiling{WGs: 256}, Footprint: program.Footprint{Threads: 512}}
		holder := &program.Kernel{
			Name: "holder", Kind: trace.Collective, WGs: 24, Footprint: program.Footprint{Exclusive: true},
			Each: []program.Phase{{Op: program.Sleep, Time: 10 * op.End}},
		}
		p := program.Program{GPUs: []program.GPU{{Streams: []program.Stream{
			{Queue: 2, Commands: []program.Command{{Kernel: holder, Origin: -1}}},
			{Queue: 1, Commands: []program.Command{{Kernel: (&Planner{Machine: m, Workload: w}).whole(op), Origin: -1}}},
		}}}}
		r := must.Have(replay.Simulate(m, &p, replay.Options{}))(t)
		for _, s := range r.Run.Spans {
			if r.Run.NameOf(s) != "holder" {
				if got := float64(s.End-s.Start) / float64(op.End); math.Abs(got-c.want) > 0.01 {
					t.Errorf("of %.0f MB: %.2f of the time alone, want %.2f", c.bytes/1e6, got, c.want)
				}
			}
		}
	}
}
