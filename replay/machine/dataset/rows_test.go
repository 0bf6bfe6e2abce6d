package dataset

import (
	"testing"
)

func TestIDList(t *testing.T) {
	rows := func(lines ...int) []Row {
		var list []Row
		for _, n := range lines {
			list = append(list, Row{ID: "c" + string(rune('0'+n)), Line: n})
		}
		return list
	}
	for _, c := range []struct {
		rows []Row
		want string
	}{
		{rows(1), "c1"},
		{rows(1, 2), "c1, c2"},
		{rows(1, 2, 3, 5), "c1 to c3, c5 (4 rows)"},
	} {
		if got := idList(c.rows); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestWhere(t *testing.T) {
	c := &calibration{rows: []Row{
		{ID: "a", Strategy: "isolated", Workload: Workload{Kind: "gap", What: "hops"}, Params: Params{Benchmark: Benchmark{Flags: 2}, State: State{Queued: true}}},
		{ID: "b", Strategy: "isolated", Workload: Workload{Kind: "gap", What: "same", Bytes: 16 << 20}},
		{ID: "c", Strategy: "bulk", Workload: Workload{Kind: "gap", Bytes: 1}, Params: Params{Benchmark: Benchmark{Flags: 64}}},
	}}
	for selection, want := range map[string]string{
		"kind gap": "ab", "kind gap; of all kinds": "ab", "kind sum": "", "kind sum or gap, what same": "b", "kind gap, with queued": "a", "kind gap, without flags": "b",
		"kind gap, strategy bulk": "c", "bytes from 16 MiB": "b", "bytes to 15 MiB": "a", "flags 0 or from 3": "b", "flags 2": "a", "strategy isolated or bulk, flags from 2": "ac",
	} {
		got := ""
		for _, r := range c.where(selection) {
			got += r.ID
		}
		if got != want {
			t.Errorf("%s: %q, want %q", selection, got, want)
		}
	}
}
