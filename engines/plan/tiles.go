package plan

import (
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Strategies that overlap inside of kernels are written in one notation. Tiles are computed in an order (Around, Cut).
// A tile that is done counts (Signal) towards a set of tiles, such as a row, a shard, a slice or a block. A mover sends
// the set once its counter says that it is complete: stores of the tiles, a copy engine, a NIC, or a communication
// kernel. A tile that needs a set waits for its counter (Await).

// A Side is a pair on one of its ranks, while its compute, and what moves its data, are written as one.
type Side struct {
	*Rank
	Pair          *Pair
	Compute, Comm *workload.Op
	On            *Stream    // of compute
	Gap           trace.Time // before the next command on it, when what both wait for has ended
	Ranks         []int32    // of the collective
	Me            int        // place among them
}

// SideOf begins the pair on the rank: its operations run as one, after the dependencies of both.
func (r *Rank) SideOf(p *Pair) Side {
	x := Side{Rank: r, Pair: p, Ranks: r.Planner.RanksOf(p.Coll)}
	x.Compute, x.Comm = r.Split(p)
	x.On, x.Me = r.Stream(x.Compute.Queue), max(0, slices.Index(x.Ranks, int32(r.ID)))
	r.BeginPair(p)
	first, second := r.ops(p)
	x.Gap = r.WaitUntilReady(x.On, x.Compute, slices.Concat(r.Dependencies(p, first), r.Dependencies(p, second)), r.ReplacedOps(p)...)
	return x
}

// End ends the pair, whose compute, and all around it, has ended on its stream and whose collective on another.
func (x *Side) End(on *Stream) {
	for _, op := range x.ReplacedOps(x.Pair) {
		if op.Collective >= 0 {
			x.Written(on, op)
		} else {
			x.Written(x.On, op)
		}
	}
	x.EndPair()
}

// WriteAsOne writes a pair as one kernel in place of all its operations, on the stream of its compute. then writes what
// else must end before they count as done, such as a wait for the peers; nil: nothing.
func (r *Rank) WriteAsOne(p *Pair, k *program.Kernel, then func(s *Stream)) {
	x := r.SideOf(p)
	x.On.Launch(x.Gap, LaunchOf(x.Compute, k))
	if then != nil {
		then(x.On)
	}
	x.End(x.On)
}

// Write launches a kernel in place of the compute operation, behind the library's fills.
func (x *Side) Write(k *program.Kernel) {
	x.On.Launch(x.WriteFills(x.On, x.Pair.FillsBefore[x.ID], x.Gap), LaunchOf(x.Compute, k))
}

// Copy starts a copy between two places of the ranks.
func (x *Side) Copy(on *Stream, name string, from, to int, bytes float64) {
	c := program.Copy{Name: name, Named: true, From: x.Ranks[from], Peer: x.Ranks[to], Bytes: bytes}
	on.Launch(0, program.Command{Op: program.Start, Name: x.Comm.Name, Origin: x.Comm.ID, Copy: &c})
}

// A Cut is N things in a row, in Parts of neighbours that are as equal as can be.
type Cut struct{ N, Parts int }

// Of is the part of the i-th thing.
func (c Cut) Of(i int) int { return i * c.Parts / c.N }

// From is the first thing of a part.
func (c Cut) From(part int) int { return machine.CeilDiv(part*c.N, c.Parts) }

// Around lists n places on a circle, from one on, each step places further.
func Around(n, from, step int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = ((from+i*step)%n + n) % n
	}
	return places
}

// Compute is work of a workgroup that takes a time alone and reads and writes so many bytes of memory.
func Compute(took trace.Time, read, write float64) program.Phase {
	return program.Phase{Op: program.Work, Time: took, Read: read, Write: write}
}

// Pause holds a workgroup for so many seconds, in which it uses nothing: a latency.
func Pause(seconds float64) program.Phase {
	return program.Phase{Op: program.Sleep, Time: Duration(seconds)}
}

// Await holds a workgroup until a counter has reached n.
func Await(f program.Flag, n int64) program.Phase {
	return program.Phase{Op: program.WaitFor, Flag: f, Count: n}
}

// Signal adds one to a counter once what the workgroup has stored can be seen; the timeline shows the mark.
func Signal(f program.Flag, mark string) program.Phase {
	return program.Phase{Op: program.PostTo, Flag: f, Count: 1, Mark: mark}
}

// PutTo hands bytes for a GPU to a copy engine or NIC and continues; the counter is posted there when they have arrived.
func PutTo(peer int32, bytes float64, arrived program.Flag) program.Phase {
	return program.Phase{Op: program.Put, Peer: peer, Bytes: bytes, Flag: arrived, Count: 1, Mark: "put"}
}

// StoreAt is a workgroup's store of so many bytes into the memory of a GPU, its own or a peer's, which only memory and
// links slow. StoreTo adds what packets and the issue of one workgroup cost.
func StoreAt(gpu int32, bytes float64) program.Phase {
	return program.Phase{Op: program.Store, Peer: gpu, Bytes: bytes}
}
