package layout

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// TestTicksInside: few enough, inside the window, ascending, a step apart, and
// each label tells its own time.
func TestTicksInside(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(0, 1e15).Draw(t, "from")
		length := rapid.Int64Range(1, 1<<rapid.IntRange(1, 50).Draw(t, "bits")).Draw(t, "length")
		w := Window{trace.Time(from), trace.Time(from + length)}
		most := rapid.IntRange(1, 30).Draw(t, "most")
		a := Ticks(w, most)
		if len(a.Ticks) > most {
			t.Fatalf("%d ticks, want at most %d", len(a.Ticks), most)
		}
		if len(a.Ticks) == 0 && (w.From+a.Step-1)/a.Step*a.Step < w.To {
			t.Fatalf("no ticks, but a multiple of %d lies in %v", a.Step, w)
		}
		for i, tick := range a.Ticks {
			if tick.At < w.From || tick.At >= w.To || tick.At%a.Step != 0 {
				t.Fatalf("tick at %d with step %d in %v", tick.At, a.Step, w)
			}
			if i > 0 && tick.At-a.Ticks[i-1].At != a.Step {
				t.Fatalf("ticks at %d and %d with step %d", a.Ticks[i-1].At, tick.At, a.Step)
			}
			told, err := ParseTime(tick.Label)
			if err != nil || told+a.Base != tick.At {
				t.Fatalf("tick at %d says %q after %q (%v)", tick.At, tick.Label, a.Label, err)
			}
		}
	})
}

// What Exact writes, ParseTime reads, with spaces around it too.
func TestParseTime(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		at := trace.Time(rapid.Int64Range(-1e15, 1e15).Draw(t, "at"))
		if got, err := ParseTime(" " + Exact(at) + " "); got != at || err != nil {
			t.Fatalf("ParseTime(%q) = %d, %v; want %d", Exact(at), got, err, at)
		}
	})
}

// TestWindowCells: the cells of a window cut it up without gap or overlap.
func TestWindowCells(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(-1e12, 1e12).Draw(t, "from")
		length := rapid.Int64Range(1, rapid.SampledFrom([]int64{3, 1000, 1e12}).Draw(t, "scale")).Draw(t, "length")
		w := Window{trace.Time(from), trace.Time(from + length)}
		cells := rapid.IntRange(1, 5000).Draw(t, "cells")
		at := trace.Time(rapid.Int64Range(int64(w.From), int64(w.To)-1).Draw(t, "at"))
		i := w.Cell(at, cells)
		if a, b := w.Edge(i, cells), w.Edge(i+1, cells); at < a || at >= max(b, a+1) || i > 0 && w.Edge(i-1, cells) == a {
			t.Fatalf("%d is put into cell %d, [%d, %d)", at, i, a, b)
		}
		if w.Edge(0, cells) != w.From || w.Edge(cells, cells) != w.To {
			t.Fatalf("cells go from %d to %d, want %v", w.Edge(0, cells), w.Edge(cells, cells), w)
		}
	})
}

// TestWindowMoves: no zoom or pan leaves the bounds, and zooming keeps the time
// under the pointer in place where the bounds allow it.
func TestWindowMoves(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		bounds := Window{-500, 1_000_000}
		w := bounds
		for range rapid.IntRange(1, 20).Draw(t, "moves") {
			around := trace.Time(rapid.Int64Range(int64(w.From), int64(w.To)-1).Draw(t, "around"))
			if rapid.Bool().Draw(t, "zoom") {
				was, factor := w, rapid.SampledFrom([]float64{0.01, 0.5, 0.8, 1.25, 2, 100}).Draw(t, "factor")
				w = w.Zoom(factor, around, bounds, 10)
				if w.From > bounds.From && w.To < bounds.To && w.Len() > 10 {
					before := float64(around-was.From) / float64(was.Len())
					after := float64(around-w.From) / float64(w.Len())
					if d := (after - before) * float64(w.Len()); d < -1.5 || d > 1.5 {
						t.Fatalf("zoom by %g moved %d by %g ns", factor, around, d)
					}
				}
			} else {
				w = w.Pan(trace.Time(rapid.Int64Range(-2e6, 2e6).Draw(t, "by")), bounds)
			}
			if w.From < bounds.From || w.To > bounds.To || w.Len() < 10 {
				t.Fatalf("window %v, bounds %v", w, bounds)
			}
		}
	})
}

// TestInksNearest recomputes the nearest of the 256 terminal colours: levels
// 0, 95, 135, ... of a 6×6×6 cube, and 24 greys.
func TestInksNearest(t *testing.T) {
	rgb := func(i int) (r, g, b int) {
		if i >= 232 {
			v := 8 + 10*(i-232)
			return v, v, v
		}
		level := func(v int) int { return []int{0, 95, 135, 175, 215, 255}[v%6] }
		i -= 16
		return level(i / 36), level(i / 6), level(i)
	}
	letters, shades := map[byte]Class{}, map[rune]Class{}
	for c := range numClasses {
		ink := c.Ink()
		best, least := 0, math.MaxInt
		for i := 16; i < 256; i++ {
			r, g, b := rgb(i)
			dr, dg, db := r-int(ink.RGB>>16), g-int(ink.RGB>>8&255), b-int(ink.RGB&255)
			if d := dr*dr + dg*dg + db*db; d < least {
				best, least = i, d
			}
		}
		if int(ink.Ansi) != best {
			t.Errorf("%s: colour %d, nearest is %d", c, ink.Ansi, best)
		}
		if other, taken := letters[ink.Letter]; taken {
			t.Errorf("%s and %s share the letter %c", c, other, ink.Letter)
		}
		if other, taken := shades[ink.Shade]; taken {
			t.Errorf("%s and %s share the shade %c", c, other, ink.Shade)
		}
		letters[ink.Letter], shades[ink.Shade] = c, c
	}
}
