package retarget

import (
	"math"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// collective is the factor on a collective's transfer: the ratio of the library's times
// (rule Y5). If the ranks are on several nodes on one side, or only one library's times are
// recorded, both are those of the tuner's model, whose errors then cancel.
func (s *scaler) collective(w *workload.Workload, c *workload.Collective) (by float64, of law) {
	ranks := w.RanksOf(c)
	was := ranks
	if s.resized != nil {
		was = s.resized.before(c, ranks)
	}
	switch {
	case c.Part || len(ranks) < 2 || len(was) < 2:
		return 1, byLibrary
	case c.Bytes <= 0 && c.Op != trace.Barrier:
		return 1, bySize
	}
	a, nodesA := placed(s.from, was)
	b, nodesB := placed(s.to, ranks)
	alike := (nodesA > 1) == (nodesB > 1) && a.Of(c.Op).Times.Known() == b.Of(c.Op).Times.Known()
	timeOf := func(m *machine.Machine, l *machine.Library, n, channels int) float64 {
		if alike {
			return max(l.Time(c.Op, c.Bytes, n, channels), onLinks(m, c, n))
		}
		if channels == 0 {
			channels = l.ChannelsFor(c.Op, c.Bytes)
		}
		return max(l.Expected(c.Op, l.Spread(n), float64(l.Runs(c.Op, channels)), float64(max(0, c.Bytes))), onLinks(m, c, n))
	}
	by = timeOf(s.to, b, len(ranks), s.channels(c)) / timeOf(s.from, a, len(was), c.Channels)
	if !(by > 0) || math.IsInf(by, 0) {
		return 1, bySize
	}
	return by, byLibrary
}

// onLinks is the least seconds in which the links of one GPU carry what a rank sends: where
// GPUs are joined in pairs, only the links between the ranks of the group do.
func onLinks(m *machine.Machine, c *workload.Collective, n int) float64 {
	rate := m.Fabric.Egress.Value
	if pair := m.Fabric.Pair.Value; m.Fabric.Topology == machine.Mesh && pair > 0 {
		rate = min(rate, pair*float64(min(n, m.PerNode())-1))
	}
	if rate <= 0 {
		return 0
	}
	return float64(c.Op.WireBytes(c.Bytes, n)) / rate
}

// channels is the number of channels of a captured collective on the other machine: as
// many as its library uses by itself, if the capture's did so too, else at most the captured
// number.
func (s *scaler) channels(c *workload.Collective) int {
	if c.Channels == 0 || s.from.Profile == s.to.Profile || s.from.Library.Name == s.to.Library.Name {
		return c.Channels
	}
	own := max(1, s.to.Library.ChannelsFor(c.Op, c.Bytes))
	if c.Channels == s.from.Library.ChannelsFor(c.Op, c.Bytes) {
		return own
	}
	return min(c.Channels, own)
}

// placed is the library of a machine for a group of ranks, and the number of nodes that it
// is on. Library.Time fills nodes one after another; a group with fewer ranks on each node
// than that, whose neighbours communicate at the same time, has its share of the NICs.
func placed(m *machine.Machine, ranks []int) (l *machine.Library, nodes int) {
	on, per := map[int]int{}, 0
	for _, r := range ranks {
		on[m.Node(r)]++
		per = max(per, on[m.Node(r)])
	}
	l = &m.Library
	if len(on) < 2 || per == min(m.PerNode(), len(ranks)) {
		return l, len(on)
	}
	own := *l
	share := float64(per) / float64(m.PerNode())
	own.Network.Node.Value = float64(per)
	own.Network.NICs.Value *= share
	own.Network.Pair.Value *= share
	return &own, len(on)
}
