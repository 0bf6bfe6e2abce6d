package plan

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Piece is the whole or a chunk of a captured collective, on all its ranks.
type Piece struct {
	Coll     *workload.Collective
	Index    int // index of the chunk, or Whole
	Of       int // number of equal shares that its bytes are counted in
	Shares   int // number of shares in this piece; 0 stands for 1
	DurAlone trace.Time
	Channels int
	Slowdown float64    // co-run slowdown while compute uses all CUs that the collective leaves; 0 or 1: none
	onset    float64    // share of the added time that the first workgroup of a GEMM causes
	late     trace.Time // added latency alongside compute, once
}

// share is the piece's share of the whole's bytes.
func (p Piece) share(bytes int64) int64 { return bytes * int64(max(1, p.Shares)) / int64(p.Of) }

// Whole is the index of a piece that is all of its collective.
const Whole = -1

// A gang is one channel of a piece on all ranks, or a whole piece that has no channels.
// Its bytes move once it is resident on every rank, and its workgroups leave together
// (rule C1). Channels do not wait for each other, since each has its own share of
// the buffer: of 24 channels alongside a GEMM on 112 of 132 CUs, 20 finish while it runs
// and four run into the next GEMM (two H200, 2026-11-21, qwen7b_fc2 in 8 chunks).
type gang struct {
	arrive, depart program.Flag
}

type gangKey struct {
	coll     *workload.Collective
	index    int
	channels int
	pair     rankPair
}

// A rankPair is two ranks that share a channel, the lower one first; a rank with itself
// for its own copy; everyone for a channel of all ranks.
type rankPair [2]int32

// everyone stands for a channel of all ranks.
var everyone = rankPair{-1, -1}

func (p rankPair) String() string {
	switch {
	case p == everyone:
		return "all ranks"
	case p[0] == p[1]:
		return fmt.Sprintf("rank %d", p[0])
	}
	return fmt.Sprintf("ranks %d and %d", p[0], p[1])
}

// gangsOf returns the flags of the channels of a piece for the given ranks.
func (pl *Planner) gangsOf(p Piece, channels int, of rankPair) []gang {
	key := gangKey{p.Coll, p.Index, channels, of}
	return pl.gangs.Of(key, func() []gang {
		ranks := of[:]
		if of == everyone {
			ranks = pl.RanksOf(p.Coll)
		} else if of[0] == of[1] {
			ranks = of[:1]
		}
		key.pair = rankPair{} // those of pairs are one family
		flags := pl.commonFlags(ranks, key, 2*channels, func(i int) string {
			name := p.Coll.Op.String()
			if p.Index >= 0 {
				name = fmt.Sprintf("%s chunk %d", name, p.Index)
			}
			return fmt.Sprintf("channel %d of %s %d %s on %s", i/2, name, p.Coll.Seq, [...]string{"resident", "finished"}[i%2], of)
		})
		gangs := make([]gang, channels)
		for i := range gangs {
			gangs[i] = gang{flags[2*i], flags[2*i+1]}
		}
		return gangs
	})
}

// Arrived is the flag of a whole collective that its ranks post when they are there.
func (pl *Planner) Arrived(c *workload.Collective) program.Flag {
	return pl.gangsOf(Piece{Coll: c, Index: Whole}, 1, everyone)[0].arrive
}

// GangFor is one rank's kernel of a collective that lasts a given time from the last
// rank's arrival and holds no slots.
func (pl *Planner) GangFor(op *workload.Op, c *workload.Collective, rest trace.Time) *program.Kernel {
	g := pl.gangsOf(Piece{Coll: c, Index: Whole}, 1, everyone)[0]
	k := &program.Kernel{
		Name: op.Name, Kind: trace.Collective, WGs: 1, Free: true,
		Recipe: func(_ int, buf []program.Phase) []program.Phase {
			return append(meet(buf, op, c, g.arrive, int64(len(c.Members)), 0), program.Phase{Op: program.Sleep, Time: rest})
		},
	}
	pl.describe(k, op, Piece{Coll: c, Of: 1})
	return k
}

// meet has a member of a collective wait for all others at a flag. Of a message that buffers hold, only
// the receiver waits, for the sender (rule C29).
func meet(buf []program.Phase, op *workload.Op, c *workload.Collective, at program.Flag, members int64, way trace.Time) []program.Phase {
	if c.Sender == 0 || c.Sends(op) {
		buf = append(buf, program.Phase{Op: program.PostTo, Flag: at, Count: 1, Time: way})
	}
	switch {
	case c.Sender == 0:
		return append(buf, program.Phase{Op: program.WaitFor, Flag: at, Count: members})
	case c.Sends(op):
		return buf
	}
	return append(buf, program.Phase{Op: program.WaitFor, Flag: at, Count: 1})
}

// describe sets the attributes of a collective kernel that the simulated run shows.
func (pl *Planner) describe(k *program.Kernel, op *workload.Op, p Piece) {
	c := p.Coll
	pl.shown(k, op)
	comm := trace.Comm{Op: c.Op, Group: c.Group, Seq: c.Seq, Peer: trace.None}
	if m := pl.Workload.Run.Comm(pl.Workload.Run.Spans[op.Span]); m != nil {
		comm = *m
	}
	comm.In, comm.Out = p.share(c.In), p.share(c.Out)
	k.Comm = &comm
}

// Chunks cuts a captured collective into equal parts and sets their duration alone: the
// captured one, scaled by the library's times for the chunk's size and number of channels
// (rule C11). coRunner is the compute that may run alongside; nil: none.
func (pl *Planner) Chunks(c *workload.Collective, of, channels int, coRunner *workload.Op) Piece {
	return pl.PieceOf(Piece{Coll: c, Index: Whole, Of: of}, channels, coRunner)
}

// PieceOf sets the duration and the number of channels of a piece.
func (pl *Planner) PieceOf(p Piece, channels int, coRunner *workload.Op) Piece {
	c, bytes := p.Coll, p.share(p.Coll.Bytes)
	e := pl.Laws().Collective(c, bytes, channels)
	p.DurAlone, p.Channels = e.Alone, e.Channels
	p.Slowdown = 1
	if was := pl.capturedMover(c); pl.moverOf(c) == bySymmetric && was != bySymmetric {
		seconds, workgroups := symmetricKernel(&pl.Machine, c.Op, float64(bytes), len(c.Members))
		p.DurAlone = trace.Time(float64(c.TransferAlone()) * seconds / pl.timeBy(was, c, c.Channels))
		p.Channels = workgroups
	}
	if w := pl.algoProtoOf(c); w != (machine.AlgoProto{}) {
		p.DurAlone = trace.Time(float64(p.DurAlone) * pl.Laws().Channel(c, bytes, p.Channels, w).Time)
	}
	if coRunner != nil {
		pl.slow(&p, coRunner)
	}
	return p
}

// Collective is one rank's kernel of a piece: one workgroup per channel, which holds its
// slot from start to end and moves its share of the wire bytes once all ranks are there
// (rule C12).
func (pl *Planner) Collective(op *workload.Op, p Piece) *program.Kernel {
	c := p.Coll
	n := len(c.Members)
	x := pl.Laws().Channel(c, p.share(c.Bytes), p.Channels, pl.algoProtoOf(c))
	schedules := pl.channelSchedules(op, p, x.Between, x.Inside)
	alpha := min(p.DurAlone, x.Latency)
	wire := float64(c.Op.WireBytes(c.Bytes, n)) / float64(p.Of*p.Channels) * float64(max(1, p.Shares)) * x.Carried
	k := &program.Kernel{
		Name: op.Name, Kind: trace.Collective, Sharing: program.Sharing{Onset: p.onset},
		WGs: p.Channels, Footprint: pl.ChannelFootprint(op),
		Cluster: x.Together,
		Recipe: func(ch int, buf []program.Phase) []program.Phase {
			l := &schedules[ch]
			buf = append(meet(buf, op, c, l.arrive, l.members, 0), p.latency(alpha, int32(op.Rank)))
			read, written := machine.MemoryOf(c.Op, n)
			if l.pairwise {
				read, written = 1, 0
			}
			bytes, each := wire*l.share/float64(len(l.peers)), (p.DurAlone-alpha)/trace.Time(len(l.peers))
			// a local copy crosses no link (rule C20)
			if own := pl.Machine.Library.AllToAll.Receive.Or(0); l.members == 1 && n > 1 && own > 0 {
				each = min(each, Duration(bytes/own))
			}
			for i := range l.peers {
				peer := l.peers[(i+ch)%len(l.peers)]
				if c.Sender > 0 && !c.Sends(op) { // out of its own buffers
					peer = int32(op.Rank)
				}
				buf = append(buf, program.Phase{
					Op: program.Store, Peer: peer, Bytes: bytes, Time: each,
					Read: read * bytes, Write: written * bytes, Slowdown: p.Slowdown,
				})
			}
			return meet(buf, op, c, l.depart, l.members, 1) // the flag's way is part of DurAlone
		},
	}
	pl.describe(k, op, p)
	k.Setup.Grid = [3]int32{int32(p.Channels), 1, 1}
	return k
}

// latency is the phase of a channel before it moves bytes. The part of the co-run slowdown
// that does not depend on size is additional latency (rule I4).
func (p Piece) latency(alone trace.Time, self int32) program.Phase {
	if alone == 0 || p.late == 0 && p.Slowdown <= 1 {
		return program.Phase{Op: program.Sleep, Time: alone}
	}
	return program.Phase{Op: program.Store, Peer: self, Time: alone, Slowdown: p.Slowdown + float64(p.late)/float64(alone)}
}

// A channelSchedule is the work of one channel on one rank.
type channelSchedule struct {
	gang
	members  int64   // number of ranks in the gang
	peers    []int32 // destination GPUs
	share    float64 // of a channel's equal part of the wire bytes
	pairwise bool    // the copy of a rank to itself is another channel
}

// A group is the ranks of a collective, and how the machine joins them.
type group struct {
	ranks   []int32
	joined  machine.Topology
	nodes   Cluster // of the first rank
	cluster bool    // nodes holds
}

// groupOf is the group of a collective. Collectives of the same members share it.
func (pl *Planner) groupOf(c *workload.Collective) *group {
	if len(c.Members) == 0 {
		return &group{}
	}
	return pl.groups.Of(&c.Members[0], func() *group {
		g := &group{}
		for _, m := range c.Members {
			g.ranks = append(g.ranks, int32(pl.Workload.Ops[m].Rank))
		}
		g.joined = pl.Joining(g.ranks)
		g.nodes, g.cluster = pl.Cluster(g.ranks, 0)
		return g
	})
}

// RanksOf are the ranks of a collective's members, in order.
//
// Invariant: callers share them and do not change them.
func (pl *Planner) RanksOf(c *workload.Collective) []int32 { return pl.groupOf(c).ranks }

// channelSchedules returns a rank's schedules by channel. Each channel of a library's
// all-to-all serves one pair of ranks, or a rank's copy to itself, and leaves when that is
// done: while one of four ranks is late, 8 of 32 workgroups stay resident on the others;
// of two ranks, 16 (samples/measurements/2026-11-22-h200x4-models). If the number of ranks
// does not divide the channels, all wait for all (rule C3).
func (pl *Planner) channelSchedules(op *workload.Op, p Piece, between, inside float64) []channelSchedule {
	c, n, me := p.Coll, len(p.Coll.Members), int32(op.Rank)
	schedules := make([]channelSchedule, p.Channels)
	pairwise := c.Op == trace.AllToAll && n > 1 && p.Channels%n == 0
	share := float64(n) / float64(n-1) // all bytes, including the rank's own, relative to those on the wire
	for ch := range schedules {
		peers := pl.peers(op, c, ch, pl.algoProtoOf(c).Algorithm)
		switch peer := ch % n; {
		case !pairwise:
			schedules[ch] = channelSchedule{gang: pl.gangsOf(p, p.Channels, everyone)[ch], members: int64(n), peers: peers, share: inside}
			if pl.Machine.Node(int(peers[0])) != pl.Machine.Node(op.Rank) {
				schedules[ch].share = between
			}
		case peer == 0:
			schedules[ch] = channelSchedule{pl.gangsOf(p, p.Channels/n, rankPair{me, me})[ch/n], 1, []int32{me}, share, true}
		default:
			at := peers[peer-1]
			schedules[ch] = channelSchedule{
				pl.gangsOf(p, p.Channels/n, rankPair{min(me, at), max(me, at)})[ch/n],
				2,
				[]int32{at},
				share, true,
			}
		}
	}
	return schedules
}

// algoProtoOf is the algorithm and protocol that the library is set to for a collective;
// the zero value if none is set or the setting does not apply to the operation.
func (pl *Planner) algoProtoOf(c *workload.Collective) machine.AlgoProto {
	if pl.Machine.Library.Refuses(c.Op, pl.Machine.Fabric.Topology, pl.AlgoProto) != "" {
		return machine.AlgoProto{}
	}
	return pl.AlgoProto
}

// ChannelFootprint is the footprint of one channel's workgroup: as captured, else from the
// library's profile.
func (pl *Planner) ChannelFootprint(op *workload.Op) program.Footprint {
	if op.Footprint.Threads > 0 {
		return op.Footprint
	}
	lib := pl.Machine.Library
	return program.Footprint{Threads: int(lib.Threads.Value), Registers: int(lib.Registers.Value), Shared: int(lib.Shared.Value)}
}

// peers are the GPUs that a rank sends to through a channel: the next rank on a ring, or
// all other members. Between nodes every channel's ring leaves the node at another GPU, so
// that all NICs carry an equal share (rule C12). On a ring or torus every second channel goes
// the other way round, since links carry as much each way (rule C12).
func (pl *Planner) peers(op *workload.Op, c *workload.Collective, ch int, algorithm string) []int32 {
	g := pl.groupOf(c)
	me, member := slices.BinarySearch(c.Members, op.ID)
	if !member { // of what stands for the collective
		me = 0
	}
	ids, joined, n := g.ranks, g.joined, len(g.ranks)
	if n < 2 {
		return []int32{int32(op.Rank)}
	}
	ahead := func(n int) int { // distance to the next of n
		if joined.Passes() && ch%2 == 1 {
			return n - 1
		}
		return 1
	}
	if k := g.nodes.of(me); algorithm != "direct" && c.Op != trace.AllToAll && g.cluster && k.Nodes > 1 {
		leaves := ch % k.Per
		if k.Local == leaves {
			return []int32{ids[(k.Node+ahead(k.Nodes))%k.Nodes*k.Per+(leaves+1)%k.Per]}
		}
		// rings of several orders use all links: this channel's first is that to the GPU that leaves
		if pl.Machine.Fabric.Topology == machine.Mesh && k.Per > 2 {
			peers := make([]int32, k.Per-1)
			for i := range peers {
				peers[(ch+i)%len(peers)] = ids[k.Node*k.Per+(k.Local+1+((leaves-k.Local-1+k.Per)%k.Per+i)%len(peers))%k.Per]
			}
			return peers
		}
		return []int32{ids[k.Node*k.Per+(k.Local+1)%k.Per]}
	}
	if c.Op != trace.AllToAll && algorithm != "direct" && (algorithm != "" || pl.Machine.Fabric.Topology != machine.Mesh) {
		return []int32{ids[(me+ahead(n))%n]}
	}
	var peers []int32
	for i := range n - 1 {
		peers = append(peers, ids[(me+joined.Distance(i, n))%n])
	}
	return peers
}

// Joining is how the GPUs are joined: by the network if any two are on different nodes.
func (pl *Planner) Joining(gpus []int32) machine.Topology {
	for _, g := range gpus {
		if pl.Machine.Node(int(g)) != pl.Machine.Node(int(gpus[0])) {
			return pl.Machine.Network.Topology
		}
	}
	return pl.Machine.Fabric.Topology
}

// A Cluster is ranks on several nodes: local rank l of node q has index q·Per + l.
type Cluster struct {
	Nodes, Per  int
	Node, Local int // of this rank
}

// Cluster locates a rank. ok is false unless every node has equally many of the ranks and
// they are ordered by node.
func (pl *Planner) Cluster(ranks []int32, me int) (c Cluster, ok bool) {
	m := &pl.Machine
	c.Per = 1
	for c.Per < len(ranks) && m.Node(int(ranks[c.Per])) == m.Node(int(ranks[0])) {
		c.Per++
	}
	c.Nodes = len(ranks) / c.Per
	c = c.of(me)
	for i, r := range ranks {
		if m.Node(int(r)) != m.Node(int(ranks[i/c.Per*c.Per])) || i%c.Per == 0 && i > 0 && m.Node(int(r)) == m.Node(int(ranks[i-1])) {
			return c, false
		}
	}
	return c, c.Nodes*c.Per == len(ranks)
}

// of is the cluster of the rank with that index.
func (c Cluster) of(me int) Cluster {
	c.Node, c.Local = me/c.Per, me%c.Per
	return c
}

// At is the index of the rank i places further in the node d nodes further.
func (c Cluster) At(d, i int) int { return (c.Node+d)%c.Nodes*c.Per + (c.Local+i)%c.Per }

// slow sets the co-run slowdown of a piece alongside a compute operation.
func (pl *Planner) slow(p *Piece, coRunner *workload.Op) {
	parts := 1
	if p.Shares == 0 { // chunks of a collective run alongside chunks of the GEMM
		parts = p.Of
	}
	p.Slowdown, p.onset, p.late = pl.Laws().Beside(p.Coll, p.share(p.Coll.Bytes), p.Channels, coRunner, parts)
}

// meanCoRun is a piece with its mean co-run slowdown alongside several operations, by time.
func (pl *Planner) meanCoRun(p Piece, with []workload.CoRun) Piece {
	var all, factor, onset, late float64
	for _, r := range with {
		pl.slow(&p, &pl.Workload.Ops[r.Op])
		t := float64(r.Time)
		all, factor, late = all+t, factor+t*p.Slowdown, late+t*float64(p.late)
		onset += t * (p.Slowdown - 1) * p.onset
	}
	p.Slowdown, p.late, p.onset = factor/all, trace.Time(late/all), 0
	if added := factor - all; added > 0 {
		p.onset = onset / added
	}
	return p
}
