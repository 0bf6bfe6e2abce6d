package replay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Workgroups that are stepped as one batch, or placed only when something else happens on the GPU,
// do what single ones do, which is what a run that records phases simulates.
func TestBatchesEqualSingleWorkgroups(t *testing.T) {
	drawn, postponed, waves, moving, parted := 0, 0, 0, 0, 0
	rapidtest.Check(t, func(t *rapid.T) {
		drawn++
		m := small(1, rapid.IntRange(1, 12).Draw(t, "CUs"))
		streams := make([]program.Stream, rapid.IntRange(1, 3).Draw(t, "streams"))
		for i := range streams {
			streams[i].Priority = rapid.IntRange(0, 1).Draw(t, "priority")
			for range rapid.IntRange(1, 6).Draw(t, "kernels") {
				streams[i].Commands = append(streams[i].Commands, drawPlain(t))
			}
		}
		p := prog(streams)
		want := must.Have(Simulate(m, p, Options{Level: Phases}))(t)
		s := newSim(&m, p, Options{})
		for s.instant(); s.next(); s.instant() {
			if id := s.gpus[0].unplaced; id != none {
				postponed++
				if s.batches.at(id).first > 0 {
					waves++
				}
			}
			for i := range s.flows.uncontended {
				moving += len(s.flows.uncontended[i].batches)
				for _, id := range s.flows.uncontended[i].wgs {
					if l := s.wgs.at(id).launch; l < int32(len(s.kernels.all)) && s.kernels.at(l).batches {
						parted++
					}
				}
			}
		}
		got := must.Have(Simulate(m, p, Options{}))(t)
		if a, b := kernelsOf(want), kernelsOf(got); !slices.Equal(a, b) || want.Makespan != got.Makespan {
			t.Fatalf("single workgroups: %v\nbatches:           %v", a, b)
		}
	})
	if postponed == 0 || waves == 0 && drawn >= 100 || moving == 0 || parted == 0 { // few draws need not have a later wave
		t.Errorf("%d instants with a postponed kernel, %d with a later wave of one, %d with a batch that moves bytes, %d with a workgroup of one that was parted", postponed, waves, moving, parted)
	}
}

// drawPlain draws a kernel of workgroups that are alike, or of several phases that move bytes and are slowed
// by the others.
func drawPlain(t *rapid.T) program.Command {
	c := kernel("k", rapid.IntRange(1, 40).Draw(t, "workgroups"), nil,
		threads(rapid.SampledFrom([]int{0, 1, 2, 4, 8}).Draw(t, "threads")),
		pipe(rapid.SampledFrom([]float64{0, .125, .25, .3, .5, 1}).Draw(t, "pipe")))
	c.Delay = program.Time(rapid.IntRange(0, 30).Draw(t, "delay"))
	k := c.Kernel
	k.Matrix = rapid.Bool().Draw(t, "matrix")
	if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
		k.Kind = rapid.SampledFrom([]trace.Kind{trace.Compute, trace.Collective}).Draw(t, "kind of kernel")
		phases := []program.Phase{
			{Op: program.Sleep, Time: 7},
			{Op: program.Work, Time: program.Time(rapid.IntRange(1, 50).Draw(t, "time")), Read: 500, Slowdown: 3},
			{Op: program.Work, Time: 5},
		}
		k.Recipe = func(_ int, buf []program.Phase) []program.Phase { return append(buf, phases...) }
		return c
	}
	k.Recipe, k.Each = nil, work(program.Time(rapid.IntRange(1, 50).Draw(t, "time")))
	if rapid.Bool().Draw(t, "moves bytes") {
		k.Channels, k.Fed = rapid.Bool().Draw(t, "slowed by channels"), rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "fed")
		if rapid.Bool().Draw(t, "in parts") {
			k.Alike = rapid.IntRange(1, 20).Draw(t, "alike")
			k.Each = slices.Repeat(k.Each, (k.WGs+k.Alike-1)/k.Alike)
		}
		for i := range k.Each {
			p := &k.Each[i]
			p.Time, p.Read = p.Time+program.Time(7*i), float64(rapid.IntRange(0, 200).Draw(t, "bytes"))
			p.Slowdown = rapid.SampledFrom([]float64{0, 0, 1.5}).Draw(t, "slowdown")
		}
	}
	if k.Alike == 0 && rapid.Bool().Draw(t, "persistent") {
		k.Tiles, k.Owned = rapid.IntRange(1, 90).Draw(t, "tiles"), rapid.IntRange(-1, 2).Draw(t, "owned")
	}
	return c
}

func kernelsOf(r *Result) (times []trace.Time) {
	for _, s := range r.Run.Spans {
		if s.Kind.OnDevice() {
			times = append(times, s.Start, s.End)
		}
	}
	return times
}
