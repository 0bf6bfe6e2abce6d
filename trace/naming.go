package trace

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wrappers are kernels of libraries that run the type they are instantiated with: it,
// not they, says which kernel it is.
var wrappers = []string{
	"device_kernel", "Kernel", "Kernel2", "kernel", "enable_3x_kernel_for_sm9x", "enable_sm90_or_later",
	"enable_2x_kernel_for_sm89", "kentry",
}

// tensile is a name of rocBLAS or hipBLASLt: layouts and types, and the tile among dozens of parameters.
var tensile = regexp.MustCompile(`^(Cijk_[A-Za-z]+_[A-Za-z]+(?:_[A-Z0-9]{2,6})?)_.*?MT(\d+x\d+x\d+)(?:_|$)`)

// Short is the identifier in a C++ signature; of a wrapper of CUTLASS or CK Tile the type
// that it runs, and of a GEMM of these or of Composable Kernel the tile: "GemmUniversal 128x256x64",
// "ck gemm 16x128x256"; of Tensile what it multiplies, and the tile: "Cijk_Alik_Bljk_BBS 256x192x64".
func Short(s string) string {
	short := Signature(strings.Trim(s, `"`)) // some exporters quote names
	if t := tensile.FindStringSubmatch(short); t != nil {
		return t[1] + " " + t[2]
	}
	name, inner := identifier(short)
	wrapped := false
	for slices.Contains(wrappers, name) && inner != "" {
		for first, rest, ok := strings.Cut(inner, ", "); ok && strings.Trim(first, "0123456789") == ""; first, rest,
			ok = strings.Cut(inner, ", ") {
			inner = rest // of kentry: how many threads are in a block, and how many blocks share a compute unit
		}
		within, rest := identifier(inner)
		if within == "" {
			break
		}
		name, inner, wrapped = within, rest, true
	}
	if m, n, k, ok := Tile(short); ok {
		if kernel, ok := strings.CutPrefix(name, "kernel_"); ok {
			family, _, _ := strings.Cut(kernel, "_xdl")
			name = "ck " + family
		}
		name += fmt.Sprintf(" %dx%dx%d", m, n, k)
	} else if tile := tileOf(inner); wrapped && tile != "" {
		name += " " + tile
	}
	if name == "" {
		return s
	}
	return strings.TrimSpace(name)
}

// Signature is a kernel's C++ signature without the type that it returns and unnamed namespaces. The type is void or, of some of
// vLLM's norms, std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type.
func Signature(kernel string) string {
	kernel = strings.ReplaceAll(strings.TrimPrefix(kernel, "void "), "(anonymous namespace)::", "")
	if _, named, ok := strings.Cut(kernel, ">::type "); ok && strings.HasPrefix(kernel, "std::enable_if<") {
		return named
	}
	return kernel
}

// identifier is the last name of a qualified one, and what follows it in angle brackets.
func identifier(s string) (name, inner string) {
	name = strings.TrimSpace(s)
	if i := strings.IndexAny(name, "<(,>"); i > 0 {
		if name[i] == '<' {
			inner = name[i+1:]
		}
		name = name[:i]
	}
	if i := strings.LastIndex(name, "::"); i >= 0 {
		name = name[i+2:]
	}
	return name, inner
}

// tileOf is the largest tuple of three constants in the template arguments of a
// CUTLASS 3 kernel, which is its tile: cute::tuple<cute::C<128>, cute::C<256>, cute::C<64>>.
func tileOf(s string) string {
	const tuple, constant = "cute::tuple<", "cute::C<"
	best, tile := 0, ""
	for i := strings.Index(s, tuple); i >= 0; i = strings.Index(s, tuple) {
		s = s[i+len(tuple):]
		rest, volume := s, 1
		var sides []string
		for strings.HasPrefix(rest, constant) {
			number, after, ok := strings.Cut(rest[len(constant):], ">")
			number = strings.TrimPrefix(number, "(int)")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || n < 1 || n > 4096 {
				break
			}
			sides, volume, rest = append(sides, number), volume*n, strings.TrimLeft(after, ", ")
		}
		if len(sides) == 3 && volume > best {
			best, tile = volume, strings.Join(sides, "x")
		}
	}
	return tile
}

// Micros writes a time: "12.3 µs", "12.34 ms" or "1.234 s".
func Micros(t Time) string {
	switch ns := float64(t); {
	case t < 1e7 && t > -1e7:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	case t < 1e9 && t > -1e9:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	default:
		return fmt.Sprintf("%.3f s", ns/1e9)
	}
}

// Percent writes a relative change: "+1.2 %", "0.0 %".
func Percent(change float64) string {
	if change > -0.0005 && change < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

// Bytes writes a number of bytes with a binary prefix, three significant digits of it unless it is
// a whole number of them: "64 MiB", "1.50 MiB", "84.4 MiB", "-2 KiB".
func Bytes(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if max(v, -v) < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if v == float64(int64(v)) {
		return fmt.Sprintf("%d %s", int64(v), unit)
	}
	return fmt.Sprintf("%.*f %s", 2-min(2, int(math.Log10(max(v, -v)))), v, unit)
}

// Range writes two numbers of bytes: "25 to 30 MiB"; one number where they read alike.
func Range(least, most int64) string {
	low, high := Bytes(least), Bytes(most)
	if low == high {
		return high
	}
	if number, unit, _ := strings.Cut(low, " "); strings.HasSuffix(high, " "+unit) {
		low = number
	}
	return low + " to " + high
}
