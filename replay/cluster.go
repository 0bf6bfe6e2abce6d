package replay

import (
	"math/bits"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// Clusters
//
// The workgroups of a cluster start together on CUs of one group. A machine with known
// groups numbers its CUs in the order in which a plain grid fills them, so plain kernels
// take the lowest free CU. A cluster goes to the group that contains the least loaded,
// lowest CU and has free resources for the whole cluster:
//
//	group a  CU 0 |X| CU 2 |.| CU 4 |.|     clusters of 2: one in a,
//	group b  CU 1 |X| CU 3 |.|              none in b, though CU 3 is free

// groups are the CUs of a GPU by group; empty if the machine's groups are unknown.
type groups struct {
	of  []int      // by CU
	cus [][]uint64 // by group, bit c: CU c
}

func newGroups(g *machine.GPU) groups {
	gs := groups{of: g.Grouping()}
	words := (len(gs.of) + 63) / 64
	for c, id := range gs.of {
		for id >= len(gs.cus) {
			gs.cus = append(gs.cus, make([]uint64, words))
		}
		gs.cus[id][c/64] |= 1 << (c % 64)
	}
	return gs
}

// placeClusters places all clusters that fit: those of a new kernel on any CU, those of a
// waiting kernel only in groups with CUs freed in this instant.
func (s *sim) placeClusters(g *gpu, id int32) {
	l := s.kernels.at(id)
	for i := range g.mask {
		g.mask[i] = 0
		if l.fresh {
			g.mask[i] = ^uint64(0)
		}
	}
	if !l.fresh {
		for c := range each(g.freed) {
			for i, w := range s.groups.cus[s.groups.of[c]] {
				g.mask[i] |= w
			}
		}
	}
	l.fresh = false
	for n := 0; n < len(g.load); n++ {
		for w := range g.mask {
			for set := g.load[n][w] & g.mask[w]; set != 0; set = set & (set - 1) & g.load[n][w] & g.mask[w] {
				if l.placed == l.kernel.WGs {
					return
				}
				c := w*64 + bits.TrailingZeros64(set)
				group := s.groups.cus[s.groups.of[c]]
				switch {
				case !g.cus[c].free.Holds(l.need):
				case g.clusterSlots(group, l.need, l.cluster):
					s.startCluster(g, id, group)
				default:
					for i, w := range group {
						g.mask[i] &^= w
					}
				}
			}
		}
	}
}

// clusterSlots reports whether the CUs of the set have free resources for n workgroups.
func (g *gpu) clusterSlots(set []uint64, need program.CUResources, n int) bool {
	for w, word := range set { // most CUs hold none or one: division is slow
		for ; word != 0; word &= word - 1 {
			free := &g.cus[w*64+bits.TrailingZeros64(word)].free
			if !free.Holds(need) {
				continue
			}
			if n--; n > 0 {
				n -= int(free.Times(need)) - 1
			}
			if n <= 0 {
				return true
			}
		}
	}
	return false
}

// startCluster places the next cluster on the least loaded CUs of a group that fits it,
// the lowest among equals (rule D7).
func (s *sim) startCluster(g *gpu, id int32, group []uint64) {
	l := s.kernels.at(id)
	freed := int32(none) // the CU whose workgroup left in this instant and made room for the cluster
	for c := range each(g.freed) {
		if group[c/64]&(1<<(c%64)) != 0 && s.causes != nil && s.causes.at(g.cus[c].left) == s.now {
			freed = int32(c)
			break
		}
	}
	for range l.cluster {
		at := int32(none)
		for c := range each(group) {
			if g.cus[c].free.Holds(l.need) && (at == none || len(g.cus[c].wgs) < len(g.cus[at].wgs)) {
				at = int32(c)
			}
		}
		if g.cus[at].freed > 0 {
			g.cus[at].freed--
		}
		if freed != none {
			g.cus[at].left = g.cus[freed].left
		}
		s.start(id, at)
	}
}

// clusterOrder is the order in which the clusters of a persistent kernel start if all fit
// at once; nil: by number. Each group gets neighbouring cluster numbers, as many as it
// holds when the groups fill round-robin, and clusters start round-robin over the groups.
// Clusters with one tile less are therefore not the last to start (measured on cuBLAS;
// rule D9).
//
//	groups of 1, 2 and 3 clusters, 6 clusters:  a 0 | b 1 2 | c 3 4 5
//	started one after another:                            0 1 3 2 4 5
func (gs *groups) clusterOrder(k *program.Kernel) []int32 {
	if k.Cluster <= 1 || k.Tiles == 0 {
		return nil
	}
	left := make([]int, len(gs.cus))
	for _, g := range gs.of {
		left[g]++
	}
	want := k.WGs / k.Cluster
	var turns []int // groups in round-robin order
	for more := true; more && len(turns) < want; {
		more = false
		for g := range left {
			if left[g] >= k.Cluster && len(turns) < want {
				left[g] -= k.Cluster
				turns = append(turns, g)
				more = true
			}
		}
	}
	if len(turns) < want {
		return nil
	}
	next := make([]int32, len(left))
	for _, g := range turns {
		for after := g + 1; after < len(next); after++ {
			next[after]++
		}
	}
	order := make([]int32, want)
	for i, g := range turns {
		order[i] = next[g]
		next[g]++
	}
	return order
}
