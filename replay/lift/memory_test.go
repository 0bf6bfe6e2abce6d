package lift

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// TestMemory compares segments with a twin that follows every byte.
func TestMemory(t *testing.T) {
	type cell struct {
		life, writer int32
		readers      []int32
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := memory{storages: map[int32]*storage{}}
		cells := map[[2]int64]*cell{}
		lives, present := map[int32]int32{}, map[int32]int32{}
		for op := range int32(40) {
			var list []trace.Access
			for range 1 + r.IntN(3) {
				from := r.Int64N(12)
				list = append(list, trace.Access{Storage: r.Int32N(3), From: from, To: from + 1 + r.Int64N(8), Read: r.IntN(2) == 0, Write: r.IntN(3) == 0})
			}
			if r.IntN(6) == 0 {
				list[0].Life = 1 + op
			}
			var want []workload.Edge
			for _, write := range []bool{false, true} {
				for _, a := range list {
					if write && !a.Write || !write && !a.Read {
						continue
					}
					if a.Life > 0 && present[a.Storage] != a.Life {
						present[a.Storage] = a.Life
						lives[a.Storage]++
					}
					for at := a.From; at < a.To; at++ {
						key := [2]int64{int64(a.Storage), at}
						c := cells[key]
						if c == nil {
							c = &cell{life: lives[a.Storage], writer: -1}
							cells[key] = c
						}
						stale := c.life != lives[a.Storage]
						others := slices.ContainsFunc(c.readers, func(r int32) bool { return r != op })
						switch {
						case !write:
							if !stale && c.writer >= 0 && c.writer != op {
								want = append(want, workload.Edge{Op: c.writer, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 1})
							}
							if !slices.Contains(c.readers, op) {
								c.readers = append(c.readers, op)
							}
							continue
						case others:
							for _, r := range c.readers {
								if r != op {
									want = append(want, workload.Edge{Op: r, Kind: workload.WriteAfterRead, Evidence: workload.Exact, Reused: stale, Bytes: 1})
								}
							}
						case c.writer >= 0 && c.writer != op:
							want = append(want, workload.Edge{Op: c.writer, Kind: workload.WriteAfterWrite, Evidence: workload.Exact, Reused: stale, Bytes: 1})
						}
						*c = cell{life: lives[a.Storage], writer: op}
					}
				}
			}
			m.found = nil
			m.access(op, list, 0, -1)
			for i := range m.found { // the twin knows nothing of inferred writes
				m.found[i].Evidence = workload.Exact
			}
			if d := diff.Diff(sum(want), sum(m.found)); d != "" {
				t.Fatalf("seed %d, op %d %+v: %s", seed, op, list, d)
			}
		}
	}
}

// sum adds the bytes of equal edges.
func sum(edges []workload.Edge) []workload.Edge {
	bytes := map[workload.Edge]int64{}
	for _, e := range edges {
		n := e.Bytes
		e.Bytes = 0
		bytes[e] += n
	}
	var list []workload.Edge
	for e, n := range bytes {
		e.Bytes = n
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b workload.Edge) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Kind, b.Kind), cmp.Compare(fmt.Sprint(a.Reused), fmt.Sprint(b.Reused)))
	})
	return list
}

// TestManyPieces: a storage in too many pieces is followed as a whole, and no order is
// lost.
func TestManyPieces(t *testing.T) {
	m := memory{storages: map[int32]*storage{}}
	const n = maxSegments + 10
	for i := range int32(n) {
		m.access(i, []trace.Access{{Storage: 1, From: 2 * int64(i), To: 2*int64(i) + 1, Write: true}}, 0, -1)
	}
	m.found = nil
	m.access(n, []trace.Access{{Storage: 1, From: 0, To: 1, Write: true}}, 0, -1)
	if len(m.found) == 0 || m.found[0].Op != n-1 || len(m.storages[1].segments) != 1 {
		t.Errorf("%d segments, %v", len(m.storages[1].segments), m.found)
	}
}
