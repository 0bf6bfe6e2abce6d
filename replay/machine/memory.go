package machine

// StreamAt is the bytes per second of n workgroups of a streaming kernel together. The
// loads in flight per workgroup are limited, so few workgroups do not saturate the memory.
// Without a curve in the profile, the bandwidth is divided evenly over CUs (rule M4).
func (g GPU) StreamAt(wgs int) float64 { return g.reach(g.Stream, wgs) }

// SumAt is the output bytes per second of PyTorch's sum of n partial results; the kernel
// is limited by its output rather than by memory bandwidth. 0 if unknown (rule M4).
func (g GPU) SumAt(n int) float64 {
	if !g.Sum.Known() {
		return 0
	}
	return at(g.Sum.curve(0, 1), float64(n))
}

// reach interpolates a curve of bytes per second over workgroups. Below the first point it
// is proportional to the number of workgroups.
func (g GPU) reach(t Table, wgs int) float64 {
	n := float64(wgs)
	if !t.Known() {
		return g.Memory.Value * min(1, n/g.CUs.Value)
	}
	first := t.Rows[0]
	return at(t.curve(0, 1), n) * min(1, n/first[0])
}

// occupancyShare is the memory rate of random reads relative to the best, at an occupancy
// (resident threads over maximum): low with too few loads in flight, and lower again when
// too many DRAM rows are open (rule M4). 1 if the profile has no curve.
func (g GPU) occupancyShare(occupancy float64) float64 {
	if !g.Crowding.Known() || occupancy <= 0 {
		return 1
	}
	return at(g.Crowding.curve(0, 1), occupancy)
}

// LookupAt is StreamAt for random rows of 1 KiB, as in an embedding table, of workgroups of the given threads (0: at the best
// occupancy). fused selects the kernel whose results may go to peers, which is another build (rule M4).
func (g GPU) LookupAt(wgs, threads int, fused bool) float64 {
	curve := g.Gather
	if fused {
		curve = g.GatherFused
	}
	return g.reach(curve, wgs) * g.occupancyShare(float64(wgs*threads)/(g.CUs.Value*g.Threads.Value))
}

// HitShare is the share of repeated reads that the last-level cache serves for a
// footprint: all if it fits, else the part that fits. In-order reads with strict LRU
// replacement would do worse, tiled reads better. 0 if the profile has no cache (rule M7).
func (g GPU) HitShare(footprint float64) float64 {
	if g.Cache.Value == 0 || footprint <= 0 {
		return 0
	}
	return min(1, g.Cache.Value/footprint)
}

// A Pattern is the set of peers that the kernels of all GPUs store to at one time.
type Pattern uint8

// The patterns.
const (
	ToNext Pattern = iota // every GPU to the next one: tiles in communication-aware order
	ToAll                 // every GPU to all others
	ToOne                 // all GPUs to one: tiles in index order
)

// StoreCost is the link time of a byte stored by a kernel, relative to one moved by a copy
// engine; a store's bytes are multiplied by it (rule R8).
func (f Fabric) StoreCost(p Pattern) float64 {
	switch p {
	case ToAll:
		return f.Egress.Value / f.StoreSpread.Or(f.StoreRing.Or(f.Egress.Value))
	case ToOne:
		return f.Ingress.Value / f.StoreIncast.Or(f.Ingress.Value)
	}
	return f.Egress.Value / f.StoreRing.Or(f.Egress.Value)
}

// What the memory of a GPU is assumed to be where its profile does not say, for hardware that
// tracks stores (T3). The queue is that of Accel-Sim's SM7_QV100 (gpgpu_frfcfs_dram_sched_queue_size),
// with which T3 simulates; an addition takes twice the column-to-column delay (T3, section 5.1).
const (
	assumedQueue  = 64
	assumedUpdate = 2
)

// QueueEntries is the number of commands that the queue of a memory channel holds.
func (g *GPU) QueueEntries() float64 {
	if g.MemoryQueue.Value > 0 {
		return g.MemoryQueue.Value
	}
	return assumedQueue
}

// UpdateCost is how many times as long a byte takes that memory adds to what is stored there.
func (g *GPU) UpdateCost() float64 {
	if g.Update.Value > 0 {
		return g.Update.Value
	}
	return assumedUpdate
}
