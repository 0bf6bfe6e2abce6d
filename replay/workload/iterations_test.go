package workload

import "testing"

// The longest stretch that repeats a sequence is found with its shortest period, and the rest of it that is cut short.
func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		things           string
		from, to, period int
	}{
		{"eABCABCABCAh", 1, 11, 3}, // the last sequence is cut short
		{"ABABxABCABCABC", 5, 14, 3},
		{"AAAA", 0, 4, 1},
		{"ABCDEF", 0, 0, 0},
		{"ABCABxABCAB", 0, 0, 0}, // once and most of it again is no repetition
		{"", 0, 0, 0},
	} {
		var lengths []int
		for p := 1; p <= len(c.things); p++ {
			lengths = append(lengths, p)
		}
		from, to, period := Repeated(len(c.things), lengths, func(i, j int) bool { return c.things[i] == c.things[j] })
		if from != c.from || to != c.to || period != c.period {
			t.Errorf("%s: %d to %d by %d, want %d to %d by %d", c.things, from, to, period, c.from, c.to, c.period)
		}
	}
}
