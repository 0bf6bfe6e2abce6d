package profile

import (
	"slices"
	"strings"
	"unicode"

	"github.com/overlapse/overlapse/trace"
)

// otherNames are words of device names, and AMD's names of architectures, that
// are no profile's name, with the profile that comes closest.
var otherNames = map[string]string{
	"mi250":  "mi250x",
	"gfx90a": "mi250x",
	"gfx942": "mi300x",
	"gfx950": "mi350x",
}

// ForDevice is the profile for a device by its name: "NVIDIA A100-SXM4-80GB" is
// a100. Of several the most specific one; "" where there is none.
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
	for _, w := range in {
		if best == "" {
			best = otherNames[w]
		}
	}
	if slices.Contains(in, "gfx90a") && d.CUs == 104 {
		return "mi210"
	}
	return best
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
