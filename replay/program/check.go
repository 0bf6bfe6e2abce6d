package program

import (
	"errors"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/replay/machine"
)

// Upper bounds of a program's values. Beyond them sums would overflow.
const (
	maxWGs       = math.MaxInt32
	maxTiles     = math.MaxInt32
	maxFootprint = 1 << 24
	maxBytes     = 1e18
	maxCUs       = 1 << 16
	maxGPUs      = 1 << 12
	maxEngines   = 1 << 10
)

// Check returns an error for a machine or program with invalid values. Phases are checked
// when they are generated (CheckPhase).
func Check(m *machine.Machine, p *Program) error {
	if err := checkMachine(m); err != nil {
		return fmt.Errorf("replay: machine %q: %w", m.Name, err)
	}
	if len(p.GPUs) > maxGPUs || m.GPUs > 0 && len(p.GPUs) > m.GPUs {
		return fmt.Errorf("replay: program for %d GPUs: machine %q has %d", len(p.GPUs), m.Name, min(m.GPUs, maxGPUs))
	}
	if a := p.Arbiter; a.Policy >= numPolicies || a.Policy == ComputeFirst && !(a.Share > 0 && a.Share <= 1) {
		return fmt.Errorf("replay: arbiter: policy %d with a share of %g (want a known one, and over 0 to 1)", a.Policy, a.Share)
	}
	for g := range p.GPUs {
		for i := range p.GPUs[g].Streams {
			st := &p.GPUs[g].Streams[i]
			for c := range st.Commands {
				if err := checkCommand(m, p, st, &st.Commands[c]); err != nil {
					return fmt.Errorf("%s: %w", st.Where(g, &st.Commands[c]), err)
				}
			}
		}
	}
	return nil
}

func checkMachine(m *machine.Machine) error {
	for _, q := range []struct {
		what string
		q    machine.Quantity
		most float64
	}{
		{"CUs", m.GPU.CUs, maxCUs},
		{"threads", m.GPU.Threads, math.MaxInt32},
		{"registers", m.GPU.Registers, math.MaxInt32},
		{"shared memory", m.GPU.Shared, math.MaxInt32},
		{"spare shared memory", m.GPU.SharedSpare, math.MaxInt32},
		{"workgroups", m.GPU.WGs, math.MaxInt32},
		{"memory bandwidth", m.GPU.Memory, maxBytes},
		{"last-level cache", m.GPU.CacheRate, maxBytes},
		{"update", m.GPU.Update, 1e6},
		{"egress", m.Fabric.Egress, maxBytes},
		{"ingress", m.Fabric.Ingress, maxBytes},
		{"pair", m.Fabric.Pair, maxBytes},
		{"latency", m.Fabric.Latency, 1e6},
		{"hop", m.Fabric.Hop, 1e6},
		{"flag time", m.Fabric.Message, 1e6},
		{"GPUs of a node", m.Network.Node, maxGPUs},
		{"NICs of a node", m.Network.NICs, maxGPUs},
		{"NIC egress", m.Network.Egress, maxBytes},
		{"NIC ingress", m.Network.Ingress, maxBytes},
		{"links of nodes", m.Network.Pair, maxBytes},
		{"network latency", m.Network.Latency, 1e6},
		{"network hop", m.Network.Hop, 1e6},
		{"message time", m.Network.Message, 1e6},
		{"engines", m.Engines.Count, maxEngines},
		{"engine rate", m.Engines.Rate, maxBytes},
		{"engine latency", m.Engines.Latency, 1e6},
		{"engine latency of queued copies", m.Engines.Queued, 1e6},
	} {
		if !(q.q.Value >= 0 && q.q.Value <= q.most) {
			return fmt.Errorf("%s: %g (want 0 to %g)", q.what, q.q.Value, q.most)
		}
		if q.most == maxBytes && q.q.Value > 0 && q.q.Value < 1 {
			return fmt.Errorf("%s: %g bytes a second (want at least 1, or 0 for no limit)", q.what, q.q.Value)
		}
	}
	if m.GPU.Ungrouped() != 0 {
		return fmt.Errorf("groups of CUs: they do not make up the %g CUs", m.GPU.CUs.Value)
	}
	for _, t := range []machine.Topology{m.Fabric.Topology, m.Network.Topology} {
		if t != "" && !t.Known() {
			return fmt.Errorf("topology %q is not known", t)
		}
	}
	if m.GPUs > maxGPUs {
		return fmt.Errorf("%d GPUs (want at most %d)", m.GPUs, maxGPUs)
	}
	return nil
}

func checkCommand(m *machine.Machine, p *Program, st *Stream, c *Command) error {
	if c.Delay < 0 || c.Delay >= MaxTime {
		return fmt.Errorf("delay: %d ns", c.Delay)
	}
	switch c.Op {
	case Delay:
		return nil
	case Wait, Post:
		return checkFlag(p, c.Flag, c.Count)
	case Launch, Start:
	default:
		return fmt.Errorf("op %d is not known", c.Op)
	}
	switch {
	case st.Host:
		return errors.New("a host stream holds no device work (want delay, wait or post)")
	case (c.Op == Launch) != (c.Kernel != nil), (c.Op == Start) != (c.Copy != nil):
		return errors.New("want a kernel to launch or a copy to start, and only that")
	case c.Op == Launch:
		return checkKernel(m, c.Kernel)
	}
	return checkCopy(p, c.Copy)
}

func checkFlag(p *Program, f Flag, count int64) error {
	if f < 0 || int(f) >= p.Flags.Len() {
		return fmt.Errorf("flag %d: the program has %d", f, p.Flags.Len()-1)
	}
	if count < 0 {
		return fmt.Errorf("flag %q: count %d (flags only grow from 0)", p.Flags.Name(f), count)
	}
	return nil
}

func checkKernel(m *machine.Machine, k *Kernel) error {
	f := k.Footprint
	switch {
	case k.WGs < 0 || k.WGs > maxWGs:
		return fmt.Errorf("%d workgroups (want 0 to %d)", k.WGs, maxWGs)
	case k.Tiles < 0 || k.Tiles > maxTiles:
		return fmt.Errorf("%d tiles (want 0 to %d)", k.Tiles, maxTiles)
	case k.Recipe == nil && k.Each == nil:
		return errors.New("no recipe")
	case k.Alike < 0 || k.Alike > 0 && (k.Tiles > 0 || len(k.Each)*k.Alike < k.WGs):
		return fmt.Errorf("%d phases of %d tiles each for %d workgroups", len(k.Each), k.Alike, k.WGs)
	case !(k.Fed >= 0 && k.Fed <= 1):
		return fmt.Errorf("fed: share %g (want 0 to 1)", k.Fed)
	case !(k.Lag >= 0 && k.Lag <= 1):
		return fmt.Errorf("lag %g (want 0 to 1)", k.Lag)
	case !(k.Pipe >= 0 && k.Pipe <= 1024):
		return fmt.Errorf("pipe share %g (want 0 to 1024)", k.Pipe)
	case !(k.CommShare >= 0 && k.CommShare <= 1):
		return fmt.Errorf("a share of memory for communication of %g (want 0 to 1)", k.CommShare)
	case !(k.Onset >= 0 && k.Onset <= 1):
		return fmt.Errorf("onset %g (want 0 to 1)", k.Onset)
	case k.Cluster < 0 || k.Cluster > 1 && k.WGs%k.Cluster != 0:
		return fmt.Errorf("%d workgroups in clusters of %d", k.WGs, k.Cluster)
	case f.Threads < 0 || f.Threads > maxFootprint, f.Registers < 0 || f.Registers > maxFootprint, f.Shared < 0 || f.Shared > math.MaxInt32:
		return fmt.Errorf("footprint: %d threads of %d registers, %d bytes shared", f.Threads, f.Registers, f.Shared)
	case k.Free:
		return nil
	}
	if err := checkFits(m, f.Need(&m.GPU)); err != nil {
		return err
	}
	return checkCluster(m, k)
}

// checkCluster refuses clusters that do not fit on an idle GPU.
func checkCluster(m *machine.Machine, k *Kernel) error {
	if k.Cluster <= 1 || !m.GPU.Groups.Known() {
		return nil
	}
	largest := m.GPU.Groups.Rows[len(m.GPU.Groups.Rows)-1][0]
	most := int64(largest) * int64(k.Footprint.Residents(&m.GPU))
	if most < int64(k.Cluster) {
		return fmt.Errorf("clusters of %d workgroups: a group of CUs holds %d", k.Cluster, most)
	}
	return nil
}

// Fits returns an error if a workgroup with the footprint fits on no CU of the machine.
func Fits(m *machine.Machine, f Footprint) error { return checkFits(m, f.Need(&m.GPU)) }

func checkFits(m *machine.Machine, need CUResources) error {
	if m.GPU.CUs.Value < 1 {
		return fmt.Errorf("footprint: machine %q has no CUs", m.Name)
	}
	has := m.GPU.CUResources()
	for _, r := range []struct {
		what      string
		need, has int64
	}{
		{"threads", need.Threads, has.Threads},
		{"registers", need.Registers, has.Registers},
		{"bytes of shared memory", need.Shared, has.Shared},
		{"workgroups", need.WGs, has.WGs},
	} {
		if r.need > r.has {
			return fmt.Errorf("footprint: needs %d %s, a CU has %d", r.need, r.what, r.has)
		}
	}
	return nil
}

func checkCopy(p *Program, c *Copy) error {
	if err := checkPeer(p, c.Peer); err != nil {
		return err
	}
	if err := checkPeer(p, c.From); err != nil {
		return err
	}
	if c.Time < 0 || c.Time >= MaxTime {
		return fmt.Errorf("time: %d ns", c.Time)
	}
	return checkBytes(c.Bytes)
}

func checkPeer(p *Program, peer int32) error {
	if peer < 0 || int(peer) >= len(p.GPUs) {
		return fmt.Errorf("peer: GPU %d of %d", peer, len(p.GPUs))
	}
	return nil
}

func checkBytes(b float64) error {
	if !(b >= 0 && b <= maxBytes) {
		return fmt.Errorf("%g bytes (want 0 to %g)", b, maxBytes)
	}
	return nil
}

// CheckPhase returns an error for an invalid phase of a recipe. Valid phases take a fast
// path: among floats of 0 or more the order of their bits is their order.
func (p *Program) CheckPhase(ph *Phase, topology machine.Topology) error {
	bits := math.Float64bits
	if ph.Op <= Sleep && uint64(ph.Time) < uint64(MaxTime) && uint32(ph.Peer) < uint32(len(p.GPUs)) &&
		uint32(ph.Flag) < uint32(p.Flags.Len()) && ph.Count >= 0 && ph.Last == 0 &&
		max(bits(ph.Bytes), bits(ph.Read), bits(ph.Write)) <= bits(maxBytes) &&
		bits(ph.Weight) == 0 && bits(ph.Slowdown) == 0 && bits(ph.Hit) == 0 {
		return nil
	}
	if ph.Op > Sleep {
		return fmt.Errorf("op %d is not known", ph.Op)
	}
	if ph.Time < 0 || ph.Time >= MaxTime {
		return fmt.Errorf("time: %d ns", ph.Time)
	}
	switch everyone := ph.Peer == Everyone && ph.Op == Store; {
	case everyone && topology != machine.Switch:
		return fmt.Errorf("peer: everyone, by a %s (want a switch)", topology)
	case !everyone && (ph.Op == Store || ph.Op == Put):
		if err := checkPeer(p, ph.Peer); err != nil {
			return err
		}
	}
	if ph.Flag != NoFlag || ph.Count < 0 {
		if err := checkFlag(p, ph.Flag, ph.Count); err != nil {
			return err
		}
	}
	for _, b := range [...]float64{ph.Bytes, ph.Read, ph.Write} {
		if !(b >= 0 && b <= maxBytes) {
			return checkBytes(b)
		}
	}
	if ph.Last < 0 || ph.Last > 0 && (ph.Op != PostTo || ph.Time > 0 || ph.Flag == NoFlag) {
		return fmt.Errorf("last: %d (want a post to a flag that is there at once, or 0)", ph.Last)
	}
	if !(ph.Hit >= 0 && ph.Hit <= 1) {
		return fmt.Errorf("hit: share %g (want 0 to 1)", ph.Hit)
	}
	if !(ph.Slowdown >= 0 && ph.Slowdown <= 1e6) {
		return fmt.Errorf("slowdown: factor %g (want 0 to 1e6)", ph.Slowdown)
	}
	if !(ph.Weight >= 0 && ph.Weight <= 1e6) || ph.Weight > 0 && ph.Weight < 1e-6 {
		return fmt.Errorf("weight: %g (want 1e-6 to 1e6)", ph.Weight)
	}
	return nil
}

// Where identifies a command in an error message: GPU, stream, command.
func (st *Stream) Where(gpu int, c *Command) string {
	at := -1
	for i := range st.Commands {
		if &st.Commands[i] == c {
			at = i
		}
	}
	return fmt.Sprintf("gpu %d: stream %q: command %d %q", gpu, st.Name, at, c.Label())
}
