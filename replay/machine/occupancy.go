package machine

import "math"

// A CUResources is how much of a CU is free, or what a workgroup takes of it.
type CUResources struct{ Threads, Registers, Shared, WGs int64 }

// CUResources is an empty CU. What the machine gives as 0 is not modelled.
func (g *GPU) CUResources() CUResources {
	limit := func(q Quantity) int64 {
		if q.Value <= 0 {
			return math.MaxInt64 / 4
		}
		return int64(min(q.Value, math.MaxInt32))
	}
	return CUResources{limit(g.Threads), limit(g.Registers), limit(g.Shared), limit(g.WGs)}
}

// Need is what a workgroup takes of a CU, with registers a thread and bytes of shared memory.
func (g *GPU) Need(threads, registers, shared int) CUResources {
	return CUResources{
		Threads:   int64(threads),
		Registers: int64(registers) * int64(threads),
		Shared:    int64(shared) + int64(g.SharedSpare.Value),
		WGs:       1,
	}
}

// Residents is how many such workgroups one CU holds at once: its occupancy. 0 where none fits.
func (g *GPU) Residents(threads, registers, shared int) int {
	return int(min(g.CUResources().Times(g.Need(threads, registers, shared)), math.MaxInt32))
}

// Holds reports whether something with the need fits (rule D1).
func (r CUResources) Holds(n CUResources) bool {
	return r.Threads >= n.Threads && r.Registers >= n.Registers && r.Shared >= n.Shared && r.WGs >= n.WGs
}

// Plus is the room that is free when what took n leaves.
func (r CUResources) Plus(n CUResources) CUResources {
	return CUResources{r.Threads + n.Threads, r.Registers + n.Registers, r.Shared + n.Shared, r.WGs + n.WGs}
}

// Minus is the room that is left alongside n.
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
