package assemble

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An xlaWork is what the program says of a kernel or a copy.
type xlaWork struct {
	of             *hloInstruction
	in             *hloModule
	operator, uses int32 // of the builder: a row, or trace.None, and a number, from 1
	comm           *trace.Comm
}

// instructions finds of which instruction each kernel and copy of a GPU is, and what that says. Kernels name theirs; those of a
// captured graph, which name the graph, are of the instructions between those before and behind it in the schedule.
func (x *XLA) instructions(d *xlaDevice) []xlaWork {
	all, runs := make([]xlaWork, len(d.work)), d.runs()
	streams := map[int64][]int{}
	for k := range d.work {
		e, w := &d.work[k], &all[k]
		w.operator = trace.None
		if w.in = x.modules[e.module+"\x00"+e.program]; w.in == nil {
			w.in = x.modules[e.module]
		}
		if w.in != nil {
			w.of = w.in.byName[e.instruction]
		}
		streams[e.stream()] = append(streams[e.stream()], k)
	}
	for _, list := range streams {
		d.unnamed(all, runs, list)
	}
	type occurrence struct {
		run, uses int32
		names     []string
	}
	last, comms := map[*hloInstruction]*occurrence{}, map[*hloInstruction]*trace.Comm{}
	if x.operators == nil {
		x.operators = map[*hloInstruction]int32{}
	}
	for k := range all {
		w, e := &all[k], &d.work[k]
		if w.of == nil {
			w.comm = x.commByName(d, e)
			continue
		}
		w.operator = trace.Memo(x.operators, w.of, func() int32 { return x.Builder.AddOperator(w.in.operator(w.of)) }) // of all GPUs
		if !e.copies() {
			w.comm = trace.Memo(comms, w.of, func() *trace.Comm {
				c, g := w.in.comm(w.of, d.rank)
				if c != nil && g.Size > 1 {
					c.Group = x.Builder.AddGroup(g)
				}
				return c
			})
		}
		o := trace.Memo(last, w.of, func() *occurrence { return &occurrence{run: -2} })
		if o.run != runs[k] || slices.Contains(o.names, e.Name) { // a kernel of each name
			*o = occurrence{run: runs[k], uses: x.Builder.AddUses(w.in.accesses(w.of), runs[k]+1)}
		}
		o.names, w.uses = append(o.names, e.Name), o.uses
	}
	return all
}

// commByName is the collective that the name of a kernel's instruction shows, where the file has no program, in the only group
// that the GPU is of; nil if it is none.
func (x *XLA) commByName(d *xlaDevice, e *XLAEvent) *trace.Comm {
	opcode, _, _ := strings.Cut(e.instruction, ".")
	op := hloOp(opcode)
	if op == trace.UnknownOp || e.copies() {
		return nil
	}
	c := &trace.Comm{Op: op, Group: trace.None, Peer: trace.None}
	slices.Sort(d.cliques)
	if d.cliques = slices.Compact(d.cliques); len(d.cliques) == 1 {
		_, list, _ := strings.Cut(d.cliques[0], ":")
		if ranks := RankList([]byte(list)); len(ranks) > 0 {
			c.Group = x.Builder.AddGroup(groupOf(ranks))
		}
	}
	return c
}

// runs says of each kernel and copy in which run of a module it was launched: its number, or -1.
func (d *xlaDevice) runs() []int32 {
	var starts, ends []trace.Time
	launched := map[int64]trace.Time{}
	for i := range d.calls {
		switch e := &d.calls[i]; {
		case e.correlation > 0:
			launched[e.correlation] = e.Start
		case e.global != "":
			starts, ends = append(starts, e.Start), append(ends, e.End)
		}
	}
	list := make([]int32, len(d.work))
	for k := range d.work {
		list[k] = -1
		at, ok := launched[d.work[k].correlation]
		if i, found := slices.BinarySearch(starts, at); ok && (found || i > 0) {
			if !found {
				i--
			}
			if at <= ends[i] {
				list[k] = int32(i)
			}
		}
	}
	return list
}

// A bufferKernel is a kernel of a command buffer, which launches the same ones each time.
type bufferKernel struct {
	of           *hloModule
	buffer, name string
	nth          int
}

// unnamed finds the instructions of kernels of a stream that name the command buffer that they are of, in order of start. They are
// among those of the schedule between the kernels before and behind that name theirs: the next one of the kernel's name, or else the
// first. A library's kernels, such as those of cuBLAS, are of calls of a library; a fill before one is too.
func (d *xlaDevice) unnamed(all []xlaWork, runs []int32, list []int) {
	var module *hloModule
	var taken map[*hloInstruction]bool
	known, nth := map[bufferKernel]*hloInstruction{}, 0
	named, at := -1, -1                       // the last place that a kernel named, and that of the last kernel
	next, place := make([]int, len(list)), -1 // that the next one names in the run; -1: none does
	for n, k := range slices.Backward(list) {
		if n+1 < len(list) && (runs[k] != runs[list[n+1]] || all[k].in != all[list[n+1]].in) {
			place = -1
		}
		if p, ok := all[k].in.place(all[k].of); ok {
			place = p
		}
		next[n] = place
	}
	for n, k := range list {
		w, e := &all[k], &d.work[k]
		name := strings.ToLower(e.Name)
		if n == 0 || runs[k] != runs[list[n-1]] || w.in != module {
			module, taken, named, at = w.in, map[*hloInstruction]bool{}, -1, -1
		}
		if nth++; n == 0 || e.correlation != d.work[list[n-1]].correlation {
			nth = 0
		}
		place, ok := w.in.place(w.of)
		switch {
		case ok && place <= named: // the next iteration of a loop
			clear(taken)
			fallthrough
		case ok:
			named, at = place, place
		case w.in == nil || w.of != nil || e.kernel == "": // fills come below
		case n > 0 && all[list[n-1]].in == w.in && strings.Contains(name, "splitk") && strings.Contains(name, "reduce"):
			w.of = all[list[n-1]].of
		default:
			w.of = trace.Memo(known, bufferKernel{w.in, e.instruction, e.Name, nth}, func() *hloInstruction {
				end, base := len(w.in.schedule), baseName(e.Name)
				if next[n] > named {
					end = next[n]
				}
				library, copies := !w.in.kernels[base], strings.HasPrefix(name, "memcpy")
				for _, from := range [...]int{at + 1, named + 1} {
					for _, of := range w.in.schedule[min(from, end):end] {
						call := of.opcode == "custom-call"
						if copies {
							call = of.opcode == "copy"
						}
						if !taken[of] && (library && call || !library && of.base == base) {
							return of
						}
					}
				}
				return nil
			})
			if w.of != nil {
				at, taken[w.of] = w.in.placed[w.of], true
			}
		}
	}
	for n := len(list) - 2; n >= 0; n-- {
		w, next := &all[list[n]], &all[list[n+1]]
		if w.of == nil && w.in == next.in && d.work[list[n]].fills() && runs[list[n]] == runs[list[n+1]] {
			w.of = next.of
		}
	}
}

// baseName is a name as kernels have it, without the numbers at its end: kernels of equal instructions have one name.
func baseName(name string) string {
	name = strings.NewReplacer(".", "_", "-", "_").Replace(name)
	for {
		short := strings.TrimRight(name, "0123456789")
		if short == name || !strings.HasSuffix(short, "_") || len(short) == 1 {
			return name
		}
		name = short[:len(short)-1]
	}
}

// addWaits adds what streams wait for: the stream of a collective that its instruction starts for what the main stream was given
// before, and the main stream for the collective where the instruction is done.
func (x *XLA) addWaits(d *xlaDevice) {
	streams, count, main := map[int64]int64{}, map[int64]int{}, int64(0)
	for i := range d.work {
		e := &d.work[i]
		streams[e.correlation] = e.stream()
		if count[e.stream()]++; count[e.stream()] > count[main] {
			main = e.stream()
		}
	}
	var launches []XLAEvent
	for _, e := range d.calls {
		if _, ok := streams[e.correlation]; ok && e.correlation > 0 {
			launches = append(launches, e)
		}
	}
	launch := func(at trace.Time) int { // the first from a time on
		i, _ := slices.BinarySearchFunc(launches, at, func(e XLAEvent, at trace.Time) int { return cmp.Compare(e.Start, at) })
		return i
	}
	wait := func(e *XLAEvent, stream, on, record, correlation int64) {
		x.AddWait(d.process, d.agent, trace.Wait{
			Start: e.Start, End: max(e.Start, e.End), Stream: stream, On: on, Record: record, Correlation: correlation,
		})
	}
	started := map[string]int64{}
	for _, e := range d.calls {
		switch i := launch(e.Start); {
		case e.correlation > 0 || i == len(launches):
		case strings.Contains(e.Name, "-start") && launches[i].Start <= e.End:
			first := launches[i].correlation
			if started[e.Name] = first; streams[first] != main {
				wait(&e, streams[first], main, first, first)
			}
		case strings.Contains(e.Name, "-done"):
			if c, ok := started[strings.Replace(e.Name, "-done", "-start", 1)]; ok && streams[c] != main {
				wait(&e, main, streams[c], c+1, launches[i].correlation)
			}
		}
	}
}
