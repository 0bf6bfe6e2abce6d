package trace

import (
	"maps"
	"testing"
)

// Two sends of one rank, and between the receives of the other its own send: by order alone the second send would be matched
// with that. A kernel that sends and receives is matched with the sender of what it receives.
func TestLinkMessages(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []Message
		want     map[int32]int32
	}{
		{"one way each", []Message{
			{ID: 0, Rank: 0, Peer: 1, Sends: true},
			{ID: 1, Rank: 0, Peer: 1, Sends: true},
			{ID: 2, Rank: 0, Peer: 1, Receives: true},
			{ID: 3, Rank: 1, Peer: 0, Receives: true},
			{ID: 4, Rank: 1, Peer: 0, Sends: true},
			{ID: 5, Rank: 1, Peer: 0, Receives: true},
		}, map[int32]int32{0: 0, 3: 0, 1: 1, 5: 1, 4: 2, 2: 2}},
		{"sends forward and receives backward in one kernel", []Message{
			{ID: 0, Rank: 0, Peer: 1, Sends: true, Receives: true},
			{ID: 1, Rank: 1, Peer: 0, Receives: true},
			{ID: 2, Rank: 1, Peer: 0, Sends: true},
		}, map[int32]int32{0: 1, 2: 1}},
		{"other ranks are apart", []Message{
			{ID: 0, Rank: 0, Peer: 1, Sends: true}, {ID: 1, Rank: 1, Peer: 2, Sends: true}, {ID: 2, Rank: 1, Peer: 0, Receives: true}, {ID: 3, Rank: 2, Peer: 1, Receives: true},
		}, map[int32]int32{0: 0, 2: 0, 1: 1, 3: 1}},
	} {
		if got := LinkMessages(c.messages); !maps.Equal(got, c.want) {
			t.Errorf("%s: links %v, want %v", c.name, got, c.want)
		}
	}
}
