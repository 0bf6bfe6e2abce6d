package trace

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Numbers of workgroups and threads do not overflow: what no launch has is unknown.
func TestVolume(t *testing.T) {
	for _, c := range []struct {
		extents [3]int32
		want    int
	}{
		{[3]int32{}, 0},
		{[3]int32{132, 1, 1}, 132},
		{[3]int32{2, 3, 5}, 30},
		{[3]int32{math.MaxInt32, 1, 1}, math.MaxInt32},
		{[3]int32{math.MaxInt32, 2, 1}, 0},
		{[3]int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, 0},
		{[3]int32{-4, -4, 1}, 0},
	} {
		if got := (Setup{Grid: c.extents}).WGs(); got != c.want {
			t.Errorf("%v: %d workgroups", c.extents, got)
		}
		if got := (Setup{Block: c.extents}).Threads(); got != c.want {
			t.Errorf("%v: %d threads", c.extents, got)
		}
	}
}

// Buckets of any fill, also of one far span beside many near ones, end in the stable order by start.
func TestByStart(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var b Builder
		scale := rapid.SampledFrom([]int64{1, 1000, 1 << 40}).Draw(t, "scale")
		for _, at := range rapid.SliceOfN(rapid.Int64Range(0, 300), 1, 500).Draw(t, "starts") {
			if at == 300 {
				at *= scale
			}
			b.Add(Span{Start: Time(at - 150)})
		}
		want := make([]SpanID, b.Len())
		for i := range want {
			want[i] = SpanID(i)
		}
		slices.SortStableFunc(want, func(x, y SpanID) int { return cmp.Compare(b.Span(x).Start, b.Span(y).Start) })
		if got := b.byStart(); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// Equal sequences are paired whole; beyond the bound only what is equal at both ends is.
func TestLongestCommon(t *testing.T) {
	for _, c := range []struct {
		a, b string
		most int
		want [][2]int
	}{
		{"abc", "abc", 0, [][2]int{{0, 0}, {1, 1}, {2, 2}}},
		{"", "abc", 9, nil},
		{"abxcd", "abycd", 9, [][2]int{{0, 0}, {1, 1}, {3, 3}, {4, 4}}},
		{"axbycz", "abcz", 9, [][2]int{{0, 0}, {2, 1}, {4, 2}, {5, 3}}},
		{"axbycz", "abcz", 1, [][2]int{{0, 0}, {4, 2}, {5, 3}}},
	} {
		if got := LongestCommon(len(c.a), len(c.b), c.most, func(i, j int) bool { return c.a[i] == c.b[j] }); !slices.Equal(got, c.want) {
			t.Errorf("%q and %q, at most %d apart: %v, want %v", c.a, c.b, c.most, got, c.want)
		}
	}
}

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
