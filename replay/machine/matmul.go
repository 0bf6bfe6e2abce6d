package machine

import "math"

// A Matmul is the matrix library: how it cuts a GEMM into tiles and what a
// tile takes. Persistent workgroups, one a CU, run one tile after another, so
// a GEMM takes whole waves:
//
//	time = waves · (TileStart + slowness · 2·rows·columns·K / (Rate/CUs)) + Exposed·moving,  waves = ⌈tiles/CUs⌉
//
// (rules G1 and G2) but no less than moving, which is what the memory takes for the
// operands, each once: GEMMs of few rows read all of B for little work. Where all
// tiles leave half of the CUs idle, the library may split them along K into as many parts
// as fill the CUs; another kernel then sums what the parts have, which takes Reduce and
// the memory's time for it.
type Matmul struct {
	Rate       Quantity // flop a second of all CUs in the main loop of tiles
	TileStart  Quantity // seconds of a tile beyond its main loop: prologue, epilogue
	Exposed    Quantity // share of the memory's time for the operands that main loops do not hide
	Reduce     Quantity // seconds of the kernel that sums parts, beyond its traffic; unknown: no tile is split
	Tiles      Table    // candidates: rows (of N), columns (of M), preference, slowness
	Clusters   Table    // rows, columns of a tile; tiles of a cluster along rows (of N), along columns (of M)
	Owned      Quantity // tiles that a persistent workgroup owns before a counter hands out the rest
	Dynamic    Quantity // waves above which there is a counter, which a memset clears before the kernel
	Compiled   Quantity // flop a second of all CUs that compiled tiles reach with full CUs
	Lone       Quantity // the same with one tile on a CU: some of its pipes' time goes by waiting for memory
	LeastDepth Quantity // least part of K that tiles are cut into
	RunSpread  Quantity // relative difference between the times of one GEMM in two processes, at full clock
	Crowd      Quantity // fraction by which a compiled tile is faster when nearly all other CUs are idle
	Shapes     Table    // measured: M, N, K, seconds of the kernel
	Taken      Table    // seen: M, N, K, rows and columns of the tile, parts along K, where the preferences say otherwise
}

// A Tiling is how the library computes one GEMM.
type Tiling struct {
	Rows, Columns int     // output elements of a tile along N and along M: the library sees the transpose of a row-major GEMM
	Splits        int     // parts along K that each tile is cut into, each a workgroup's; 1: none
	Tiles         int     // parts counted
	Waves         int     // of one workgroup a CU
	Tile          float64 // seconds of one tile, if the memory does not hold it up
	Seconds       float64 // of the kernel, at full clock
	InMemory      bool    // the memory takes longer for the operands than the tiles for their work
	Measured      bool    // Seconds was measured for this very shape
}

// Tiling predicts how the library computes C[M,N] = A[M,K]·B[K,N] on all CUs of
// the GPU, alone and at full clock: with the tile that it was seen to take, else with
// the one that it is expected to prefer.
func (m Machine) Tiling(M, N, K int64) Tiling {
	for _, t := range m.Matmul.Taken.Rows {
		if int64(t[0]) == M && int64(t[1]) == N && int64(t[2]) == K {
			return m.Matmul.asMeasured(m.LawWithTile(M, N, K, int(t[3]), int(t[4]), int(t[5])), M, N, K)
		}
	}
	return m.Preferred(M, N, K)
}

// Preferred is the tiling of the candidate with the least expected time, weighted by
// the library's preference; the first of equals. A profile without candidates counts
// with tiles of 256x128 at GPU.Flops (rule G3).
func (m Machine) Preferred(M, N, K int64) Tiling {
	mm := &m.Matmul
	cus := m.GPU.CUs.Value
	best, least := Tiling{}, math.Inf(1)
	for _, c := range mm.Tiles.Rows {
		rows, columns := int(c[0]), int(c[1])
		for _, splits := range m.Splits(M, N, K, rows, columns) {
			t := m.LawWithTile(M, N, K, rows, columns, splits)
			// The library does not know how slow its own tile is: slowness is left out.
			loop := 2 * c[0] * c[1] * float64(K) / float64(splits) * cus / mm.Rate.Value
			expected := float64(t.Waves)*(mm.TileStart.Value+loop)*c[2] + m.Reducing(M, N, splits)
			if expected < least {
				best, least = t, expected
			}
		}
	}
	if best.Tiles == 0 { // a profile without candidates
		best = m.LawWithTile(M, N, K, 256, 128, 1)
	}
	return mm.asMeasured(best, M, N, K)
}

// asMeasured is a tiling that takes the recorded time of the very shape, if there is one (rule G4).
func (mm *Matmul) asMeasured(t Tiling, M, N, K int64) Tiling {
	if s, ok := mm.measured(M, N, K); ok {
		t.Tile *= s / t.Seconds
		t.Seconds, t.Measured = s, true
	}
	return t
}

// WithTile is Tiling for a tile that is known, as from a kernel's name.
func (m Machine) WithTile(M, N, K int64, rows, columns int) Tiling {
	return m.Matmul.asMeasured(m.LawWithTile(M, N, K, rows, columns, 1), M, N, K)
}

// LawWithTile is the law for a tile.
func (m Machine) LawWithTile(M, N, K int64, rows, columns, splits int) Tiling {
	mm := &m.Matmul
	t := Tiling{Rows: rows, Columns: columns, Splits: splits}
	alongN, alongM := mm.cluster(rows, columns)
	whole := int(CeilDiv(N, int64(rows)*alongN)*alongN*CeilDiv(M, int64(columns)*alongM)*alongM) * splits
	t.Tiles = int(CeilDiv(N, int64(rows))*CeilDiv(M, int64(columns))) * splits
	t.Waves = int(math.Ceil(float64(t.Tiles) / m.GPU.CUs.Value))
	if float64(whole) <= float64(t.Waves)*m.GPU.CUs.Value {
		t.Tiles = whole
	}
	loop := 2 * float64(rows) * float64(columns) * float64(K) / float64(splits) * m.GPU.CUs.Value / mm.Rate.Or(m.GPU.Flops.Value)
	moving, reducing := m.Moving(M, N, K), m.Reducing(M, N, splits)
	t.Tile = mm.TileStart.Or(0) + loop*mm.Slowness(rows, columns) + mm.Exposed.Or(0)*moving/float64(t.Waves)
	computing := float64(t.Waves) * t.Tile
	t.Seconds, t.InMemory = max(computing, moving)+reducing, moving > computing
	t.Tile += reducing / float64(t.Waves)
	return t
}

// Splits is into how many parts along K the library may cut each tile of a GEMM.
// Every part has a CU of its own (rule G5).
func (m Machine) Splits(M, N, K int64, rows, columns int) []int {
	if m.Matmul.Reduce.Known() {
		tiles := CeilDiv(N, int64(rows)) * CeilDiv(M, int64(columns))
		if parts := int64(m.GPU.CUs.Value) / tiles; parts > 1 && K/parts >= int64(m.Matmul.LeastDepth.Or(math.Inf(1))) {
			return []int{1, int(parts)}
		}
	}
	return []int{1}
}

// Reducing is how long the sum of parts takes, of four bytes an element each.
func (m Machine) Reducing(M, N int64, splits int) float64 {
	if splits <= 1 || !m.GPU.Memory.Known() {
		return 0
	}
	return m.Matmul.Reduce.Or(0) + float64(4*splits+2)*float64(M)*float64(N)/m.GPU.Memory.Value
}

// Moving is how long the memory takes for the operands of a GEMM, two bytes an element, each once.
func (m Machine) Moving(M, N, K int64) float64 {
	if !m.GPU.Memory.Known() {
		return 0
	}
	return 2 * (float64(M)*float64(K) + float64(K)*float64(N) + float64(M)*float64(N)) / m.GPU.Memory.Value
}

// Dynamic reports whether a kernel with the tiling hands out tiles by a
// counter, with a memset before it.
func (m Machine) Dynamic(t Tiling) bool {
	return m.Matmul.Dynamic.Known() && float64(t.Tiles) > m.Matmul.Dynamic.Value*m.GPU.CUs.Value
}

// Cluster is how many workgroups of the library's kernel start together; 1 where
// the tile's usual cluster would cost a wave, since of most tiles the library has
// several, and where no group of CUs holds it.
func (m Machine) Cluster(t Tiling) int {
	alongN, alongM := m.Matmul.cluster(t.Rows, t.Columns)
	n := int(alongN * alongM)
	slots := int(m.GPU.Clustered(n))
	if slots == 0 || CeilDiv(t.Tiles, slots) != t.Waves {
		return 1
	}
	return n
}

// cluster is how many tiles the library hands out together along each side; a
// cluster at the edge is whole, whether or not there is output for all of it. Of each
// tile there are several, and the library takes one that costs no wave: so in all 992
// GEMMs of samples/measurements/2026-11-22-h200x2-kernels (rule G6).
func (mm *Matmul) cluster(rows, columns int) (alongN, alongM int64) {
	for _, c := range mm.Clusters.Rows {
		if int(c[0]) == rows && int(c[1]) == columns {
			return int64(c[2]), int64(c[3])
		}
	}
	return 1, 1
}

// Slowness is the recorded factor of a tile, or of the same tile lying the other way;
// 1 where neither is a candidate.
func (mm *Matmul) Slowness(rows, columns int) float64 {
	s := 1.0
	for _, c := range mm.Tiles.Rows {
		switch {
		case int(c[0]) == rows && int(c[1]) == columns:
			return c[3]
		case int(c[0]) == columns && int(c[1]) == rows:
			s = c[3]
		}
	}
	return s
}

// measured is the recorded time of the very shape.
func (mm *Matmul) measured(M, N, K int64) (seconds float64, ok bool) {
	for _, r := range mm.Shapes.Rows {
		if int64(r[0]) == M && int64(r[1]) == N && int64(r[2]) == K {
			return r[3], true
		}
	}
	return 0, false
}

// Pipe is the share of its CU's matrix pipes that a compiled tile of so many
// flop uses when it takes so many seconds alone on the CU: two such tiles on
// one CU each take 2·Pipe times as long, if that is more than 1 (rule D11).
func (m Machine) Pipe(tileFlops, aloneSeconds float64) float64 {
	peak := m.Matmul.Compiled.Or(m.GPU.Flops.Value) / m.GPU.CUs.Value
	return min(1, tileFlops/(peak*aloneSeconds))
}

// LonePipe is Pipe of compiled tiles where no trace shows one alone on its CU.
func (m Machine) LonePipe() float64 {
	if !m.Matmul.Lone.Known() || !m.Matmul.Compiled.Known() {
		return 1
	}
	return min(1, m.Matmul.Lone.Value/m.Matmul.Compiled.Value)
}

// TileTimeFactor is the factor on a compiled tile's time when n of the CUs compute,
// relative to all of them computing: 1 - Crowd·(1 - n/CUs) (rule G11).
func (m Machine) TileTimeFactor(n int) float64 {
	return 1 - m.Matmul.Crowd.Or(0)*(1-min(1, float64(n)/m.GPU.CUs.Value))
}

// CeilDiv is a/b, rounded up.
func CeilDiv[T int | int64](a, b T) T { return (a + b - 1) / b }
