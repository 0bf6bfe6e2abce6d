package machine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/overlapse/overlapse/trace"
)

// A device is what traces tell of a profile's GPU without its name.
type device struct {
	profile string
	arch    string // AMD's gfx id, or NVIDIA's compute capability
	cus     int
	gib     float64 // memory as devices report it; 0: several sizes
}

// devices are the GPUs that properties tell apart. Of those alike the first is taken where
// only the architecture is known. Sources: the profiles' gpu.cus; PyTorch's
// total_memory of NVIDIA's; ROCm documentation, GPU specifications, of AMD's.
func devices() []device {
	return []device{
		{"v100", "7.0", 80, 0},
		{"a100", "8.0", 108, 79},
		{"a100-40gb", "8.0", 108, 40},
		{"a40", "8.6", 84, 45},
		{"l40s", "8.9", 142, 45},
		{"l20", "8.9", 92, 45},
		{"h100", "9.0", 132, 79},
		{"h800", "9.0", 132, 79},
		{"h200", "9.0", 132, 140},
		{"h20", "9.0", 78, 95},
		{"b200", "10.0", 148, 178},
		{"gb200", "10.0", 152, 185},
		{"mi250x", "gfx90a", 110, 64},
		{"mi210", "gfx90a", 104, 64},
		{"mi300x", "gfx942", 304, 192},
		{"mi325x", "gfx942", 304, 256},
		{"mi308x", "gfx942", 80, 192},
		{"mi350x", "gfx950", 256, 288},
		{"mi355x", "gfx950", 256, 288},
	}
}

// amdWave is the size of a wavefront of AMD's data center GPUs, in threads.
const amdWave = 64

// ForDevice is the profile for a device: by its name ("NVIDIA A100-SXM4-80GB" is a100; of
// several profiles the most specific), by AMD's name of its architecture (the profile that
// comes closest), or, without a name, by properties that only one profile has. "" where
// there is none.
func ForDevice(d trace.Device) string {
	in := words(d.Name)
	best, most := "", 0
	for _, profile := range Names() {
		parts := strings.Split(profile, "-")
		all := !slices.ContainsFunc(parts, func(part string) bool { return !slices.Contains(in, part) })
		if all && len(parts) > most {
			best, most = profile, len(parts)
		}
	}
	if best == "" && slices.Contains(in, "mi250") {
		best = "mi250x"
	}
	arch, alike := architecture(in), Alike(d)
	if arch != "" && len(alike) == 0 { // a part of a GPU, or a relative without a profile
		alike = Alike(trace.Device{Name: arch})
	}
	switch {
	case best != "" || len(alike) == 0:
		return best
	case arch != "" || generic(in) && len(alike) == 1:
		return alike[0]
	}
	return ""
}

// Alike are the profiles whose GPU has the properties of a device: architecture, number of
// CUs and memory, as far as the trace states them. None where it states neither the
// architecture nor the CUs.
func Alike(d trace.Device) (list []string) {
	arch := architecture(words(d.Name))
	if arch == "" && d.ComputeMajor > 0 {
		arch = fmt.Sprintf("%d.%d", d.ComputeMajor, d.ComputeMinor)
	}
	if arch == "" && d.CUs == 0 {
		return nil
	}
	for _, x := range devices() {
		amd := strings.HasPrefix(x.arch, "gfx")
		switch {
		case arch != "" && arch != x.arch:
		case d.CUs > 0 && d.CUs != x.cus:
		case d.WaveSize > 0 && amd != (d.WaveSize == amdWave):
		case d.MemoryBytes > 0 && x.gib > 0 && math.Abs(float64(d.MemoryBytes)/(1<<30)/x.gib-1) > 0.1:
		default:
			list = append(list, x.profile)
		}
	}
	return list
}

// MemoryBytes is the memory of a device, as the trace states it, else as devices of its profile report it; 0: unknown.
func MemoryBytes(d trace.Device) int64 {
	if profile := ForDevice(d); d.MemoryBytes == 0 && profile != "" {
		for _, x := range devices() {
			if x.profile == profile {
				return int64(x.gib * (1 << 30))
			}
		}
	}
	return d.MemoryBytes
}

// architecture is AMD's gfx id among the words of a name, or "".
func architecture(words []string) string {
	for _, w := range words {
		if strings.HasPrefix(w, "gfx") {
			return w
		}
	}
	return ""
}

// generic reports whether a name says nothing but the vendor.
func generic(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		return !slices.Contains([]string{"amd", "nvidia", "radeon", "graphics", "instinct", "device", "gpu"}, w)
	})
}

// words are the words of a device's name, in lower case.
func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// ArchitectureOf is the architecture that the name of a kernel of AMD's matrix
// library states, "gfx942" of "Cijk_..._ISA942_...", or "".
func ArchitectureOf(kernel string) string {
	if !strings.HasPrefix(kernel, "Cijk_") {
		return ""
	}
	_, rest, ok := strings.Cut(kernel, "_ISA")
	isa, _, _ := strings.Cut(rest, "_")
	if !ok || isa == "" || len(isa) > 4 {
		return ""
	}
	return "gfx" + strings.ToLower(isa)
}
