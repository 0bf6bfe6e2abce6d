package verdict

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// What TestLessInformation does not drop: device work that is lost or cannot be true is damage, above which nothing is
// likely, and the samples as they are have none.
func TestLossesAreDamage(t *testing.T) {
	without := func(gone func(rank, i, n int, e event) bool) func(rank int, list []event) []event {
		return func(rank int, list []event) []event {
			n, i := 0, -1
			for _, e := range list {
				if onDevice(e) {
					n++
				}
			}
			return slices.DeleteFunc(slices.Clone(list), func(e event) bool {
				if !onDevice(e) {
					return false
				}
				i++
				return gone(rank, i, n, e)
			})
		}
	}
	changed := func(change func(e, args event)) func(rank int, list []event) []event {
		return func(rank int, list []event) []event {
			list = slices.Clone(list)
			for i, e := range list {
				if args, ok := e["args"].(event); rank == 1 && ok && onDevice(e) {
					list[i] = maps.Clone(e)
					args = maps.Clone(args)
					list[i]["args"] = args
					change(list[i], args)
				}
			}
			return list
		}
	}
	for _, sample := range []string{"fsdp-step", "ddp-step", "moe-ep4", "llama70b-prefill"} {
		files, lists := events(t, sample)
		for _, c := range []struct {
			name   string
			change func(rank int, list []event) []event
			intact bool
		}{
			{"nothing", func(_ int, list []event) []event { return list }, true},
			{"the second half", without(func(_, i, n int, _ event) bool { return 2*i >= n }), false},
			{"the second half of rank 1", without(func(rank, i, n int, _ event) bool { return rank == 1 && 2*i >= n }), false},
			{"every tenth kernel", without(func(_, i, _ int, _ event) bool { return i%10 == 9 }), false},
			{"a fifth in the middle", without(func(_, i, n int, _ event) bool { return 5*i >= 2*n && 5*i < 3*n }), false},
			{"the device clock of rank 1", changed(func(e, _ event) { e["ts"] = e["ts"].(float64) - 10_000 }), false},
			{"the bytes of rank 1", changed(func(_, args event) {
				for _, key := range []string{"In msg nelems", "Out msg nelems"} {
					if n, ok := args[key].(float64); ok {
						args[key] = 2 * n
					}
				}
			}), false},
		} {
			edited := make([][]event, len(lists))
			for r := range lists {
				edited[r] = c.change(r, lists[r])
			}
			run := must.Have(format.Open(write(t, files, edited), format.Options{}))(t)
			w := must.Have(lift.Workload(run, lift.Options{}))(t)
			if what := DamageOf(w); (what == "") != c.intact {
				t.Errorf("%s, %s: share %.3f: %q", sample, c.name, w.Damage.Share(), what)
			}
		}
	}
}

// A clock that runs half a percent faster than that of other ranks is noted, where enough collectives show it; clocks of intact ranks
// are not.
func TestClocksThatDrift(t *testing.T) {
	for _, sample := range []string{"fsdp-step", "ddp-step", "llama70b-prefill"} {
		files, lists := events(t, sample)
		for _, rate := range []float64{1, 1.005, 0.995} {
			list := slices.Clone(lists)
			list[1] = nil
			for _, e := range lists[1] {
				if e = maps.Clone(e); e["ph"] != "M" {
					e["ts"] = number(lists[1][0], "ts") + rate*(number(e, "ts")-number(lists[1][0], "ts"))
				}
				list[1] = append(list[1], e)
			}
			run := must.Have(format.Open(write(t, files, list), format.Options{}))(t)
			w := must.Have(lift.Workload(run, lift.Options{}))(t)
			if said := strings.Contains(strings.Join(w.Notes, "; "), "the clock of rank 1 runs 0."); said != (rate != 1) {
				t.Errorf("%s at %.3f: %q", sample, rate, w.Notes)
			}
		}
	}
}
