package rocprof

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// dispatchTable is how the table of kernels of a rocpd database begins.
const dispatchTable = "rocpd_kernel_dispatch"

// rocpd reads schemas 3 and 4 of rocpd. Its tables end in a GUID; a database that was
// merged has several of each, and ids mean something only within one GUID.
func (d *dbReader) rocpd() {
	for _, t := range d.DB.Tables() {
		if suffix, ok := strings.CutPrefix(t, dispatchTable); ok && d.Err == nil {
			g := rocpdReader{
				dbReader: d, suffix: suffix, agents: map[int64]int32{}, symbols: map[int64]symbol{}, tracks: map[int64]rocpdTrack{},
				processes: map[int64]int32{}, threads: map[int64]int64{}, events: map[int64]rocpdEvent{},
			}
			if d.Err = g.check(); d.Err == nil {
				g.read()
			}
		}
	}
}

// A rocpdReader reads the tables of one GUID.
type rocpdReader struct {
	*dbReader
	suffix    string
	names     lex.Texts
	symbols   map[int64]symbol
	agents    map[int64]int32
	tracks    map[int64]rocpdTrack
	processes map[int64]int32
	threads   map[int64]int64      // operating system's number
	events    map[int64]rocpdEvent // by id
}

// A rocpdEvent links a kernel, copy or call with others. The stack id links a call
// with what it launched.
type rocpdEvent struct {
	stack    int64
	category int32
}

func (g *rocpdReader) read() {
	g.names = g.Texts("rocpd_string"+g.suffix, "id", "string")
	g.readProcesses()
	g.readAgents()
	g.Each("rocpd_info_thread"+g.suffix, []string{"id", "tid"}, func(r lex.Row) { g.threads[r.Int(0)] = r.Int(1) })
	g.Each("rocpd_track"+g.suffix, append([]string{"id", "nid"}, trackColumns...), func(r lex.Row) { g.tracks[r.Int(0)] = g.trackOf(r) })
	g.Each("rocpd_info_kernel_symbol"+g.suffix, []string{"id", "display_name", "kernel_name", "arch_vgpr_count", "accum_vgpr_count"}, func(r lex.Row) {
		g.symbols[r.Int(0)] = symbol{cmp.Or(r.Text(1), r.Text(2)), r.Int(3) + r.Int(4)}
	})
	g.readEvents()
	g.readKernels()
	g.readCopies()
	g.readGraphLaunches()
	g.readRegions()
	g.readMemory()
	g.readHIPEvents()
	for _, t := range []string{"rocpd_sample", "rocpd_pmc_event"} {
		g.Each(t+g.suffix, []string{"id"}, func(r lex.Row) { g.Builder.Note(trace.Skipped, g.Name, t+": no timeline", "row", r.Number) })
	}
}

func (g *rocpdReader) readProcesses() {
	hosts := map[int64]string{}
	g.Each("rocpd_info_node"+g.suffix, []string{"id", "hostname"}, func(r lex.Row) { hosts[r.Int(0)] = r.Text(1) })
	g.Each("rocpd_info_process"+g.suffix, []string{"id", "pid", "nid", "environment"}, func(r lex.Row) {
		row := g.Process(g.suffix+"/"+r.Text(0), r.Int(1), g.Name)
		p := &g.Processes[row]
		p.Host = hosts[r.Int(2)]
		if rank, world := launcher(r.Text(3)); rank != trace.None {
			p.Rank, p.World = rank, world
		}
		g.processes[r.Int(0)] = row
	})
}

// launcher reads rank and size of the job from a process' environment, a JSON
// object, as torchrun, Open MPI, Slurm and MPICH set them.
func launcher(environment string) (rank, world int) {
	values := map[string]int64{}
	s := lex.ScanText(environment)
	for s.Object(); s.More(); {
		key := string(s.Key())
		if n, err := strconv.ParseInt(s.Text(), 10, 32); err == nil && n >= 0 {
			values[key] = n
		}
	}
	for _, v := range [...][2]string{
		{"RANK", "WORLD_SIZE"},
		{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"SLURM_PROCID", "SLURM_NTASKS"},
		{"PMI_RANK", "PMI_SIZE"},
	} {
		if rank, ok := values[v[0]]; ok && values[v[1]] > rank {
			return int(rank), int(values[v[1]])
		}
	}
	return trace.None, 0
}

func (g *rocpdReader) readAgents() {
	g.Each("rocpd_info_agent"+g.suffix, []string{"id", "pid", "type", "type_index", "name", "product_name", "extdata"}, func(r lex.Row) {
		process := g.processOf(r.Int(1))
		row := g.Agent(process, "agent "+r.Text(0))
		a := &g.Agents[row]
		a.GPU, a.Ordinal = r.Text(2) == "GPU", assemble.Narrow(r.Int(3))
		a.Device = sizeIn(plain(r.Text(6))).device(r.Text(5), r.Text(4))
		g.agents[r.Int(0)] = row
	})
}

// sizeIn reads the properties of an agent, a JSON object.
func sizeIn(extdata string) *agentSize {
	var size agentSize
	lex.ScanText(extdata).Members(size.members())
	return &size
}

// processOf returns the process with an id, adding it if no table describes it.
func (g *rocpdReader) processOf(id int64) int32 {
	return trace.Memo(g.processes, id, func() int32 { return g.Process(g.suffix+"/"+strconv.FormatInt(id, 10), id, g.Name) })
}

// agentOf returns the agent in a column, or trace.None where there is none.
func (g *rocpdReader) agentOf(r lex.Row, column int, process int32) int32 {
	if r.Null(column) {
		return trace.None
	}
	return trace.Memo(g.agents, r.Int(column), func() int32 { return g.Agent(process, "agent "+r.Text(column)) })
}

// readEvents reads what joins calls and kernels. Without calls there is nothing to join.
func (g *rocpdReader) readEvents() {
	calls := false
	for _, t := range [...]string{"rocpd_region", "rocpd_memory_allocate", hipEventTable, graphLaunchTable} {
		g.Each(t+g.suffix, []string{"id"}, func(lex.Row) { calls = true })
	}
	if !calls {
		return
	}
	g.Each("rocpd_event"+g.suffix, []string{"id", "stack_id", "category_id"}, func(r lex.Row) {
		g.events[r.Int(0)] = rocpdEvent{r.Int(1), assemble.Narrow(r.Int(2))}
	})
}

func (g *rocpdReader) readKernels() {
	names, kernels, last := map[int64]trace.NameID{}, map[int32]*numbered{}, int64(0)
	g.Kernels(dispatchTable+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns, []string{
		"kernel_id", "event_id", "group_segment_size",
		"workgroup_size_x", "workgroup_size_y", "workgroup_size_z", "grid_size_x", "grid_size_y", "grid_size_z", "graph_exec_id",
		"graph_node_id", "dispatch_id",
	}), func(r lex.Row, start, end trace.Time) {
		on := g.trackOf(r)
		trace.Memo(kernels, on.process, func() *numbered { return &numbered{} }).add(r.Int(19))
		last = r.Number
		g.Node(r.Int(17), r.Int(18))
		const kernel = 8
		symbol := g.symbols[r.Int(kernel)]
		name := trace.Memo(names, r.Int(kernel), func() trace.NameID {
			return g.Builder.Intern(cmp.Or(symbol.name,
				"kernel "+r.Text(kernel)))
		})
		d := assemble.Dispatch{
			Agent: on.agent, Queue: on.queue, Name: name, Start: start, End: end,
			Correlation: g.events[r.Int(9)].stack,
			Setup:       trace.Setup{Stream: on.stream, Shared: assemble.Narrow(r.Int(10)), Registers: assemble.Narrow(symbol.vgprs)},
		}
		setGrid(&d.Setup, [3]int64{r.Int(14), r.Int(15), r.Int(16)}, [3]int64{r.Int(11), r.Int(12), r.Int(13)})
		g.AddKernel(on.process, &d)
	})
	for _, of := range kernels { // equal notes: their order does not matter
		of.noteMissing(&g.Builder, g.DB.File, "row", last)
	}
}

func (g *rocpdReader) readCopies() {
	g.Kernels("rocpd_memory_copy"+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns,
		[]string{"name_id", "src_agent_id", "dst_agent_id", "size", "event_id", "graph_exec_id", "graph_node_id"}),
		func(r lex.Row, start, end trace.Time) {
			on := g.trackOf(r)
			g.Node(r.Int(13), r.Int(14))
			c := assemble.Copy{
				Name: g.names.Name(r.Int(8)), From: g.agentOf(r, 9, on.process), To: g.agentOf(r, 10, on.process),
				Bytes: r.Int(11), Stream: on.stream, Correlation: g.events[r.Int(12)].stack, Start: start, End: end,
			}
			c.Dir = between(g.dbReader.Session, c.From, c.To)
			g.AddCopy(on.process, &c)
		})
}

// graphLaunchTable has the launches of graphs from 3.0.2 on, with or without the calls of HIP.
const graphLaunchTable = "rocpd_graph_launch"

// readGraphLaunches reads the launches of graphs of which the file has no call of HIP.
func (g *rocpdReader) readGraphLaunches() {
	called := map[int64]bool{}
	if g.DB.Columns(graphLaunchTable+g.suffix) != nil {
		g.Each("rocpd_region"+g.suffix, []string{"event_id"}, func(r lex.Row) { called[g.events[r.Int(0)].stack] = true })
	}
	g.Timed(graphLaunchTable+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns, []string{"event_id"}), func(r lex.Row, start, end trace.Time) {
		if stack := g.events[r.Int(8)].stack; !called[stack] {
			on := g.trackOf(r)
			g.AddCall(on.process, &assemble.Call{
				Name: g.Builder.Intern("hipGraphLaunch"), Thread: g.threads[on.thread],
				Correlation: stack, Start: start, End: end,
			})
		}
	})
}

// readRegions reads calls and markers. A marker's name is in its message.
func (g *rocpdReader) readRegions() {
	categories := map[int64]string{} // schema 4 has a table of them
	g.Each("rocpd_info_category"+g.suffix, []string{"id", "name"}, func(r lex.Row) { categories[r.Int(0)] = r.Text(1) })
	domainOf := func(category int64) domain { return domainOf(cmp.Or(categories[category], g.names.Of[category])) }
	messages := map[int64]string{} // by event id
	g.Each("rocpd_event"+g.suffix, []string{"id", "category_id", "extdata"}, func(r lex.Row) {
		if domainOf(r.Int(1)).marker {
			if m := messageIn(plain(r.Text(2))); m != "" {
				messages[r.Int(0)] = m
			}
		}
	})
	arguments := g.readArguments()
	domains := map[int32]domain{}
	g.Timed("rocpd_region"+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns, []string{"name_id", "event_id"}), func(r lex.Row, start, end trace.Time) {
		on, event := g.trackOf(r), r.Int(9)
		e := g.events[event]
		in := trace.Memo(domains, e.category, func() domain { return domainOf(int64(e.category)) })
		c := assemble.Call{
			Name: g.names.Name(r.Int(8)), Thread: g.threads[on.thread], Correlation: e.stack, Start: start, End: end,
			Marker: in.marker, Collective: in.rccl,
		}
		if in.rccl {
			c.Arguments = arguments[event].arguments()
		}
		if m, ok := messages[event]; ok {
			c.Name = g.Builder.Intern(m)
		}
		g.AddCall(on.process, &c)
	})
}

// readArguments reads the arguments of calls, by event.
func (g *rocpdReader) readArguments() map[int64]callArguments {
	wanted := map[string]bool{
		"count": true, "sendcount": true, "recvcount": true, "datatype": true, "comm": true, "peer": true,
		"root": true, "nranks": true,
	}
	all := map[int64]callArguments{}
	g.Each("rocpd_arg"+g.suffix, []string{"event_id", "name", "value"}, func(r lex.Row) {
		if name := r.Text(1); wanted[name] {
			trace.Memo(all, r.Int(0), func() callArguments { return callArguments{} })[name] = r.Text(2)
		}
	})
	return all
}

// callArguments are the arguments of a call by name, as rccl.h has them.
type callArguments map[string]string

// arguments returns the arguments of a call of RCCL, or nil if there are none.
func (a callArguments) arguments() *assemble.Arguments {
	if a == nil {
		return nil
	}
	integer := func(name string) int64 {
		n, err := strconv.ParseInt(a[name], 0, 64)
		if err != nil {
			return trace.None
		}
		return n
	}
	args := &assemble.Arguments{
		DType: dType(a["datatype"]), Communicator: a["comm"], Ranks: int(assemble.Narrow(integer("nranks"))), Peer: trace.None,
	}
	for _, count := range [...]string{"count", "sendcount", "recvcount"} {
		if n := integer(count); n > 0 && n < assemble.MaxBytes {
			args.Bytes = n * int64(assemble.ElemSize(args.DType))
		}
	}
	for _, peer := range [...]string{"peer", "root"} {
		if n := integer(peer); n >= 0 {
			args.Peer = assemble.Narrow(n)
		}
	}
	return args
}

// messageIn reads {"message": "..."}.
func messageIn(extdata string) (message string) {
	lex.ScanText(extdata).Members(map[string]any{"message": &message})
	return message
}

func (g *rocpdReader) readMemory() {
	g.Timed("rocpd_memory_allocate"+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns, []string{"type", "level"}), func(r lex.Row, start, end trace.Time) {
		g.AddRange(g.trackOf(r).process, g.Builder.Intern(strings.TrimSpace(r.Text(8)+" "+r.Text(9))), start, end)
	})
}

// hipEventTable is what rocpd has from 3.0.4 on, with rocprofv3 --hip-trace.
const hipEventTable = "rocpd_hip_event"

// A hipEvent is a barrier on a queue: a recorded event, or a wait for one, which names the queue
// that the event was recorded on.
type hipEvent struct {
	process, agent        int32 // rows
	queue, source, stream int64
	handle                int64 // of the event; 0: unknown
	correlation           int64 // of the call
	start, end            trace.Time
}

// addHIPEvents adds the waits among the barriers of a file: each is for the last recording of its
// event before it, in the order of the calls.
func addHIPEvents(s *assemble.Session, all []hipEvent) {
	type recording struct {
		process       int32
		queue, handle int64
	}
	recorded := map[recording]*hipEvent{}
	slices.SortStableFunc(all, func(a, b hipEvent) int { return cmp.Compare(a.correlation, b.correlation) })
	for i := range all {
		e := &all[i]
		if e.queue == e.source {
			recorded[recording{e.process, e.queue, e.handle}] = e
			continue
		}
		w := trace.Wait{Start: e.start, End: e.end, Stream: e.stream, On: trace.None, Correlation: e.correlation}
		if of := recorded[recording{e.process, e.source, e.handle}]; of != nil {
			w.On, w.Record = of.stream, of.correlation
		}
		if e.agent != trace.None {
			s.AddWait(e.process, e.agent, w)
		}
	}
}

func (g *rocpdReader) readHIPEvents() {
	var all []hipEvent
	g.Timed(hipEventTable+g.suffix, slices.Concat([]string{"start", "end"}, trackColumns, []string{"source_queue_id", "hip_event_handle", "event_id"}), func(r lex.Row, start, end trace.Time) {
		on := g.trackOf(r)
		all = append(all, hipEvent{on.process, on.agent, on.queue, r.Int(8), on.stream, r.Int(9), g.events[r.Int(10)].stack, start, end})
	})
	addHIPEvents(g.Session, all)
}

// between returns the direction of a copy between two agents.
func between(s *assemble.Session, from, to int32) trace.CopyDir {
	if from == trace.None || to == trace.None {
		return trace.UnknownDir
	}
	switch source, dest := s.Agents[from].GPU, s.Agents[to].GPU; {
	case source && dest:
		return trace.DeviceToDevice
	case source:
		return trace.DeviceToHost
	case dest:
		return trace.HostToDevice
	}
	return trace.HostToHost
}

// ncclTypes are NCCL's data types by their numbers (ncclDataType_t of nccl.h).
var ncclTypes = [...]string{
	"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2",
}

// dType returns the type in an argument of a call of NCCL or RCCL: its name or its number.
func dType(arg string) string {
	if n, err := strconv.Atoi(arg); err == nil && n >= 0 && n < len(ncclTypes) {
		return ncclTypes[n]
	}
	return arg
}
