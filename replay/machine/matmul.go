package machine

import "math"

// A Matmul is the matrix library: how it cuts a product into tiles and what a
// tile takes. Persistent workgroups, one a CU, run one tile after another, so
// a product takes whole waves:
//
//	time = waves · (TileStart + slowness · 2·rows·columns·K / (Rate/CUs)) + Exposed·moving,  waves = ⌈tiles/CUs⌉
//
// (MODEL_STUDY R4) but no less than moving, which is what the memory takes for the
// operands, each once: products of few rows read all of B for little work. On the
// calibration's products of 64 to 8192 rows the median error is 1.1 %.
type Matmul struct {
	Rate      Quantity // flop a second of all CUs in the main loop of tiles
	TileStart Quantity // seconds of a tile beyond its main loop: prologue, epilogue
	Exposed   Quantity // share of the memory's time for the operands that main loops do not hide
	Tiles     Table    // candidates: rows (of N), columns (of M), preference, slowness
	Clusters  Table    // rows, columns of a tile; tiles of a cluster along rows (of N), along columns (of M)
	Owned     Quantity // tiles that a persistent workgroup owns before a counter hands out the rest (R5)
	Dynamic   Quantity // waves above which there is a counter, which a memset clears before the kernel
	Compiled  Quantity // flop a second of all CUs that compiled tiles reach with full CUs
	Lone      Quantity // the same with one tile on a CU: some of its pipes' time goes by waiting for memory
	Crowd     Quantity // fraction by which a compiled tile is faster when nearly all other CUs are idle (R8)
	Shapes    Table    // measured: M, N, K, seconds of the kernel
}

// A Tiling is how the library computes one product.
type Tiling struct {
	Rows, Columns int // output elements of a tile along N and along M: the library sees the transpose of a row-major product
	Tiles         int
	Waves         int     // of one workgroup a CU
	Tile          float64 // seconds of one tile, if the memory does not hold it up
	Seconds       float64 // of the kernel, at full clock
	InMemory      bool    // the memory takes longer for the operands than the tiles for their work
	Measured      bool    // Seconds was measured for this very shape
}

// Tiling predicts how the library computes C[M,N] = A[M,K]·B[K,N] on all CUs of
// the GPU, alone and at full clock. The candidate with the least expected time,
// weighted by the library's preference, wins; the first of equals. A profile
// without candidates counts with tiles of 256x128 at GPU.Flops.
func (m Machine) Tiling(M, N, K int64) Tiling {
	mm := &m.Matmul
	cus := m.GPU.CUs.Value
	best, least := Tiling{}, math.Inf(1)
	for _, c := range mm.Tiles.Rows {
		t := m.withTile(M, N, K, int(c[0]), int(c[1]))
		// The library does not know how slow its own tile is: slowness is left out.
		expected := float64(t.Waves) * (mm.TileStart.Value + 2*c[0]*c[1]*float64(K)*cus/mm.Rate.Value) * c[2]
		if expected < least {
			best, least = t, expected
		}
	}
	if best.Tiles == 0 { // a profile without candidates
		best = m.withTile(M, N, K, 256, 128)
	}
	return mm.asMeasured(best, M, N, K)
}

// asMeasured is a tiling that takes the recorded time of the very shape, if there is one.
func (mm *Matmul) asMeasured(t Tiling, M, N, K int64) Tiling {
	if s, ok := mm.measured(M, N, K); ok {
		t.Tile *= s / t.Seconds
		t.Seconds, t.Measured = s, true
	}
	return t
}

// WithTile is Tiling for a tile that is known, as from a kernel's name.
func (m Machine) WithTile(M, N, K int64, rows, columns int) Tiling {
	return m.Matmul.asMeasured(m.withTile(M, N, K, rows, columns), M, N, K)
}

// withTile is the law for a tile.
func (m Machine) withTile(M, N, K int64, rows, columns int) Tiling {
	mm := &m.Matmul
	t := Tiling{Rows: rows, Columns: columns}
	alongN, alongM := mm.cluster(rows, columns)
	t.Tiles = int(ceilDiv(N, int64(rows)*alongN) * alongN * ceilDiv(M, int64(columns)*alongM) * alongM)
	t.Waves = int(math.Ceil(float64(t.Tiles) / m.GPU.CUs.Value))
	loop := 2 * float64(rows) * float64(columns) * float64(K) * m.GPU.CUs.Value / mm.Rate.Or(m.GPU.Flops.Value)
	moving := m.moving(M, N, K)
	t.Tile = mm.TileStart.Or(0) + loop*mm.slowness(rows, columns) + mm.Exposed.Or(0)*moving/float64(t.Waves)
	computing := float64(t.Waves) * t.Tile
	t.Seconds, t.InMemory = max(computing, moving), moving > computing
	return t
}

// moving is how long the memory takes for the operands of a product, two bytes an element, each once.
func (m Machine) moving(M, N, K int64) float64 {
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
// several.
func (m Machine) Cluster(t Tiling) int {
	alongN, alongM := m.Matmul.cluster(t.Rows, t.Columns)
	n := int(alongN * alongM)
	if ceilDiv(t.Tiles, int(m.GPU.Clustered(n))) != t.Waves {
		return 1
	}
	return n
}

// cluster is how many tiles the library hands out together along each side; a
// cluster at the edge is whole, whether or not there is output for all of it.
func (mm *Matmul) cluster(rows, columns int) (alongN, alongM int64) {
	for _, c := range mm.Clusters.Rows {
		if int(c[0]) == rows && int(c[1]) == columns {
			return int64(c[2]), int64(c[3])
		}
	}
	return 1, 1
}

// slowness is the recorded factor of a tile, whichever way it lies; 1 where it is no candidate.
func (mm *Matmul) slowness(rows, columns int) float64 {
	for _, c := range mm.Tiles.Rows {
		if int(c[0]) == rows && int(c[1]) == columns || int(c[0]) == columns && int(c[1]) == rows {
			return c[3]
		}
	}
	return 1
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
// one CU each take 2·Pipe times as long, if that is more than 1 (MECHANISM R0.4).
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

// Crowded is the factor on a compiled tile's time when n of the CUs compute,
// relative to all of them computing: 1 - Crowd·(1 - n/CUs) (MODEL_STUDY R8).
func (m Machine) Crowded(n int) float64 {
	return 1 - m.Matmul.Crowd.Or(0)*(1-min(1, float64(n)/m.GPU.CUs.Value))
}

func ceilDiv[T int | int64](a, b T) T { return (a + b - 1) / b }
