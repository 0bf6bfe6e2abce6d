package replay

import (
	"slices"
	"testing"
)

// Flags to peers leave a GPU one after another, whichever peer they go to; those
// that stay on it, and those of other GPUs, wait for none.
func TestFlagsCrowd(t *testing.T) {
	m := nodes(3, 3)
	m.Fabric.Latency, m.Fabric.Message = q(50e-9), q(7e-9)
	send := func(peer int32, flag Flag) []Phase {
		return []Phase{{Op: Store, Peer: peer, Time: 10}, {Op: PostTo, Flag: flag, Count: 1}}
	}
	for _, c := range []struct {
		name   string
		phases map[int][]Phase
		want   []Time
	}{
		{"one", map[int][]Phase{0: send(1, 1)}, []Time{60}},
		{"a tile's three", map[int][]Phase{0: append(send(1, 1), Phase{Op: PostTo, Flag: 2, Count: 1}, Phase{Op: PostTo, Flag: 3, Count: 1})}, []Time{60, 67, 74}},
		{"after a pause", map[int][]Phase{0: append(send(1, 1), Phase{Op: Sleep, Time: 5}, Phase{Op: PostTo, Flag: 2, Count: 1}, Phase{Op: Sleep, Time: 20}, Phase{Op: PostTo, Flag: 3, Count: 1})}, []Time{60, 67, 85}},
		{"of two GPUs", map[int][]Phase{0: send(2, 1), 1: send(2, 2)}, []Time{60, 60}},
		{"to everyone", map[int][]Phase{0: append(send(Everyone, 1), Phase{Op: PostTo, Flag: 2, Count: 1})}, []Time{60, 67}},
		{"at home", map[int][]Phase{0: append(send(0, 1), Phase{Op: PostTo, Flag: 2, Count: 1})}, []Time{10, 10}},
	} {
		if got := arrivals(t, m, c.phases); !slices.Equal(got, c.want) {
			t.Errorf("%s: seen at %v, want %v", c.name, got, c.want)
		}
	}
}
