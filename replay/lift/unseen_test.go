package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Collectives wait for ranks that nobody captured for as long as they take with nothing beside them, beyond the shortest of
// their operation with as many bytes or more. Where all ranks of the job were captured, the ranks show for whom they wait.
func TestWaitsForUnseen(t *testing.T) {
	one := `0 7  | CCCCCC DD EEEEEEE FFFFF GGGG H |
	        0 19 |              KKKK              |`
	everyone := trace.Group{Name: "0", Ranks: []int{0, 1}, Size: 2}
	for _, c := range []struct {
		name, text string
		ranks      []trace.Rank
		world      int
		want       string
	}{
		{"one rank of two", one, []trace.Rank{{World: 2}}, 0, "C 4 D 0 E 1 F 3 G 0 H 0"},
		{"both", one + "\n" + strings.ReplaceAll(one, "0 7 ", "1 7 "), []trace.Rank{{World: 2}, {ID: 1, World: 2}}, 0, "C 0 D 0 E 0 F 0 G 0 H 0"},
		{"all, as a larger job", one, []trace.Rank{{World: 1}}, 2, "C 0 D 0 E 0 F 0 G 0 H 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts := map[byte]part{'G': comm(trace.AllGather, 0, 4, 32), 'H': comm(trace.ReduceScatter, 0, 5, 32), 'F': comm(trace.AllReduce, 0, 3, 32)}
			for i, name := range "CDE" {
				parts[byte(name)] = comm(trace.AllReduce, 0, int64(i), 64)
			}
			w := lift(t, drawing{text: c.text, ranks: c.ranks, groups: []trace.Group{everyone}, parts: parts}, Options{World: c.world})
			var got []string
			for i := range w.Collectives {
				x := &w.Collectives[i]
				op := &w.Ops[x.Members[0]]
				got = append(got, fmt.Sprint(op.Name, " ", x.Late/1000))
				if x.Arrive != op.Start+x.Late || x.Transfer() != op.Dur()-x.Late {
					t.Errorf("%s: bytes move from %d for %d, its kernel runs from %d to %d", op.Name, x.Arrive, x.Transfer(), op.Start, op.End)
				}
			}
			sameText(t, "waits", strings.Join(got, " "), c.want)
		})
	}
}

// All-reduces of unknown size in front of one norm have one size, so that what they take longer than the shortest is a wait.
func TestWaitsOfUnknownSizes(t *testing.T) {
	norm := part{name: "rms_norm", grid: 8}
	w := lift(t, drawing{
		text: `0 7 | CCCC N DDDDDD N EE M FFFFFFFF O |`, ranks: []trace.Rank{{World: 2}}, groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
		parts: map[byte]part{
			'C': comm(trace.AllReduce, 0, 0, 0), 'D': comm(trace.AllReduce, 0, 1, 0), 'E': comm(trace.AllReduce, 0, 2, 0), 'F': comm(trace.AllReduce, 0, 3, 0),
			'N': norm, 'M': {name: "rms_norm", grid: 4}, 'O': {name: "gelu", grid: 8},
		},
	}, Options{})
	var late []trace.Time
	for i := range w.Collectives {
		late = append(late, w.Collectives[i].Late/1000)
	}
	if twins := twinsOf(w); fmt.Sprint(late, twins) != "[0 2 0 0] [1 1 2 0]" {
		t.Errorf("waits %v, twins %v", late, twins)
	}
}
