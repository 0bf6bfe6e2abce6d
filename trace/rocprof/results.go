package rocprof

import (
	"cmp"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// ReadJSON reads *_results.json of rocprofv3: {"rocprofiler-sdk-tool": [...]},
// one element a process. Times are nanoseconds; grids are in work-items and
// become workgroups. Names may stand before or after the records that use them.
func ReadJSON(r io.Reader, file string) (*trace.Run, error) {
	j := resultsReader{Session: newSession(file), s: lex.NewScanner(r, file, math.MaxInt64)}
	j.s.Members(map[string]any{"rocprofiler-sdk-tool": func() { j.s.Each(j.readProcess) }})
	if j.s.Err != nil {
		return nil, j.s.Err
	}
	if j.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{
			File: file, Msg: "no kernel, copy or call", Err: noTimes,
			Cure: "profile with rocprofv3 --kernel-trace, or --sys-trace",
		}
	}
	return j.Finish(0), nil
}

// A resultsReader reads one process after another.
type resultsReader struct {
	*assemble.Session
	s       *lex.Scanner
	process int32
	symbols map[int64]symbol
	kinds   [][]string       // names of operations, by kind
	ranges  map[int64]string // messages of markers, by correlation id
	unnamed []unnamed
	events  []hipEvent
	graphs  []assemble.Call // launches of graphs
	kernels numbered
}

// A symbol is a kernel as its code object describes it.
type symbol struct {
	name  string
	vgprs int64
}

// An unnamed is a span whose name stands elsewhere in the file.
type unnamed struct {
	span      trace.SpanID
	kernel    bool
	kind      int64 // of the operation
	operation int64 // or the kernel's id
	marker    int64 // correlation id, by which its message is found; 0 for others
}

// A record is what any element of buffer_records may hold.
type record struct {
	kind, operation, thread, correlation int64
	start, end                           int64
	dispatch                             assemble.Dispatch
	grid, workgroup                      [3]int64 // work-items
	kernel                               int64
	agent, source, to, bytes             int64
	sourceQueue, event                   int64 // of a barrier
	graph, node                          int64 // that it is of; 0: none
	number, shared                       int64 // of a dispatch; 0: unknown
}

func (j *resultsReader) readProcess() {
	j.process = j.Process(strconv.Itoa(len(j.Processes)), 0, j.Name)
	j.symbols, j.ranges, j.kinds, j.unnamed, j.events, j.graphs = map[int64]symbol{}, map[int64]string{}, nil, nil, nil, nil
	calls := len(j.Builder.Run.Calls)
	j.kernels = numbered{}
	j.s.Members(map[string]any{
		"metadata": j.metadata, "strings": j.strings,
		"agents": func() { j.s.Each(j.agent) }, "kernel_symbols": func() { j.s.Each(j.symbol) },
		"buffer_records": func() {
			for j.s.Object(); j.s.More(); {
				j.records(string(j.s.Key()))
			}
		},
		"callback_records": func() {
			for j.s.Object(); j.s.More(); {
				j.s.Key()
				j.s.Each(func() {
					j.Builder.Note(trace.Skipped, j.Name, "callback record: no timeline", "byte", j.s.At())
					j.s.Skip()
				})
			}
		},
	})
	j.kernels.noteMissing(&j.Builder, j.Name, "byte", j.s.At())
	j.nameAll()
	addHIPEvents(j.Session, j.events)
	j.launchGraphs(j.Builder.Run.Calls[calls:])
}

// launchGraphs adds the launches of graphs of which the process has no call of HIP.
func (j *resultsReader) launchGraphs(calls []trace.Call) {
	called := map[int64]bool{0: true}
	for i := 0; i < len(calls) && len(j.graphs) > 0; i++ {
		called[calls[i].Correlation] = true
	}
	for _, c := range j.graphs {
		if !called[c.Correlation] {
			j.AddCall(j.process, &c)
		}
	}
}

func (j *resultsReader) metadata() {
	p := &j.Processes[j.process]
	j.s.Members(map[string]any{"pid": &p.ID, "node": func() { j.s.Members(map[string]any{"hostname": &p.Host}) }})
}

func (j *resultsReader) agent() {
	var a assemble.Agent
	var name, product string
	var size agentSize
	ofType, logical := int64(trace.None), int64(0)
	members := size.members()
	members["id"] = func() { a.Key = strconv.FormatInt(memberOf(j.s, "handle"), 10) }
	members["type"] = func() { a.GPU = j.s.Number() == 2 }
	members["logical_node_type_id"], members["logical_node_id"] = &ofType, &logical
	members["name"], members["product_name"] = &name, &product
	j.s.Members(members)
	if ofType == trace.None {
		ofType = logical
	}
	a.Ordinal = assemble.Narrow(ofType)
	a.Device = size.device(product, name)
	s := &j.Agents[j.Agent(j.process, a.Key)]
	a.Process = s.Process
	*s = a
}

// strings reads the names that records refer to by number.
func (j *resultsReader) strings() {
	j.s.Members(map[string]any{
		"marker_api": j.messages,
		"buffer_records": func() {
			j.s.Each(func() {
				var names []string
				j.s.Members(map[string]any{"operations": func() { j.s.Each(func() { names = append(names, j.s.Text()) }) }})
				j.kinds = append(j.kinds, names)
			})
		},
	})
}

// messages reads [{"key": correlation id, "value": message}].
func (j *resultsReader) messages() {
	if j.s.Peek() != '[' {
		return
	}
	j.s.Each(func() {
		if j.s.Peek() != '{' {
			j.s.Skip()
			return
		}
		var key int64
		var message string
		j.s.Members(map[string]any{"key": &key, "value": &message})
		j.ranges[key] = message
	})
}

func (j *resultsReader) symbol() {
	var id int64
	var y symbol
	var formatted, mangled string
	registers := func() { y.vgprs += j.s.Number() }
	j.s.Members(map[string]any{
		"kernel_id": &id, "formatted_kernel_name": &formatted, "kernel_name": &mangled,
		"arch_vgpr_count": registers, "accum_vgpr_count": registers,
	})
	y.name = cmp.Or(formatted, mangled)
	j.symbols[id] = y
}

// records reads the records of one kind.
func (j *resultsReader) records(kind string) {
	var r record
	members := r.members(j.s)
	j.s.Each(func() {
		at := j.s.At()
		r = record{}
		j.s.Members(members)
		if j.s.Err != nil {
			return
		}
		if r.start < 0 || r.end < 0 || r.start == 0 && r.end == 0 || !trace.ValidTime(r.start) || !trace.ValidTime(r.end) {
			note := j.Builder.Note
			if kind == "kernel_dispatch" || kind == "memory_copy" {
				note = j.Builder.NoteKernel
			}
			note(trace.Skipped, j.Name, "record without a time", "byte", at)
			return
		}
		j.Record.At = at
		j.add(kind, &r)
	})
}

// members are those of a record, and of the one within it that describes a dispatch. A number may be the handle of an object.
func (r *record) members(s *lex.Scanner) map[string]any {
	all := map[string]any{
		"correlation_id": func() { r.correlation = memberOf(s, "internal") },
		"workgroup_size": axes(s, &r.workgroup), "grid_size": axes(s, &r.grid),
	}
	for name, to := range map[string]*int64{
		"kind": &r.kind, "operation": &r.operation, "thread_id": &r.thread, "start_timestamp": &r.start, "end_timestamp": &r.end,
		"stream_id": &r.dispatch.Stream, "queue_id": &r.dispatch.Queue, "kernel_id": &r.kernel, "dispatch_id": &r.number,
		"group_segment_size": &r.shared,
		"agent_id":           &r.agent, "src_agent_id": &r.source, "dst_agent_id": &r.to, "bytes": &r.bytes,
		"source_queue_id": &r.sourceQueue, "hip_event_handle": &r.event, "graph_exec_id": &r.graph, "graph_node_id": &r.node,
	} {
		all[name] = func() { *to = memberOf(s, "handle") }
	}
	within := maps.Clone(all)
	all["dispatch_info"] = func() { s.Members(within) }
	return all
}

// add adds the span of a record.
func (j *resultsReader) add(kind string, r *record) {
	id := trace.SpanID(j.Builder.Len())
	start, end := trace.Time(r.start), trace.Time(r.end)
	wants := unnamed{span: id, kind: r.kind, operation: r.operation}
	switch kind {
	case "kernel_dispatch":
		d := &r.dispatch
		j.kernels.add(r.number)
		d.Agent, d.Start, d.End = j.agentOf(r.agent), start, end
		d.Correlation, d.Shared = r.correlation, assemble.Narrow(r.shared)
		setGrid(&d.Setup, r.grid, r.workgroup)
		j.Node(r.graph, r.node)
		j.AddKernel(j.process, d)
		wants = unnamed{span: id, kernel: true, operation: r.kernel}
	case "memory_copy":
		c := assemble.Copy{
			From: j.agentOf(r.source), To: j.agentOf(r.to), Stream: r.dispatch.Stream,
			Correlation: r.correlation, Bytes: r.bytes, Start: start, End: end,
		}
		c.Dir = between(j.Session, c.From, c.To)
		j.Node(r.graph, r.node)
		j.AddCopy(j.process, &c)
	case "hip_event":
		j.events = append(j.events, hipEvent{
			j.process, j.agentOf(r.agent), r.dispatch.Queue, r.sourceQueue, r.dispatch.Stream, r.event,
			r.correlation, start, max(start, end),
		})
		return
	case "hip_graph":
		j.graphs = append(j.graphs, assemble.Call{
			Name: j.Builder.Intern("hipGraphLaunch"), Thread: r.thread,
			Correlation: r.correlation, Start: start, End: end,
		})
		return
	case "memory_allocation", "scratch_memory":
		j.AddRange(j.process, 0, start, end)
	default:
		c := assemble.Call{
			Thread: r.thread, Correlation: r.correlation, Start: start, End: end,
			Marker: kind == "marker_api", Collective: kind == "rccl_api",
		}
		if c.Marker {
			wants.marker = r.correlation
		}
		j.AddCall(j.process, &c)
	}
	j.unnamed = append(j.unnamed, wants)
}

// agentOf returns the agent with a handle, or trace.None for no agent.
func (j *resultsReader) agentOf(handle int64) int32 {
	if handle == 0 {
		return trace.None
	}
	return j.Agent(j.process, strconv.FormatInt(handle, 10))
}

// nameAll names what could not be named before the end of the process.
func (j *resultsReader) nameAll() {
	names := map[unnamed]trace.NameID{}
	for _, u := range j.unnamed {
		key := u
		key.span = trace.None
		name := trace.Memo(names, key, func() trace.NameID { return j.Builder.Intern(j.nameOf(u)) })
		s := j.Builder.Span(u.span)
		s.Name = name
		if !u.kernel {
			continue
		}
		k := &j.Builder.Run.Kernels[s.Attr]
		setup := j.Builder.Run.Setup(k)
		setup.Registers = assemble.Narrow(j.symbols[u.operation].vgprs)
		k.Setup = j.Builder.AddSetup(setup)
		if j.IsCollective(name) {
			s.Kind = trace.Collective
		}
	}
}

func (j *resultsReader) nameOf(u unnamed) string {
	if u.kernel {
		return cmp.Or(j.symbols[u.operation].name, "kernel "+strconv.FormatInt(u.operation, 10))
	}
	if m, ok := j.ranges[u.marker]; ok && u.marker != 0 {
		return m
	}
	if u.kind >= 0 && u.kind < int64(len(j.kinds)) && u.operation >= 0 && u.operation < int64(len(j.kinds[u.kind])) {
		return j.kinds[u.kind][u.operation]
	}
	return strings.Join([]string{"kind", strconv.FormatInt(u.kind, 10), "operation", strconv.FormatInt(u.operation, 10)}, " ")
}

// axes returns a function that reads {"x": 64, "y": 1, "z": 1}.
func axes(s *lex.Scanner, to *[3]int64) func() {
	members := map[string]any{"x": &to[0], "y": &to[1], "z": &to[2]}
	return func() { s.Members(members) }
}
