package machine

import (
	"math"
)

// A Matmul is the matrix library: how it tiles a GEMM and the time of a tile. Persistent
// workgroups, one per CU, compute tiles in sequence, so a GEMM takes whole waves:
//
//	time = waves · (TileStart + slowness · 2·rows·columns·K / (Rate/CUs)) + Exposed·moving,  waves = ⌈tiles/CUs⌉
//
// (rule G1), and at least moving, the memory's time for each operand once: GEMMs
// of few rows read all of B for little work. If the tiles leave half of the CUs idle, the
// library may split them along K into as many parts as fill the CUs. A second kernel then
// sums the parts, in Reduce plus the memory's time.
type Matmul struct {
	Rate       Quantity // flop per second of all CUs in the main loop of tiles
	TileStart  Quantity // seconds of a tile outside its main loop: prologue, epilogue
	Exposed    Quantity // share of the operands' memory time that main loops do not hide
	Reduce     Quantity // seconds of the kernel that sums parts, in addition to its traffic; unknown: tiles are never split
	Tiles      Table    // candidates: rows (of N), columns (of M), preference, slowness
	Clusters   Table    // rows, columns of a tile; tiles of a cluster along rows (of N), along columns (of M)
	Persistent Quantity // 1 or unknown: a GEMM has a workgroup a CU, for several tiles each; 0: one a tile
	Owned      Quantity // tiles fixed to a persistent workgroup before a counter hands out the rest
	Dynamic    Quantity // number of waves above which tiles are handed out by a counter, which a memset clears before the kernel
	Compiled   Quantity // flop per second of all CUs with compiled tiles and full CUs
	Lone       Quantity // the same with one tile per CU: part of its pipes' time is spent waiting for memory
	LeastDepth Quantity // minimum K of a part
	RunSpread  Quantity // relative difference between the times of one GEMM in two processes, at full clock
	IdleGain   Quantity // fraction by which a compiled tile is faster if nearly all other CUs are idle
	Shapes     Table    // measured: M, N, K, seconds of the kernel
	Taken      Table    // observed: M, N, K, rows and columns of the tile, parts along K, if different from the preferred tile
}

// A Tiling is how the library computes one GEMM.
type Tiling struct {
	Rows, Columns int     // output elements of a tile along N and along M: for the library a row-major GEMM is transposed
	Splits        int     // parts along K per tile, one workgroup each; 1: none
	Tiles         int     // number of tiles, counting parts
	Waves         int     // with one workgroup per CU
	Tile          float64 // seconds of one tile without memory limit
	Seconds       float64 // of the kernel, at full clock
	InMemory      bool    // memory-bound: the operands take longer than the tiles
	Measured      bool    // Seconds was measured for this shape
}

// Tiling predicts how the library computes C[M,N] = A[M,K]·B[K,N] on all CUs of the GPU,
// alone and at full clock. It uses the observed tile of the shape, else the preferred one.
func (m Machine) Tiling(M, N, K int64) Tiling {
	for _, t := range m.Matmul.Taken.Rows {
		if int64(t[0]) == M && int64(t[1]) == N && int64(t[2]) == K {
			return m.Matmul.asMeasured(m.LawWithTile(M, N, K, int(t[3]), int(t[4]), int(t[5])), M, N, K)
		}
	}
	return m.Preferred(M, N, K)
}

// Preferred is the tiling that the library is expected to take.
func (m Machine) Preferred(M, N, K int64) Tiling {
	return m.Matmul.asMeasured(m.preferred(1, M, N, K), M, N, K)
}

// preferred is the tiling of the candidate with the least expected time, weighted by the
// library's preference; the first of equals. Without candidates in the profile it is a
// tile of 256x128 at GPU.Flops (rule G3). The tiles of several groups have no parts along K.
func (m Machine) preferred(groups, M, N, K int64) Tiling {
	mm := &m.Matmul
	best, least := Tiling{}, math.Inf(1)
	for _, c := range mm.Tiles.Rows {
		rows, columns, parts := int(c[0]), int(c[1]), []int{1}
		if groups == 1 {
			parts = m.Splits(M, N, K, rows, columns)
		}
		for _, splits := range parts {
			t := m.law(groups, M, N, K, rows, columns, splits)
			// Slowness is left out: the library's choice does not consider it.
			loop := 2 * c[0] * c[1] * float64(K) / float64(splits) * m.GPU.CUs.Value / mm.Rate.Or(m.GPU.Flops.Value)
			expected := float64(t.Waves)*(mm.TileStart.Or(0)+loop)*c[2] + m.Reducing(M, N, splits)
			if expected < least {
				best, least = t, expected
			}
		}
	}
	if best.Tiles == 0 { // a profile without candidates
		best = m.law(groups, M, N, K, 256, 128, 1)
	}
	return best
}

// asMeasured is a tiling with the recorded time of the same shape, if there is one
// (rule G4).
func (mm *Matmul) asMeasured(t Tiling, M, N, K int64) Tiling {
	if s, ok := mm.measured(M, N, K); ok {
		t.Tile *= s / t.Seconds
		t.Seconds, t.Measured = s, true
	}
	return t
}

// WithSplits is Tiling with the tile and the parts along K of another one.
func (m Machine) WithSplits(M, N, K int64, t Tiling) Tiling {
	return m.Matmul.asMeasured(m.LawWithTile(M, N, K, t.Rows, t.Columns, t.Splits), M, N, K)
}

// LawWithTile is the law's time for a tile.
func (m Machine) LawWithTile(M, N, K int64, rows, columns, splits int) Tiling {
	return m.law(1, M, N, K, rows, columns, splits)
}

// law is the law's time for a tile of a GEMM in groups. Each has an equal part of the M rows and weights of its own, and the
// tiles of all of them are computed in common waves (rule G22).
func (m Machine) law(groups, M, N, K int64, rows, columns, splits int) Tiling {
	mm, each := &m.Matmul, CeilDiv(M, groups)
	t := Tiling{Rows: rows, Columns: columns, Splits: splits}
	t.Tiles = int(groups*CeilDiv(N, int64(rows))*CeilDiv(each, int64(columns))) * splits
	t.Waves = int(math.Ceil(float64(t.Tiles) / m.GPU.CUs.Value))
	if alongN, alongM := mm.cluster(rows, columns); groups == 1 {
		whole := int(CeilDiv(N, int64(rows)*alongN)*alongN*CeilDiv(M, int64(columns)*alongM)*alongM) * splits
		if float64(whole) <= float64(t.Waves)*m.GPU.CUs.Value {
			t.Tiles = whole
		}
	}
	loop := 2 * float64(rows) * float64(columns) * float64(K) / float64(splits) * m.GPU.CUs.Value / mm.Rate.Or(m.GPU.Flops.Value)
	moving, reducing := float64(groups)*m.moving(each, N, K), m.Reducing(M, N, splits)
	t.Tile = mm.TileStart.Or(0) + loop*mm.slowness(rows, columns) + mm.Exposed.Or(0)*moving/float64(t.Waves)
	computing := float64(t.Waves) * t.Tile
	t.Seconds, t.InMemory = max(computing, moving)+reducing, moving > computing
	t.Tile += reducing / float64(t.Waves)
	return t
}

// Splits is the number of parts along K into which the library may cut each tile. Every
// part has its own CU (rule G5).
func (m Machine) Splits(M, N, K int64, rows, columns int) []int {
	if m.Matmul.Reduce.Known() {
		tiles := CeilDiv(N, int64(rows)) * CeilDiv(M, int64(columns))
		if parts := int64(m.GPU.CUs.Value) / tiles; parts > 1 && K/parts >= int64(m.Matmul.LeastDepth.Or(math.Inf(1))) {
			return []int{1, int(parts)}
		}
	}
	return []int{1}
}

// Reducing is the time of the sum of parts, of four bytes per element, in seconds.
func (m Machine) Reducing(M, N int64, splits int) float64 {
	if splits <= 1 || !m.GPU.Memory.Known() {
		return 0
	}
	return m.Matmul.Reduce.Or(0) + float64(4*splits+2)*float64(M)*float64(N)/m.GPU.Memory.Value
}

// moving is the memory's time for the operands of a GEMM, two bytes per element, each
// once, in seconds.
func (m Machine) moving(M, N, K int64) float64 {
	if !m.GPU.Memory.Known() {
		return 0
	}
	return 2 * (float64(M)*float64(K) + float64(K)*float64(N) + float64(M)*float64(N)) / m.GPU.Memory.Value
}

// Dynamic reports whether a kernel with the tiling hands out tiles by a counter, with a
// memset before it.
func (m Machine) Dynamic(t Tiling) bool {
	return m.Matmul.Dynamic.Known() && float64(t.Tiles) > m.Matmul.Dynamic.Value*m.GPU.CUs.Value
}

// Cluster is the number of workgroups of the library's kernel that start together. It is 1
// if the tile's usual cluster would cost a wave (the library has several for most tiles),
// or if no group of CUs holds it.
func (m Machine) Cluster(t Tiling) int {
	alongN, alongM := m.Matmul.cluster(t.Rows, t.Columns)
	n := int(alongN * alongM)
	slots := int(m.GPU.Clustered(n))
	if slots == 0 || CeilDiv(t.Tiles, slots) != t.Waves {
		return 1
	}
	return n
}

// cluster is the number of tiles that the library hands out together along each side. A
// cluster at the edge is whole, even beyond the output. The library has several clusters
// for each tile and takes one that costs no wave, in all 992 GEMMs of
// samples/measurements/2026-11-22-h200-products (rule G6).
func (mm *Matmul) cluster(rows, columns int) (alongN, alongM int64) {
	for _, c := range mm.Clusters.Rows {
		if int(c[0]) == rows && int(c[1]) == columns {
			return int64(c[2]), int64(c[3])
		}
	}
	return 1, 1
}

// slowness is the recorded factor of a tile or of its transpose; 1 if neither is a
// candidate.
func (mm *Matmul) slowness(rows, columns int) float64 {
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

// measured is the recorded time of the same shape.
func (mm *Matmul) measured(M, N, K int64) (seconds float64, ok bool) {
	for _, r := range mm.Shapes.Rows {
		if int64(r[0]) == M && int64(r[1]) == N && int64(r[2]) == K {
			return r[3], true
		}
	}
	return 0, false
}

// Pipe is the share of its CU's matrix pipes that a compiled tile of the given flop uses
// if it takes the given seconds alone on the CU: two such tiles on one CU each take 2·Pipe
// times as long, if that exceeds 1 (rule D11).
func (m Machine) Pipe(tileFlops, aloneSeconds float64) float64 {
	peak := m.Matmul.Compiled.Or(m.GPU.Flops.Value) / m.GPU.CUs.Value
	return min(1, tileFlops/(peak*aloneSeconds))
}

// loneStep is the products of a step of the tiles that matmul.lone was measured with: 128 x 128 x 64.
const loneStep = 128 * 128 * 64

// LonePipe is Pipe of compiled tiles for traces that show none alone on its CU, by their rows and
// columns and the elements along K that a step multiplies, 0 if unknown. A step alone on its CU takes
// the latency of the next step's loads and its products (rule G10).
func (m Machine) LonePipe(rows, cols, depth int) float64 {
	if !m.Matmul.Lone.Known() || !m.Matmul.Compiled.Known() {
		return 1
	}
	lone := min(1, m.Matmul.Lone.Value/m.Matmul.Compiled.Value)
	if step := float64(rows * cols * depth); step > 0 {
		return step / (step + loneStep*(1/lone-1))
	}
	return lone
}

// TileTimeFactor is the factor on a compiled tile's time if n of the CUs compute, relative
// to all of them: 1 - IdleGain·(1 - n/CUs) (rule G11).
func (m Machine) TileTimeFactor(n int) float64 {
	return 1 - m.Matmul.IdleGain.Or(0)*(1-min(1, float64(n)/m.GPU.CUs.Value))
}

// CeilDiv is a/b, rounded up; 0 for a divisor that is not positive.
func CeilDiv[T int | int64](a, b T) T {
	if b <= 0 {
		return 0
	}
	return (a + b - 1) / b
}

// Grouped is Tiling of a grouped GEMM: the tile is the one with the least expected time, as the library's own choice (rules G3
// and G22).
func (m Machine) Grouped(groups, M, N, K int64) Tiling {
	if groups <= 1 {
		return m.Tiling(M, N, K)
	}
	return m.preferred(groups, M, N, K)
}

// GroupedWithTile is Grouped with a known tile, as from a kernel's name. Recorded times are of single GEMMs and do not
// count.
func (m Machine) GroupedWithTile(groups, M, N, K int64, rows, columns int) Tiling {
	if groups <= 1 {
		return m.WithSplits(M, N, K, Tiling{Rows: rows, Columns: columns, Splits: 1})
	}
	return m.law(groups, M, N, K, rows, columns, 1)
}
