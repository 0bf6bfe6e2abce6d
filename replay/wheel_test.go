package replay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A wheel gives timers out by time, those of one time in the order in which
// they were set, whatever was set, moved and cancelled in between.
func TestWheelOrdersByTimeThenSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type set struct {
			at  Time
			seq int
		}
		var w wheel
		model := map[int32]set{}
		spread := rapid.SampledFrom([]Time{1, 3, 100, 5000, 1 << 40, lastTime / 2}).Draw(t, "spread")
		for range 20 {
			w.add(actor{})
		}
		for seq := range 300 {
			id := int32(rapid.IntRange(0, 19).Draw(t, "id"))
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				w.cancel(id)
				delete(model, id)
			case 1:
				least := int32(none)
				for id, s := range model {
					if least == none || s.at < model[least].at || s.at == model[least].at && s.seq < model[least].seq {
						least = id
					}
				}
				got, ok := w.due()
				for more := true; !ok && more; {
					if _, more = w.advance(); more {
						got, ok = w.due()
					}
				}
				if ok != (least != none) {
					t.Fatalf("%d timers set, one due: %t", len(model), ok)
				}
				if !ok {
					continue
				}
				if got != least || w.now != model[least].at {
					t.Fatalf("timer %d at %d, want %d at %d", got, w.now, least, model[least].at)
				}
				if w.at(got) != none {
					t.Fatalf("timer %d is due and still set for %d", got, w.at(got))
				}
				delete(model, got)
			default:
				at := w.now + Time(rapid.Int64Range(0, int64(spread)).Draw(t, "in"))
				w.set(id, at)
				model[id] = set{at, seq}
			}
		}
	})
}

func TestOrderedGivesLeastFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o ordered[int]
		var model []entry[int]
		for seq := range rapid.IntRange(0, 200).Draw(t, "n") {
			if rapid.IntRange(0, 2).Draw(t, "do") > 0 {
				e := entry[int]{key: rapid.IntRange(0, 20).Draw(t, "key"), seq: uint64(seq)}
				o.push(e)
				at, _ := slices.BinarySearchFunc(model, e, func(a, b entry[int]) int {
					if a.less(&b) {
						return -1
					}
					return 1
				})
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
				model = model[1:]
			}
		}
	})
}
