package rocprof

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A waveEvent is a wave's arrival on a slot of a CU, or its end.
type waveEvent struct {
	cycle          int64
	engine         int64 // shader engine
	cu, simd, slot int64
	starts         bool
	kernel         int64
}

// A waveSlot is where one wave at a time can be.
type waveSlot struct{ engine, cu, simd, slot int64 }

// wavesPerSIMD bounds the slots of a SIMD, to number them across a CU.
const wavesPerSIMD = 16

// ReadOccupancy reads a thread trace (ATT) as the folder ui_output_* of
// rocprofv3 has it: occupancy.json, when which wave was where on the traced
// shader engines, and realtime.json, what the cycles are in time, which may be
// nil: times are then cycles, and the ledger says so.
//
// A wave becomes a Workgroup span on its slot. The files do not say which waves
// make up a workgroup.
func ReadOccupancy(occupancy, realtime io.Reader, file string) (*trace.Run, error) {
	var b trace.Builder
	events, kernels, err := readOccupancy(lex.NewScanner(occupancy, file, math.MaxInt64), &b)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, &trace.SyntaxError{
			File: file, Msg: "no wave in the occupancy", Err: noTimes,
			Cure: "trace with rocprofv3 --att a kernel that runs on the traced shader engine",
		}
	}
	times := map[int64]cycles{}
	if realtime == nil {
		b.Note(trace.Noted, file, "no realtime.json: times are cycles, not nanoseconds", "", 0)
	} else if times, err = readRealtime(lex.NewScanner(realtime, file, math.MaxInt64)); err != nil {
		return nil, err
	}
	slices.SortStableFunc(events, func(x, y waveEvent) int { return cmp.Compare(x.cycle, y.cycle) })
	a := occupancyReader{
		b: &b, file: file, names: kernels, times: times, running: map[waveSlot]waveEvent{},
		kernels: map[int64]trace.SpanID{},
	}
	a.rank = b.AddRank(trace.Rank{ID: trace.RankInName(file), Source: file})
	for _, e := range events {
		a.take(e)
	}
	a.endAll(events[len(events)-1].cycle)
	return b.Finish(trace.Options{Name: file}), nil
}

// readOccupancy reads {"0": [[cycle, cu, simd, slot, starts, kernel], ...], "dispatches": {"1": "name"}}.
func readOccupancy(s *lex.Scanner, b *trace.Builder) (events []waveEvent, names map[int64]string, err error) {
	names = map[int64]string{}
	for s.Object(); s.More(); {
		key := string(s.Key())
		engine, notNumber := strconv.ParseInt(key, 10, 16)
		switch {
		case key == "dispatches":
			for s.Object(); s.More(); {
				id, err := strconv.ParseInt(string(s.Key()), 10, 64)
				if name := s.Text(); err == nil {
					names[id] = name
				}
			}
		case notNumber == nil && engine >= 0:
			s.Each(func() {
				at := s.At()
				var v [6]int64
				n := s.Numbers(v[:])
				e := waveEvent{cycle: v[0], engine: engine, cu: v[1], simd: v[2], slot: v[3], starts: v[4] != 0, kernel: v[5]}
				if n == len(v) && e.valid() {
					events = append(events, e)
				} else {
					b.Note(trace.Skipped, s.File, "not a wave's [cycle, cu, simd, slot, starts, kernel]", "byte", at)
				}
			})
		}
	}
	return events, names, s.Err
}

func (e *waveEvent) valid() bool {
	return e.cycle >= 0 && e.cycle < 1<<53 && e.cu >= 0 && e.cu < 256 && e.simd >= 0 && e.simd < 64 &&
		e.slot >= 0 && e.slot < wavesPerSIMD*4
}

// cycles relate the clock of a shader engine to time.
type cycles struct {
	cycle, ticks  float64 // a reading of both clocks
	ticksPerCycle float64
	nanosPerTick  float64
}

// readRealtime reads {"SE0": [[cycle, tick], [cycle, tick]], "metadata": {"frequency": 100000000}}.
func readRealtime(s *lex.Scanner) (map[int64]cycles, error) {
	readings := map[int64][][2]int64{}
	frequency := int64(100e6)
	for s.Object(); s.More(); {
		key := string(s.Key())
		engine, err := strconv.ParseInt(strings.TrimPrefix(key, "SE"), 10, 16)
		switch {
		case key == "metadata":
			frequency = max(1, memberOf(s, "frequency"))
		case err == nil && strings.HasPrefix(key, "SE"):
			s.Each(func() {
				var r [2]int64
				s.Numbers(r[:])
				readings[engine] = append(readings[engine], r)
			})
		}
	}
	times := map[int64]cycles{}
	for engine, r := range readings {
		first, last := r[0], r[len(r)-1]
		if last[0] > first[0] && last[1] > first[1] {
			times[engine] = cycles{
				cycle: float64(first[0]), ticks: float64(first[1]), nanosPerTick: 1e9 / float64(frequency),
				ticksPerCycle: float64(last[1]-first[1]) / float64(last[0]-first[0]),
			}
		}
	}
	return times, s.Err
}

// time is when a cycle was; cycles themselves where that is unknown. Engines
// share the clock of ticks, so the earliest reading may be any engine's zero.
func (a *occupancyReader) time(engine, cycle int64) trace.Time {
	c, ok := a.times[engine]
	if !ok {
		return trace.Time(cycle)
	}
	a.origin = cmp.Or(a.origin, c.ticks)
	ns := ((c.ticks - a.origin) + (float64(cycle)-c.cycle)*c.ticksPerCycle) * c.nanosPerTick
	return trace.Time(math.Round(min(max(ns, -math.MaxInt32*1e6), math.MaxInt32*1e6)))
}

type occupancyReader struct {
	b       *trace.Builder
	file    string
	rank    int32
	names   map[int64]string
	times   map[int64]cycles
	origin  float64 // ticks that count as time 0
	running map[waveSlot]waveEvent
	kernels map[int64]trace.SpanID
	waves   int32
}

// take takes in one event, in order of time.
func (a *occupancyReader) take(e waveEvent) {
	at := waveSlot{e.engine, e.cu, e.simd, e.slot}
	first, ok := a.running[at]
	switch {
	case e.starts && ok:
		a.b.Note(trace.Repaired, a.file, "a wave starts on an occupied slot: the earlier wave ends there", "", 0)
		a.add(first, e.cycle)
		a.running[at] = e
	case e.starts:
		a.running[at] = e
	case !ok:
		a.b.Note(trace.Skipped, a.file, "the end of a wave without its start", "", 0)
	default:
		delete(a.running, at)
		a.add(first, e.cycle)
	}
}

// endAll ends the waves that were running when the trace ended.
func (a *occupancyReader) endAll(cycle int64) {
	left := slices.SortedFunc(maps.Values(a.running), func(x, y waveEvent) int {
		return cmp.Or(cmp.Compare(x.cycle, y.cycle), cmp.Compare(x.engine, y.engine), cmp.Compare(x.cu, y.cu), cmp.Compare(x.simd, y.simd),
			cmp.Compare(x.slot, y.slot))
	})
	for _, e := range left {
		a.b.Note(trace.Repaired, a.file, "a wave that does not end: ends with the trace", "", 0)
		a.add(e, cycle)
	}
}

// add adds a wave, and its kernel if that is new.
func (a *occupancyReader) add(e waveEvent, cycle int64) {
	start := a.time(e.engine, e.cycle)
	end := max(start, a.time(e.engine, cycle))
	kernel, ok := a.kernels[e.kernel]
	if !ok {
		name := cmp.Or(a.names[e.kernel], fmt.Sprintf("kernel %d", e.kernel))
		kernel = a.b.Add(trace.Span{
			Start: start, End: end, Name: a.b.Intern(name), Parent: trace.None, Kind: trace.Compute,
			Lane: a.b.Lane(trace.Lane{Kind: trace.Queue, Rank: a.rank, Peer: trace.None}),
			Attr: a.b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None}),
		})
		a.kernels[e.kernel] = kernel
	}
	k := a.b.Span(kernel)
	k.Start, k.End = min(k.Start, start), max(k.End, end)
	cu := e.engine<<8 | e.cu
	a.b.Add(trace.Span{
		Start: start, End: end, Name: k.Name, Parent: kernel, Kind: trace.Workgroup,
		Lane: a.b.Lane(trace.Lane{
			Kind: trace.Slot, Rank: a.rank, ID: cu, Sub: int32(e.simd*wavesPerSIMD + e.slot), Peer: trace.None,
			Name: fmt.Sprintf("SE %d CU %d SIMD %d slot %d", e.engine, e.cu, e.simd, e.slot),
		}),
		Attr: a.b.AddWorkgroup(trace.WorkgroupAttr{
			ID: a.waves, Persistent: trace.None, CU: int32(cu), Peer: trace.None,
			Row: trace.None, Col: trace.None,
		}),
	})
	a.waves++
}

// memberOf reads a number that is the named member of an object, or stands alone.
func memberOf(s *lex.Scanner, name string) int64 {
	if s.Peek() != '{' {
		return s.Number()
	}
	var n int64
	for s.Object(); s.More(); {
		if string(s.Key()) == name {
			n = s.Number()
		}
	}
	return n
}
