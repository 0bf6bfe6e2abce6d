package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Advice is what a strategy changes and how a user gets it.
type Advice struct {
	Exposed [2]int64    `json:"exposed_ns"`   // exposed communication of the captured schedule and of the strategy, per rank and iteration
	Memory  int64       `json:"memory_bytes"` // the most that a rank holds at a time, as a difference to the captured schedule
	Effort  plan.Effort `json:"effort"`       // of all that is needed
	Ways    []plan.Way  `json:"ways"`         // alternatives for the strategy and for each setting, in that order
	Where   []string    `json:"where"`        // operators and collectives to change, those with most communication first
	Said    string      `json:"said"`         // the sentence of the verdict that recommends it
}

// AdviceOn is what a strategy changes against the captured schedule and how to get it.
func AdviceOn(w *workload.Workload, captured, out engines.Outcome) Advice {
	changed := out.Changed
	// its operations are parts of those that a user finds
	if changed.Workload != nil && changed.Workload.Origins != nil && len(changed.Pairs) == 0 {
		changed.Workload = w
	}
	changed.Ops = setFor(out.Selection, changed.Ops)
	a := Advice{
		Exposed: [2]int64{int64(TimesOf(w, captured).Exposed()), int64(TimesOf(w, out).Exposed())},
		Memory:  out.Memory.Bytes,
		Where:   whereOf(changed),
	}
	a.Ways, a.Effort = HowTo(w, out)
	return a
}

// HowTo is how to get an outcome's strategy, and the effort of it.
func HowTo(w *workload.Workload, out engines.Outcome) ([]plan.Way, plan.Effort) {
	native := isNative(w.Run)
	t := plan.Target{
		Ops: out.Changed.Ops, Either: native && !ownKernels(w), Vendor: plan.VendorOf(out.Machine.GPU.Name), Framework: frameworkOf(w.Run),
		Native: native, Forward: isForward(w.Run), Serves: w.Serves(), Overlapped: out.Changed.Overlapped, OwnGroup: out.Changed.OwnGroup,
	}
	if t.Framework == "" {
		t.Absent = absentFrom(w.Run)
	}
	for i := range w.Collectives {
		t.Channels = max(t.Channels, w.Collectives[i].Channels)
	}
	t.Uneven = slices.ContainsFunc(w.Run.Comms, func(c trace.Comm) bool { return c.Op == trace.AllToAll && c.Sent > 0 })
	t.Saved = bringsBack(w)
	for _, c := range w.Collectives {
		node := func(id int32) int { return out.Machine.Node(w.Ops[id].Rank) }
		apart := slices.ContainsFunc(c.Members, func(id int32) bool { return node(id) != node(c.Members[0]) })
		if apart && !slices.Contains(t.Nodes, c.Op) {
			t.Nodes = append(t.Nodes, c.Op)
		}
	}
	return plan.How(out.Selection, t)
}

// bringsBack reports whether most of what copies from the host bring are tensors that the backward pass needs and the step copied
// to the host before.
func bringsBack(w *workload.Workload) bool {
	var saved, others int64 // bytes
	toHost := false
	for i := range w.Ops {
		op := &w.Ops[i]
		if op.Kind != trace.Copy {
			continue
		}
		c := w.Run.Copy(w.Run.Spans[op.Span])
		switch {
		case c == nil:
		case c.Dir == trace.DeviceToHost:
			toHost = true
		case c.Dir == trace.HostToDevice && op.Backward:
			saved += c.Bytes
		case c.Dir == trace.HostToDevice:
			others += c.Bytes
		}
	}
	return toHost && saved > others
}

// isNative reports whether nothing in a trace is PyTorch's, nor of a program that XLA compiled.
func isNative(run *trace.Run) bool {
	r := lift.RecorderOf(run)
	return !r.Torch && !r.XLA
}

// compiled reports whether XLA compiled the program.
func compiled(run *trace.Run) bool { return lift.RecorderOf(run).XLA }

// ownKernels reports whether the name of some kernel is of no library, as far as it is known: one of the program's own.
func ownKernels(w *workload.Workload) bool {
	return slices.ContainsFunc(w.Ops, func(op workload.Op) bool {
		return op.Kind == trace.Compute && workload.ClassOf(op.Name) == workload.ClassUnknown
	})
}

// isForward reports whether a trace has PyTorch's operators, and none of a backward pass.
func isForward(run *trace.Run) bool {
	return !trains(run) && slices.ContainsFunc(run.Names, func(name string) bool { return strings.HasPrefix(name, "aten::") })
}

// trains reports whether a trace has a backward pass of PyTorch's.
func trains(run *trace.Run) bool {
	return slices.ContainsFunc(run.Names, func(name string) bool {
		return strings.Contains(name, "Backward") || strings.HasPrefix(name, "autograd::")
	})
}

// ofMegatron reports whether Megatron Core made a group: parallel_state.py calls it TENSOR_MODEL_PARALLEL_GROUP and the like.
func ofMegatron(g trace.Group) bool { return strings.Contains(g.Doc, "_PARALLEL_GROUP") }

// absentFrom are the libraries that mark what they do where a trace with operators, or with descriptions of its groups, shows
// it, in a trace of none of them; and those that serve, in one with a backward pass.
func absentFrom(run *trace.Run) (list []string) {
	if len(run.Operators) > 0 {
		list = append(list, plan.DDP, plan.FSDP, plan.FSDP1)
	}
	if slices.ContainsFunc(run.Groups, func(g trace.Group) bool { return g.Doc != "" }) {
		list = append(list, plan.Megatron)
	}
	if trains(run) {
		list = append(list, plan.VLLM, plan.SGLang)
	}
	return list
}

// frameworkOf is the library that schedules collectives, by ranges that it marks or groups that it makes; "" if none does.
func frameworkOf(run *trace.Run) string {
	if compiled(run) {
		return trace.XLA
	}
	for _, name := range run.Names {
		switch {
		case strings.HasPrefix(name, "FSDP::"):
			return plan.FSDP
		case strings.HasPrefix(name, "FullyShardedDataParallel."):
			return plan.FSDP1
		case strings.HasPrefix(name, "DistributedDataParallel."):
			return plan.DDP
		}
	}
	if slices.ContainsFunc(run.Groups, ofMegatron) {
		return plan.Megatron
	}
	return lift.RecorderOf(run).Engine
}

// mostWhere is how many kinds of operations an advice names.
const mostWhere = 3

// whereOf names the operations that a plan changes, by kind. Guessed sizes differ with the noise of times: one kind has a range of them.
func whereOf(c plan.Changes) []string {
	type kind struct {
		text, kernel string // kernel: of a collective of guessed size
		n            int
		time         trace.Time
		least, most  int64                    // guessed bytes
		named        func(size string) string // with a text for guessed bytes
	}
	kinds, list := []kind{}, []string{}
	if c.Workload == nil {
		return list
	}
	add := func(named func(size string) string, collective int32, time trace.Time) {
		kernel, text := "", named("")
		if collective >= 0 && c.Workload.Collectives[collective].Guessed {
			kernel = c.Workload.Ops[c.Workload.Collectives[collective].Members[0]].Name
		}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.text == text && k.kernel == kernel })
		if i < 0 {
			i, kinds = len(kinds), append(kinds, kind{text: text, kernel: kernel, least: math.MaxInt64, named: named})
		}
		kinds[i].n++
		kinds[i].time += time
		if collective >= 0 {
			bytes := c.Workload.Collectives[collective].Bytes
			kinds[i].least, kinds[i].most = min(kinds[i].least, bytes), max(kinds[i].most, bytes)
		}
	}
	for _, p := range c.Pairs {
		time := c.Workload.Ops[p.First[0]].Dur()
		if p.Collective >= 0 {
			time = c.Workload.Collectives[p.Collective].Transfer()
		}
		add(func(size string) string {
			return nameOf(c.Workload, p.First[0], size) + " → " + nameOf(c.Workload, p.Second[0], size)
		}, p.Collective, time)
	}
	if len(c.Pairs) == 0 {
		for i := range c.Workload.Collectives {
			x := &c.Workload.Collectives[i]
			if x.Earlier || !slices.Contains(c.Ops, x.Op) {
				continue
			}
			add(func(size string) string { return nameOf(c.Workload, x.Members[0], size) }, int32(i), x.Transfer())
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.time, a.time) })
	for i, k := range kinds {
		if i == mostWhere {
			return append(list, fmt.Sprintf("and %d more", len(kinds)-i))
		}
		times := "once"
		if k.n > 1 {
			times = fmt.Sprint(k.n, " times")
		}
		list = append(list, fmt.Sprintf("%s (%s)", k.named("about "+trace.Range(k.least, k.most)), times))
	}
	return list
}

// nameOf is an operation as its program knows it: operator and shape, or collective and size, of a guessed one the given,
// and the module if the trace has it.
func nameOf(w *workload.Workload, id int32, guessed string) string {
	op := &w.Ops[id]
	name := trace.Short(op.Name)
	if op.Collective >= 0 {
		c := &w.Collectives[op.Collective]
		size := trace.Bytes(c.Bytes)
		switch {
		case c.Bytes == 0:
			size = "unknown size"
		case c.Guessed:
			size = guessed
		}
		name = fmt.Sprintf("%s of %s", c.Op, size)
	} else if s := w.Run.Spans[op.Span]; s.Kind == trace.Compute {
		if by := w.Run.Operator(w.Run.Kernel(s)); by != nil {
			name = by.Name
		}
		if x := op.Shape; x.Kind == workload.GEMM {
			name += fmt.Sprintf(" %d×%d×%d", x.M, x.N, x.K)
		}
	}
	if module := moduleOf(w.Run, op.Span); module != "" {
		name += " in " + module
	}
	return name
}

// moduleOf is the innermost module of the program around the launch of an operation.
func moduleOf(run *trace.Run, id trace.SpanID) string {
	for p := run.LaunchOf(run.Spans[id]); p != trace.None; p = run.Spans[p].Parent {
		if module, ok := strings.CutPrefix(run.NameOf(run.Spans[p]), "nn.Module: "); ok {
			return module
		}
	}
	return ""
}

// setFor are those of the collectives that the settings other than the defaults are for; all if one is for any.
func setFor(s plan.Selection, ops []trace.CollectiveOp) []trace.CollectiveOp {
	var of []trace.CollectiveOp
	for _, p := range s.Strategy.Params {
		switch v := s.Values[p.Name]; {
		case v == "" || v == p.Default || !p.Matters(s.Values):
		case p.Ops == nil:
			return ops
		default:
			of = append(of, p.Ops...)
		}
	}
	if of == nil {
		return ops
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op trace.CollectiveOp) bool { return !slices.Contains(of, op) })
}
