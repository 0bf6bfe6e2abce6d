package machine

import "math"

// CUResources are free resources of a CU, or those that a workgroup takes.
type CUResources struct{ Threads, Registers, Shared, WGs int64 }

// CUResources are those of an empty CU. A resource that the machine gives as 0 is not
// modelled.
func (g *GPU) CUResources() CUResources {
	limit := func(q Quantity) int64 {
		if q.Value <= 0 {
			return math.MaxInt64 / 4
		}
		return int64(min(q.Value, math.MaxInt32))
	}
	return CUResources{limit(g.Threads), limit(g.Registers), limit(g.Shared), limit(g.WGs)}
}

// Need is the CU resources of a workgroup with the given registers per thread and bytes of
// shared memory.
func (g *GPU) Need(threads, registers, shared int) CUResources {
	return CUResources{
		Threads:   int64(threads),
		Registers: int64(registers) * int64(threads),
		Shared:    int64(shared) + int64(g.SharedSpare.Value),
		WGs:       1,
	}
}

// Residents is the number of such workgroups that one CU holds at once (occupancy); 0 if
// none fits.
func (g *GPU) Residents(threads, registers, shared int) int {
	return int(min(g.CUResources().Times(g.Need(threads, registers, shared)), math.MaxInt32))
}

// Holds reports whether a workgroup with the need fits (rule D1).
func (r CUResources) Holds(n CUResources) bool {
	return r.Threads >= n.Threads && r.Registers >= n.Registers && r.Shared >= n.Shared && r.WGs >= n.WGs
}

// Plus is the free resources after n workgroups have left.
func (r CUResources) Plus(n CUResources) CUResources {
	return CUResources{r.Threads + n.Threads, r.Registers + n.Registers, r.Shared + n.Shared, r.WGs + n.WGs}
}

// Minus is the free resources after n workgroups were placed.
func (r CUResources) Minus(n CUResources) CUResources {
	return CUResources{r.Threads - n.Threads, r.Registers - n.Registers, r.Shared - n.Shared, r.WGs - n.WGs}
}

// Times is how often n fits.
func (r CUResources) Times(n CUResources) int64 {
	fits := r.WGs / max(1, n.WGs)
	for _, x := range [...][2]int64{{r.Threads, n.Threads}, {r.Registers, n.Registers}, {r.Shared, n.Shared}} {
		if x[1] > 0 {
			fits = min(fits, x[0]/x[1])
		}
	}
	return fits
}
