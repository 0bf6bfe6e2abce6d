package machine

// StreamAt is the bytes a second that so many workgroups of a streaming kernel
// reach together: each has only so many loads under way, so few workgroups do
// not saturate the memory. Where the profile has no curve, CUs share it evenly (rule M4).
func (g GPU) StreamAt(wgs int) float64 { return g.reach(g.Stream, wgs) }

// GatherAt is StreamAt for random rows of 1 KiB, as of an embedding table; fused
// says that the kernel is one whose results may go to peers, which is another build (rule M5).
func (g GPU) GatherAt(wgs int, fused bool) float64 {
	if fused {
		return g.reach(g.GatherFused, wgs)
	}
	return g.reach(g.Gather, wgs)
}

// SumAt is the bytes a second that PyTorch writes of the sum of n partial results:
// its kernel is bound by what it writes rather than by the memory. 0 where the
// profile does not know (rule M8).
func (g GPU) SumAt(n int) float64 {
	if !g.Sum.Known() {
		return 0
	}
	return at(g.Sum.curve(0, 1), float64(n))
}

// reach interpolates a curve of bytes a second by workgroups; below its first
// point every workgroup has its share of that point.
func (g GPU) reach(t Table, wgs int) float64 {
	n := float64(wgs)
	if !t.Known() {
		return g.Memory.Value * min(1, n/g.CUs.Value)
	}
	first := t.Rows[0]
	return at(t.curve(0, 1), n) * min(1, n/first[0])
}

// OccupancyShare is the share of its best rate that the memory reaches for random
// reads at an occupancy, resident threads over those that fit: it rises while
// loads are too few and falls again when rows of too many are open at once
// (rule M6). 1 where the profile has no curve.
func (g GPU) OccupancyShare(occupancy float64) float64 {
	if !g.Crowding.Known() || occupancy <= 0 {
		return 1
	}
	return at(g.Crowding.curve(0, 1), occupancy)
}

// LookupAt is the bytes a second that so many workgroups of so many threads reach
// together with random reads: GatherAt, where they do not crowd the memory.
func (g GPU) LookupAt(wgs, threads int, fused bool) float64 {
	return g.GatherAt(wgs, fused) * g.OccupancyShare(float64(wgs*threads)/(g.CUs.Value*g.Threads.Value))
}

// HitShare is the share of repeated reads that the last-level cache serves when
// what is read again spans a footprint: all where it fits, else the part of it
// that fits. Reading in order with strict least-recently-used replacement would
// do worse, tiled reading better. 0 where the profile knows no cache (rule M7).
func (g GPU) HitShare(footprint float64) float64 {
	if g.Cache.Value == 0 || footprint <= 0 {
		return 0
	}
	return min(1, g.Cache.Value/footprint)
}

// A Pattern is which peers the kernels of all GPUs store to at one time.
type Pattern uint8

// The patterns.
const (
	ToNext Pattern = iota // every GPU to its next one: tiles in communication-aware order
	ToAll                 // every GPU to all others
	ToOne                 // all GPUs to one: tiles in index order
)

// StoreCost is how many bytes of link time a byte stored by a kernel takes,
// relative to one moved by a copy engine: multiply a store's bytes by it (rule R8).
func (f Fabric) StoreCost(p Pattern) float64 {
	switch p {
	case ToAll:
		return f.Egress.Value / f.StoreSpread.Or(f.StoreRing.Or(f.Egress.Value))
	case ToOne:
		return f.Ingress.Value / f.StoreIncast.Or(f.Ingress.Value)
	}
	return f.Egress.Value / f.StoreRing.Or(f.Egress.Value)
}
