package edit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Resized is a group of a job that has another number of ranks (rule Y7). Ranks of the job
// are a grid. The group and those parallel to it are the lines along one axis of it, and the
// axis gets longer or shorter:
//
//	ranks 0 1      group 0,2 and 1,3       ranks 0 1
//	      2 3      with 3 ranks each             2 3
//	                                             4 5
type Resized struct {
	Group string // name; "" for all ranks
	Was   int    // captured number of ranks
	Ranks int
	World int // ranks of the job

	stride  int            // between neighbours of the group
	sharded bool           // the group gathers and scatters shards of parameters
	groups  map[int32]bool // rows of Run.Groups whose ranks change in number; -1: collectives without a group
}

// Ranks returns the run of a job in which one group has n ranks, and what has changed. The
// group is given by name; "" and "dp" are the data-parallel one, or the only one in use. The run has the captured ranks only:
// the others are copies of these. world is the number of ranks of the captured job.
func Ranks(run *trace.Run, world int, group string, n int) (*trace.Run, *Resized, error) {
	row, err := chosen(run, world, group)
	if err != nil {
		return nil, nil, err
	}
	z := &Resized{Was: world, Ranks: n, stride: 1, groups: map[int32]bool{}}
	if row >= 0 {
		z.Group = run.Groups[row].Name
		if n != len(ranks(run.Groups[row], world)) && passesOn(run, row) {
			return nil, nil, fmt.Errorf("group %q: its ranks pass whole buffers on, as ring attention does: in a group of another size "+
				"each would compute with more or fewer of them", z.Group)
		}
		if err := z.alongside(run.Groups[row], world); err != nil {
			return nil, nil, err
		}
	}
	if z.Was < 2 {
		return nil, nil, fmt.Errorf("the trace has one rank and no collectives")
	}
	if z.World = world / z.Was * n; n < 2 || z.World > machine.MaxGPUs {
		return nil, nil, fmt.Errorf("%d ranks make a job of %d (want 2 to %d ranks)", n, z.World, machine.MaxGPUs)
	}
	resized := *run
	resized.Ranks, resized.Groups, resized.Comms = slices.Clone(run.Ranks), slices.Clone(run.Groups), slices.Clone(run.Comms)
	for i := range resized.Ranks {
		r := &resized.Ranks[i]
		if r.World = z.World; r.ID >= 0 {
			if z.coordinate(r.ID) >= n {
				return nil, nil, fmt.Errorf("the trace holds rank %d, which a group of %d does not have", r.ID, n)
			}
			r.ID = z.moved(r.ID, z.coordinate(r.ID))
		}
	}
	for i := range resized.Groups {
		z.group(&resized.Groups[i], int32(i), world)
	}
	for i := range resized.Comms {
		z.comm(&resized.Comms[i], world)
	}
	return &resized, z, nil
}

// dataParallel are parts of what programs call a group of data parallelism: PyTorch's
// DeviceMesh (mesh_dp, mesh_dp_shard), Megatron (DATA_PARALLEL_GROUP), FSDP and DDP.
var dataParallel = []string{"dp", "data", "ddp", "fsdp"}

func isDataParallel(doc string) bool {
	words := strings.FieldsFunc(strings.ToLower(doc), func(r rune) bool { return r < 'a' || r > 'z' })
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(dataParallel, w) })
}

// chosen is the row of the group with a name or, for "" and "dp", of the only one in use, or
// the only one that the program calls data-parallel; -1 for collectives without a group.
func chosen(run *trace.Run, world int, name string) (int32, error) {
	var rows []int32
	for i := range run.Comms {
		if c := &run.Comms[i]; c.Op != trace.SendRecv && !slices.Contains(rows, c.Group) {
			rows = append(rows, c.Group)
		}
	}
	slices.Sort(rows)
	unknown := func(c trace.Comm) bool { return c.Group < 0 && c.Bytes() > 0 }
	if len(rows) > 1 && rows[0] < 0 && !slices.ContainsFunc(run.Comms, unknown) { // launched before the profiler recorded
		rows = rows[1:]
	}
	var names []string
	for _, row := range rows {
		if row < 0 {
			continue
		}
		g := run.Groups[row]
		if name != "" && (strings.EqualFold(g.Name, name) || strings.EqualFold(g.Doc, name)) {
			return row, nil
		}
		names = append(names, strings.TrimSpace(fmt.Sprintf("%s %s", g.Name, g.Doc))+fmt.Sprintf(" (%d ranks)", len(ranks(g, world))))
	}
	switch {
	case isDataParallel(name):
	case name != "" && len(names) > 0:
		return -1, fmt.Errorf("the trace has no collectives in a group %q: it has %s", name, strings.Join(names, ", "))
	case name != "":
		return -1, fmt.Errorf("the trace names no groups: give the number of ranks only")
	case len(rows) == 0:
		return -1, fmt.Errorf("the trace has no collectives")
	}
	if data := slices.DeleteFunc(slices.Clone(rows), func(row int32) bool { return row < 0 || !isDataParallel(run.Groups[row].Doc) }); len(data) > 0 {
		rows = data
	}
	for _, row := range rows[1:] {
		if row < 0 || rows[0] < 0 || !slices.Equal(ranks(run.Groups[row], world), ranks(run.Groups[rows[0]], world)) {
			return -1, fmt.Errorf("the trace has several groups: give one by name, as in GROUP=N: %s", strings.Join(names, ", "))
		}
	}
	return rows[0], nil
}

// passesOn reports whether the all-to-alls of a group, two or more of known parts, keep nothing where it is: each rank sends all
// that it has to others, as the rotations of context parallelism do.
func passesOn(run *trace.Run, group int32) bool {
	n := 0
	for i := range run.Comms {
		switch c := &run.Comms[i]; {
		case c.Group != group || c.Op != trace.AllToAll:
		case c.Sent == 0 || c.Sent != c.In:
			return false
		default:
			n++
		}
	}
	return n > 1
}

// ranks are those of a group, ascending; without them, the first of the job.
func ranks(g trace.Group, world int) []int {
	if len(g.Ranks) > 0 {
		return g.Ranks
	}
	all := make([]int, cmp.Or(g.Size, world))
	for i := range all {
		all[i] = i
	}
	return all
}

// alongside sets the axis of a group. It returns an error if the group is not a line of a
// grid that fills the job.
func (z *Resized) alongside(g trace.Group, world int) error {
	of := ranks(g, world)
	z.Was = len(of)
	if z.Was > 1 {
		z.stride = of[1] - of[0]
	}
	for c, r := range of {
		if z.stride <= 0 || world%(z.stride*z.Was) != 0 || z.coordinate(r) != c || r != of[0]+c*z.stride {
			return fmt.Errorf("the ranks of group %q, %v, are not evenly spaced among %d", g.Name, of, world)
		}
	}
	return nil
}

// coordinate is the place of a captured rank in its group.
func (z *Resized) coordinate(rank int) int { return rank / z.stride % z.Was }

// moved is the new number of the rank in the line of a captured one with the coordinate.
func (z *Resized) moved(rank, coordinate int) int {
	block := z.stride * z.Was
	return rank/block*z.stride*z.Ranks + coordinate*z.stride + rank%z.stride
}

// group renumbers the ranks of a group. One that holds whole lines holds the resized lines.
func (z *Resized) group(g *trace.Group, row int32, world int) {
	of := ranks(*g, world)
	in := map[int]bool{}
	for _, r := range of {
		in[r] = true
	}
	whole := len(of)%z.Was == 0
	for _, r := range of {
		for c := range z.Was {
			whole = whole && in[r+(c-z.coordinate(r))*z.stride]
		}
	}
	var now []int
	for _, r := range of {
		switch {
		case !whole:
			now = append(now, z.moved(r, z.coordinate(r)))
		case z.coordinate(r) == 0:
			for c := range z.Ranks {
				now = append(now, z.moved(r, c))
			}
		}
	}
	slices.Sort(now)
	if z.groups[row] = whole; whole || len(g.Ranks) > 0 {
		g.Ranks = now
	}
	if g.Size > 0 {
		g.Size = len(now)
	}
}

// comm changes what a collective of a resized group moves: the whole of a gathered or
// scattered tensor stays, so that the shard of a rank is one of as many; others keep their
// bytes per rank.
func (z *Resized) comm(c *trace.Comm, world int) {
	if c.Peer >= 0 && int(c.Peer) < world {
		c.Peer = int32(z.moved(int(c.Peer), z.coordinate(int(c.Peer))))
	}
	if c.Group >= 0 && !z.groups[c.Group] {
		return
	}
	was, now := int64(z.Was), int64(z.Ranks)
	c.Sent = 0 // of parts that nobody captured
	switch c.Op {
	case trace.AllGather:
		c.In = c.In * was / now
		z.sharded = true
	case trace.ReduceScatter:
		c.Out = c.Out * was / now
		z.sharded = true
	}
}

// before are the captured ranks of a collective's group.
func (z *Resized) before(c *workload.Collective, now []int) []int {
	if c.Group >= 0 && !z.groups[c.Group] {
		return now
	}
	var was []int
	for _, r := range now {
		line := z.stride * z.Ranks
		if at := r / z.stride % z.Ranks; at < z.Was {
			was = append(was, r/line*z.stride*z.Was+at*z.stride+r%z.stride)
		}
	}
	return was
}

// Lifted returns the workload of a resized run with durations on a machine with its ranks.
// captured is the workload of the captured job, with durations alone, on its machine.
func (z *Resized) Lifted(w, captured *workload.Workload, from, to machine.Machine) *workload.Workload {
	w = isolatedAs(w, captured)
	scaled := rescale(w, &from, &to, z)
	r := scaled.Rescaled
	r.Group, r.Was, r.Ranks, r.Of = z.Group, z.Was, z.Ranks, captured
	return scaled
}

// isolatedAs takes the durations alone from the workload of the captured job.
func isolatedAs(w, captured *workload.Workload) *workload.Workload {
	w = w.Copy()
	was, now := map[trace.SpanID]int32{}, map[trace.SpanID]int32{}
	for i := range captured.Ops {
		was[captured.Ops[i].Span] = int32(i)
	}
	for i := len(w.Ops) - 1; i >= 0; i-- { // the first of copies
		op := &w.Ops[i]
		now[op.Span] = int32(i)
		op.Alone = captured.Ops[was[op.Span]].DurAlone()
	}
	if captured.Isolation == nil {
		return w
	}
	isolation := *captured.Isolation
	isolation.CoRunners = make([][]workload.CoRun, len(w.Collectives))
	for i := range w.Collectives {
		c := &w.Collectives[i]
		row := captured.Ops[was[w.Ops[c.Members[0]].Span]].Collective
		if row < 0 {
			continue
		}
		of := &captured.Collectives[row]
		if c.Alone = of.TransferAlone(); c.Bytes == 0 && of.Guessed {
			c.Bytes, c.In, c.Out, c.Guessed = of.Bytes, of.In, of.Out, true
		}
		if int(row) >= len(captured.Isolation.CoRunners) {
			continue
		}
		for _, r := range captured.Isolation.CoRunners[row] {
			if id, ok := now[captured.Ops[r.Op].Span]; ok {
				isolation.CoRunners[i] = append(isolation.CoRunners[i], workload.CoRun{Op: id, Time: r.Time})
			}
		}
	}
	w.Isolation = &isolation
	return w
}
