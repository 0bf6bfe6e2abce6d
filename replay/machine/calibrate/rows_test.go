package calibrate

import "testing"

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
