package plan

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A kernel that streams memory: 128 threads a workgroup, so 16 on each of the 132
// compute units of an H200, 2112 in all.
func streamer(wgs int) (*workload.Op, *workload.Workload) {
	op := &workload.Op{
		End: 200_000, Read: 400e6, Write: 400e6,
		Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.Elementwise}, Tiling: workload.Tiling{WGs: wgs}, Footprint: program.Footprint{Threads: 128}},
	}
	var b trace.Builder
	b.Add(trace.Span{End: op.End, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
	return op, &workload.Workload{Run: b.Finish(trace.Options{})}
}

// It takes time by its bytes and by the compute units that it has, not by whole
// waves, of which 7000 workgroups are 3.3, 70,000 are 33.1.
func TestStreamingKernelFollowsItsBytes(t *testing.T) {
	m := plantest.H200(t, 1)
	for _, wgs := range []int{7000, 70_000} {
		for _, c := range []struct {
			parts, held int
		}{{1, 0}, {3, 0}, {1, 4}, {1, 8}, {1, 16}, {1, 24}, {1, 66}} {
			op, w := streamer(wgs)
			op.Read, op.Write = 280e6, 280e6 // the memory moves more: the units bound it
			pl := &Planner{Machine: m, Workload: w}
			k := pl.chunkOf(op, 0, c.parts)
			holder := &program.Kernel{
				Name: "holder", Kind: trace.Collective, WGs: c.held, Footprint: program.Footprint{Exclusive: true},
				Recipe: func(_ int, buf []program.Phase) []program.Phase {
					return append(buf, program.Phase{Op: program.Sleep, Time: 10 * op.End})
				},
			}
			var p program.Program
			kernel := program.Stream{Queue: 1, Commands: []program.Command{{Kernel: k, Origin: -1}}}
			p.GPUs = []program.GPU{{Streams: []program.Stream{kernel}}}
			if c.held > 0 {
				p.GPUs[0].Streams = []program.Stream{{Queue: 2, Commands: []program.Command{{Kernel: holder, Origin: -1}}}, kernel}
			}
			r := must.Have(replay.Simulate(m, &p, replay.Options{}))(t)
			var took trace.Time
			for _, s := range r.Run.Spans {
				if r.Run.NameOf(s) == k.Name {
					took = s.End - s.Start
				}
			}
			launch := m.Launch.Graph.Value * 1e9 // of each part
			part := trace.Time(launch + (float64(op.End)-launch)/float64(c.parts))
			want := float64(part) * 132 / float64(132-c.held)
			last := float64(part) / float64(piecesOf(part).fine) // no more than one piece is left over
			if off := float64(took) - want; off < -1 || off > last || c.held == 0 && off > 1 {
				t.Errorf("%d workgroups, in %d parts, %d units held: %d ns, want %.0f", wgs, c.parts, c.held, took, want)
			}
		}
	}
}

// A part that fits at once is one round of its workgroups: of 4224, two rounds
// long 200 µs, a quarter is 1056, which reach 4124 GB/s where 2112 reach 4058
// (gpu.stream of h200). Its launch takes as long as the whole's, and the rest one round instead of two.
func TestPartOfStreamingKernel(t *testing.T) {
	op, w := streamer(4224)
	k := (&Planner{Machine: plantest.H200(t, 1), Workload: w}).chunkOf(op, 0, 4)
	const launch, moving = 1226, 800e6 / 4058
	want := launch + moving/4*4058/4124 + (200_000-launch-moving)/2
	if got := float64(k.Phases(0, nil)[0].Time); k.WGs != 1056 || math.Abs(got-want) > 1 {
		t.Errorf("%d workgroups of %.0f ns, want 1056 of %.0f", k.WGs, got, want)
	}
	var bytes float64
	for i := range k.WGs {
		bytes += k.Phases(i, nil)[0].Read
	}
	if math.Abs(4*bytes-op.Read) > 1 {
		t.Errorf("four parts read %.0f bytes, the whole %.0f", 4*bytes, op.Read)
	}
}
