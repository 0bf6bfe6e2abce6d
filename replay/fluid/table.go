package fluid

import (
	"cmp"
	"slices"
)

// A rateTable has the classes of a path in the order in which they reach their limit
// as the level of the path rises. The last rows are held back.
//
//	level  0.5 0.7 0.7 1.2 | 2.0 2.0 2.1 4.0
//	       at their limit    held back
type rateTable struct {
	rows []row
	held int // number of rows at the end that are held back
}

// A row is a class in its path.
type row struct {
	level  float64 // at which its members reach their limit: limit over weight
	rate   float64 // total of all members at their limit
	weight float64 // total of all members
	class  int32
}

// find returns where the class's row is or belongs.
func (t *rateTable) find(level float64, class int32) int {
	at, _ := slices.BinarySearchFunc(t.rows, row{level: level, class: class}, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.class, b.class))
	})
	return at
}

// insert adds a row and reports whether it is held back, which the row before it decides.
func (t *rateTable) insert(x row) (held bool) {
	at := t.find(x.level, x.class)
	if held = at > len(t.rows)-t.held; held {
		t.held++
	}
	t.rows = slices.Insert(t.rows, at, x)
	return held
}

// remove takes the class's row out.
func (t *rateTable) remove(level float64, class int32, held bool) {
	at := t.find(level, class)
	t.rows = slices.Delete(t.rows, at, at+1)
	if held {
		t.held--
	}
}

// set changes the rate and weight of the class's row.
func (t *rateTable) set(x row) { t.rows[t.find(x.level, x.class)] = x }

// sum is the rate and weight of all rows.
func (t *rateTable) sum() (rate, weight float64) {
	for i := range t.rows {
		rate += t.rows[i].rate
		weight += t.rows[i].weight
	}
	return rate, weight
}

// saturate returns the rate and weight of the rows, starting at one row, that reach
// their limit at or below the level, and the first row that does not.
func (t *rateTable) saturate(at int, level float64) (rate, weight float64, to int) {
	for ; at < len(t.rows) && t.rows[at].level <= level; at++ {
		rate += t.rows[at].rate
		weight += t.rows[at].weight
	}
	return rate, weight, at
}
