package replay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A wheel gives ticks out by time, whatever was set, moved and cancelled in
// between, and those of one time in the order in which they were set, but for
// alarms that have been set for that time before.
func TestWheelOrdersByTimeThenSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type set struct {
			at  Time
			seq int
		}
		type tick struct {
			id int32
			at Time
		}
		before := map[tick]int{}
		var w due
		alarms := slices.Repeat([]alarm{none}, 20)
		model := map[int32]set{}
		spread := rapid.SampledFrom([]Time{1, 3, 100, 5000, 1 << 40, lastTime / 2}).Draw(t, "spread")
		for seq := range 300 {
			id := int32(rapid.IntRange(0, 19).Draw(t, "id"))
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				alarms[id] = none
				delete(model, id)
			case 1:
				got, ok := w.next(alarms)
				if ok != (len(model) > 0) {
					t.Fatalf("%d alarms set, one due: %t", len(model), ok)
				}
				if !ok {
					continue
				}
				of, ok := model[got]
				if !ok || of.at != w.now {
					t.Fatalf("alarm %d at %d, want it at %d (set: %t)", got, w.now, of.at, ok)
				}
				for id, s := range model {
					late := s.at == w.now && s.seq < of.seq && before[tick{id, s.at}] == 1
					if s.at < w.now || late && before[tick{got, of.at}] == 1 {
						t.Fatalf("alarm %d at %d before %d at %d", got, w.now, id, s.at)
					}
				}
				delete(model, got)
			default:
				at := min(w.now+Time(rapid.Int64Range(0, int64(spread)).Draw(t, "in")), 2*lastTime)
				w.set(&alarms[id], at, actor{id: id})
				model[id] = set{at, seq}
				before[tick{id, at}]++
			}
		}
	})
}

// due are ticks that a wheel has given out and nobody has taken.
type due struct {
	wheel
	ticks []actor
	taken int
}

// next takes the next tick that has not been overtaken.
func (w *due) next(alarms []alarm) (id int32, ok bool) {
	for {
		if w.taken == len(w.ticks) {
			if _, ok := w.advance(); !ok {
				return none, false
			}
			w.ticks, w.taken = w.due(w.ticks[:0]), 0
		}
		who := w.ticks[w.taken]
		w.taken++
		if alarms[who.id] == w.now {
			alarms[who.id] = none
			return who.id, true
		}
	}
}

func TestOrderedGivesLeastFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o ordered[float64]
		var model []entry[float64]
		keys := rapid.SampledFrom([]int{1, 20, 1e6}).Draw(t, "keys")
		unit := rapid.SampledFrom([]float64{5e-324, 1, 1e300}).Draw(t, "unit")
		rising := rapid.Bool().Draw(t, "rising") // no key is below those given out
		popped := 0.0
		for seq := range rapid.SampledFrom([]int{0, 1, 10, 100, 3000}).Draw(t, "n") {
			if rapid.IntRange(0, 2).Draw(t, "do") > 0 {
				e := entry[float64]{key: unit * float64(jitter(seq, keys)), seq: uint64(seq)}
				if rising {
					e.key += popped
				}
				o.push(e)
				at, _ := slices.BinarySearchFunc(model, e, entry[float64].compare)
				model = slices.Insert(model, at, e)
				continue
			}
			if o.empty() != (len(model) == 0) {
				t.Fatalf("empty says %t of %d", o.empty(), len(model))
			}
			if len(model) > 0 {
				if got := o.pop(); got != model[0] {
					t.Fatalf("got %v, want %v", got, model[0])
				}
				popped, model = model[0].key, model[1:]
			}
		}
	})
}
