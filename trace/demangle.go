package trace

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Demangle returns the C++ name of a mangled one, without parameters; other names as they are, with
// an anonymous namespace as CUPTI writes it (Nsight Systems: <unnamed>).
func Demangle(name string) string {
	const most = 16 // power of two of the result's bytes
	if !strings.HasPrefix(name, "_Z") {
		return strings.ReplaceAll(name, "<unnamed>::", "(anonymous namespace)::")
	}
	plain, err := demangle.ToString(name, demangle.NoParams, demangle.NoClones, demangle.NoEnclosingParams, demangle.MaxLength(most))
	if err != nil {
		return name
	}
	return plain
}

var (
	tileShape = regexp.MustCompile(`\bTileGemmShape<ck_tile::sequence<(\d{1,4}), (\d{1,4}), (\d{1,4})>`)
	numbers   = regexp.MustCompile(`\d+(, \d+){9,}`)
)

// Tile reads the tile of a GEMM of Composable Kernel off its demangled name: rows, columns, and depth of a step.
// CK Tile names it. The kernels before it have it among other numbers, whose order differs between their
// templates: it is the one that the matrix instructions and the waves cover.
//
//	ck_tile::kentry<1, ck_tile::GemmKernel<... ck_tile::TileGemmShape<ck_tile::sequence<256, 256, 64>, ...
//	ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<... 256, 16, 128, 256, 16, 16, 16, 16, 1, 2, ck::Sequence<...
//	                                                                  threads M    N    K   AK1 BK1 instruction, times a wave
func Tile(name string) (m, n, k int, ok bool) {
	if !strings.Contains(name, "ck::") && !strings.Contains(name, "ck_tile::") {
		return 0, 0, 0, false
	}
	if t := tileShape.FindStringSubmatch(name); t != nil {
		if s := integers(t[1:]); s[0]*s[1]*s[2] > 0 {
			return s[0], s[1], s[2], true
		}
	}
	for _, list := range numbers.FindAllString(name, -1) {
		all := integers(strings.Split(list, ", "))
		for i := 1; i+9 <= len(all); i++ {
			if a := all[i : i+9]; covered(a, all[:i]) {
				return a[0], a[1], a[2], true
			}
		}
	}
	return 0, 0, 0, false
}

// covered reports whether waves of 64 or 32 threads, as many as one of the block sizes has, cover
// M×N with their instructions, and K has whole vectors of A and B.
func covered(a, blocks []int) bool {
	m, n, k, ak, bk := a[0], a[1], a[2], a[3], a[4]
	rows, columns := a[5]*a[7], a[6]*a[8] // of a wave
	for _, side := range a[5:7] {
		if side != 4 && side != 8 && side != 16 && side != 32 && side != 64 {
			return false
		}
	}
	if ak == 0 || bk == 0 || k == 0 || k%ak != 0 || k%bk != 0 || rows == 0 || columns == 0 || m == 0 || n == 0 ||
		m%rows != 0 || n%columns != 0 {
		return false
	}
	waves := m / rows * (n / columns)
	return slices.ContainsFunc(blocks, func(b int) bool { return b > 0 && (b == 64*waves || b == 32*waves) })
}

// integers reads numbers; one that is too large for a tile is 0.
func integers(words []string) []int {
	const most = 4096
	list := make([]int, len(words))
	for i, w := range words {
		if n, err := strconv.Atoi(w); err == nil && n <= most {
			list[i] = n
		}
	}
	return list
}
