package replay

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A stream is the state of one of the program's streams.
type stream struct {
	*program.Stream
	fluid.Member
	gpu        int32
	index      int32 // index in the GPU's streams
	next       int   // index in Commands
	step       int   // step of the current command
	alarm      alarm
	since      program.Time // time at which the current step began
	launch     int32        // of the running kernel, or none
	awaited    poster       // poster of the flag that released it
	posted     program.Flag // the flag that it posted, as the poster names it
	engine     int32        // of the running copy, or none
	span       spanRef
	moves      spanRef // the copy's span on its engine's lane
	copied     bool    // a copy ended last, and nothing was launched or waited for since
	idle       []Idle
	posters    []posted // by idle interval
	causeEvent int32    // event that put it in its current state, if causes are recorded
}

// The steps of a command. Launches and copies use all of them.
const (
	arrived = iota // the previous command has ended
	ready          // its gap has passed
	issued         // a kernel has been launched; a copy has its engine
	moving         // a copy's bytes are being transferred
	ended
)

// stepStream runs commands until the stream has to wait (rule S1).
func (s *sim) stepStream(id int32) {
	st := &s.streams[id]
	for st.next < len(st.Commands) && s.err == nil {
		c := &st.Commands[st.next]
		s.causes.follow(st.causeEvent)
		if !s.stepCommand(id, st, c) {
			return
		}
		st.next++
		st.step, st.since = arrived, s.now
	}
}

// stepCommand reports whether the command has ended. If not, it has set what will step it
// again.
func (s *sim) stepCommand(id int32, st *stream, c *program.Command) bool {
	switch c.Op {
	case program.Post:
		s.post(c.Flag, c.Count, poster{stream: id})
		return true
	case program.Wait:
		return s.stepWait(id, st, c)
	case program.Delay:
		if s.gap(id, st, c.Delay) {
			return false
		}
		s.paused(id, st, c.Why, Delaying)
		return true
	}
	if st.step == arrived {
		if s.gap(id, st, c.Delay) {
			return false
		}
		st.step = ready
	}
	if st.step == ready {
		s.paused(id, st, program.LaunchGap, Launching)
		st.since, st.step = s.now, issued
		if c.Op == program.Launch {
			st.copied = false
			s.launch(id, st, c)
			return false
		}
	}
	if c.Op == program.Launch {
		st.launch = none
		return true
	}
	return s.stepCopy(id, st, c)
}

// gap waits for the command's delay once; true while it waits (rule S2).
func (s *sim) gap(id int32, st *stream, d program.Time) bool {
	if st.step != arrived || d == 0 {
		return false
	}
	st.step = ready
	s.wakeAt(&st.alarm, s.now+d, actor{dueStream, id})
	return true
}

func (s *sim) stepWait(id int32, st *stream, c *program.Command) bool {
	if st.step == arrived {
		st.step = ready
		there := s.await(c.Flag, c.Count, actor{dueStream, id})
		st.copied = st.copied && there
		return there
	}
	s.reached(id, st, c.Flag)
	return true
}

// wholePipe is the pipe capacity of one CU. Shares are integers in this unit, so that sums
// return to exactly 0.
const wholePipe = 1 << 30

// A launch is a kernel from the time at which its stream reaches it until its last
// workgroup has left. Fields that every phase reads come first.
type launch struct {
	kernel      *program.Kernel
	gpu         int32
	order       int32 // among all launches
	owned       int   // tiles that are fixed to each workgroup (Kernel.Owned)
	ticket      int   // next tile that is not fixed to a workgroup
	working     int   // workgroups in a Work or Store phase
	uncommitted uncommitted
	recent      [2]recentPath // for plain Work and Store phases
	batches     bool          // its workgroups are stepped in batches
	batch       int32         // batch of this dispatch, or none
	pipe        int64         // pipe share of one workgroup's work, in units of 1/wholePipe

	occupies int64 // CU share of one working workgroup, same units

	command *program.Command
	stream  int32
	placing
	ready   program.Time
	gone    int   // workgroups that have left
	checked bool  // Kernel.Each
	laneSet int32 // of a persistent kernel: index of its lanes among those running on the GPU
	recorded
}

// placing is how far the workgroups of a launch have got slots, and what they need.
type placing struct {
	priority     int
	need         program.CUResources
	full         program.Time // when its last workgroup was placed
	placed       int          // workgroups that have started
	fresh        bool
	cluster      int     // workgroups placed together; 0: no clusters
	clusterOrder []int32 // order in which clusters start; nil: by number
}

// recorded is where observers note a launch.
type recorded struct {
	holders    string // kernels that held the slots when it first found none
	row        int32  // of the ledger
	span       spanRef
	causeEvent int32 // of the launch, if causes are recorded
	commandRef int32
}

// launch makes the stream's kernel ready. A kernel without workgroups ends at once
// (rule I8).
func (s *sim) launch(stream int32, st *stream, c *program.Command) {
	id := s.kernels.add()
	l := s.kernels.at(id)
	k := c.Kernel
	*l = launch{
		kernel: k, command: c, gpu: st.gpu, stream: stream, order: s.launches,
		placing: placing{priority: st.Priority}, ready: s.now, laneSet: none,
		recorded: recorded{row: s.ledger.row(k.Name)}, recent: [2]recentPath{{path: none}, {path: none}},
	}
	s.launches++
	st.launch, l.batches = id, s.inBatches(st.gpu, k)
	s.gpus[st.gpu].woken = s.causes.launched(l, st)
	if !k.Free {
		l.need = k.Footprint.Need(&s.machine.GPU)
		l.pipe = pipeShare(k.Pipe)
		l.occupies = l.pipe
		if k.Cluster > 1 && s.groups.of != nil {
			l.cluster, l.clusterOrder = k.Cluster, s.groups.clusterOrder(k)
		}
	}
	if k.Free && k.WGs > 0 { // it stands for a captured kernel that uses the whole GPU
		l.occupies = int64(len(s.gpus[st.gpu].cus)) * wholePipe / int64(k.WGs)
	}
	if k.Tiles > 0 {
		l.owned, l.ticket = tilesOwned(k)
		l.laneSet = s.gpus[st.gpu].takeLaneSet()
	}
	if k.WGs == 0 {
		s.begin(l)
		s.end(id)
		return
	}
	s.enqueue(id)
}

// A recentPath is the path that a kernel used last to reach a GPU.
type recentPath struct{ to, path int32 }

// pathOf is the path of a phase's bytes. Plain phases (neither cached nor
// updating, without local memory traffic of a store) mostly take the path of the
// kernel's last such phase. Without this cache BenchmarkEmbedding/gpus=8/even=true
// takes 1.2 times as long, and with a library sort of due actors 1.43 times.
func (s *sim) pathOf(l *launch, p *program.Phase) int32 {
	to := p.Peer
	if p.Op == program.Work {
		to = l.gpu
	}
	if p.Update || p.Op == program.Work && p.Hit > 0 || p.Op == program.Store && p.Read+p.Write > 0 {
		return s.flows.pathTo(s.pathKeyOf(l, p))
	}
	last := &l.recent[p.Op]
	if last.path == none || last.to != to {
		*last = recentPath{to, s.flows.pathTo(s.pathKeyOf(l, p))}
	}
	return last.path
}

func pipeShare(share float64) int64 {
	if share == 0 {
		return wholePipe
	}
	return int64(min(share, 1024) * wholePipe)
}

// begin starts the kernel with its first workgroup.
func (s *sim) begin(l *launch) {
	s.kernelBegan(l)
	s.beginShare(l)
}

// end ends the kernel when its last workgroup has left, and lets the stream continue.
func (s *sim) end(id int32) {
	l := s.kernels.at(id)
	s.kernelEnded(l)
	if l.laneSet != none {
		s.gpus[l.gpu].laneSets[l.laneSet] = false
	}
	s.queue = append(s.queue, actor{dueStream, l.stream})
	s.kernels.drop(id)
	l.kernel = nil
}

func (g *gpu) takeLaneSet() int32 {
	at := slices.Index(g.laneSets, false)
	if at < 0 {
		at = len(g.laneSets)
		g.laneSets = append(g.laneSets, false)
	}
	g.laneSets[at] = true
	return int32(at)
}

// tilesOwned returns the number of tiles fixed to each workgroup and the first tile that
// is not fixed.
func tilesOwned(k *program.Kernel) (each, next int) {
	if k.WGs == 0 {
		return 0, k.Tiles
	}
	rounds := (k.Tiles + k.WGs - 1) / k.WGs
	if k.Owned < 0 || k.Owned >= rounds {
		return math.MaxInt, k.Tiles
	}
	return k.Owned, k.Owned * k.WGs
}
