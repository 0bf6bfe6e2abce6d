package tiles_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The consumer's first wave fills CUs left idle by the producer's last wave if rows
// complete early. With one wave, no CU is idle and semaphores only add cost. With 48
// tiles per row, waiting for each costs more than waiting for the row (measured: validate.jsonl
// v0108 and v0109).
func TestTilesyncWinsAndLoses(t *testing.T) {
	many := plantest.Mlp{Ranks: 1, Steps: 4, Batch: 1024, Hidden: 12288, Ffn: 6144, Up: 290_000, Down: 233_000}
	one := plantest.Mlp{Ranks: 1, Steps: 4, Batch: 128, Hidden: 12288, Ffn: 6144, Up: 91_400, Down: 53_500}
	for _, c := range []struct {
		name    string
		mlp     plantest.Mlp
		against string
		set     map[string]string
		wins    bool
	}{
		{"rows of two waves", many, "captured", nil, true},
		{"tiles of two waves against rows", many, "tilesync", map[string]string{"policy": "tile"}, false},
		{"one row, one wave", one, "captured", map[string]string{"reset": "on", "waitkernel": "off"}, false},
	} {
		w, m := c.mlp.Build(t), plantest.H200(t, 1)
		base := enginetest.Outcome(t, w, m, c.against, nil)
		got := enginetest.Outcome(t, w, m, "tilesync", c.set)
		if got.Result == nil {
			t.Fatalf("%s: does not apply: %s", c.name, got.Why)
		}
		if wins := got.Time < base.Time; wins != c.wins {
			t.Errorf("%s: %d ns, %s %d", c.name, got.Time, c.against, base.Time)
		}
	}
}

// 384 consumers would fill 264 slots before the producer starts: the wait kernel, or the order
// of the launches, prevents the deadlock.
func TestTilesyncDeadlock(t *testing.T) {
	for _, set := range []string{"", "waitkernel=off", "waitkernel=off:policy=tile"} {
		if out := enginetest.Outcome(t, plantest.Mlp512.Build(t), plantest.H200(t, plantest.Mlp512.Ranks), "tilesync", enginetest.Settings(set)); out.Result == nil {
			t.Errorf("%q: %s", set, out.Why)
		}
	}
}

// Loading weights before waiting never costs time. By rows it saves at most the time of one load, and
// nothing where other tiles of a tail end later; by tiles it saves at every wait.
func TestTilesyncReorder(t *testing.T) {
	w, m := plantest.Mlp512.Build(t), plantest.H200(t, plantest.Mlp512.Ranks)
	for policy, least := range map[string]trace.Time{"row": -10, "tile": 1_000} { // ns; -10: rounding
		plain := enginetest.Outcome(t, w, m, "tilesync", enginetest.Settings("policy="+policy))
		early := enginetest.Outcome(t, w, m, "tilesync", enginetest.Settings("policy="+policy+":reorder=on"))
		if saves := plain.Time - early.Time; saves < least || policy == "row" && saves > 10_000 {
			t.Errorf("%s: %d ns with weights loaded first, %d without", policy, early.Time, plain.Time)
		}
	}
}

// Stream-K saves half of a last wave that is half empty. If the last wave is nearly full, a second kernel and partial sums cost more than they save.
func TestStreamK(t *testing.T) {
	for _, c := range []struct {
		name string
		mlp  plantest.Mlp
		wins bool
	}{
		{"384 tiles on 264 slots", plantest.Mlp{Ranks: 1, Steps: 4, Batch: 1024, Hidden: 6144, Ffn: 6144, Up: 300_000, Down: 300_000}, true},
		{"516 tiles on 264 slots", plantest.Mlp{Ranks: 1, Steps: 4, Batch: 1536, Hidden: 5504, Ffn: 5504, Up: 140_000, Down: 140_000}, false},
	} {
		w, m := c.mlp.Build(t), plantest.H200(t, 1)
		base := enginetest.Outcome(t, w, m, "captured", nil)
		got := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": "streamk"})
		if got.Result == nil {
			t.Fatalf("%s: does not apply: %s", c.name, got.Why)
		}
		if wins := got.Time < base.Time; wins != c.wins {
			t.Errorf("%s: %d ns, stream order %d", c.name, got.Time, base.Time)
		}
	}
}

// A kernel with one workgroup per tile takes its measured time when it runs alone.
func TestSynchronisedGridKeepsTime(t *testing.T) {
	for _, s := range []plantest.Mlp{plantest.Mlp512, {Ranks: 1, Steps: 1, Batch: 128, Hidden: 12288, Ffn: 6144, Up: 91_400, Down: 53_500}} {
		w, m := s.Build(t), plantest.H200(t, s.Ranks)
		pl, err := plan.NewPlanner(w, m, plan.Scenario{})
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range w.Ops[:2] {
			c, ok := plan.CoverOf(&op)
			if !ok {
				t.Fatal("no tiles")
			}
			k := pl.KernelOf(&op, pl.ApartGrid(&op, c.Tiles()*c.Splits))
			p := &program.Program{GPUs: []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}}}}
			res, err := replay.Simulate(m, p, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d := res.Makespan - op.Dur(); d < -op.Dur()/100 || d > op.Dur()/100 {
				t.Errorf("%s of batch %d takes %d ns, measured %d", op.Name, s.Batch, res.Makespan, op.Dur())
			}
		}
	}
}
