package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A part is a piece of a captured collective, on all its ranks: the whole, or
// one chunk of it.
type part struct {
	coll     *workload.Collective
	index    int // which chunk, or whole
	of       int // equal shares that its bytes are counted in
	take     int // of them this part has; 0 stands for 1
	alone    trace.Time
	channels int
	beside   float64    // factor on its time while compute has the CUs that it leaves; 0 or 1: none
	onset    float64    // the part of what that adds which the first workgroup of a product is enough for
	late     trace.Time // what that adds besides, once
}

// share is the part's share of the whole's bytes.
func (p part) share(bytes int64) int64 { return bytes * int64(max(1, p.take)) / int64(p.of) }

// whole is the index of a part that is all of its collective.
const whole = -1

// A gang is one channel of a part on all ranks, or all of a part that is not cut
// into channels. Its bytes move once it is resident on every rank, and its
// workgroups leave together (MECHANISM B1, MODEL_STUDY R3). Channels do not wait
// for each other, since each has its own share of the buffer: of 24 beside a
// product on 112 of 132 CUs, 20 finish while it runs, and only four run on into
// the next product (samples/measurements/2026-11-21-h200x2-third, qwen7b_fc2 in 8 chunks).
type gang struct {
	arrive, depart replay.Flag
}

type gangKey struct {
	coll    *workload.Collective
	index   int
	channel int
	pair    rankPair
}

// A rankPair is two ranks that have a channel of their own, the lesser first, or twice
// the one that has; everyone where a channel is of all ranks.
type rankPair [2]int32

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

func (pl *planner) gang(p part, channel int, of rankPair) *gang {
	key := gangKey{p.coll, p.index, channel, of}
	if g, ok := pl.gangs[key]; ok {
		return g
	}
	name := p.coll.Op.String()
	if p.index >= 0 {
		name = fmt.Sprintf("%s chunk %d", name, p.index)
	}
	g := &gang{
		arrive: pl.p.NewFlag(fmt.Sprintf("channel %d of %s %d resident on %s", channel, name, p.coll.Seq, of)),
		depart: pl.p.NewFlag(fmt.Sprintf("channel %d of %s %d finished on %s", channel, name, p.coll.Seq, of)),
	}
	pl.gangs[key] = g
	return g
}

// measuredCollective waits for its peers and then takes what was measured from
// the last arrival to this rank's end.
func (pl *planner) measuredCollective(op *workload.Op) *replay.Kernel {
	c := &pl.w.Collectives[op.Collective]
	return pl.gangFor(op, c, op.End-c.Arrive)
}

// gangFor is one rank's part of a collective that takes a time from the arrival
// of the last rank, and holds nothing.
func (pl *planner) gangFor(op *workload.Op, c *workload.Collective, rest trace.Time) *replay.Kernel {
	g := pl.gang(part{coll: c, index: whole}, 0, everyone)
	k := &replay.Kernel{
		Name: op.Name, Kind: trace.Collective, WGs: 1, Free: true,
		Recipe: func(_ int, buf []replay.Phase) []replay.Phase {
			return append(buf,
				replay.Phase{Op: replay.PostTo, Flag: g.arrive, Count: 1},
				replay.Phase{Op: replay.WaitFor, Flag: g.arrive, Count: int64(len(c.Members))},
				replay.Phase{Op: replay.Sleep, Time: rest})
		},
	}
	pl.describe(k, op, part{coll: c, of: 1})
	return k
}

// describe fills in what the simulated run shows of a collective kernel.
func (pl *planner) describe(k *replay.Kernel, op *workload.Op, p part) {
	c := p.coll
	span := pl.w.Run.Spans[op.Span]
	if a := pl.w.Run.Kernel(span); a != nil {
		k.Attr = *a
	}
	comm := trace.Comm{Op: c.Op, Group: c.Group, Seq: c.Seq, Peer: trace.None}
	if m := pl.w.Run.Comm(span); m != nil {
		comm = *m
	}
	comm.In, comm.Out = p.share(c.In), p.share(c.Out)
	k.Comm = &comm
}

// channels is how many workgroups the library used, or would.
func (pl *planner) channels(c *workload.Collective) int {
	if c.Channels > 0 {
		return c.Channels
	}
	return max(1, pl.m.Library.ChannelsFor(c.Op, c.Bytes))
}

// chunks cuts a captured collective into equal parts and says how long each takes
// alone: its measured time, scaled by what the library is known to take for the
// smaller size and the number of channels (MODEL_STUDY R6). beside is the compute
// that may be resident with it; nil: none.
func (pl *planner) chunks(c *workload.Collective, of, channels int, beside *workload.Op) part {
	return pl.piece(part{coll: c, index: whole, of: of}, channels, beside)
}

// piece fills in how long a part of a collective takes, and on how many channels.
func (pl *planner) piece(p part, channels int, beside *workload.Op) part {
	c := p.coll
	captured := pl.channels(c)
	if channels == 0 {
		channels = captured
	}
	lib, n := &pl.m.Library, len(c.Members)
	bytes := p.share(c.Bytes)
	channels = lib.Runs(c.Op, channels)
	p.channels, p.alone, p.beside = min(channels, max(1, lib.ChannelsFor(c.Op, bytes))), c.TransferAlone(), 1
	if bytes != c.Bytes || channels != captured { // else the captured time stands
		pl.m.Asked.Add(machine.Question{Kind: machine.AboutCollective, Op: c.Op, Bytes: bytes, Ranks: n, Channels: channels})
		pl.m.Asked.Add(machine.Question{Kind: machine.AboutCollective, Op: c.Op, Bytes: c.Bytes, Ranks: n, Channels: captured})
	}
	if from := lib.Time(c.Op, c.Bytes, n, captured); from > 0 {
		p.alone = trace.Time(float64(p.alone) * lib.Slowed(pl.m.Pace).Time(c.Op, bytes, n, channels) / from)
	}
	if w := pl.wayOf(c); w != (machine.Way{}) {
		p.alone = trace.Time(float64(p.alone) * lib.Relative(c.Op, bytes, n, p.channels, w))
	}
	if beside != nil {
		parts := 1
		if p.take == 0 { // chunks of a collective run beside chunks of the product
			parts = p.of
		}
		q := machine.Question{Kind: machine.AboutBeside, Op: c.Op, Bytes: bytes, Ranks: n, Channels: p.channels, With: pl.neighbour(beside, parts)}
		if sh := beside.Shape; sh.Kind == workload.GEMM {
			q.M, q.N, q.K, q.DType = rowsOf(beside, 0, parts), sh.N, sh.K, sh.DType
		}
		pl.m.Asked.Add(q)
		factor, onset, latency := lib.Beside(c.Op, bytes, n, p.channels, q.With)
		p.beside, p.onset, p.late = factor, onset, duration(latency)
	}
	return p
}

// neighbour says what kind of compute a collective runs beside, if it is cut
// into so many parts: what the matrix library wrote, other matrix kernels, or
// kernels bound by memory, as are products of few rows.
func (pl *planner) neighbour(op *workload.Op, parts int) machine.Neighbour {
	sh := op.Shape
	switch {
	case sh.Kind != workload.GEMM, parts > 1 && pl.m.Tiling(rowsOf(op, 0, parts), sh.N, sh.K).InMemory:
		return machine.BesideMemory
	case op.Tiling.Persistent:
		return machine.BesideLibrary
	}
	return machine.BesideTiles
}

// collective is one rank's kernel of a part: a workgroup a channel, holding its
// slot from start to end, moving its share of the wire bytes once it is on all ranks.
func (pl *planner) collective(op *workload.Op, p part) *replay.Kernel {
	c := p.coll
	n := len(c.Members)
	lots := pl.lots(op, p)
	alpha := min(p.alone, duration(pl.m.Library.Time(c.Op, 0, n, 0)))
	way := pl.wayOf(c)
	wire := float64(c.Op.WireBytes(c.Bytes, n)) / float64(p.of*p.channels) * float64(max(1, p.take)) * pl.m.Library.Carried(way)
	k := &replay.Kernel{
		Name: op.Name, Kind: trace.Collective, Onset: p.onset, WGs: p.channels, Footprint: pl.channelFootprint(op),
		Cluster: pl.startsTogether(pl.m.Library.Clusters(p.channels)),
		Recipe: func(ch int, buf []replay.Phase) []replay.Phase {
			l := &lots[ch]
			buf = append(buf,
				replay.Phase{Op: replay.PostTo, Flag: l.arrive, Count: 1},
				replay.Phase{Op: replay.WaitFor, Flag: l.arrive, Count: l.members},
				p.latency(alpha, int32(op.Rank)))
			read, written := machine.MemoryOf(c.Op, n)
			if l.alone {
				read, written = 1, 0
			}
			bytes, each := wire*l.share/float64(len(l.peers)), (p.alone-alpha)/trace.Time(len(l.peers))
			if own := pl.m.Library.AllToAll.Receive.Or(0); l.members == 1 && n > 1 && own > 0 { // a copy crosses no link
				each = min(each, duration(bytes/own))
			}
			for i := range l.peers {
				buf = append(buf, replay.Phase{
					Op: replay.Store, Peer: l.peers[(i+ch)%len(l.peers)], Bytes: bytes, Time: each,
					Read: read * bytes, Write: written * bytes, Beside: p.beside,
				})
			}
			return append(buf,
				replay.Phase{Op: replay.PostTo, Flag: l.depart, Count: 1},
				replay.Phase{Op: replay.WaitFor, Flag: l.depart, Count: l.members})
		},
	}
	pl.describe(k, op, p)
	k.Attr.Grid = [3]int32{int32(p.channels), 1, 1}
	return k
}

// latency is the phase of a channel in which it moves nothing yet. What compute
// beside a collective adds whatever its size is a longer latency.
func (p part) latency(alone trace.Time, self int32) replay.Phase {
	if alone == 0 || p.late == 0 && p.beside <= 1 {
		return replay.Phase{Op: replay.Sleep, Time: alone}
	}
	return replay.Phase{Op: replay.Store, Peer: self, Time: alone, Beside: p.beside + float64(p.late)/float64(alone)}
}

// A lot is what one channel does on one rank.
type lot struct {
	*gang
	members int64   // ranks of the gang
	peers   []int32 // GPUs it sends to
	share   float64 // of the wire bytes of a channel, which are those of all over their number
	alone   bool    // a rank's copy to itself is another channel's
}

// lots are a rank's by channel. Each channel of a library's all-to-all serves one
// pair of ranks, or a rank's copy to itself, and leaves when that is done: while one
// of four ranks is late, 8 of 32 workgroups stay on the others; one of two, 16
// (samples/measurements/2026-11-22-h200x4-models). Where ranks do not divide the
// channels, all wait for all.
func (pl *planner) lots(op *workload.Op, p part) []lot {
	c, n, me := p.coll, len(p.coll.Members), int32(op.Rank)
	lots := make([]lot, p.channels)
	pairwise := c.Op == trace.AllToAll && n > 1 && p.channels%n == 0
	share := float64(n) / float64(n-1) // bytes, one's own among them, over those on the wire
	for ch := range lots {
		peers := pl.peers(op, c, ch, pl.wayOf(c).Algorithm)
		switch peer := ch % n; {
		case !pairwise:
			lots[ch] = lot{gang: pl.gang(p, ch, everyone), members: int64(n), peers: peers, share: 1}
		case peer == 0:
			lots[ch] = lot{pl.gang(p, ch/n, rankPair{me, me}), 1, []int32{me}, share, true}
		default:
			at := peers[peer-1]
			lots[ch] = lot{pl.gang(p, ch/n, rankPair{min(me, at), max(me, at)}), 2, []int32{at}, share, true}
		}
	}
	return lots
}

// wayOf is how the library is told to move a collective; the zero value where it
// is not told, or the way is none for that operation.
func (pl *planner) wayOf(c *workload.Collective) machine.Way {
	if pl.m.Library.Refuses(c.Op, pl.m.Fabric.Topology, pl.way) != "" {
		return machine.Way{}
	}
	return pl.way
}

// channelFootprint is what one channel's workgroup takes: as captured, or as the library's profile says.
func (pl *planner) channelFootprint(op *workload.Op) replay.Footprint {
	if op.Footprint.Threads > 0 {
		return op.Footprint
	}
	lib := pl.m.Library
	return replay.Footprint{Threads: int(lib.Threads.Value), Registers: int(lib.Registers.Value), Shared: int(lib.Shared.Value)}
}

// peers are the GPUs a rank sends to through a channel: its neighbour on a ring,
// or, pairwise, every other member. Over several nodes every channel's ring
// leaves them from another GPU, so that all NICs carry their share.
func (pl *planner) peers(op *workload.Op, c *workload.Collective, ch int, algorithm string) []int32 {
	var ids []int32
	me := 0
	for i, m := range c.Members {
		ids = append(ids, int32(pl.w.Ops[m].Rank))
		if m == op.ID {
			me = i
		}
	}
	n := len(ids)
	if n < 2 {
		return []int32{int32(op.Rank)}
	}
	if k, ok := pl.cluster(ids, me); algorithm != "direct" && c.Op != trace.AllToAll && ok && k.nodes > 1 {
		if leaves := ch % k.per; k.local == leaves {
			return []int32{ids[(k.node+1)%k.nodes*k.per+(leaves+1)%k.per]}
		}
		return []int32{ids[k.node*k.per+(k.local+1)%k.per]}
	}
	if c.Op != trace.AllToAll && algorithm != "direct" && (algorithm != "" || pl.m.Fabric.Topology != machine.Mesh) {
		return []int32{ids[(me+1)%n]}
	}
	var peers []int32
	for i := 1; i < n; i++ {
		peers = append(peers, ids[(me+i)%n])
	}
	return peers
}
