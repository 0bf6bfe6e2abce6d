package schedule

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// run is when each rank ends if chunks take their times and messages none.
func run(t *testing.T, s *shape, times [3]trace.Time, orders []microBatchOrder) (end []trace.Time) {
	t.Helper()
	p, v := s.stages, max(1, s.groups)
	type key struct {
		part         part
		micro, layer int // layer: global stage
	}
	ended := map[key]trace.Time{}
	at, free := make([]int, p), make([]trace.Time, p)
	end = make([]trace.Time, p)
	for left := true; left; {
		left = false
		progress := false
		for r := range orders {
			for at[r] < len(orders[r]) {
				left = true
				c := orders[r][at[r]]
				g := c.Group*p + r
				need := []key{}
				switch {
				case c.Part == forwardPart && g > 0:
					need = append(need, key{forwardPart, c.Micro, g - 1})
				case c.Part == backwardPart && g < p*v-1:
					need = append(need, key{backwardPart, c.Micro, g + 1})
				case c.Part == backwardPart:
					need = append(need, key{forwardPart, c.Micro, g})
				case c.Part == weights:
					need = append(need, key{backwardPart, c.Micro, g})
				}
				start, ready := free[r], true
				for _, k := range need {
					e, ok := ended[k]
					ready = ready && ok
					start = max(start, e)
				}
				if !ready {
					break
				}
				took := times[c.Part]
				if c.Part == backwardPart && !c.Split {
					took += times[weights]
				}
				progress = true
				free[r] = start + took/trace.Time(v)
				end[r] = free[r]
				made := key{c.Part, c.Micro, g}
				if _, twice := ended[made]; twice {
					t.Fatalf("%v runs twice", made)
				}
				ended[made] = free[r]
				at[r]++
			}
		}
		if left && !progress {
			t.Fatalf("deadlock: %v of %d", at, len(orders[0]))
		}
	}
	want := s.micros * p * v * 2
	if s.forwardOnly {
		want /= 2
	}
	n := 0
	for k := range ended {
		if k.part != weights {
			n++
		}
	}
	if n != want {
		t.Errorf("%d chunks, not %d", n, want)
	}
	return end
}

// The published bubbles, for stages of equal times F, B (gradients of inputs) and W.
func TestBubblesArePublished(t *testing.T) {
	for _, x := range [][3]trace.Time{{12, 12, 12}, {24, 36, 12}, {12, 24, 12}} {
		f, b, w := x[0], x[1], x[2]
		for _, p := range []int{2, 4, 8} {
			for _, n := range []int{2 * p, 3 * p, 4*p + 2*p} {
				P, N := trace.Time(p), trace.Time(n)
				work := N * (f + b + w)
				for _, c := range []struct {
					schedule string
					groups   int
					bubble   trace.Time
					flight   int
				}{
					{"gpipe", 1, (P - 1) * (f + b + w), n},                     // GPipe, section 2; Megatron-LM, section 2.2.1
					{"1f1b", 1, (P - 1) * (f + b + w), p},                      // Megatron-LM, section 2.2.1
					{"interleaved", 2, (P - 1) * (f + b + w) / 2, p*2 + p - 1}, // section 2.2.2
					{"interleaved", 3, (P - 1) * (f + b + w) / 3, p*3 + p - 1}, //
					{"zb", 1, (P - 1) * (f + b - w), p},                        // Zero Bubble, Table 1
				} {
					s := &shape{stages: p, micros: n, groups: c.groups}
					orders, why := s.orders(c.schedule)
					if why != "" {
						t.Fatal(why)
					}
					end := run(t, s, x, orders)
					last, flight := trace.Time(0), 0
					for i := range end {
						last, flight = max(last, end[i]), max(flight, orders[i].inFlight())
					}
					name := fmt.Sprintf("%s %v p=%d n=%d v=%d", c.schedule, x, p, n, c.groups)
					// Greedy orders of unequal times reach the handcrafted ones to a tenth.
					got := last - work
					exact := f == b && b == w || c.schedule != "zb"
					if exact && got != c.bubble || got > c.bubble+c.bubble/10 || got <= c.bubble/2 && got != c.bubble {
						t.Errorf("%s: bubble %d, not %d", name, got, c.bubble)
					}
					if flight != c.flight {
						t.Errorf("%s: %d in flight, not %d", name, flight, c.flight)
					}
				}
			}
		}
	}
}

// Without backward, all fill and drain once: (p-1)/(n+p-1) of the time, less by groups of layers.
func TestForwardOnly(t *testing.T) {
	for _, c := range []struct {
		schedule string
		groups   int
	}{{"gpipe", 1}, {"1f1b", 1}, {"interleaved", 2}} {
		s := &shape{stages: 4, micros: 8, groups: c.groups, forwardOnly: true}
		orders, why := s.orders(c.schedule)
		if why != "" {
			t.Fatal(why)
		}
		if end := run(t, s, [3]trace.Time{20, 0, 0}, orders); end[3] != trace.Time(8*20+3*20/c.groups) {
			t.Errorf("%s: %d", c.schedule, end[3])
		}
	}
	if _, why := (&shape{stages: 2, micros: 4, forwardOnly: true}).orders("zb"); why == "" {
		t.Error("zb without backward")
	}
}

func TestRefusedCounts(t *testing.T) {
	if _, why := (&shape{stages: 4, micros: 6, groups: 2}).orders("interleaved"); why == "" {
		t.Error("interleaved sets of 4 out of 6 micro-batches")
	}
}
