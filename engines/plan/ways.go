package plan

import (
	"cmp"
	_ "embed" // the table of ways
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	training   = []string{DDP, FSDP, FSDP1, Megatron}
	engines    = []string{VLLM, SGLang}
	frameworks = slices.Concat(training, engines)
)

// The vendors of GPUs, and their libraries of collectives, of which a way names one or both.
const (
	NVIDIA        = "NVIDIA"
	AMD           = "AMD"
	eitherLibrary = "NCCL or RCCL"
)

var libraryOf = map[string]string{NVIDIA: "NCCL", AMD: "RCCL", "": eitherLibrary}

// libraries are those that any program uses.
var libraries = map[string]bool{"NCCL": true, "RCCL": true, eitherLibrary: true}

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

//go:embed ways.csv
var waysTable string

// waysTold are the ways of the table, by setting.
var waysTold = readWays()

// readWays reads the table: a row is a way for each of its settings and vendors. It panics at a row that is no way.
func readWays() map[string][]Way {
	table := csv.NewReader(strings.NewReader(waysTable))
	table.Comment = '#'
	rows, err := table.ReadAll()
	if err != nil {
		panic("engines/plan/ways.csv: " + err.Error())
	}
	ways := map[string][]Way{}
	for i, row := range rows[1:] {
		w := Way{With: row[1], Effort: Effort(row[5]), Library: row[6], Says: row[8], Line: row[9], Note: row[10]}
		w.Native, w.Even, w.Own = row[4] == "native", row[4] == "even", row[4] == "own"
		w.Saved, w.Loaded = row[4] == "saved", row[4] == "loaded"
		w.Change = map[string]int{"fewer": -1, "more": 1}[row[4]]
		w.Nodes = map[string]int{"node": -1, "nodes": 1}[row[4]]
		for name := range strings.FieldsSeq(row[2]) {
			op, ok := trace.ParseCollectiveOp(name)
			if !ok {
				panic(fmt.Sprintf("engines/plan/ways.csv: row %d: no collective is called %q", i+1, name))
			}
			w.Ops = append(w.Ops, op)
		}
		for setting := range strings.FieldsSeq(row[0]) {
			versions := strings.Split(row[7], "|")
			for k, vendor := range strings.Split(row[3], "|") {
				w.Vendor, w.Version = vendor, versions[min(k, len(versions)-1)]
				ways[setting] = append(ways[setting], w)
			}
		}
	}
	return ways
}

// WaysOf are the ways to get a strategy, or with a parameter of it another value than the default: those that it names itself, else
// those of the table.
func WaysOf(e Strategy, p Param) []Way {
	own, told := p.Ways, waysTold[e.Name+"."+p.Name]
	switch {
	case p.Name == "":
		own, told = e.Ways, waysTold[e.Name]
	case told == nil:
		told = waysTold[p.Name]
	}
	if own != nil {
		return own
	}
	return told
}

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
	Own     bool                 `json:"-"`                 // for a program whose trace names the library
	Even    bool                 `json:"-"`                 // of all-to-alls for those of equal parts: others are messages
	Saved   bool                 `json:"-"`                 // for copies that bring saved tensors back in the backward pass
	Loaded  bool                 `json:"-"`                 // for other copies
	Change  int                  `json:"-"`                 // of channels: -1 fewer than captured, 1 more; 0: either
	Nodes   int                  `json:"-"`                 // -1 for ranks of one node, 1 for ranks of several; 0: either
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
	Absent     []string             // libraries that would have left a mark in the trace, which has none
	Channels   int                  // most channels of a captured collective
	Overlapped []trace.CollectiveOp // as of Changes
	OwnGroup   bool                 // as of Planner
	Uneven     bool                 // the program gives the parts of an all-to-all by size
	Saved      bool                 // copies bring back tensors that the forward pass copied to the host
	Nodes      []trace.CollectiveOp // collectives of which some has ranks of several nodes
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
	alone := slices.ContainsFunc(s.Strategy.Params, func(p Param) bool {
		of := func(op trace.CollectiveOp) bool { return slices.Contains(p.Ops, op) }
		return p.WaysSuffice && set(p) && (p.Ops == nil || slices.ContainsFunc(t.Ops, of))
	})
	overlapped := func(op trace.CollectiveOp) bool { return slices.Contains(t.Overlapped, op) } // only settings move these
	moved := slices.DeleteFunc(slices.Clone(t.Ops), overlapped)
	if all := WaysOf(s.Strategy, Param{}); !alone && len(moved) >= min(1, len(t.Ops)) && len(all) > 0 {
		need(t.choose(s, s.Strategy.Name, moved, all))
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
			ways, e := t.choose(s, p.Name+"="+s.Values[p.Name], ops, WaysOf(s.Strategy, p))
			for i := range ways {
				ways[i].Costs = p.Costs
			}
			need(ways, e)
		}
	}
	return ways, effort
}

// choose returns those of all ways that hold for a selection, those of the target's framework
// alone if it has some, and their effort. A collective without one is work: an own kernel.
func (t Target) choose(s Selection, what string, ops []trace.CollectiveOp, all []Way) (ways []Way, effort Effort) {
	work := Way{Effort: OwnKernel, Note: "no option or off-the-shelf kernel is known that does this"}
	if i := slices.IndexFunc(all, func(w Way) bool { return w.Effort == OwnKernel }); i >= 0 {
		work = all[i]
	}
	if len(ops) == 0 {
		ops = []trace.CollectiveOp{trace.UnknownOp}
	}
	effort = ByFlag
	for _, op := range ops {
		found := slices.DeleteFunc(slices.Clone(all), func(w Way) bool { return w.Effort == OwnKernel || !t.allows(w, op, s.Values) })
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
			found = []Way{work}
		}
		of := found // an option of a framework is none of a program that may be of another, or of none
		foreign := func(w Way) bool {
			return slices.Contains(frameworks, w.Library) && !(t.Serves && slices.Contains(engines, w.Library))
		}
		if t.Framework == "" {
			switch others := slices.DeleteFunc(slices.Clone(found), foreign); {
			case len(others) > 0:
				of = others
			case !slices.ContainsFunc(found, func(w Way) bool { return !slices.Contains(engines, w.Library) }): // and it serves nothing
				of, found = []Way{work}, append(found, work)
			}
		}
		least := slices.MinFunc(of, func(a, b Way) int { return CompareEfforts(a.Effort, b.Effort) }).Effort
		effort = slices.MaxFunc([]Effort{effort, least}, CompareEfforts)
		first := slices.IndexFunc(found, func(w Way) bool { return w.Effort == least && (len(of) == len(found) || !foreign(w)) })
		for i, w := range found {
			w.For, w.Line, w.Note, w.Says, w.Needed = what, s.fill(w.Line), s.fill(w.Note), s.fill(w.Says), i == first
			w.Says = cmp.Or(w.Says, w.imperative())
			if strings.HasPrefix(w.Line, "XLA_FLAGS=") {
				w.Note = strings.TrimPrefix(w.Note+"; "+moreFlags, "; ")
			}
			if w.Library == eitherLibrary {
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
		slices.Contains(t.Absent, w.Library)
	other = other || w.Even && t.Uneven && op == trace.AllToAll || w.Own && w.Library != t.Framework
	other = other || w.Saved && !t.Saved || w.Loaded && t.Saved
	other = other || w.Nodes != 0 && w.Nodes > 0 != slices.Contains(t.Nodes, op)
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

// copyOps are the collectives that copy.
var copyOps = []trace.CollectiveOp{trace.AllGather, trace.AllToAll, trace.Gather, trace.Scatter}

// OnlyGathers are the collectives of one kind.
var OnlyGathers = []trace.CollectiveOp{trace.AllGather}

// moreFlags is what to heed about the flags of XLA (xla/debug_options_flags.cc).
const moreFlags = "add it to the flags that XLA_FLAGS has"

// The parameters that several strategies have.
var (
	ChannelsParam = Param{
		Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured",
		Tune: []int{2, 4, 8, 16, 24, 32}, Measured: []string{AnyNumber}, Costs: "fewer leave compute units to compute and move fewer bytes a second",
	}
	PriorityParam = Param{
		Name: "priority", Default: "off", Choices: []string{"off", "on"}, Doc: "communication stream first among waiting workgroups", Measured: []string{"off", "on"},
	}
	GraphParam = Param{
		Name: "graph", Default: AsCaptured, Choices: []string{AsCaptured, "on"}, Doc: "on: launched by a captured graph, the host costs nothing", Keep: true, ranOn: ranOn[:1],
		Costs: "shapes and addresses must not change between iterations",
	}
)
