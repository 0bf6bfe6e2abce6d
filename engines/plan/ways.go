package plan

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Effort is the work that a way takes.
type Effort string

// The efforts, least first.
const (
	ByFlag     Effort = "flag"               // a variable, an option or an argument
	ByCode     Effort = "code"               // a change of the program
	ThirdParty Effort = "third-party kernel" // another project has the kernel
	OwnKernel  Effort = "own kernel"         // no off-the-shelf kernel or option does it
)

var efforts = []Effort{ByFlag, ByCode, ThirdParty, OwnKernel}

// CompareEfforts orders efforts, least first.
func CompareEfforts(a, b Effort) int {
	return cmp.Compare(slices.Index(efforts, a), slices.Index(efforts, b))
}

// Libraries that own a program's schedule. A trace that names one cannot use the others.
const (
	DDP      = "PyTorch DDP"
	FSDP     = "PyTorch FSDP2"
	FSDP1    = "PyTorch FSDP1" // FullyShardedDataParallel
	Megatron = "Megatron Core"
	VLLM     = "vLLM"
	SGLang   = "SGLang"
)

var (
	marking    = []string{DDP, FSDP, FSDP1} // by ranges of their own in the profile
	training   = append(slices.Clone(marking), Megatron)
	frameworks = append(slices.Clone(training), VLLM, SGLang)
)

// The vendors of GPUs, and their libraries of collectives, of which a way names one or both.
const (
	NVIDIA  = "NVIDIA"
	AMD     = "AMD"
	Library = "NCCL or RCCL"
)

var libraryOf = map[string]string{NVIDIA: "NCCL", AMD: "RCCL", "": Library}

// libraries are those that any program uses.
var libraries = map[string]bool{"NCCL": true, "RCCL": true, Library: true}

// VendorOf is the vendor of a GPU, by its name; "" if the name does not tell.
func VendorOf(gpu string) string {
	switch {
	case strings.Contains(gpu, NVIDIA), strings.Contains(gpu, "Tesla"):
		return NVIDIA
	case strings.Contains(gpu, AMD), strings.Contains(gpu, "Instinct"):
		return AMD
	}
	return ""
}

// LibraryOf is the library of collectives on a GPU.
func LibraryOf(gpu string) string { return libraryOf[VendorOf(gpu)] }

// A Way is one way to get a strategy, or a value of one of its parameters, on a real system.
type Way struct {
	For     string               `json:"for"` // the strategy or setting that it gives, as "channels=8"; How fills it in
	Effort  Effort               `json:"effort"`
	Library string               `json:"library,omitempty"` // "" if none has it
	Version string               `json:"version,omitempty"` // of the library, at least; "": not known, or any
	Line    string               `json:"line,omitempty"`    // NAME=value of the environment, an --option, or lines of Python; %name is a parameter's value
	Note    string               `json:"note,omitempty"`    // what to do if there is no line, and what to heed
	Says    string               `json:"says,omitempty"`    // the change in the library's words: "set bucket_cap_mb=50"; How fills in those of a variable
	Costs   string               `json:"costs,omitempty"`   // of the setting, as Param.Costs
	Needed  bool                 `json:"needed"`            // the first of the least effort for a collective; the others are alternatives
	With    string               `json:"-"`                 // settings with which it gives what is predicted: "impl=auto|pull gemm=chunks"; "": any
	Ops     []trace.CollectiveOp `json:"-"`                 // collectives for which it does; nil: any
	Vendor  string               `json:"-"`                 // of the GPUs; "": any
	Native  bool                 `json:"-"`                 // for a program without PyTorch
	Change  int                  `json:"-"`                 // of channels: -1 fewer than captured, 1 more; 0: either
}

// A Target is what a strategy is to change.
type Target struct {
	Ops        []trace.CollectiveOp // collectives that it changes; none: between kernels
	Vendor     string               // of the GPUs; "": not known
	Serves     bool                 // it is a step of inference
	Forward    bool                 // its operators are recorded, and none is of a backward pass
	Native     bool                 // nothing in the trace is PyTorch's
	Either     bool                 // nor a program's own: it may be of either
	Framework  string               // one of the libraries that own a schedule, if the trace names it
	Unmarked   bool                 // operators are recorded, but no range of a library that marks its own
	Channels   int                  // most channels of a captured collective
	Overlapped []trace.CollectiveOp // as of Changes
	OwnGroup   bool                 // as of Planner
}

// How returns the ways to get what a selection predicts on a target, and the effort of all
// that is needed: of the alternatives for a setting the least, of the settings the most.
func How(s Selection, t Target) (ways []Way, effort Effort) {
	ways, effort = []Way{}, ByFlag
	need := func(more []Way, e Effort) {
		for _, w := range more {
			if !slices.ContainsFunc(ways, func(x Way) bool { return x.Library == w.Library && x.Line == w.Line && x.Note == w.Note }) {
				ways = append(ways, w)
			}
		}
		effort = slices.MaxFunc([]Effort{effort, e}, CompareEfforts)
	}
	for _, part := range s.Strategy.Parts {
		own := t
		own.Ops = []trace.CollectiveOp{part.On}
		need(How(part, own))
	}
	set := func(p Param) bool {
		v := s.Values[p.Name]
		return v != p.Default && v != "" && p.Matters(s.Values)
	}
	alone := slices.ContainsFunc(s.Strategy.Params, func(p Param) bool { return p.Alone && set(p) })
	overlapped := func(op trace.CollectiveOp) bool { return slices.Contains(t.Overlapped, op) } // only settings move these
	moved := slices.DeleteFunc(slices.Clone(t.Ops), overlapped)
	if !alone && len(moved) >= min(1, len(t.Ops)) && (len(s.Strategy.Ways) > 0 || s.Strategy.Work != "") {
		need(t.choose(s, s.Strategy.Name, moved, s.Strategy.Ways, s.Strategy.Work))
	}
	for _, p := range s.Strategy.Params {
		ops := t.Ops
		if p.Ops != nil {
			ops = slices.DeleteFunc(slices.Clone(ops), func(op trace.CollectiveOp) bool { return !slices.Contains(p.Ops, op) })
			if len(ops) == 0 {
				continue // it changes nothing
			}
		}
		if set(p) {
			ways, e := t.choose(s, p.Name+"="+s.Values[p.Name], ops, p.Ways, p.Work)
			for i := range ways {
				ways[i].Costs = p.Costs
			}
			need(ways, e)
		}
	}
	return ways, effort
}

// choose returns those of all ways that hold for a selection, those of the target's framework
// alone if it has some, and their effort. A collective without one is work.
func (t Target) choose(s Selection, what string, ops []trace.CollectiveOp, all []Way, work string) (ways []Way, effort Effort) {
	if len(ops) == 0 {
		ops = []trace.CollectiveOp{trace.UnknownOp}
	}
	effort = ByFlag
	for _, op := range ops {
		found := slices.DeleteFunc(slices.Clone(all), func(w Way) bool { return !t.allows(w, op, s.Values) })
		if own := func(w Way) bool { return w.Library == t.Framework }; t.Framework != "" && slices.ContainsFunc(found, own) {
			found = slices.DeleteFunc(found, func(w Way) bool { return !own(w) })
		}
		found = slices.DeleteFunc(found, func(w Way) bool {
			return (w.Native || !t.Either) && w.Native != (t.Native && slices.ContainsFunc(found, func(w Way) bool { return w.Native }))
		})
		variables := func(w Way) bool { return strings.HasSuffix(w.Line, "=%channels") }
		if group := slices.DeleteFunc(slices.Clone(found), variables); t.OwnGroup && !t.Native && len(group) > 0 {
			found = group
		}
		if len(found) == 0 {
			found = []Way{{Effort: OwnKernel, Note: cmp.Or(work, "no option or off-the-shelf kernel is known that does this")}}
		}
		of := found // an option of a serving engine is none of a program that may be anything
		if others := slices.DeleteFunc(slices.Clone(found), func(w Way) bool { return w.Library == VLLM || w.Library == SGLang }); t.Framework == "" && !t.Serves && len(others) > 0 {
			of = others
		}
		least := slices.MinFunc(of, func(a, b Way) int { return CompareEfforts(a.Effort, b.Effort) }).Effort
		effort = slices.MaxFunc([]Effort{effort, least}, CompareEfforts)
		first := slices.IndexFunc(found, func(w Way) bool { return w.Effort == least })
		for i, w := range found {
			w.For, w.Line, w.Note, w.Says, w.Needed = what, s.fill(w.Line), s.fill(w.Note), s.fill(w.Says), i == first
			w.Says = cmp.Or(w.Says, w.imperative())
			if strings.HasPrefix(w.Line, "XLA_FLAGS=") {
				w.Note = strings.TrimPrefix(w.Note+"; "+moreFlags, "; ")
			}
			if w.Library == Library {
				w.Library = libraryOf[t.Vendor]
			}
			ways = append(ways, w)
		}
	}
	return ways, effort
}

// allows reports whether a way gives what the settings predict for a collective.
func (t Target) allows(w Way, op trace.CollectiveOp, v Values) bool {
	more := 1
	if v.Int("channels") <= t.Channels {
		more = -1
	}
	compiled, byFlag := t.Framework == trace.XLA, w.Library == trace.XLA
	if compiled && !byFlag && !libraries[w.Library] || !compiled && byFlag {
		return false
	}
	other := t.Framework != "" && w.Library != t.Framework && slices.Contains(frameworks, w.Library) || (t.Serves || t.Forward) && slices.Contains(training, w.Library) ||
		t.Unmarked && slices.Contains(marking, w.Library)
	return holds(w.With, v) && (w.Ops == nil || slices.Contains(w.Ops, op)) && (w.Vendor == "" || w.Vendor == t.Vendor) &&
		(w.Change == 0 || w.Change == more) && !other
}

// fill writes values in place of the names of parameters.
func (s Selection) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := s.Values[name[1:]]; ok {
			return v
		}
		return name
	})
}

var placeholder = regexp.MustCompile(`%[a-z_]+`)

// holds reports whether settings meet a condition: "name=value|value", several separated by
// spaces.
func holds(condition string, v map[string]string) bool {
	for _, c := range strings.Fields(condition) {
		name, values, _ := strings.Cut(c, "=")
		if !slices.Contains(strings.Split(values, "|"), v[name]) {
			return false
		}
	}
	return true
}

// Unmeasured lists what of a selection was never run on hardware: the strategy itself, settings, or collectives of
// those that it changes.
func Unmeasured(s Selection, ops []trace.CollectiveOp) (list []string) {
	for _, p := range s.Strategy.Params {
		v := s.Values[p.Name]
		ran := slices.Contains(p.Measured, v) || slices.Contains(p.Measured, AnyNumber) || p.Measured == nil && v == p.Default
		switch {
		case v == "" || ran || !p.Matters(s.Values):
		case v == p.Default:
			list = once(list, s.Strategy.Name)
		default:
			list = once(list, s.Strategy.Name+" "+p.Name+"="+v)
		}
	}
	for _, op := range ops {
		if s.Strategy.MeasuredOn != nil && !slices.Contains(s.Strategy.MeasuredOn, op) {
			list = once(list, s.Strategy.Name+" of "+op.String())
		}
	}
	return list
}

// ranOn are the GPUs of the measured rows of strategies (samples/measurements).
var ranOn = []string{"NVIDIA H100", "NVIDIA H200"}

// Elsewhere says which strategy or setting of a selection was run on other GPUs alone, and on which; "": none.
func Elsewhere(s Selection, gpu string) (what string, on []string) {
	missing := func(on []string) bool {
		return !slices.ContainsFunc(on, func(name string) bool { return strings.HasPrefix(gpu, name) })
	}
	ran := s.Strategy.Exact
	for _, p := range s.Strategy.Params {
		if v := s.Values[p.Name]; v != p.Default && p.ranOn != nil {
			if missing(p.ranOn) {
				return p.Name + "=" + v, p.ranOn
			}
			ran = true // the strategy with it
		}
	}
	if !ran && missing(ranOn) {
		return s.Strategy.Name, ranOn
	}
	return "", nil
}

// AnyNumber stands in Param.Measured for all numbers.
const AnyNumber = "*"

// Changes are what a plan changes.
type Changes struct {
	Workload   *workload.Workload   // of the plan: it may be cut anew
	Runs       []int8               // by op of Workload: how often it runs; nil: once
	Pairs      []*workload.Pair     // none: the schedule of all collectives
	Ops        []trace.CollectiveOp // of the collectives that it changes: each once, ascending
	Never      []string             // reasons for which nothing like it has run on hardware
	Notes      []string             // on what the plan did
	Overlapped []trace.CollectiveOp // of which all run beside compute in the captured schedule: only settings change them
	Rest       float64              // share of the captured device time that it leaves alone (leftAlone)
	OwnGroup   bool                 // as of Planner
}

// Changes returns what the plan changes: the collectives of its pairs, or without pairs those that
// ChangesOnly selects.
func (pl *Planner) Changes() Changes {
	c := Changes{Workload: pl.Workload, Runs: pl.Runs, Never: pl.Never, Notes: pl.Notes, Overlapped: pl.Overlapped, OwnGroup: pl.OwnGroup}
	add := func(coll *workload.Collective) {
		if coll.Op != trace.Barrier && !slices.Contains(c.Ops, coll.Op) {
			c.Ops = append(c.Ops, coll.Op)
		}
	}
	for i := range pl.Pairs {
		c.Pairs = append(c.Pairs, pl.Pairs[i].Pair)
		if row := pl.Pairs[i].Collective; row >= 0 {
			add(&pl.Workload.Collectives[row])
		}
	}
	for i := range pl.Workload.Collectives {
		if coll := &pl.Workload.Collectives[i]; len(pl.Pairs) == 0 && (pl.ChangesOnly == nil || pl.ChangesOnly(coll)) {
			add(coll)
		}
	}
	slices.Sort(c.Ops)
	c.Rest = pl.leftAlone()
	return c
}

// leftAlone is the share of the captured device time, summed over operations, that is neither of
// operations that the plan changes nor beside collectives that it moves; 0 where it changes all, or
// that is not known.
func (pl *Planner) leftAlone() float64 {
	w, step := pl.Workload, len(pl.Pairs) == 0
	if !WasMeasured(w) || step && w.Origins != nil || pl.Graph {
		return 0
	}
	var all, moved trace.Time
	for id := range w.Ops {
		op := &w.Ops[id]
		all += w.Lasts(op)
		switch c := op.Collective; {
		case pl.Replaced[op.ID]:
			moved += w.Lasts(op)
		case step && c >= 0 && (pl.ChangesOnly == nil || pl.ChangesOnly(&w.Collectives[c])):
			moved += 2 * w.Lasts(op) // its own and that of what runs beside it
		}
	}
	return max(0, 1-float64(moved)/float64(max(1, all)))
}

// Only is the parameter with an effect only under the given settings.
func (p Param) Only(condition string) Param {
	p.For = condition
	return p
}

// Untried is the parameter as an experimental one.
func (p Param) Untried() Param {
	p.Experimental = true
	return p
}

// Ran is the parameter with the values that were run on hardware.
func (p Param) Ran(values ...string) Param {
	p.Measured = values
	return p
}

// imperative is what to do where the line says it itself: a variable or an option.
func (w *Way) imperative() string {
	switch {
	case strings.HasPrefix(w.Line, "--"):
		return "pass " + w.Line
	case variable.MatchString(w.Line):
		return "set " + w.Line
	}
	return ""
}

// variable is a line of the environment.
var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=\S*$`)

// Said is all that is to be done, in the words of the libraries; "" if no words are known of a part. What a library does by default
// needs no word.
func Said(ways []Way) string {
	var list, strategy []string // settings come first
	for i := range ways {
		switch w := &ways[i]; {
		case !w.Needed || w.Says == "" && w.Effort == ByFlag && w.Line == "":
		case w.Says == "":
			return ""
		case strings.Contains(w.For, "="):
			list = once(list, w.Says)
		default:
			strategy = once(strategy, w.Says)
		}
	}
	said := strings.Join(append(list, strategy...), " and ")
	if strings.HasPrefix(said, "set ") {
		said = strings.ReplaceAll(said, " and set ", " and ")
	}
	return said
}

// String is the way in one line.
func (w Way) String() string {
	text := strings.ReplaceAll(w.Line, "\n", "; ")
	if text == "" {
		text = w.Note
	} else if w.Note != "" {
		text += " (" + w.Note + ")"
	}
	if w.Library != "" {
		text = strings.TrimSpace(w.Library+" "+w.Version) + ": " + text
	}
	return text
}

// Collectives that NCCL and RCCL run on channels of their own, and those made of sends and
// receives, which have other channels (NCCL 2.28, src/graph/paths.cc; NVIDIA/nccl issue 1598).
var (
	ringOps     = []trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.Broadcast, trace.Reduce}
	sendOps     = []trace.CollectiveOp{trace.AllToAll, trace.SendRecv, trace.Gather, trace.Scatter}
	copyOps     = []trace.CollectiveOp{trace.AllGather, trace.AllToAll, trace.Gather, trace.Scatter}
	OnlyGathers = []trace.CollectiveOp{trace.AllGather}
	OnlySums    = []trace.CollectiveOp{trace.AllReduce}
)

// everyCommunicator is what to heed about variables of a library.
const everyCommunicator = "holds for every communicator of the process"

// moreFlags is what to heed about the flags of XLA (xla/debug_options_flags.cc).
const moreFlags = "add it to the flags that XLA_FLAGS has"

// The parameters that several strategies have.
var (
	ChannelsParam = Param{
		Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured",
		Tune: []int{2, 4, 8, 16, 24, 32}, Measured: []string{AnyNumber}, Costs: "fewer leave compute units to compute and move fewer bytes a second",
		Work: "a collective kernel with that many workgroups",
		Ways: []Way{
			{Ops: ringOps, Vendor: NVIDIA, Change: -1, Effort: ByFlag, Library: "NCCL", Version: "2.17", Line: "NCCL_MAX_CTAS=%channels", Note: everyCommunicator + "; NCCL_MAX_NCHANNELS before 2.17"},
			{Ops: ringOps, Vendor: NVIDIA, Change: 1, Effort: ByFlag, Library: "NCCL", Version: "2.17", Line: "NCCL_MIN_CTAS=%channels", Note: everyCommunicator + ", as far as the library allows; NCCL_MIN_NCHANNELS before 2.17"},
			{Ops: ringOps, Vendor: NVIDIA, Effort: ByCode, Library: "PyTorch", Version: "2.1", Line: "options = torch.distributed.ProcessGroupNCCL.Options()\noptions.config.min_ctas = options.config.max_ctas = %channels\ngroup = torch.distributed.new_group(pg_options=options)", Says: "set max_ctas=%channels for its group", Note: "for one process group, which has a stream of its own"},
			{Ops: sendOps, Vendor: NVIDIA, Change: -1, Effort: ByFlag, Library: "NCCL", Line: "NCCL_MAX_P2P_NCHANNELS=%channels", Note: everyCommunicator + "; the library takes a power of two"},
			{Ops: sendOps, Vendor: NVIDIA, Change: 1, Effort: ByFlag, Library: "NCCL", Line: "NCCL_MIN_P2P_NCHANNELS=%channels", Note: everyCommunicator + "; the library takes a power of two"},
			{Ops: ringOps, Vendor: AMD, Change: -1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MAX_NCHANNELS=%channels", Note: everyCommunicator + "; NCCL_MAX_CTAS and max_ctas are ignored before June 2026 (ROCm/rocm-systems 7604)"},
			{Ops: ringOps, Vendor: AMD, Change: 1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MIN_NCHANNELS=%channels", Note: everyCommunicator + "; more than 64 are ignored with fewer than 8 GPUs"},
			{Ops: sendOps, Vendor: AMD, Change: -1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MAX_P2P_NCHANNELS=%channels", Note: everyCommunicator + "; within a node older versions double it (ROCm/rocm-systems 10718)"},
			{Ops: sendOps, Vendor: AMD, Change: 1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MIN_P2P_NCHANNELS=%channels", Note: everyCommunicator},
		},
	}
	PriorityParam = Param{
		Name: "priority", Default: "off", Choices: []string{"off", "on"}, Doc: "communication stream first among waiting workgroups", Measured: []string{"off", "on"},
		Ways: []Way{
			{Effort: ByFlag, Library: "PyTorch", Version: "2.2", Line: "TORCH_NCCL_HIGH_PRIORITY=1", Note: "holds for every process group"},
			{
				Effort: ByFlag, Library: trace.XLA,
				Line: "XLA_FLAGS=--xla_gpu_enable_highest_priority_async_stream=true", Note: "its default",
			},
			{Effort: ByCode, Library: "PyTorch", Version: "1.8", Line: "options = torch.distributed.ProcessGroupNCCL.Options(is_high_priority_stream=True)\ngroup = torch.distributed.new_group(pg_options=options)", Note: "instead of the variable: for one process group"},
		},
	}
	GraphParam = Param{
		Name: "graph", Default: AsCaptured, Choices: []string{AsCaptured, "on"}, Doc: "on: launched by a captured graph, the host costs nothing", Keep: true, ranOn: ranOn[:1],
		Costs: "shapes and addresses must not change between iterations",
		Ways: []Way{
			{Effort: ByCode, Library: "PyTorch", Version: "1.10", Says: "capture the iteration in a CUDA graph", Line: "graph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    step(static_input)\n# each iteration: static_input.copy_(batch); graph.replay()", Note: keepsKernels},
			{
				Native: true, Vendor: NVIDIA, Effort: ByCode, Library: "CUDA", Version: "12",
				Says: "capture the iteration in a CUDA graph", Line: captureByStream("cuda"),
			},
			{
				With: "graph=on", Effort: ByFlag, Library: trace.XLA, Says: "launch collectives from CUDA graphs too",
				Line: "XLA_FLAGS=--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,COLLECTIVES",
			},
			{Native: true, Vendor: AMD, Effort: ByCode, Library: "HIP", Version: "ROCm 6", Says: "capture the iteration in a HIP graph", Line: captureByStream("hip")},
		},
	}
)

// keepsKernels says what changes the kernels of an iteration while a stream captures: measured with Adam's foreach, 2 to 3 ms
// more a step, and with bert-large of Transformers 5.17, 32.2 instead of 16.9 ms.
const keepsKernels = "step and static_input are yours: an iteration, and a tensor that stays in its place; " +
	"Adam needs capturable=True, and fused=True, or it launches two kernels more a parameter; " +
	"compare the graph's kernels with the captured ones: Transformers makes an attention mask while a stream captures, " +
	"and an encoder that was given none then runs attention unfused (give it attention_mask)"

// captureByStream captures what an iteration puts on a stream, and launches that instead, with a runtime's functions.
func captureByStream(runtime string) string {
	return strings.ReplaceAll(`RStreamBeginCapture(stream, RStreamCaptureModeThreadLocal);
iteration(stream);
RStreamEndCapture(stream, &graph);
RGraphInstantiate(&exec, graph, 0);
// each iteration: RGraphLaunch(exec, stream);`, "R", runtime)
}
