package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// naive is the simulator again, written to be obvious instead of fast: no
// classes, no event queue, no incremental anything. At every instant it looks at
// every actor and shares every resource anew among single flows.
type naive struct {
	m       machine.Machine
	p       *program.Program
	now     program.Time
	round   int
	actors  []*nactor // streams, then channels, then workgroups as they come
	streams []*nactor
	queue   []*nactor
	flags   map[program.Flag]int64
	waiters []nwait // in the order in which they began to wait
	posts   []npost
	gpus    []*ngpu
	orders  int
	nics    map[string]program.Time // when each takes its next message
	flagged map[int]program.Time    // by GPU: when it sends its next flag to a peer
	ways    map[nkey]map[string]float64
	log     []string
	end     program.Time
	ledger  nledger
	rounded bool // some flow ended between two nanoseconds
	stuck   bool // streams have not come to their end
}

type ngpu struct {
	cus   []*ncu
	line  []*nkernel
	taken int // engines
	wants []*nactor

	commShare float64 // that the kernel which started last and states one set; 0: none has
}

type ncu struct {
	free  program.CUResources
	wgs   []*nactor
	freed int
	left  bool // by some workgroup, in this instant, or held for one until now
}

type nkernel struct {
	k                   *program.Kernel
	gpu, order, prio    int
	placed, gone, asked int
	fresh, begun        bool
	start               program.Time
	stream              *nactor
}

type nwait struct {
	who   *nactor
	flag  program.Flag
	count int64
}

type npost struct {
	at    program.Time
	flag  program.Flag
	count int64
	from  *program.Kernel
	rank  int
}

// An nactor is a stream, a channel of puts, or a workgroup.
type nactor struct {
	kind actorKind
	gpu  int

	// What it waits for: a time, a flag, or a flow's end.
	at      program.Time // or -1
	flow    *nflow
	last    nflow // the one before
	lastEnd int   // the round in which it ended

	// Streams.
	st     *program.Stream
	index  int
	next   int
	step   int
	start  program.Time
	engine bool // of streams and channels
	copied bool // its last command was a copy

	// Channels.
	peer  int
	puts  []program.Phase
	from  []*program.Kernel // of puts
	sent  bool              // the first is
	wants bool              // the first waits for an engine

	// Workgroups.
	kernel *nkernel
	cu     *ncu
	cuAt   int
	wg     int
	young  bool // of two on the CU
	stage  int
	rounds int
	tile   int
	begun  program.Time
	phases []program.Phase
	phase  int
	in     bool // in the phase, not before it
	seen   program.Time
	to     int // that the flags behind it go to: a GPU more than 0 away, or the first stored to
}

// An nkey is what bounds a flow.
type nkey struct {
	from, to, cu, launch                                   int32
	side                                                   string
	limit, slow, read, write, cache, onset, beside, weight float64 // limit 0: time only
}

func (k *nkey) timed() bool { return k.limit == 0 }

// way is where its bytes go.
func (k *nkey) way() nkey {
	w := nkey{from: k.from, to: k.to, side: k.side, read: k.read, write: k.write, cache: k.cache}
	if !k.timed() {
		w.limit = 1
	}
	return w
}

func (k *nkey) alone() float64 {
	if k.timed() {
		return 1
	}
	return k.limit
}

type nflow struct {
	key  nkey
	left float64
	rate float64
}

func newNaive(m machine.Machine, p *program.Program) *naive {
	n := &naive{m: m, p: p, flags: map[program.Flag]int64{}, nics: map[string]program.Time{}, flagged: map[int]program.Time{}, ways: map[nkey]map[string]float64{}, ledger: newNledger()}
	for g := range p.GPUs {
		gp := &ngpu{}
		for range int(m.GPU.CUs.Value) {
			gp.cus = append(gp.cus, &ncu{free: n.empty()})
		}
		n.gpus = append(n.gpus, gp)
		for i := range p.GPUs[g].Streams {
			a := &nactor{kind: dueStream, gpu: g, st: &p.GPUs[g].Streams[i], index: len(n.streams), at: -1, lastEnd: -1}
			n.streams = append(n.streams, a)
		}
	}
	return n
}

func runNaive(m machine.Machine, p *program.Program) *naive {
	n := newNaive(m, p)
	n.actors = append(n.actors, n.streams...)
	for from := range p.GPUs {
		for to := range p.GPUs {
			n.actors = append(n.actors, &nactor{kind: duePut, gpu: from, peer: to, index: from*len(p.GPUs) + to, at: -1, lastEnd: -1})
		}
	}
	n.queue = append(n.queue, n.streams...)
	for {
		n.drain()
		for n.dispatch() {
			n.drain()
		}
		n.share()
		if !n.advance() {
			break
		}
	}
	for _, a := range n.streams {
		n.stuck = n.stuck || a.next < len(a.st.Commands)
	}
	slices.Sort(n.log)
	return n
}

// due is when the actor's time or flow ends.
func (n *naive) due(a *nactor) program.Time {
	if a.at >= 0 {
		return a.at
	}
	if a.flow != nil && a.flow.rate > 0 { // else an arbiter gives it nothing at present
		return max(n.now, n.now+program.Time(math.Ceil(a.flow.left/a.flow.rate-fluid.Slack)))
	}
	return math.MaxInt64
}

func (n *naive) advance() bool {
	next := program.Time(math.MaxInt64)
	for _, a := range n.actors {
		next = min(next, n.due(a))
	}
	for _, p := range n.posts {
		next = min(next, p.at)
	}
	if next == math.MaxInt64 {
		return false
	}
	n.pass(next - n.now)
	n.round++
	n.queue = nil
	for _, a := range n.actors {
		if n.due(a) == next {
			n.queue = append(n.queue, a)
		}
	}
	for _, a := range n.actors {
		if a.flow != nil {
			a.flow.left -= a.flow.rate * float64(next-n.now)
		}
	}
	n.now = next
	for _, a := range n.queue {
		a.at = -1
		if a.flow != nil {
			n.rounded = n.rounded || math.Abs(a.flow.left) > 1e-9*a.flow.rate
			a.last, a.lastEnd, a.flow = *a.flow, n.round, nil
		}
	}
	slices.SortStableFunc(n.queue, func(a, b *nactor) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.order(), b.order()))
	})
	posts := n.posts
	n.posts = nil
	for _, p := range posts {
		if p.at == n.now {
			n.post(p.flag, p.count)
		} else {
			n.posts = append(n.posts, p)
		}
	}
	return true
}

func (a *nactor) order() int {
	if a.kind == dueWorkgroup {
		return a.kernel.order<<32 | a.wg
	}
	return a.index
}

func (n *naive) drain() {
	for len(n.queue) > 0 {
		a := n.queue[0]
		n.queue = n.queue[1:]
		switch a.kind {
		case dueStream:
			for a.next < len(a.st.Commands) && n.command(a, &a.st.Commands[a.next]) {
				a.next++
				a.step = 0
			}
		case duePut:
			switch {
			case a.wants:
				a.wants = false
				n.putNext(a)
			case a.sent:
				n.putArrived(a)
			default:
				n.putSend(a)
			}
		case dueWorkgroup:
			n.workgroup(a)
		}
	}
}

func (n *naive) post(f program.Flag, count int64) {
	n.flags[f] += count
	var released, rest []nwait
	for _, w := range n.waiters {
		if w.flag == f && w.count <= n.flags[f] {
			released = append(released, w)
		} else {
			rest = append(rest, w)
		}
	}
	n.waiters = rest
	slices.SortStableFunc(released, func(a, b nwait) int { return cmp.Compare(a.count, b.count) })
	for _, w := range released {
		n.queue = append(n.queue, w.who)
	}
}

// postLater adds to the flag's latest post where it is of the same kernel and instant.
func (n *naive) postLater(delay program.Time, f program.Flag, count int64, from *program.Kernel, rank int) {
	if delay == 0 || f == program.NoFlag {
		n.post(f, count)
		return
	}
	p := npost{n.now + delay, f, count, from, rank}
	for i := range slices.Backward(n.posts) {
		last := &n.posts[i]
		if last.flag == f {
			if last.at == p.at && last.from == from && last.rank == rank {
				last.count += count
				return
			}
			break
		}
	}
	n.posts = append(n.posts, p)
}

func (n *naive) write(what string, gpu, at int, name string, start program.Time) {
	n.end = max(n.end, n.now)
	n.log = append(n.log, fmt.Sprintf("%s gpu %d at %d %s: %d-%d", what, gpu, at, name, start, n.now))
}

func (n *naive) flow(a *nactor, k nkey, size float64) {
	if a.lastEnd == n.round && a.last.key.way() == k.way() && a.last.rate < min(a.last.key.alone(), k.alone())*(1-1e-9) {
		size += a.last.left
	}
	a.flow = &nflow{key: k, left: size}
}
