package overlap

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Tool is another program whose definitions Compat follows.
type Tool string

// The tools: HolisticTraceAnalysis 0.6.1, the same with
// include_last_profiler_step, and TraceLens 0.1.
const (
	HTA       Tool = "hta"
	HTALast   Tool = "hta-last"
	TraceLens Tool = "tracelens"
)

const (
	htaDefinition = "all rows that have a stream are work of the device, waits and operators among them; classes by name: communication ^nccl|^hip|^hccl|ncclKernel, copies ^(hip)?Memcpy|^(hip)?Memset|^dma, all else compute; " +
		"starts rounded up and ends down to whole microseconds, so that what is shorter may count as less than nothing; " +
		"with two or more ProfilerStep marks, work whose launch the file does not have is left out"
	traceLensDefinition = "classes by kind of event and name: communication is a kernel with nccl, rccl or cross_device_reduce in its name, " +
		"fills count as compute, copies between devices as copies"
)

// Definition describes how the tool's figures differ from those that Explain defines.
func (t Tool) Definition() string {
	switch t {
	case HTA:
		return htaDefinition + ", as is work launched from the start of the last of them on"
	case HTALast:
		return htaDefinition
	case TraceLens:
		return traceLensDefinition
	}
	return ""
}

// Compat measures the breakdown of every rank row as another tool does, to its
// last digit. It is for runs read from Kineto files; where the tool fails, as
// on a rank without device work, the breakdown is zero.
func Compat(run *trace.Run, t Tool) []Breakdown {
	if t == TraceLens {
		return traceLens(run)
	}
	return hta(run, t == HTALast)
}

var traceLensCommunication = regexp.MustCompile(`rccl|nccl|cross_device_reduce`)

func traceLens(run *trace.Run) []Breakdown {
	isCommunication := matching(run.Names, traceLensCommunication)
	work := collect(run)
	out := make([]Breakdown, len(work))
	for row, w := range work {
		var sets [trace.NumClasses]set
		for _, id := range w.ops {
			s := run.Spans[id]
			c := trace.ClassCompute
			switch {
			case s.Kind == trace.Copy && !isFill(run, s):
				c = trace.ClassCopy
			case isCommunication[s.Name]:
				c = trace.ClassCommunication
			}
			sets[c].add(s.Start, s.End)
		}
		out[row] = breakDown(&sets, sets[trace.ClassCommunication], w.first, w.last)
	}
	return out
}

func isFill(run *trace.Run, s trace.Span) bool {
	c := run.Copy(s)
	return c != nil && c.Dir == trace.Fill
}

var (
	htaCommunication = regexp.MustCompile(`^nccl|^hip|^hccl|ncclKernel`)
	htaMemory        = regexp.MustCompile(`^(hip)?Memcpy|^(hip)?Memset|^dma`)
	htaStep          = regexp.MustCompile(`ProfilerStep`)
)

func hta(run *trace.Run, withLast bool) []Breakdown {
	isCommunication, isMemory := matching(run.Names, htaCommunication), matching(run.Names, htaMemory)
	lastStep, steps := profilerSteps(run)
	work := collect(run)
	launchers := onStreams(run)
	out := make([]Breakdown, len(work))
	for row := range work {
		w := &work[row]
		r := rounder{offset: trace.Time(run.Epoch%1000) - run.Ranks[row].Shift%1000}
		var rows []htaRow
		take := func(c trace.Class, start, end trace.Time, call *trace.Span) {
			if steps <= 1 || call != nil && (withLast || r.up(call.Start) < r.up(lastStep[row])) {
				rows = append(rows, htaRow{c, start, end})
			}
		}
		for _, id := range w.ops {
			s := run.Spans[id]
			c := trace.ClassCompute
			if isCommunication[s.Name] {
				c = trace.ClassCommunication
			} else if isMemory[s.Name] {
				c = trace.ClassCopy
			}
			take(c, s.Start, s.End, spanAt(run, run.LaunchOf(s)))
		}
		for _, x := range w.waits {
			if x.Stream != trace.None || x.On != trace.None && x.Record == 0 {
				take(trace.ClassCompute, x.Start, x.End, spanAt(run, x.Call))
			}
		}
		for _, id := range launchers[row] {
			take(trace.ClassCompute, run.Spans[id].Start, run.Spans[id].End, nil)
		}
		slices.SortStableFunc(rows, func(a, b htaRow) int { return cmp.Compare(a.start, b.start) })
		for _, x := range rows {
			r.add(x.class, x.start, x.end)
		}
		out[row] = r.breakdown()
	}
	return out
}

// An htaRow is a row with a stream, which HTA takes for work of the device.
type htaRow struct {
	class      trace.Class
	start, end trace.Time
}

// onStreams returns, by rank row, the operators that name a stream.
func onStreams(run *trace.Run) [][]trace.SpanID {
	by := make([][]trace.SpanID, len(run.Ranks))
	if !slices.ContainsFunc(run.Calls, func(c trace.Call) bool { return c.OnStream }) {
		return by
	}
	for i, s := range run.Spans {
		if (s.Kind == trace.HostCall || s.Kind == trace.Launch) && s.Attr != trace.None && run.Calls[s.Attr].OnStream {
			by[run.RankOf(s)] = append(by[run.RankOf(s)], trace.SpanID(i))
		}
	}
	return by
}

// profilerSteps returns the start of the last profiler step by rank row, and
// how many differently named steps there are.
func profilerSteps(run *trace.Run) (last []trace.Time, steps int) {
	isStep := matching(run.Names, htaStep)
	last = make([]trace.Time, len(run.Ranks))
	seen := map[trace.NameID]bool{}
	for _, s := range run.Spans {
		if s.Kind == trace.Marker && isStep[s.Name] {
			seen[s.Name] = true
			last[run.RankOf(s)] = max(last[run.RankOf(s)], s.Start)
		}
	}
	return last, len(seen)
}

// matching reports by name id whether a pattern matches.
func matching(names []string, pattern *regexp.Regexp) []bool {
	matches := make([]bool, len(names))
	for i, n := range names {
		matches[i] = pattern.MatchString(n)
	}
	return matches
}

// A rounder gathers intervals rounded to whole microseconds of the file's
// clock, as HTA does: up at the start and down at the end.
type rounder struct {
	offset      trace.Time // of the run's time 0 from a whole microsecond of the file's clock
	sets        [trace.NumClasses]set
	short       [trace.NumClasses]trace.Time // what intervals that end before they start take off the length of their class
	any         bool
	first, last trace.Time
}

const microsecond = 1000

func (r *rounder) up(t trace.Time) trace.Time { return -floorTo(-t-r.offset, microsecond) }

func (r *rounder) down(t trace.Time) trace.Time { return floorTo(t+r.offset, microsecond) }

func floorTo(t, unit trace.Time) trace.Time {
	rest := t % unit
	if rest < 0 {
		rest += unit
	}
	return t - rest
}

func (r *rounder) add(c trace.Class, from, to trace.Time) {
	start, end := r.up(from), r.down(to)
	if !r.any {
		r.any, r.first, r.last = true, start, end
	}
	r.first, r.last = min(r.first, start), max(r.last, end)
	if end >= start {
		r.sets[c].add(start, end)
	} else if n := len(r.sets[c]); n == 0 || start > r.sets[c][n-1].end {
		r.short[c] += end - start // HTA merges it if it begins in an earlier interval
	}
}

func (r *rounder) breakdown() Breakdown {
	b := breakDown(&r.sets, r.sets[trace.ClassCommunication], r.first, r.last)
	b.Compute += r.short[trace.ClassCompute]
	b.Communication += r.short[trace.ClassCommunication]
	b.Exposed = b.Communication - b.Overlapped
	b.Copy += r.short[trace.ClassCopy]
	return b
}
