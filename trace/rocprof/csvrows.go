package rocprof

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// A csvReader reads the records of one table into a session.
type csvReader struct {
	*assemble.Session
	t       *table
	columns csvColumns
	group   string         // key of the process, where records do not name theirs
	seen    map[int64]bool // counters: dispatches that are in
	kernels numbered
	events  []hipEvent
}

// A domain is the API that a call belongs to.
type domain struct{ marker, rccl bool }

// csvColumns are the positions of the columns of every kind of table;
// trace.None for one that the file lacks.
type csvColumns struct {
	guid, pid, thread, processOf   int
	start, end, name, direction    int
	agent, from, to, queue, stream int
	correlation, dispatch, domain  int
	graph, node                    int
	setupColumns
}

// setupColumns are the columns of how kernels were launched.
type setupColumns struct {
	lds, vgprs, accumVGPRs    int
	grid, workgroup           [3]int
	gridTotal, workgroupTotal int
}

func findSetupColumns(t *table) setupColumns {
	c := setupColumns{
		lds:            t.column("lds_block_size", "group_segment_size", "lds_per_workgroup", "lds"),
		vgprs:          t.column("vgpr_count", "arch_vgpr"),
		accumVGPRs:     t.column("accum_vgpr_count", "accum_vgpr"),
		gridTotal:      t.column("grid_size", "grd"),
		workgroupTotal: t.column("workgroup_size", "wgr"),
	}
	for i, axis := range [...]string{"x", "y", "z"} {
		c.grid[i] = t.column("grid_size_" + axis)
		c.workgroup[i] = t.column("workgroup_size_" + axis)
	}
	return c
}

func findColumns(t *table) csvColumns {
	c := csvColumns{
		guid:         t.column("guid"),
		pid:          t.column("process_id", "pid"),
		thread:       t.column("thread_id", "tid"),
		start:        t.column("start_timestamp", "beginns", "timestamp"),
		end:          t.column("end_timestamp", "stop_timestamp", "endns", "timestamp"),
		name:         t.column("kernel_name", "kernelname", "function", "message"),
		direction:    t.column("direction", "operation"),
		agent:        t.column("agent_id", "gpu_id", "gpu-id"),
		from:         t.column("source_agent_id"),
		to:           t.column("destination_agent_id"),
		queue:        t.column("queue_id", "queue-id"),
		stream:       t.column("stream_id"),
		correlation:  t.column("correlation_id"),
		dispatch:     t.column("dispatch_id"),
		domain:       t.column("domain", "kind"),
		setupColumns: findSetupColumns(t),
		graph:        t.column("graph_exec_id"),
		node:         t.column("graph_node_id"),
	}
	c.processOf = c.guid // of several sessions that rocpd has joined
	if t.has("kernelname") {
		c.processOf = c.pid // rocprof v1 writes all processes to one file
	}
	return c
}

// process returns the process of the record in hand.
func (r *csvReader) process() int32 {
	if r.columns.processOf == trace.None {
		return r.Process(r.group, 0, r.t.file)
	}
	return r.Process(r.t.field(r.columns.processOf), r.count(r.columns.pid), r.t.file)
}

// startEnd reads the times; ok is false if the record has none and was skipped.
func (r *csvReader) startEnd() (start, end trace.Time, ok bool) { return r.times(r.Builder.Note) }

// times is startEnd with the method that notes a record without times.
func (r *csvReader) times(note func(a trace.Action, file, reason, unit string, pos int64)) (start, end trace.Time, ok bool) {
	from, ok1 := number(r.t.field(r.columns.start))
	to, ok2 := number(r.t.field(r.columns.end))
	if !ok1 || !ok2 || from < 0 || to < 0 || !trace.ValidTime(from) || !trace.ValidTime(to) {
		note(trace.Skipped, r.t.file, "start or end is not a time", "line", r.t.line)
		return 0, 0, false
	}
	return trace.Time(from), trace.Time(to), true
}

// count reads a number; 0 where there is none.
func (r *csvReader) count(column int) int64 {
	if column == trace.None {
		return 0
	}
	n, _ := number(r.t.field(column))
	return n
}

// agentOf returns the agent in a column, or trace.None where there is none.
func (r *csvReader) agentOf(process int32, column int) int32 {
	f := r.t.field(column)
	if f == "" {
		return trace.None
	}
	return r.Agent(process, f)
}

// numbered is the numbers of the dispatches of a table of kernels, which a process counts without gaps.
type numbered struct{ least, most, count int64 }

// add counts a dispatch, unless the table has no number of it.
func (n *numbered) add(id int64) {
	if id <= 0 {
		return
	}
	if n.count == 0 {
		n.least, n.most = id, id
	}
	n.least, n.most, n.count = min(n.least, id), max(n.most, id), n.count+1
}

// noteMissing notes the dispatches between the first and the last one that a table of kernels leaves out, at a position
// of a file.
func (n *numbered) noteMissing(b *trace.Builder, file, unit string, pos int64) {
	const listed = 1 << 20
	if n.count == 0 {
		return
	}
	for range min(n.most-n.least+1-n.count, listed) {
		b.NoteKernel(trace.Skipped, file, "dispatches whose numbers the file leaves out: times of idle are not known", unit, pos)
	}
}

func (r *csvReader) kernel() {
	r.kernels.add(r.count(r.columns.dispatch))
	start, end, ok := r.times(r.Builder.NoteKernel)
	if !ok {
		return
	}
	p, c := r.process(), &r.columns
	d := assemble.Dispatch{
		Agent:       r.agentOf(p, c.agent),
		Queue:       r.count(c.queue),
		Name:        r.Builder.Intern(r.t.field(c.name)),
		Start:       start,
		End:         end,
		Correlation: r.count(c.correlation),
		Setup: trace.Setup{
			Stream: r.count(c.stream), Shared: assemble.Narrow(r.count(c.lds)),
			Registers: assemble.Narrow(r.count(c.vgprs) + r.count(c.accumVGPRs)),
		},
	}
	grid, workgroup := [3]int64{r.count(c.gridTotal), 1, 1}, [3]int64{r.count(c.workgroupTotal), 1, 1}
	if c.gridTotal == trace.None {
		for i := range grid {
			grid[i], workgroup[i] = r.count(c.grid[i]), r.count(c.workgroup[i])
		}
	}
	setGrid(&d.Setup, grid, workgroup)
	r.Node(r.count(c.graph), r.count(c.node))
	r.AddKernel(p, &d)
}

// setGrid sets grid and block of a kernel whose grid is in work-items, as in
// the packets that AMD's queues take.
func setGrid(k *trace.Setup, items, workgroup [3]int64) {
	for i := range k.Grid {
		if items[i] > 0 && workgroup[i] > 0 {
			k.Grid[i] = assemble.Narrow((items[i]-1)/workgroup[i] + 1)
			k.Block[i] = assemble.Narrow(workgroup[i])
		}
	}
}

// counters reads a table with a row for every counter of a dispatch.
func (r *csvReader) counters() {
	if r.seen == nil {
		r.seen = map[int64]bool{}
		r.Builder.Note(trace.Noted, r.t.file, "kernels ran serially while counters were read: the overlap is not that of the program", "", 0)
	}
	id := r.count(r.columns.dispatch)
	if r.seen[id] {
		r.t.note(&r.Builder, trace.Skipped, "further counters of a dispatch")
		return
	}
	r.seen[id] = true
	r.kernel()
}

func (r *csvReader) copied() {
	start, end, ok := r.times(r.Builder.NoteKernel)
	if !ok {
		return
	}
	p, name := r.process(), r.t.field(r.columns.direction)
	c := assemble.Copy{
		Name:        r.Builder.Intern(name),
		From:        r.agentOf(p, r.columns.from),
		To:          r.agentOf(p, r.columns.to),
		Dir:         direction(name),
		Stream:      r.count(r.columns.stream),
		Correlation: r.count(r.columns.correlation),
		Start:       start,
		End:         end,
	}
	r.AddCopy(p, &c)
}

// direction reads the direction of a copy or fill. Whether a copy between devices crosses from one
// to another, its agents say.
func direction(name string) trace.CopyDir {
	if strings.Contains(strings.ToLower(strings.ReplaceAll(name, "_", "")), "fillbuffer") {
		return trace.Fill
	}
	return trace.Direction(name)
}

func (r *csvReader) called() {
	start, end, ok := r.startEnd()
	if !ok {
		return
	}
	in := domainOf(r.t.field(r.columns.domain))
	r.AddCall(r.process(), &assemble.Call{
		Name:        r.Builder.Intern(r.t.field(r.columns.name)),
		Thread:      r.count(r.columns.thread),
		Correlation: r.count(r.columns.correlation),
		Start:       start,
		End:         end,
		Marker:      in.marker,
		Collective:  in.rccl,
	})
}

func domainOf(name string) domain {
	return domain{strings.HasPrefix(name, "MARKER") || strings.HasPrefix(name, "ROCTX"), strings.HasPrefix(name, "RCCL")}
}

// marked reads a marker of rocprofv2, which has one time.
func (r *csvReader) marked() {
	at, _, ok := r.startEnd()
	if ok {
		r.AddCall(r.process(), &assemble.Call{
			Name:  r.Builder.Intern(r.t.field(r.columns.name)),
			Start: at, End: at, Marker: true,
		})
	}
}

// event reads a barrier of a HIP event.
func (r *csvReader) event() {
	start, end, ok := r.startEnd()
	if !ok {
		return
	}
	p, c := r.process(), &r.columns
	r.events = append(r.events, hipEvent{
		p, r.agentOf(p, c.agent), r.count(c.queue), r.count(r.t.column("source_queue_id")), r.count(c.stream),
		r.count(r.t.column("hip_event_handle")), r.count(c.correlation),
		start, max(start, end),
	})
}

// memory reads allocations of memory and of scratch memory.
func (r *csvReader) memory() {
	if start, end, ok := r.startEnd(); ok {
		r.AddRange(r.process(), r.Builder.Intern(r.t.field(r.columns.direction)), start, end)
	}
}

// agent reads the description of an agent. Records may call it by any of its numbers.
func (r *csvReader) agent() {
	field := func(column string) int64 { return r.count(r.t.column(column)) }
	text := func(column string) string { return strings.TrimSpace(r.t.field(r.t.column(column))) }
	var size agentSize
	for column, to := range size.members() {
		*to.(*int64) = field(column)
	}
	d := assemble.Description{
		GPU:     strings.EqualFold(text("agent_type"), "GPU"),
		Logical: field("logical_node_id"),
		OfKind:  trace.None,
		Device:  size.device(text("product_name"), text("name")),
	}
	if !r.t.has("logical_node_id") {
		d.Logical = field("node_id")
	}
	if r.t.has("logical_node_type_id") {
		d.OfKind = field("logical_node_type_id")
	}
	r.Describe(r.process(), d)
}
