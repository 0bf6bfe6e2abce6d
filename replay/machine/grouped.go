package machine

import "math"

// Grouped is the tiling of a grouped GEMM, whose groups have an equal part of the M rows each
// and weights of their own: the tiles of all groups are computed in common waves. The tile is
// the one with the least expected time, as the library's own choice (rules G3 and G22).
func (m Machine) Grouped(groups, M, N, K int64) Tiling {
	if groups <= 1 {
		return m.Tiling(M, N, K)
	}
	best, least := Tiling{}, math.Inf(1)
	for _, c := range m.Matmul.Tiles.Rows {
		t := m.GroupedWithTile(groups, M, N, K, int(c[0]), int(c[1]))
		loop := 2 * c[0] * c[1] * float64(K) * m.GPU.CUs.Value / m.Matmul.Rate.Or(m.GPU.Flops.Value)
		if expected := float64(t.Waves) * (m.Matmul.TileStart.Or(0) + loop) * c[2]; expected < least {
			best, least = t, expected
		}
	}
	if best.Tiles == 0 { // a profile without candidates
		best = m.GroupedWithTile(groups, M, N, K, 256, 128)
	}
	return best
}

// GroupedWithTile is Grouped with a known tile. Recorded times are of single GEMMs and do not
// count.
func (m Machine) GroupedWithTile(groups, M, N, K int64, rows, columns int) Tiling {
	if groups <= 1 {
		return m.WithTile(M, N, K, rows, columns)
	}
	each := CeilDiv(M, groups)
	t := m.LawWithTile(each, N, K, rows, columns, 1)
	exposed, moving := m.Matmul.Exposed.Or(0), m.Moving(each, N, K)
	t.Tile -= exposed * moving / float64(t.Waves)
	moving *= float64(groups)
	t.Tiles = int(groups * CeilDiv(N, int64(rows)) * CeilDiv(each, int64(columns)))
	t.Waves = int(math.Ceil(float64(t.Tiles) / m.GPU.CUs.Value))
	t.Tile += exposed * moving / float64(t.Waves)
	computing := float64(t.Waves) * t.Tile
	t.Seconds, t.InMemory = max(computing, moving), moving > computing
	return t
}
