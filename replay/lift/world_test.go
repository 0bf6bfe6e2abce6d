package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

func TestWorld(t *testing.T) {
	of8 := func(ids ...int) (ranks []trace.Rank) {
		for _, id := range ids {
			ranks = append(ranks, trace.Rank{ID: id, World: 8, Source: fmt.Sprintf("rank%d.json", id)})
		}
		return ranks
	}
	one := `0 7 | CCC |`
	two := `0 7 | CCC |
	        1 7 | DD  |`
	for _, c := range []struct {
		name   string
		text   string
		ranks  []trace.Rank
		groups []trace.Group // C is of the first, D of the last
		world  int
		rows   string
		want   string
		notes  string
	}{
		{
			name: "one rank of eight", text: one, ranks: of8(0),
			groups: []trace.Group{{Name: "0", Ranks: []int{0, 1, 2, 3, 4, 5, 6, 7}, Size: 8}},
			rows:   "0 0* 0* 0* 0* 0* 0* 0*",
			want:   `all_reduce: 0C 1C 2C 3C 4C 5C 6C 7C; arrive 1, depart 4; 64 bytes`,
			notes:  `rank 0 of 8 captured: replayed as if all ranks were alike`,
		},
		{
			name: "one rank of eight, without collectives", text: `0 7 | AAAA |`, ranks: of8(0),
			rows:  "0 0* 0* 0* 0* 0* 0* 0*",
			notes: `rank 0 of 8 captured: replayed as if all ranks were alike`,
		},
		{
			name: "a rank that the trace does not name", text: one, ranks: []trace.Rank{{Source: "trace.json", NodeGPUs: 2}},
			groups: []trace.Group{{Name: "0"}},
			rows:   "0 0*",
			want:   `all_reduce: 0C 1C; arrive 1, depart 4; 64 bytes`,
			notes: `the trace does not say which ranks its collectives join: taken as the 2 GPUs of its node
			        one of 2 ranks captured, and the trace does not say which: replayed as if all were alike`,
		},
		{
			name: "rank 5 of eight, groups of two neighbours", text: one, ranks: of8(5),
			groups: []trace.Group{{Name: "tp", Ranks: []int{4, 5}, Size: 2}},
			rows:   "0* 0* 0* 0* 0* 0 0* 0*",
			want: `all_reduce: 0C 1C; arrive 1, depart 4; 64 bytes
			       all_reduce: 2C 3C; arrive 1, depart 4; 64 bytes
			       all_reduce: 4C 5C; arrive 1, depart 4; 64 bytes
			       all_reduce: 6C 7C; arrive 1, depart 4; 64 bytes`,
			notes: `rank 5 of 8 captured: replayed as if all ranks were alike`,
		},
		{
			name: "groups with a stride", text: one, ranks: of8(1),
			groups: []trace.Group{{Name: "dp", Ranks: []int{1, 5}, Size: 2}},
			rows:   "0* 0 0* 0* 0* 0* 0* 0*",
			want: `all_reduce: 0C 4C; arrive 1, depart 4; 64 bytes
			       all_reduce: 1C 5C; arrive 1, depart 4; 64 bytes
			       all_reduce: 2C 6C; arrive 1, depart 4; 64 bytes
			       all_reduce: 3C 7C; arrive 1, depart 4; 64 bytes`,
			notes: `rank 1 of 8 captured: replayed as if all ranks were alike`,
		},
		{
			name: "members unknown: neighbours", text: one, ranks: of8(0),
			groups: []trace.Group{{Name: "tp", Size: 4}},
			rows:   "0 0* 0* 0* 0* 0* 0* 0*",
			want: `all_reduce: 0C 1C 2C 3C; arrive 1, depart 4; 64 bytes
			       all_reduce: 4C 5C 6C 7C; arrive 1, depart 4; 64 bytes`,
			notes: `rank 0 of 8 captured: replayed as if all ranks were alike`,
		},
		{
			name: "each missing rank copies the one it shares a group with", text: two, ranks: of8(0, 4),
			groups: []trace.Group{{Name: "a", Ranks: []int{0, 1, 2, 3}, Size: 4}, {Name: "b", Ranks: []int{4, 5, 6, 7}, Size: 4}},
			rows:   "0 0* 0* 0* 1 1* 1* 1*",
			want: `all_reduce: 0C 1C 2C 3C; arrive 1, depart 4; 64 bytes
			       all_gather: 4D 5D 6D 7D; arrive 1, depart 3; 32 bytes`,
			notes: `2 of 8 ranks captured: the others are copies of these (rank 1 of rank 0, for one)`,
		},
		{
			name: "a larger job replayed as a smaller one", text: one, ranks: of8(3), world: 2,
			groups: []trace.Group{{Name: "0", Ranks: []int{0, 1, 2, 3, 4, 5, 6, 7}, Size: 8}},
			rows:   "0 0*",
			want:   `all_reduce: 0C 1C; arrive 1, depart 4; 64 bytes`,
			notes: `a job of 8 ranks, replayed as one of 2
			        rank3.json: taken for rank 0: it is rank 3
			        rank 0 of 2 captured: replayed as if all ranks were alike`,
		},
		{
			name: "traces that do not say their rank", text: two,
			ranks:  []trace.Rank{{ID: trace.None, Source: "a.json"}, {ID: trace.None, Source: "b.json"}},
			groups: []trace.Group{{Name: "0", Size: 2}},
			rows:   "0 1",
			want: `all_reduce: 0C; arrive 1, depart 4; 64 bytes
			       all_gather: 1D; arrive 1, depart 3; 32 bytes`,
			notes: `a.json: taken for rank 0: the trace does not say which it is
			        b.json: taken for rank 1: the trace does not say which it is
			        2 collectives found on a part of their ranks only`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := drawing{
				text: c.text, ranks: c.ranks, groups: c.groups,
				parts: map[byte]part{'C': comm(trace.AllReduce, 0, 0, 64), 'D': comm(trace.AllGather, int32(len(c.groups)-1), 0, 32)},
			}
			w := lift(t, d, Options{World: c.world})
			var rows []string
			for rank, row := range w.Rows {
				star := ""
				if w.Copies[rank] {
					star = "*"
				}
				rows = append(rows, fmt.Sprintf("%d%s", row, star))
			}
			sameText(t, "rows", strings.Join(rows, " "), c.rows)
			sameText(t, "collectives", collectives(w), c.want)
			sameText(t, "notes", strings.Join(w.Notes, "\n"), c.notes)
		})
	}
}

func TestCopiesKeepOrder(t *testing.T) {
	w := lift(t, drawing{
		text: `0 host |a b c w e |
		       0 7    | AABB   EE|
		       0 19   |     CC   |`,
		parts: map[byte]part{'C': comm(trace.AllReduce, trace.None, 0, 64)},
		ranks: []trace.Rank{{ID: 0, World: 3}},
	}, Options{})
	for rank := range w.World {
		sameText(t, fmt.Sprintf("rank %d", rank), after(w, rank), after(w, 0))
	}
	if len(w.Ops) != 12 {
		t.Errorf("%d ops, want 12", len(w.Ops))
	}
}

func TestWorldErrors(t *testing.T) {
	two := `0 7 |AA|
	        1 7 |AA|`
	for _, c := range []struct {
		name  string
		d     drawing
		world int
		want  string
	}{
		{"too small", drawing{text: two}, 1, "world 1: the trace holds 2 ranks (ask for at least as many)"},
		{"too many copies", drawing{text: `0 7 |` + strings.Repeat("AB", 100) + `|`, ranks: []trace.Rank{{World: 1 << 16}}}, 0, "13107200 operations on 65536 ranks take about 3.7 GiB of memory, more than 2.0 GiB (capture fewer steps, or a job of at most 35791 ranks)"},
		{"a rank beyond reason", drawing{text: two, ranks: []trace.Rank{{ID: 0}, {ID: 1 << 30}}}, 0, "a world of 1073741825 ranks is more than 65536 (ask for fewer ranks)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Workload(c.d.run(t), Options{World: c.world})
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestEmptyRuns(t *testing.T) {
	var none, idle trace.Builder
	idle.AddRank(trace.Rank{World: 4})
	for name, run := range map[string]*trace.Run{"no rank": none.Finish(trace.Options{}), "no span": idle.Finish(trace.Options{})} {
		w, err := Workload(run, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, w)
		if len(w.Notes) == 0 || w.Notes[len(w.Notes)-1] != "the run holds no device operation" {
			t.Errorf("%s: notes %q", name, w.Notes)
		}
		workload.Of(w, nil)
	}
}
