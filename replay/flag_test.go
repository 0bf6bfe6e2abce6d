package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Posts on their way arrive when they are due, whatever else is on its way, and
// whoever waits knows who brought the flag to its count.
func TestPostsArrive(t *testing.T) {
	type arrival struct {
		at   program.Time
		from string
	}
	rapidtest.Check(t, func(t *rapid.T) {
		p := &program.Program{GPUs: make([]program.GPU, 1)}
		const flags = 3
		for f := range flags {
			p.NewFlag(fmt.Sprint("flag ", f+1))
		}
		var seen [flags + 1][]arrival
		for k := range rapid.IntRange(1, 4).Draw(t, "kernels") {
			name := fmt.Sprint("k", k)
			now := program.Time(0)
			var phases []program.Phase
			for range rapid.IntRange(1, 8).Draw(t, "posts") {
				pause := program.Time(rapid.IntRange(0, 4).Draw(t, "pause"))
				way := program.Time(rapid.SampledFrom([]int{0, 2, 3, 9}).Draw(t, "way"))
				f := program.Flag(rapid.IntRange(1, flags).Draw(t, "flag"))
				phases = append(phases, program.Phase{Op: program.Sleep, Time: pause}, program.Phase{Op: program.PostTo, Flag: f, Count: 1, Time: way})
				now += pause
				seen[f] = append(seen[f], arrival{now + way, name})
			}
			p.GPUs[0].Streams = append(p.GPUs[0].Streams, program.Stream{Name: name, Commands: []program.Command{kernel(name, 1, phases)}})
		}
		for f := 1; f <= flags; f++ {
			for i := range seen[f] {
				p.GPUs[0].Streams = append(p.GPUs[0].Streams, program.Stream{Name: "waits", Commands: []program.Command{{Op: program.Wait, Flag: program.Flag(f), Count: int64(i + 1)}}})
			}
		}
		r := must.Have(Simulate(small(1, 4), p, Options{}))(t)
		for s, st := range p.GPUs[0].Streams {
			c := st.Commands[0]
			if c.Op != program.Wait {
				continue
			}
			arrivals := seen[c.Flag]
			slices.SortStableFunc(arrivals, func(a, b arrival) int { return int(a.at - b.at) })
			last := arrivals[c.Count-1]
			var got Idle
			for _, idle := range r.Idle() {
				if idle.Stream == s && idle.Cause == program.FlagWait {
					got = idle
				}
			}
			// Of several that arrive in one nanosecond, any may have been the one.
			by := slices.ContainsFunc(arrivals, func(a arrival) bool {
				return a.at == last.at && got.Note == fmt.Sprintf("posted by GPU 0 %q", a.from)
			})
			if got.End != last.at || last.at > 0 && !by {
				t.Fatalf("flag %d was to reach %d at %d by %s: %+v", c.Flag, c.Count, last.at, last.from, got)
			}
		}
	})
}
