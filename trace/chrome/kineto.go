package chrome

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// hostProcess is the pid of host rows in WriteRank's files, above those of devices.
const hostProcess = 1 << 20

// Operators finds the framework's operators behind the kernels of a simulated run: those of the
// capture that it was predicted from.
type Operators struct {
	Run    *trace.Run                      // the capture
	SpanOf func(s trace.Span) trace.SpanID // the captured span that a simulated one stands for, or None
}

// WriteRank writes one rank of a run as PyTorch's profiler does, for tools that read its
// files: properties of the device, process groups, External id, PyTorch's names of
// collectives. Workgroups are left out. A simulated rank has no host; where of is not nil, each
// operator is an event at the start of its first kernel.
func WriteRank(w io.Writer, run *trace.Run, row int32, of *Operators) error {
	out := rankWriter{writer: writer{run: run, of: of, w: bufio.NewWriterSize(w, 64<<10), row: row, operators: map[int64]bool{}}}
	if of == nil {
		out.operators = operatorsOf(run, row)
	}
	out.at = func(s trace.Span) (pid, tid int64) {
		l := run.Lanes[s.Lane]
		if l.Kind == trace.Queue {
			return int64(l.Device), l.ID + int64(l.Sub)<<20
		}
		return hostProcess, l.ID
	}
	head := newKinetoHeader(run, row, of)
	out.device = int32(head.Devices[0].ID)
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	out.b = append(out.b, text[:len(text)-1]...)
	out.b = append(out.b, `,"displayTimeUnit":"ms","baseTimeNanoseconds":`...)
	out.int(run.Epoch)
	out.b = append(out.b, `,"traceEvents":[`...)
	for i, s := range run.Spans {
		if run.Lanes[s.Lane].Rank == row {
			out.add(trace.SpanID(i), s)
		}
	}
	out.b = append(out.b, "\n]}\n"...)
	out.flush()
	return out.w.Flush()
}

// A kinetoHeader is what other tools read of a file.
type kinetoHeader struct {
	Version     int                `json:"schemaVersion"`
	Devices     []deviceProperties `json:"deviceProperties"`
	Distributed distributed        `json:"distributedInfo"`
}

// newKinetoHeader has the properties of a rank.
func newKinetoHeader(run *trace.Run, row int32, of *Operators) kinetoHeader {
	head := kinetoHeader{Version: 1, Devices: []deviceProperties{}}
	if len(run.Ranks) == 0 {
		return head
	}
	rank := run.Ranks[row]
	d, number := rank.Device, row
	if of != nil && of.Run.Ranks[min(int(row), len(of.Run.Ranks)-1)].Device.Name == d.Name { // and more of it is known
		d = of.Run.Ranks[min(int(row), len(of.Run.Ranks)-1)].Device
	}
	if i := slices.IndexFunc(run.Lanes, func(l trace.Lane) bool { return l.Rank == row && l.Kind == trace.Queue }); i >= 0 {
		number = run.Lanes[i].Device
	}
	head.Devices = []deviceProperties{{
		ID: int(number), Name: d.Name, TotalGlobalMem: d.MemoryBytes, ComputeMajor: d.ComputeMajor, ComputeMinor: d.ComputeMinor,
		ThreadsPerCU: d.ThreadsPerCU, RegsPerBlock: d.RegistersPerCU, RegsPerCU: d.RegistersPerCU, WarpSize: cmp.Or(d.WaveSize, 32), // of a simulated rank it is not known
		SharedMemPerBlock: min(48<<10, cmp.Or(d.SharedPerWG, 48<<10)), SharedPerWG: d.SharedPerWG, SharedPerCU: d.SharedPerCU, NumSms: d.CUs,
	}}
	beside := slices.DeleteFunc(slices.Clone(run.Ranks), func(x trace.Rank) bool { return x.Run != rank.Run }) // of one schedule
	head.Distributed = distributed{"nccl", max(0, run.RankID(row)), max(rank.World, len(beside)), len(run.Groups), nil}
	for _, g := range run.Groups {
		head.Distributed.Groups = append(head.Distributed.Groups, group{g.Name, cmp.Or(g.Doc, "undefined"), "cuda:nccl", g.Size, g.Ranks})
	}
	return head
}

type (
	distributed struct {
		Backend string  `json:"backend"`
		Rank    int     `json:"rank"`
		World   int     `json:"world_size"`
		Count   int     `json:"pg_count"`
		Groups  []group `json:"pg_config"`
	}
	group struct {
		Name    string `json:"pg_name"`
		Doc     string `json:"pg_desc"`
		Backend string `json:"backend_config"`
		Size    int    `json:"pg_size"`
		Ranks   []int  `json:"ranks"`
	}
)

type rankWriter struct {
	writer
	device int32 // its number
}

func (w *rankWriter) add(id trace.SpanID, s trace.Span) {
	lane, simulated := w.run.Lanes[s.Lane], w.run.Simulated || w.run.Estimated != ""
	name, attr := w.run.NameOf(s), s.Attr != trace.None
	switch {
	case s.Kind == trace.HostCall || s.Kind == trace.Launch:
		w.begin(categoryFor(w.run, s), name, s, w.device)
		if attr {
			w.operation(&w.run.Calls[s.Attr])
		}
	case s.Kind == trace.Marker && lane.Kind == trace.HostThread:
		w.begin(categories[s.Kind], name, s, w.device)
	case s.Kind == trace.Compute || s.Kind == trace.Collective || s.Kind == trace.Copy:
		call := w.call(id, s)
		switch { // tools go by names
		case simulated && s.Kind == trace.Collective && !strings.HasPrefix(name, "nccl"):
			name = "ncclDevKernel_" + name
		case simulated && s.Kind == trace.Copy && !strings.HasPrefix(name, "Mem"):
			name = "Memcpy PtoP (Device -> Device), " + name
		}
		part := !simulated && w.copiedByProgram(s)
		copied := part && strings.HasPrefix(name, "Mem")
		category := categoryFor(w.run, s)
		if copied {
			category = categories[trace.Copy]
		}
		w.begin(category, name, s, w.device)
		w.external(s, call)
		switch {
		case copied:
			k, c := w.run.Kernel(s), w.run.Comm(s)
			w.copy(&trace.CopyAttr{
				Bytes: c.Out / int64(max(1, w.run.Groups[c.Group].Size)), Correlation: k.Correlation, Stream: w.run.Setup(k).Stream,
				Peer: trace.None, Op: k.Op, Origin: trace.None, Uses: k.Uses, Dir: trace.PeerToPeer,
			})
		case part:
			k := *w.run.Kernel(s)
			k.Comm = trace.None
			w.kernel(&k)
		case attr && s.Kind == trace.Copy:
			w.copy(&w.run.Copies[s.Attr])
		case attr:
			w.kernel(&w.run.Kernels[s.Attr])
		}
	default:
		return
	}
	w.raw("}}")
	if !simulated {
		w.arrow(id)
	}
}

// copiedByProgram reports whether a span is a copy or a barrier of a collective that the program makes of them, which profilers
// record as such (assemble.AddCollectives).
func (w *writer) copiedByProgram(s trace.Span) bool {
	c := w.run.Comm(s)
	return c != nil && c.Engines && c.ElemSize == 0 && c.Group != trace.None && !strings.HasPrefix(w.run.NameOf(s), "__amd_rocclr_")
}

// launched is the host call behind device work, or nil.
func (w *writer) launched(id trace.SpanID, s trace.Span) *trace.Call {
	run := w.run
	if w.of != nil {
		if run, id = w.of.Run, w.of.SpanOf(s); id == trace.None {
			return nil
		}
	}
	launch := run.LaunchOf(run.Spans[id])
	if launch == trace.None || run.Spans[launch].Attr == trace.None {
		return nil
	}
	return &run.Calls[run.Spans[launch].Attr]
}

// external writes the number of the operator behind device work, if an event is of it.
func (w *writer) external(s trace.Span, c *trace.Call) {
	if c != nil && w.run.Lanes[s.Lane].Rank == w.row && w.operators[c.External] {
		w.field("External id", c.External)
	}
}

// operatorsOf are the numbers of the operators of a rank.
func operatorsOf(run *trace.Run, row int32) map[int64]bool {
	numbers := map[int64]bool{}
	for _, s := range run.Spans {
		if s.Kind == trace.HostCall && s.Attr != trace.None && run.Lanes[s.Lane].Rank == row {
			if c := &run.Calls[s.Attr]; c.Correlation == 0 && c.External != 0 {
				numbers[c.External] = true
			}
		}
	}
	return numbers
}

// call is launched, after the operator of a simulated kernel, which is written before its first
// kernel.
func (w *rankWriter) call(id trace.SpanID, s trace.Span) *trace.Call {
	c := w.launched(id, s)
	if c == nil || w.of == nil || c.External == 0 || w.operators[c.External] {
		return c
	}
	if k := w.of.Run.Kernel(w.of.Run.Spans[w.of.SpanOf(s)]); k != nil && k.Op != trace.None {
		w.operators[c.External] = true
		at := w.at
		w.at = func(trace.Span) (pid, tid int64) { return hostProcess, 1 }
		w.begin(categories[trace.HostCall], w.of.Run.Operators[k.Op].Name, trace.Span{Start: s.Start, End: s.Start + 1}, w.device)
		w.at = at
		w.field("External id", c.External)
		w.inputs(&w.of.Run.Operators[k.Op])
		w.raw("}}")
	}
	return c
}

// operation writes the arguments of a host call.
func (w *rankWriter) operation(c *trace.Call) {
	if c.External != 0 {
		w.field("External id", c.External)
	}
	if c.Correlation != 0 {
		w.field("correlation", c.Correlation)
	}
	w.sequence(c)
	if c.Op != trace.None {
		w.inputs(&w.run.Operators[c.Op])
	}
}

func (w *rankWriter) inputs(op *trace.Operator) {
	dims := make([][]int64, len(op.Dims))
	for i, d := range op.Dims {
		dims[i] = append([]int64{}, d...) // [] for what is no tensor
	}
	type input struct {
		name string
		list any
	}
	inputs := []input{{"Input Dims", dims}, {"Input type", op.Types}}
	if op.Strides != nil {
		inputs = append(inputs, input{"Input Strides", stridesOf(op)})
	}
	for _, x := range inputs {
		text, _ := json.Marshal(x.list) // numbers and texts
		w.raw(`,"`, x.name, `":`)
		w.b = append(w.b, text...)
	}
}

// stridesOf are the strides of all inputs of an operator, those that are contiguous too.
func stridesOf(op *trace.Operator) [][]int64 {
	all := make([][]int64, len(op.Dims))
	for i, dims := range op.Dims {
		all[i] = make([]int64, len(dims))
		next := int64(1)
		for k, size := range slices.Backward(dims) {
			all[i][k], next = next, next*size
		}
		copy(all[i], op.Strides[i])
	}
	return all
}
