package fluid

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// bench owns the clock and flows that start at given times.
type bench struct {
	t      rapid.TB
	s      *System
	now    int64
	timers []timerAt
	flows  []flow
	class  map[flowKey]int32
	admits bool // flows are uncontended as long as possible
	ticks  int
}

type timerAt struct {
	at int64
	t  Timer
}

type flowKey struct {
	path          int32
	weight, limit float64
}

type flow struct {
	flowKey
	start, end  int64
	size        float64
	member      Member
	uncontended bool
}

func newBench(t rapid.TB) *bench {
	b := &bench{t: t, class: map[flowKey]int32{}}
	b.s = New(b)
	b.s.Meter = func(_ int32, _ float64, full bool, from, to int64) {
		if full {
			b.ticks += int(to - from)
		}
	}
	return b
}

func (b *bench) Schedule(at int64, t Timer) { b.timers = append(b.timers, timerAt{at, t}) }
func (b *bench) MemberOf(id int64) *Member  { return &b.flows[id].member }
func (b *bench) Demanded([]int32)           {}
func (b *bench) Dropped(class int32) {
	for k, id := range b.class {
		if id == class {
			delete(b.class, k)
		}
	}
}

func (b *bench) Contended(path int32) {
	for i := range b.flows {
		if f := &b.flows[i]; f.uncontended && f.path == path {
			f.uncontended = false
			b.s.Dismiss(path, f.limit, f.start, b.now)
			b.join(int64(i), float64(f.end-b.now)*f.limit)
			f.end = none
		}
	}
}

func (b *bench) join(id int64, size float64) {
	f := &b.flows[id]
	class, ok := b.class[f.flowKey]
	if !ok {
		class = b.s.NewClass(f.path, f.weight, f.limit)
		b.class[f.flowKey] = class
		b.s.SetLimit(class, f.limit)
	}
	b.s.Join(class, &f.member, id, f.path, f.limit, size, b.now)
}

// begin starts a flow.
func (b *bench) begin(id int64) {
	f := &b.flows[id]
	if b.admits && b.s.Admit(f.path, f.limit, b.now) {
		f.uncontended, f.end = true, b.now+int64(math.Ceil(f.size/f.limit))
		f.size = float64(f.end-b.now) * f.limit // a whole time
		return
	}
	b.join(id, f.size)
}

// run runs all flows to their end, and calls each between every two instants.
func (b *bench) run(each func()) {
	for {
		next := last
		for _, x := range b.timers {
			next = min(next, x.at)
		}
		for _, f := range b.flows {
			if f.start >= b.now && f.end == 0 {
				next = min(next, f.start)
			}
			if f.uncontended {
				next = min(next, f.end)
			}
		}
		if next == last {
			return
		}
		b.now = next
		b.instant()
		each()
	}
}

func (b *bench) instant() {
	var ends []int64
	timers := b.timers
	b.timers = nil
	for _, x := range timers {
		if x.at > b.now {
			b.timers = append(b.timers, x)
		} else if b.s.Pending(x.t, b.now) {
			ends = b.s.Complete(x.t, b.now, ends)
		}
	}
	for _, id := range ends {
		b.s.End(&b.flows[id].member)
		b.flows[id].end = b.now
	}
	for i := range b.flows {
		switch f := &b.flows[i]; {
		case f.uncontended && f.end == b.now:
			f.uncontended = false
			b.s.Dismiss(f.path, f.limit, f.start, b.now)
		case f.start == b.now && f.end == 0:
			f.end = none // in progress
			b.begin(int64(i))
		}
	}
	b.s.Solve(b.now)
}

// draw adds resources, paths and flows.
func (b *bench) draw(t *rapid.T, observed bool) {
	capacities := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 6).Draw(t, "capacities")
	for _, c := range capacities {
		b.s.NewResource(float64(c), observed)
	}
	paths := rapid.IntRange(1, 6).Draw(t, "paths")
	for range paths {
		var way []Crossing
		for id := range capacities {
			if cost := rapid.SampledFrom([]float64{0, 0, 1, 1, .5, 2}).Draw(t, "cost"); cost > 0 {
				way = append(way, Crossing{int32(id), cost})
			}
		}
		b.s.NewPath(way)
	}
	for range rapid.IntRange(1, 30).Draw(t, "flows") {
		b.flows = append(b.flows, flow{
			flowKey: flowKey{
				path:   int32(rapid.IntRange(0, paths-1).Draw(t, "path")),
				weight: rapid.SampledFrom([]float64{1, 1, 1, .5, 3}).Draw(t, "weight"),
				limit:  float64(rapid.IntRange(1, 40).Draw(t, "limit")),
			},
			start: int64(rapid.IntRange(0, 40).Draw(t, "start")), member: NewMember(),
			size: float64(rapid.IntRange(1, 400).Draw(t, "size")),
		})
	}
	b.admits = rapid.Bool().Draw(t, "admits")
}

// Rates equal those of a naive max-min fair solver. No resource exceeds its capacity,
// also after the capacity changes. Every flow ends. The amount that each resource moved
// equals the sum over its flows.
func TestRatesAreMaxMinFair(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		b := newBench(t)
		b.draw(t, rapid.Bool().Draw(t, "observed"))
		b.s.ExactPaths = rapid.SampledFrom([]int{exactPaths, 1}).Draw(t, "exact paths")
		changes := rapid.IntRange(0, 3).Draw(t, "changes of capacity")
		b.run(func() {
			must.Do(t, b.s.Check(b.now))
			if changes > 0 && b.s.resources[0].observed && !b.admits && rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				changes--
				b.s.SetCapacity(int32(rapid.IntRange(0, len(b.s.resources)-1).Draw(t, "resource")), float64(rapid.IntRange(1, 50).Draw(t, "capacity")), b.now)
				b.s.Solve(b.now)
				if err := b.s.Check(b.now); err != nil && b.s.ExactPaths > 1 {
					t.Fatal(err)
				}
			}
		})
		took := make([]float64, len(b.s.resources))
		for i := range b.flows {
			f := &b.flows[i]
			if f.end <= 0 || float64(f.end-f.start) < f.size/f.limit-1e-6 {
				t.Fatalf("flow %d of %g at %g at most: from %d to %d", i, f.size, f.limit, f.start, f.end)
			}
			resources, costs := b.s.crossed(&b.s.states[f.path])
			for i, at := range resources {
				took[at] += costs[i] * f.size
			}
		}
		for id, want := range took {
			// A flow counts as active until the whole unit of time at which it ends.
			got := b.s.Used(int32(id), b.now)
			if late := 50 * float64(len(b.flows)); got < want*(1-1e-9)-late*1e-3 || got > want+late {
				t.Fatalf("resource %d carried %g, want %g", id, got, want)
			}
		}
	})
}

// Rates are independent of the unit: if sizes, limits and capacities are all multiplied
// by the same factor, every flow ends at the same time.
func TestRatesScale(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		one := newBench(t)
		one.draw(t, false)
		many := newBench(t)
		for _, r := range one.s.resources {
			many.s.NewResource(1024*r.capacity, false) // a power of two causes no rounding
		}
		for i := range one.s.states {
			resources, costs := one.s.crossed(&one.s.states[i])
			var way []Crossing
			for i, id := range resources {
				way = append(way, Crossing{id, costs[i]})
			}
			many.s.NewPath(way)
		}
		many.flows, many.admits = slices.Clone(one.flows), one.admits
		for i := range many.flows {
			many.flows[i].size *= 1024
			many.flows[i].limit *= 1024
		}
		one.run(func() {})
		many.run(func() {})
		for i := range one.flows {
			if one.flows[i].end != many.flows[i].end {
				t.Fatalf("flow %d ends at %d, scaled at %d", i, one.flows[i].end, many.flows[i].end)
			}
		}
	})
}

// A resource of 12 is shared by flows of weight 1, 1 and 2 with limits 2, 100 and 100:
// the first has its limit, the others 10/3 and 20/3.
func TestSharing(t *testing.T) {
	b := newBench(t)
	r := b.s.NewResource(12, false)
	path := b.s.NewPath([]Crossing{{r, 1}})
	for _, x := range []struct{ weight, limit, size float64 }{{1, 2, 60}, {1, 100, 100}, {2, 100, 200}} {
		b.flows = append(b.flows, flow{flowKey: flowKey{path, x.weight, x.limit}, size: x.size, member: NewMember()})
	}
	b.run(func() {})
	for i := range b.flows {
		if b.flows[i].end != 30 {
			t.Errorf("flow %d ends at %d, want 30", i, b.flows[i].end)
		}
	}
	if moved := b.s.Used(r, 30); moved != 360 || b.ticks != 30 {
		t.Errorf("moved %g, full for %d, want 360 in 30", moved, b.ticks)
	}
}

// Rows remain sorted, and the rows held back are always a suffix.
func TestRowsAreSorted(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var x rateTable
		there := map[int32]row{}
		for range rapid.IntRange(1, 100).Draw(t, "changes") {
			class := int32(rapid.IntRange(0, 20).Draw(t, "class"))
			r, ok := there[class]
			if ok {
				x.remove(r.level, class, x.find(r.level, class) >= len(x.rows)-x.held)
				delete(there, class)
			} else {
				r = row{level: float64(rapid.IntRange(1, 9).Draw(t, "level")), rate: 2, weight: 1, class: class}
				first := len(x.rows) - x.held
				if held := x.insert(r); held != (x.find(r.level, class) > first) {
					t.Fatalf("row %v held back: %t", r, held)
				}
				there[class] = r
			}
			if rapid.IntRange(0, 3).Draw(t, "hold") == 0 {
				x.held = rapid.IntRange(0, len(x.rows)).Draw(t, "held")
			}
			sorted := slices.IsSortedFunc(x.rows, func(a, b row) int {
				return int(100*(a.level-b.level)) + int(a.class-b.class)
			})
			rate, weight := x.sum()
			if n := float64(len(there)); !sorted || x.held < 0 || x.held > len(x.rows) || rate != 2*n || weight != n {
				t.Fatalf("%v of %v: rate %g, weight %g", x, there, rate, weight)
			}
		}
	})
}

func TestPriorityQueueOrder(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var q priorityQueue
		var model []entry
		less := func(a, b entry) int {
			if a.less(&b) {
				return -1
			}
			return 1
		}
		rising := rapid.Bool().Draw(t, "rising") // no key is below those given out
		popped := 0.0
		for seq := range uint64(rapid.SampledFrom([]int{1, 10, 300, 3000}).Draw(t, "n")) {
			if rapid.IntRange(0, 2).Draw(t, "do") > 0 {
				e := entry{key: float64(rapid.IntRange(0, 50).Draw(t, "key")), seq: seq}
				if rising {
					e.key += popped
				}
				q.push(e)
				at, _ := slices.BinarySearchFunc(model, e, less)
				model = slices.Insert(model, at, e)
				continue
			}
			if q.empty() != (len(model) == 0) {
				t.Fatalf("empty says %t of %d", q.empty(), len(model))
			}
			if len(model) > 0 {
				if got := q.pop(); got != model[0] {
					t.Fatalf("got %v, want %v", got, model[0])
				}
				popped, model = model[0].key, model[1:]
			}
		}
	})
}
