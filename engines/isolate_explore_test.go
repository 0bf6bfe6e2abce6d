package engines

import (
	"fmt"
	"os"
	"sort"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

func TestExplore(t *testing.T) {
	debugIsolate = func(w *workload.Workload, open []subject, simulated []trace.Time) {
		type agg struct {
			n, known                 int
			cap, alone, sim          float64
			wgs, tiles, th, sh, pers int
		}
		tab := map[string]*agg{}
		for i := range open {
			x := &open[i]
			k := ""
			if x.op != nil {
				n := x.op.Name
				if len(n) > 60 {
					n = n[:60]
				}
				k = n + fmt.Sprintf(" wg%d", x.op.Tiling.WGs)
			} else {
				k = fmt.Sprint(x.coll.Op, x.coll.Bytes)
			}
			a := tab[k]
			if a == nil {
				a = &agg{}
				tab[k] = a
			}
			a.n++
			if x.known {
				a.known++
			}
			a.cap += float64(x.captured)
			a.alone += float64(*x.alone())
			a.sim += float64(simulated[i])
			if x.op != nil {
				a.wgs, a.tiles, a.th, a.sh = x.op.Tiling.WGs, x.op.Tiling.Tiles, x.op.Footprint.Threads, x.op.Footprint.Shared
				if x.op.Tiling.Persistent {
					a.pers = 1
				}
			}
		}
		var keys []string
		for k := range tab {
			keys = append(keys, k)
		}
		sort.Slice(keys, func(i, j int) bool { return tab[keys[i]].cap > tab[keys[j]].cap })
		for i, k := range keys {
			if i > 22 {
				break
			}
			a := tab[k]
			fmt.Printf("   D %-70s n %d known %d cap %.0f alone %.0f sim %.0f  cap/alone %.3f sim/cap %.3f wgs %d tiles %d pers %d th %d sh %d\n", k, a.n, a.known, a.cap/1e3, a.alone/1e3, a.sim/1e3, a.cap/a.alone, a.sim/a.cap, a.wgs, a.tiles, a.pers, a.th, a.sh)
		}
	}
	base := "../../shared/data/steps/h200x2/traces/h200x2_"
	for _, p := range [][2]string{
		{"ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue", "ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapFalse"},
		{"ddp_h2048_bucket_mb25_channels0_priorityFalse_overlapTrue", "ddp_h2048_bucket_mb25_channels0_priorityFalse_overlapFalse"},
		{"fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue", "fsdp_h4096_channels0_priorityFalse_overlapFalse_reshardTrue"},
		{"fsdp_h2048_channels0_priorityFalse_overlapTrue_reshardTrue", "fsdp_h2048_channels0_priorityFalse_overlapFalse_reshardTrue"},
	} {
		type agg struct {
			cap, alone, serial, law float64
			n, ns, known            int
		}
		tab := map[string]*agg{}
		for side, name := range p {
			run, err := format.Open(base+name, format.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := workload.Lift(run, workload.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := h200(t, 2)
			w, err = Isolate(w, m, nil)
			if err != nil {
				t.Fatal(err)
			}
			if side == 0 || true {
				fmt.Printf("%s %+v\n", name, func() workload.Isolation { x := *w.Isolation; x.Beside = nil; return x }())
			}
			add := func(k string, c, a, law trace.Time) {
				for _, k := range []string{k, "~all " + k[:4]} {
					x := tab[k]
					if x == nil {
						x = &agg{}
						tab[k] = x
					}
					if side == 0 {
						x.cap += float64(c)
						x.alone += float64(a)
						x.n++
					} else {
						x.serial += float64(a)
						x.law += float64(law)
						x.ns++
					}
				}
			}
			for i := range w.Ops {
				op := &w.Ops[i]
				if op.Kind != trace.Compute {
					continue
				}
				n := op.Name
				if len(n) > 50 {
					n = n[:50]
				}
				add(fmt.Sprintf("comp %-50s %dx%dx%d", n, op.Shape.M, op.Shape.N, op.Shape.K), op.Dur(), op.DurAlone(), gemmLaw(op, &m))
			}
			for i := range w.Collectives {
				c := &w.Collectives[i]
				add(fmt.Sprintf("coll %v %d ch%d", c.Op, c.Bytes, c.Channels), c.Transfer(), c.TransferAlone(), collectiveLaw(c, &m))
			}
		}
		var keys []string
		for k := range tab {
			keys = append(keys, k)
		}
		sort.Slice(keys, func(i, j int) bool { return tab[keys[i]].cap > tab[keys[j]].cap })
		for i, k := range keys {
			if i > 24 {
				break
			}
			x := tab[k]
			fmt.Printf("  %-80s n %d/%d cap %.0f alone %.0f serial %.0f us  cap/ser %.3f alone/ser %.3f law %.3f\n", k, x.n, x.ns, x.cap/1e3, x.alone/1e3, x.serial/1e3, x.cap/x.serial, x.alone/x.serial, x.law/x.serial)
		}
	}
	_ = os.Stdout
}

func TestExplore2(t *testing.T) {
	base := "../../shared/data/steps/h200x2/traces/"
	ds, _ := os.ReadDir(base)
	for _, d := range ds {
		run, err := format.Open(base+d.Name(), format.Options{})
		if err != nil {
			t.Log(err)
			continue
		}
		w, err := workload.Lift(run, workload.Options{})
		if err != nil {
			t.Log(err)
			continue
		}
		m := h200(t, 2)
		w, err = Isolate(w, m, nil)
		if err != nil {
			t.Log(err)
			continue
		}
		fmt.Printf("%-80s", d.Name())
		for _, n := range []string{"captured", "bulk", "ideal"} {
			e := engineNamed(t, n)
			v, _ := e.Values(nil)
			out, err := Run(w, m, Selection{e, v}, replay.Options{})
			if err != nil || out.Result == nil {
				fmt.Printf(" %s: %v %s", n, err, out.Why)
				continue
			}
			l := LimitOf(w, out)
			fmt.Printf(" %s %.1f (ov %.1f exp %.1f)", n, float64(out.Expected)/1e3, float64(l.Overlapped)/1e3, float64(l.Exposed)/1e3)
		}
		fmt.Printf(" dist %d rounds %d\n", w.Isolation.Disturbed, w.Isolation.Rounds)
	}
}

func TestExplore3(t *testing.T) {
	base := "../../shared/data/steps/h200x2/traces/"
	for _, d := range []string{"h200x2_fsdp_h4096_channels0_priorityFalse_overlapTrue_reshardTrue", "h200x2_tp_sp_s4096_modeasync_tp"} {
		run, _ := format.Open(base+d, format.Options{})
		w, _ := workload.Lift(run, workload.Options{})
		m := h200(t, 2)
		w, _ = Isolate(w, m, nil)
		out := outcome(t, w, m, "bulk", nil)
		r := out.Result.Run
		n := 0
		for i, s := range r.Spans {
			if s.Kind != trace.Collective && s.Kind != trace.Transfer && s.Kind != trace.Copy {
				continue
			}
			if s.Kind == trace.Copy {
				c := r.Copy(s)
				if c.Dir != trace.PeerToPeer {
					continue
				}
			}
			for _, x := range r.Spans {
				if x.Kind == trace.Compute && r.RankOf(x) == r.RankOf(s) && x.Start < s.End && s.Start < x.End && n < 12 {
					n++
					fmt.Println(i, s.Kind, r.NameOf(s), s.Start, s.End, "op", OriginOf(r, s), " with ", r.NameOf(x)[:30], x.Start, x.End, "op", OriginOf(r, x), "rank", r.RankOf(x), "coll", w.Ops[OriginOf(r, s)].Collective)
				}
			}
		}
	}
}
