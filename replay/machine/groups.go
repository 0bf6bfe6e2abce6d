package machine

import (
	"math"
)

// Groups of CUs
//
// The workgroups of a cluster share one group of CUs (NVIDIA, from compute capability 9.0
// on: a graphics processing cluster). The free CUs of a group hold only whole clusters, so
// one held CU may cost a clustered kernel more than that CU.
//
// A plain grid fills an idle GPU in this order (H200, 2026-11-22): CUs come in pairs;
// groups of a single pair go first, one CU of each, then the other; then the larger groups
// round-robin, one CU of each pair, then the other CUs:
//
//	group 0 |0 2|  group 1 |1 3|  group 2 |4 6 8 10|  group 3 |5 7 9 11|
//	                                pairs   4 8|6 10            5 9|7 11

// Grouping is the group of each CU, with CUs numbered in the order in which a plain grid
// fills an idle GPU; nil if the groups are unknown (rule D8).
func (g GPU) Grouping() []int {
	if !g.Groups.Known() {
		return nil
	}
	var sizes []int
	lone := 0
	for _, r := range g.Groups.Rows {
		for range int(r[1]) {
			sizes = append(sizes, int(r[0]))
		}
		if r[0] <= 2 {
			lone = len(sizes)
		}
	}
	return append(roundRobin(sizes[:lone], 0), roundRobin(sizes[lone:], lone)...)
}

// roundRobin lists the groups, counted from first, in the order in which their CUs fill.
func roundRobin(sizes []int, first int) (order []int) {
	for other := range 2 {
		for pair, more := 0, true; more; pair++ {
			more = false
			for i, n := range sizes {
				if 2*pair+other < n {
					order = append(order, first+i)
					more = true
				}
			}
		}
	}
	return order
}

// Clusters is the number of clusters of size n, one workgroup per CU, that are resident at
// once while the first held CUs of Grouping are held. If groups are unknown, any CUs form
// a cluster.
func (g GPU) Clusters(size, held int) int {
	cus := int(g.CUs.Value)
	if size <= 1 || !g.Groups.Known() {
		return max(0, cus-held) / max(1, size)
	}
	free := map[int]int{}
	for _, group := range g.Grouping()[min(held, cus):] {
		free[group]++
	}
	n := 0
	for _, f := range free {
		n += f / size
	}
	return n
}

// Clustered is the number of CUs that a kernel with clusters of the given size can use at
// once; 0 if no group holds one.
func (g GPU) Clustered(size int) float64 {
	if size <= 1 || !g.Groups.Known() {
		return g.CUs.Value
	}
	return float64(size * g.Clusters(size, 0))
}

// Ungrouped is the difference between the number of CUs and the sum of the groups; NaN if
// a size is not an integer; 0 if the groups are unknown.
func (g GPU) Ungrouped() float64 {
	if !g.Groups.Known() {
		return 0
	}
	left := g.CUs.Value
	for _, r := range g.Groups.Rows {
		if r[0] != math.Trunc(r[0]) || r[1] != math.Trunc(r[1]) {
			return math.NaN()
		}
		left -= r[0] * r[1]
	}
	return left
}

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
