package overlap

import (
	"regexp"

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

// Tools lists the tools.
func Tools() []Tool { return []Tool{HTA, HTALast, TraceLens} }

const (
	htaDefinition = "classes by name: communication ^nccl|^hip|^hccl|ncclKernel, copies ^(hip)?Memcpy|^(hip)?Memset|^dma, all else compute; " +
		"starts rounded up and ends down to whole microseconds, so that what is shorter may count as less than nothing; " +
		"with two or more ProfilerStep marks, work whose launch the file does not have is left out"
	traceLensDefinition = "classes by kind of event and name: communication is a kernel with nccl, rccl or cross_device_reduce in its name, " +
		"fills count as compute, copies between devices as copies"
)

// Definition says in words how the tool's figures differ from those that Explain defines.
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
		var sets [numClasses]set
		for _, id := range w.ops {
			s := run.Spans[id]
			c := compute
			switch {
			case s.Kind == trace.Copy && !isFill(run, s):
				c = copies
			case isCommunication[s.Name]:
				c = communication
			}
			sets[c].add(s.Start, s.End)
		}
		out[row] = breakDown(&sets, w.first, w.last)
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
	out := make([]Breakdown, len(work))
	for row := range work {
		w := &work[row]
		r := rounder{offset: trace.Time(run.Epoch%1000) - run.Ranks[row].Shift%1000}
		for _, id := range w.ops {
			s := run.Spans[id]
			if steps > 1 {
				call := w.launchOf(run, s)
				if call == nil || !withLast && r.up(call.Start) >= r.up(lastStep[row]) {
					continue
				}
			}
			c := compute
			if isCommunication[s.Name] {
				c = communication
			} else if isMemory[s.Name] {
				c = copies
			}
			r.add(c, s)
		}
		out[row] = r.breakdown()
	}
	return out
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

// matching says by name id which names a pattern matches.
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
	sets        [numClasses]set
	short       [numClasses]trace.Time // what intervals that end before they start take off the length of their class
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

func (r *rounder) add(c class, s trace.Span) {
	start, end := r.up(s.Start), r.down(s.End)
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
	b := breakDown(&r.sets, r.first, r.last)
	b.Compute += r.short[compute]
	b.Communication += r.short[communication]
	b.Exposed = b.Communication - b.Overlapped
	b.Copy += r.short[copies]
	return b
}
