package machine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

func TestShape(t *testing.T) {
	for _, c := range []struct {
		topology Topology
		members  int
		want     [3]int
	}{
		{Ring, 6, [3]int{6, 1, 1}},
		{Torus2D, 128, [3]int{16, 8, 1}},
		{Torus2D, 64, [3]int{8, 8, 1}},
		{Torus2D, 12, [3]int{4, 3, 1}},
		{Torus2D, 7, [3]int{7, 1, 1}},
		{Torus2D, 1, [3]int{1, 1, 1}},
		{Torus3D, 128, [3]int{8, 4, 4}},
		{Torus3D, 64, [3]int{4, 4, 4}},
		{Torus3D, 30, [3]int{5, 2, 3}},
	} {
		if got := c.topology.Shape(c.members); got != c.want {
			t.Errorf("%s of %d: %v, want %v", c.topology, c.members, got, c.want)
		}
	}
}

// Members 0 to 11 of a torus of 4 by 3; ports are right, left, down, up.
//
//	0  1  2  3
//	4  5  6  7
//	8  9 10 11
func TestWay(t *testing.T) {
	for _, c := range []struct {
		topology          Topology
		members, from, to int
		want              []Step
	}{
		{Switch, 8, 2, 5, []Step{{2, 5}}},
		{Mesh, 4, 3, 0, []Step{{3, 0}}},
		{Ring, 5, 1, 3, []Step{{1, 0}, {2, 0}}},
		{Ring, 5, 0, 3, []Step{{0, 1}, {4, 1}}},
		{Ring, 4, 0, 2, []Step{{0, 0}, {1, 0}}}, // equally far: even places up
		{Ring, 4, 1, 3, []Step{{1, 1}, {0, 1}}}, // and odd ones down
		{Torus2D, 12, 0, 7, []Step{{0, 1}, {3, 2}}},
		{Torus2D, 12, 1, 8, []Step{{1, 1}, {0, 3}}},
		{Torus2D, 12, 4, 10, []Step{{4, 0}, {5, 0}, {6, 2}}},
		{Torus2D, 12, 5, 5, nil},
	} {
		layout := c.topology.Layout(c.members)
		if got := layout.Route(c.from, c.to, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s of %d from %d to %d: %v, want %v", c.topology, c.members, c.from, c.to, got, c.want)
		}
	}
}

// A way leads over neighbours from one member to the other, is as short as any
// (found by search), and goes along one axis after another.
func TestWaysAreShortest(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		topology := Topology(rapid.SampledFrom(topologies).Draw(t, "topology"))
		members := rapid.IntRange(1, 36).Draw(t, "members")
		from := rapid.IntRange(0, members-1).Draw(t, "from")
		distance := searched(topology, members, from)
		layout := topology.Layout(members)
		for to := range members {
			way := layout.Route(from, to, nil)
			if len(way) != distance[to] || layout.Hops(from, to) != distance[to] {
				t.Fatalf("from %d to %d: %d links, Hops says %d, a search %d", from, to, len(way), layout.Hops(from, to), distance[to])
			}
			at, axis := from, 0
			for _, s := range way {
				if s.From != at || s.Port/2 < axis && topology.axes() > 0 {
					t.Fatalf("from %d to %d: %v", from, to, way)
				}
				at, axis = neighbour(topology, members, s), s.Port/2
			}
			if at != to {
				t.Fatalf("from %d to %d: %v ends at %d", from, to, way, at)
			}
		}
	})
}

// neighbour is the member that a link leads to.
func neighbour(t Topology, members int, s Step) int {
	if t.axes() == 0 {
		return s.Port
	}
	shape, below := t.Shape(members), 1
	for axis := range s.Port / 2 {
		below *= shape[axis]
	}
	size := shape[s.Port/2]
	place := s.From / below % size
	next := (place + 1 + s.Port%2*(size-2)) % size
	return s.From + (next-place)*below
}

// searched is the distance of every member from one, breadth first.
func searched(t Topology, members, from int) []int {
	distance := slices.Repeat([]int{-1}, members)
	distance[from] = 0
	for line := []int{from}; len(line) > 0; line = line[1:] {
		for port := range t.Ports(members) {
			if n := neighbour(t, members, Step{line[0], port}); distance[n] < 0 {
				distance[n] = distance[line[0]] + 1
				line = append(line, n)
			}
		}
	}
	return distance
}

// In an all-to-all every link of an axis carries equally many pairs: on a ring
// of n, n²/8 if n is even and (n²-1)/8 if it is odd, times the other members.
func TestAllToAllLoadsLinksAlike(t *testing.T) {
	for _, c := range []struct {
		topology Topology
		members  int
	}{{Ring, 4}, {Ring, 5}, {Ring, 8}, {Torus2D, 128}, {Torus2D, 12}, {Torus3D, 64}} {
		load, layout := map[Step]int{}, c.topology.Layout(c.members)
		for from := range c.members {
			for to := range c.members {
				for _, s := range layout.Route(from, to, nil) {
					load[s]++
				}
			}
		}
		shape := c.topology.Shape(c.members)
		for s, n := range load {
			size := shape[s.Port/2]
			want := size * size / 8 * (c.members / size)
			if size > 2 && n != want {
				t.Errorf("%s of %d: %d pairs cross %v, want %d", c.topology, c.members, n, s, want)
			}
		}
	}
}

// Every other member is sent to once. On a ring or torus any four successive distances of many
// lie on both sides, none next to the one before.
func TestDistances(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		topology := rapid.SampledFrom([]Topology{Switch, Mesh, Ring, Torus2D, Torus3D}).Draw(t, "topology")
		n := rapid.IntRange(2, 300).Draw(t, "members")
		seen := map[int]bool{}
		var all []int
		for i := range n - 1 {
			d := topology.Distance(i, n)
			if d < 1 || d >= n || seen[d] {
				t.Fatalf("%s: distance %d of %d: %d", topology, i, n, d)
			}
			seen[d] = true
			all = append(all, d)
		}
		if !topology.Passes() {
			if !slices.IsSorted(all) {
				t.Fatalf("%s: %v", topology, all)
			}
			return
		}
		for i := range max(0, len(all)-3) {
			if four := all[i : i+4]; n >= 40 && (slices.Min(four) > n/2 || slices.Max(four) < n/2) {
				t.Fatalf("%s: %v of %d are on one side", topology, four, n)
			}
		}
	})
}
