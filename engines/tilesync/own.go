package tilesync

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
)

// Own is a policy that a user states as formulas (rule T8). The semaphores have the numbers 0
// to rows·cols-1 of the producer's tiles.
type own struct {
	posted []int32 // by tile of the producer, row by row: the semaphore that it posts
	waited []int32 // by row of the producer's tiles and column k of its tiles: the semaphore
	count  []int64 // and the count that a consumer waits for before its loop over K comes to that column
	order  []int32 // tiles of the producer in the order in which they run
}

// ownOf evaluates the formulas of a link for every tile of the producer, or returns the reason
// why they do not fit it.
func ownOf(v plan.Values, c plan.Cover, a, b workload.Shape) (o *own, why string) {
	if a.N != b.K || ownColumns(a, b) {
		return nil, fmt.Sprintf("policy own needs a consumer that sums over the producer's %d columns, not %d", a.N, b.K)
	}
	o = &own{}
	var keys []int64
	for row := range c.Rows {
		for col := range c.Cols {
			at := [numVars]int64{int64(row), int64(col), int64(col), int64(c.Rows), int64(c.Cols), int64(c.Splits)}
			var x [4]int64
			for i, name := range []string{"posts", "waits", "count", "tiles"} {
				e, err := parseExpr(v[name])
				n, ok := e.value(at)
				if err != nil || !ok {
					return nil, fmt.Sprintf("%s=%s has no value for row %d, column %d", name, v[name], row, col)
				}
				if i < 2 && (n < 0 || n >= int64(c.Tiles())) {
					return nil, fmt.Sprintf("%s=%s is semaphore %d for row %d, column %d, but there are %d", name, v[name], n, row, col, c.Tiles())
				}
				x[i] = n
			}
			o.posted, o.waited = append(o.posted, int32(x[0])), append(o.waited, int32(x[1]))
			o.count, keys = append(o.count, x[2]), append(keys, x[3])
			o.order = append(o.order, int32(len(o.order)))
		}
	}
	slices.SortStableFunc(o.order, func(x, y int32) int { return cmp.Compare(keys[x], keys[y]) })
	return o, o.unsafe(c)
}

// unsafe names a tile that a consumer would read before it is complete; "" if there is none.
func (o *own) unsafe(c plan.Cover) string {
	posts := make([]int64, c.Tiles()) // by semaphore, when all tiles are complete
	for _, s := range o.posted {
		posts[s] += int64(c.Splits)
	}
	for row := range c.Rows {
		seen := map[int32]int64{}
		for k := range c.Cols {
			i := row*c.Cols + k
			seen[o.waited[i]] = max(seen[o.waited[i]], o.count[i])
			if s := o.posted[i]; seen[s] < posts[s] {
				return fmt.Sprintf("a consumer in row %d reads column %d of the producer's tiles after %d of the %d posts of semaphore %d", row, k, seen[s], posts[s], s)
			}
		}
	}
	return ""
}
