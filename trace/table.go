package trace

import "slices"

// A table is a list of rows in chunks. A growing slice would be copied many times and
// leave as much garbage.
type table[T any] struct {
	pieces [][]T // all but the last have pieceRows rows
	rows   int
}

const (
	pieceBits = 12
	pieceRows = 1 << pieceBits
)

func (t *table[T]) add(row T) int32 {
	last := len(t.pieces) - 1
	if last < 0 || len(t.pieces[last]) == pieceRows {
		var piece []T // the first chunk grows by append: most tables are small
		if last >= 0 {
			piece = make([]T, 0, pieceRows)
		}
		t.pieces = append(t.pieces, piece)
		last++
	}
	t.pieces[last] = append(t.pieces[last], row)
	t.rows++
	return int32(t.rows - 1)
}

// tableOf returns a table whose pieces are subslices of a slice.
func tableOf[T any](all []T) table[T] {
	return table[T]{slices.Collect(slices.Chunk(all, pieceRows)), len(all)}
}

func (t *table[T]) at(i int32) *T { return &t.pieces[i>>pieceBits][i&(pieceRows-1)] }

// moveTo moves all rows into one slice of exact capacity, if there are any.
func (t *table[T]) moveTo(to *[]T) {
	if t.rows == 0 {
		return
	}
	all := make([]T, 0, t.rows)
	for i, piece := range t.pieces {
		all = append(all, piece...)
		t.pieces[i] = nil
	}
	*to, *t = all, table[T]{}
}
