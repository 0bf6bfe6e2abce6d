package trace

import "testing"

func TestLabels(t *testing.T) {
	r := &Run{
		Ranks: []Rank{{ID: 3, Device: Device{Name: "NVIDIA H200"}}, {ID: None, Source: "run/host1.json.gz"}, {ID: None}},
		Lanes: []Lane{
			{Kind: Queue, ID: 7},
			{Kind: Queue, ID: 7, Sub: 1},
			{Kind: Queue, ID: 7, Name: "comm"},
			{Kind: Slot, ID: 12, Sub: 3},
			{Kind: Persistent, ID: 5},
			{Kind: Link, Peer: 0},
			{Kind: Link, Peer: 2},
			{Kind: Annotation, ID: 7},
			{Kind: Annotation, ID: None},
		},
	}
	for row, want := range []string{"rank 3 · NVIDIA H200", "host1.json.gz", "rank 2"} {
		if got := r.RankLabel(int32(row)); got != want {
			t.Errorf("rank in row %d: %q, want %q", row, got, want)
		}
	}
	for id, want := range []string{"stream 7", "stream 7 +1", "comm", "CU 12.3", "WG 5", "link to rank 3", "link to rank 2", "annotations 7", "annotations"} {
		if got := r.LaneLabel(LaneID(id)); got != want {
			t.Errorf("lane %d: %q, want %q", id, got, want)
		}
	}
}
