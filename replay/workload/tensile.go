package workload

import (
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// tensileRegisters is the number of 32-bit vector registers of a thread of a Tensile kernel
// (rocBLAS, hipBLASLt), from its name; 0 for other kernels. Traces seldom have it, and it
// decides how many workgroups fit on a compute unit, and whether a channel of a collective
// fits next to one. It follows from the accumulators of a thread, which are the macro tile
// over the workgroup's threads (rule D16):
//
//	Cijk_Ailk_Bljk_BBS_BH_..._MT512x144x32_MI16x16x1_..._WG64_4_1   288 accumulators, 512 registers
func tensileRegisters(kernel string) int {
	if !strings.HasPrefix(kernel, "Cijk_") {
		return 0
	}
	tile := strings.Split(tensileField(kernel, "_MT"), "x")
	threads := product(strings.SplitN(fieldsOf(kernel, "_WG", 3), "_", 3))
	if len(tile) != 3 || threads == 0 {
		return 0
	}
	accumulators := float64(product(tile[:2])) / float64(threads)
	if accumulators < 1 {
		return 0
	}
	const granule, most = 8, 512 // of a wave
	for i, row := range tensileTable[1:] {
		if before := tensileTable[i]; accumulators <= row.accumulators || i == len(tensileTable)-2 {
			slope := (row.registers - before.registers) / (row.accumulators - before.accumulators)
			registers := before.registers + slope*(accumulators-before.accumulators)
			return min(most, machine.CeilDiv(max(1, int(registers)), granule)*granule)
		}
	}
	return 0
}

// tensileTable is the median registers of 4,051 Tensile kernels of the code objects that a
// rocprofv3 capture on MI350X lists (AMD-AGI/TraceLens, tests/rocprof/908_results.json:
// arch_vgpr_count, and the accumulators of kernels that keep them in accumulation
// registers), by accumulators.
var tensileTable = [...]struct{ accumulators, registers float64 }{
	{0, 40}, {8, 56}, {16, 84}, {32, 128}, {64, 192}, {96, 248}, {128, 320}, {192, 416}, {256, 488},
}

// tensileField is the part of a name behind a key, up to the next underscore: 512x144x32
// behind _MT.
func tensileField(kernel, key string) string {
	_, rest, _ := strings.Cut(kernel, key)
	word, _, _ := strings.Cut(rest, "_")
	return word
}

// fieldsOf is n parts of a name behind a key, joined by underscores: 64_4_1 behind _WG.
func fieldsOf(kernel, key string, n int) string {
	_, rest, ok := strings.Cut(kernel, key)
	words := strings.Split(strings.TrimSuffix(rest, ".kd"), "_")
	if !ok || len(words) < n {
		return ""
	}
	return strings.Join(words[:n], "_")
}

// product is the product of numbers; 0 if one is none, or implausibly large.
func product(words []string) int {
	p := 1
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n <= 0 || n > maxSide {
			return 0
		}
		p *= n
	}
	return p
}
