package assemble

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// An XLA is a profile of a process of XLA's (JAX), in whichever format. Each of its GPUs is a rank, as each runs the whole
// program. Kernels say of which instruction of which module they are, and the modules, if the file has them, what the
// instructions read and compute.
//
//	planes, lines, events ─┬─▶ host threads ▶ GPUs they launch on ▶ calls, steps ─┬─▶ session ─▶ trace.Run
//	modules (HLO) ─────────┴─▶ kernels ▶ instructions ▶ operators, collectives ───┘
type XLA struct {
	*Session                         // to which nothing else was added
	ID       int64                   // the operating system's process id
	Epoch    int64                   // of time 0
	Devices  map[string]trace.Device // by plane

	modules   map[string]*hloModule // by name and, behind a NUL, number; nil for a name of several
	use       hloUse
	operators map[*hloInstruction]int32 // their rows
	work      []XLAEvent                // of streams
	calls     []XLAEvent                // of threads
}

// An XLAEvent is an event of a line of a plane: a stream of a GPU, or a thread of the host.
type XLAEvent struct {
	Plane, Line string // "/device:GPU:0" and "Stream #24(Compute)", "/host:CPU" and a thread's name
	Thread      int64  // the line's number
	Name        string
	Start, End  trace.Time
	At          int64       // in the file
	Stats       [][2]string // names (xla/tsl/profiler/utils/xplane_schema.cc) and values; Add copies them

	correlation                  int64
	node                         uint64 // of a captured graph: its number, and behind 32 bits that of the graph
	device, global               string // within the process, and of all
	module, program, instruction string
	kernel, copied               string // "regs:16 grid:32,1,1", "size:64" or, of a fill, "num_bytes:4"
	step, runs, clique           string
}

// set stores a statistic.
func (e *XLAEvent) set(name, value string) {
	switch name {
	case "correlation_id":
		e.correlation, _ = lex.Integer([]byte(value))
	case "cuda_graph_node_id":
		e.node, _ = strconv.ParseUint(value, 10, 64)
	case "device_id":
		e.device = value
	case "global_device_id":
		e.global = value
	case "hlo_module":
		e.module = value
	case "program_id":
		e.program = value
	case "hlo_op":
		e.instruction = value
	case "kernel_details":
		e.kernel = value
	case "memcpy_details", "memset_details", "Memset_details":
		e.copied = value
	case "step_num":
		e.step = value
	case "name":
		e.runs = value
	case "clique_key":
		e.clique, _, _ = strings.Cut(value, ";")
	}
}

const (
	gpuPlane   = "/device:GPU:"
	streamLine = "Stream #"
)

// Module takes in a message HloProto with the name of a module and its number.
func (x *XLA) Module(name, number string, message []byte) {
	if x.modules == nil {
		x.modules = map[string]*hloModule{}
	}
	if m := readHLO(message, &x.use); m != nil {
		_, several := x.modules[name]
		x.modules[name], x.modules[name+"\x00"+number] = m, m
		if several {
			x.modules[name] = nil
		}
	}
}

// Add takes in an event.
func (x *XLA) Add(e XLAEvent) {
	for _, s := range e.Stats {
		e.set(s[0], s[1])
	}
	e.Stats = nil
	switch {
	case strings.HasPrefix(e.Plane, gpuPlane) && strings.HasPrefix(e.Line, streamLine):
		x.work = append(x.work, e)
	case strings.HasPrefix(e.Plane, "/host:") && strings.HasPrefix(e.Name, "$"):
		x.Builder.Note(trace.Skipped, x.Name, "frame of a Python function", "byte", e.At)
	case strings.HasPrefix(e.Plane, "/host:"):
		x.calls = append(x.calls, e)
	case strings.HasPrefix(e.Plane, gpuPlane):
		x.Builder.Note(trace.Skipped, x.Name, "a line that the profiler derives from others", "byte", e.At)
	default:
		x.Builder.Note(trace.Skipped, x.Name, "event of a device that is no GPU", "byte", e.At)
	}
}

// An xlaDevice is a GPU of the process.
type xlaDevice struct {
	plane   string
	number  int64 // within the process
	rank    int   // trace.None if unknown
	process int32
	agent   int32
	work    []XLAEvent
	calls   []XLAEvent // that launch on it, by start
	cliques []string   // groups that it communicates in: "devices=2:[0,1]"
}

// Finish returns the run; nil if no GPU did anything.
func (x *XLA) Finish() *trace.Run {
	if len(x.work) == 0 {
		return nil
	}
	list := x.gpus()
	x.threads(list)
	steps := x.steps()
	for _, d := range list {
		slices.SortStableFunc(d.work, func(a, b XLAEvent) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
		slices.SortStableFunc(d.calls, func(a, b XLAEvent) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
		x.addCalls(d, steps)
		x.addWork(d)
	}
	return x.finish(x.Epoch, false) // times count from the start of the profile
}

// gpus are the GPUs with work, in order, and what runs on each.
func (x *XLA) gpus() (list []*xlaDevice) {
	by := map[string]*xlaDevice{}
	for _, e := range x.work {
		d := trace.Memo(by, e.Plane, func() *xlaDevice {
			n, _ := strconv.ParseInt(strings.TrimPrefix(e.Plane, gpuPlane), 10, 32)
			return &xlaDevice{plane: e.Plane, number: n, rank: trace.None}
		})
		d.work = append(d.work, e)
	}
	list = slices.SortedFunc(maps.Values(by), func(a, b *xlaDevice) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.plane, b.plane))
	})
	for _, d := range list {
		d.process = x.Process(d.plane, x.ID, x.Name)
		d.agent = x.Agent(d.process, "GPU "+strconv.FormatInt(d.number, 10))
		for _, other := range list {
			x.Describe(d.process, Description{GPU: true, Logical: other.number, OfKind: other.number, Device: x.Devices[other.plane]})
		}
	}
	return list
}

// threads gives the events of each thread to the GPU on which most of its calls launch, and calls that name another one to
// that. A GPU's rank is the replica and the partition of the module that runs on it.
func (x *XLA) threads(list []*xlaDevice) {
	type thread struct {
		plane string
		id    int64
	}
	by, launched, count := map[string]*xlaDevice{}, map[int64]*xlaDevice{}, map[thread]map[*xlaDevice]int{}
	for _, d := range list {
		by[strconv.FormatInt(d.number, 10)] = d
		for i := range d.work {
			launched[d.work[i].correlation] = d
		}
	}
	launched[0] = nil // no launch
	on := func(e *XLAEvent) *xlaDevice { return cmp.Or(by[e.device], launched[e.correlation]) }
	for i := range x.calls {
		e := &x.calls[i]
		if d := on(e); d != nil {
			trace.Memo(count, thread{e.Plane, e.Thread}, func() map[*xlaDevice]int { return map[*xlaDevice]int{} })[d]++
		}
	}
	world := 0
	for _, m := range x.modules {
		if m != nil {
			world = max(world, m.world())
		}
	}
	for _, e := range x.calls {
		d, most := list[0], 0
		for _, of := range list {
			if n := count[thread{e.Plane, e.Thread}][of]; n > most {
				d, most = of, n
			}
		}
		d = cmp.Or(on(&e), d)
		d.calls = append(d.calls, e)
		if e.clique != "" {
			d.cliques = append(d.cliques, e.clique)
		}
		if global, ok := lex.Integer([]byte(e.global)); ok && most > 0 && global >= 0 && global < MaxRanks && d.rank == trace.None {
			d.rank = int(global)
			if m := x.modules[e.runs]; m != nil && m.world() == world {
				if r, ok := m.ranks[global]; ok {
					d.rank = r
				}
			}
		}
	}
	known := !slices.ContainsFunc(list, func(d *xlaDevice) bool { return d.rank == trace.None })
	for i, d := range list {
		if !known {
			d.rank = i
		}
		p := &x.Processes[d.process]
		if p.Rank, p.World = d.rank, max(world, len(list)); x.compiled() {
			p.Compiler = trace.XLA
		}
	}
}

// compiled reports whether kernels are of compiled programs: else the profile is TensorFlow's.
func (x *XLA) compiled() bool {
	return len(x.modules) > 0 || slices.ContainsFunc(x.work, func(e XLAEvent) bool { return e.module != "" || e.instruction != "" })
}

// An xlaStep is an iteration that the program marked.
type xlaStep struct {
	start trace.Time
	name  string
}

// steps are the iterations that the program marked (jax.profiler.StepTraceAnnotation), by start.
func (x *XLA) steps() (list []xlaStep) {
	for _, e := range x.calls {
		if n := e.step; n != "" {
			list = append(list, xlaStep{e.Start, e.Name + "#" + n})
		}
	}
	slices.SortStableFunc(list, func(a, b xlaStep) int { return cmp.Compare(a.start, b.start) })
	return list
}

// addCalls adds what the host did for a GPU: launches, ranges, and for each module that it runs the iteration that this is
// of. Threads run modules behind the one that marks iterations: a module is of the last iteration to start before it. Where
// none is marked, each run of a module is one. Where no call names the GPU, as of a program on one, that with a module's name runs it.
func (x *XLA) addCalls(d *xlaDevice, steps []xlaStep) {
	runs, modules := map[string]int{}, map[string]bool{}
	if !slices.ContainsFunc(d.calls, func(e XLAEvent) bool { return e.global != "" }) {
		for i := range d.work {
			modules[d.work[i].module] = d.work[i].module != ""
		}
	}
	var open *Call
	for _, e := range d.calls {
		c := Call{Name: x.Builder.Intern(e.Name), Thread: e.Thread, ThreadName: e.Line, Start: e.Start, End: e.End, Marker: true}
		if e.correlation > 0 {
			c.Correlation, c.Marker, c.Name = e.correlation, false, x.Builder.Intern(xlaCall(e.Name))
		}
		x.Record.At = e.At
		x.AddCall(d.process, &c)
		if e.step != "" || e.global == "" && !modules[e.runs] {
			continue
		}
		name := e.runs + "#" + strconv.Itoa(runs[e.runs])
		runs[e.runs]++
		if before := slices.IndexFunc(steps, func(s xlaStep) bool { return s.start > e.Start }); before > 0 {
			name = steps[before-1].name
		} else if n := len(steps); before < 0 && n > 0 {
			name = steps[n-1].name
		} else if n > 0 {
			continue
		}
		mark := Call{Name: x.Builder.Intern(name), Thread: e.Thread, ThreadName: e.Line, Start: e.Start, End: e.End, Marker: true}
		if open != nil && open.Name == mark.Name && open.Thread == mark.Thread {
			open.End = max(open.End, mark.End)
			continue
		}
		if open != nil {
			x.AddCall(d.process, open)
		}
		open = &mark
	}
	if open != nil {
		x.AddCall(d.process, open)
	}
}

// xlaCall is the driver's call by which an event launched something: the profiler names it after the kernel, or after the
// kind of copy.
func xlaCall(name string) string {
	word, _, _ := strings.Cut(name, " ")
	switch {
	case strings.HasPrefix(word, "cu") && len(word) > 2 && word[2] >= 'A' && word[2] <= 'Z':
		return word
	case strings.HasPrefix(word, "Memset"):
		return "cuMemsetAsync"
	case strings.HasPrefix(word, "Memcpy"):
		return "cuMemcpyAsync"
	}
	return "cuLaunchKernel"
}

// addWork adds the kernels and copies of a GPU.
func (x *XLA) addWork(d *xlaDevice) {
	of := x.instructions(d)
	for k := range d.work {
		e := &d.work[k]
		x.Record.At = e.At
		name, stream := x.Builder.Intern(e.Name), e.stream()
		if e.node > 0 {
			x.Session.Node(int64(e.node>>32), int64(e.node&math.MaxUint32))
		}
		if e.copies() {
			c := Copy{
				Name: name, From: d.agent, To: trace.None, Dir: trace.Fill, Bytes: Elements([]byte(detail(e.copied, "num_bytes:"))),
				Stream: stream, Correlation: e.correlation, Start: e.Start, End: e.End, OnQueue: true,
			}
			if !e.fills() {
				c.Bytes = Elements([]byte(detail(e.copied, "size:")))
				c.Dir = trace.Direction(strings.Replace(e.Name, "2", "to", 1)) // MemcpyD2D
				if c.Dir == trace.HostToDevice {
					c.From, c.To = trace.None, d.agent
				}
			}
			x.AddCopy(d.process, &c)
			row := &x.Builder.Run.Copies[len(x.Builder.Run.Copies)-1]
			row.Op, row.Uses = of[k].operator, of[k].uses
		} else {
			kernel := Dispatch{
				Agent: d.agent, Queue: stream, Name: name, Start: e.Start, End: e.End, Correlation: e.correlation, Comm: of[k].comm,
			}
			kernel.Setup = trace.Setup{
				Stream: stream, Grid: details(e.kernel, "grid:"), Block: details(e.kernel, "block:"),
				Registers: details(e.kernel, "regs:")[0],
				Shared:    Narrow(int64(details(e.kernel, "static_shared:")[0]) + int64(details(e.kernel, "dynamic_shared:")[0])),
			}
			x.AddKernel(d.process, &kernel)
			row := &x.Builder.Run.Kernels[len(x.Builder.Run.Kernels)-1]
			row.Op, row.Uses = of[k].operator, of[k].uses
		}
	}
	x.addWaits(d)
}

// copies reports whether an event of a stream is a copy or a fill.
func (e *XLAEvent) copies() bool { return e.kernel == "" && e.copied != "" }

// fills reports whether it is a fill.
func (e *XLAEvent) fills() bool { return e.copies() && detail(e.copied, "num_bytes:") != "" }

// stream is the number of an event's stream.
func (e *XLAEvent) stream() int64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(e.Line, streamLine), "(")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}

// detail is the word behind a key in a text such as "regs:16 grid:32,1,1".
func detail(text, key string) string {
	for _, word := range strings.Fields(text) {
		if v, ok := strings.CutPrefix(word, key); ok {
			return v
		}
	}
	return ""
}

// details are the numbers behind a key.
func details(text, key string) (t [3]int32) {
	for i, w := range strings.SplitN(detail(text, key), ",", 3) {
		n, _ := strconv.ParseInt(w, 10, 64)
		t[i] = Narrow(n)
	}
	return t
}
