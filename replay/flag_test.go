package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Flags to peers leave a GPU one after another, whichever peer they go to; those
// that stay on it, and those of other GPUs, wait for none.
func TestFlagsCrowd(t *testing.T) {
	m := nodes(3, 3)
	m.Fabric.Latency, m.Fabric.Message = q(50e-9), q(7e-9)
	send := func(peer int32, flag program.Flag) []program.Phase {
		return []program.Phase{{Op: program.Store, Peer: peer, Time: 10}, {Op: program.PostTo, Flag: flag, Count: 1}}
	}
	for _, c := range []struct {
		name   string
		phases map[int][]program.Phase
		want   []program.Time
	}{
		{"one", map[int][]program.Phase{0: send(1, 1)}, []program.Time{60}},
		{"a tile's three", map[int][]program.Phase{0: append(send(1, 1), program.Phase{Op: program.PostTo, Flag: 2, Count: 1}, program.Phase{Op: program.PostTo, Flag: 3, Count: 1})}, []program.Time{60, 67, 74}},
		{"after a pause", map[int][]program.Phase{0: append(send(1, 1), program.Phase{Op: program.Sleep, Time: 5}, program.Phase{Op: program.PostTo, Flag: 2, Count: 1}, program.Phase{Op: program.Sleep, Time: 20}, program.Phase{Op: program.PostTo, Flag: 3, Count: 1})}, []program.Time{60, 67, 85}},
		{"of two GPUs", map[int][]program.Phase{0: send(2, 1), 1: send(2, 2)}, []program.Time{60, 60}},
		{"to everyone", map[int][]program.Phase{0: append(send(program.Everyone, 1), program.Phase{Op: program.PostTo, Flag: 2, Count: 1})}, []program.Time{60, 67}},
		{"at home", map[int][]program.Phase{0: append(send(0, 1), program.Phase{Op: program.PostTo, Flag: 2, Count: 1})}, []program.Time{10, 10}},
	} {
		if got := arrivals(t, m, c.phases); !slices.Equal(got, c.want) {
			t.Errorf("%s: seen at %v, want %v", c.name, got, c.want)
		}
	}
	away := nodes(4, 2) // 20 from each other
	away.Fabric.Message = q(7e-9)
	two := map[int][]program.Phase{0: append(send(3, 1), program.Phase{Op: program.PostTo, Flag: 2, Count: 1})}
	if got := arrivals(t, away, two); !slices.Equal(got, []program.Time{30, 30}) {
		t.Errorf("to another node: seen at %v, want 30 both", got)
	}
}

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
		r, err := Simulate(small(1, 4), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
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

// Of posts of two kernels that arrive at one instant the later one brings the
// flag to two.
func TestWhoBringsAFlagToItsCount(t *testing.T) {
	p := &program.Program{}
	f := p.NewFlag("both")
	post := func(name string) program.Command {
		return kernel(name, 1, []program.Phase{{Op: program.PostTo, Flag: f, Count: 1, Time: 9}})
	}
	wait := func(n int64) program.Stream {
		return program.Stream{Commands: []program.Command{{Op: program.Wait, Flag: f, Count: n}}}
	}
	p.GPUs = []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{post("A")}}, wait(1), wait(2)}}, {Streams: []program.Stream{{Commands: []program.Command{post("B")}}}}}
	r := mustSimulate(t, small(2, 1), p, Options{})
	for _, idle := range r.Idle() {
		want := map[int]string{1: `posted by GPU 0 "A"`, 2: `posted by GPU 1 "B"`}[idle.Stream]
		if idle.End == 9 && idle.Note != want {
			t.Errorf("stream %d: %s, want %s", idle.Stream, idle.Note, want)
		}
	}
}
