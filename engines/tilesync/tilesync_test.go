package tilesync_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/enginetest"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
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

// Loading weights before waiting saves at most the time of that load and never costs time.
func TestTilesyncReorder(t *testing.T) {
	w, m := plantest.Mlp512.Build(t), plantest.H200(t, plantest.Mlp512.Ranks)
	plain := enginetest.Outcome(t, w, m, "tilesync", nil)
	early := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"reorder": "on"})
	if early.Time >= plain.Time || plain.Time-early.Time > 10_000 {
		t.Errorf("%d ns with weights loaded first, %d without", early.Time, plain.Time)
	}
}

// Stream-K saves most of a last wave that is nearly empty. If the last wave is nearly
// full, a second kernel and partial sums cost more than they save.
func TestStreamK(t *testing.T) {
	for _, c := range []struct {
		name string
		mlp  plantest.Mlp
		wins bool
	}{
		{"288 tiles on 264 slots", plantest.Mlp{Ranks: 1, Steps: 4, Batch: 768, Hidden: 6144, Ffn: 6144, Up: 150_000, Down: 150_000}, true},
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
			c, ok := plan.CoverOf(&op, false)
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
