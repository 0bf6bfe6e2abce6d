// Package pprof writes a run as a profile that `go tool pprof` opens.
//
// A stack is rank, kind, kernel and, where workgroups were recorded, what
// their time went to:
//
//	rank 0
//	└ collective
//	  └ ncclDevKernel_AllReduce_Sum_bf16_RING_LL
//	rank 0
//	└ compute
//	  └ gemm_fused
//	    └ wait
//	rank 0
//	└ idle
//	  └ host
//
// Streams are a label and no frame, so that -diff_base compares a kernel with
// itself although another strategy runs it on another stream.
package pprof

import (
	"fmt"
	"io"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/plain"
)

// The values of every sample, in this order.
const (
	// Time is durations of kernels and copies. The duration of a kernel whose
	// workgroups were recorded is divided among their phases in proportion to
	// the slot time that those took, so that a kernel's total stays its duration.
	valueTime = iota
	// Exposed is communication without computation, divided equally among the
	// kernels and copies that communicate. Its sum over a rank is overlap.Breakdown.Exposed.
	valueExposed
	// Idle is time without device work between the rank's first and last, by cause.
	valueIdle
	// Wall divides each instant of a rank equally among what runs on its queues
	// then, and gives it to "idle" where nothing does. Its sum over a rank is the
	// run's makespan, so that the difference of two runs says where the gain or
	// the loss is.
	valueWall
	valueSlots // time that workgroups held their slots
	valueCount // kernels and copies
	valueBytes // what collectives (their larger buffer) and copies moved; 0 where unknown
	numValues
)

var valueTypes = [numValues]profile.ValueType{
	{Type: "time", Unit: "nanoseconds"},
	{Type: "exposed", Unit: "nanoseconds"},
	{Type: "idle", Unit: "nanoseconds"},
	{Type: "wall", Unit: "nanoseconds"},
	{Type: "workgroup_time", Unit: "nanoseconds"},
	{Type: "count", Unit: "count"},
	{Type: "bytes", Unit: "bytes"},
}

// Write writes the device work of a run to w as one gzipped profile.proto, with
// the sample types time (the default), exposed, idle, wall, workgroup_time, count
// and bytes, and the labels rank, kind, stream, op and bytes. Host calls, markers and
// transfers on links are left out: they overlap with device work, whose time
// they would count twice. reasons are why queues ran nothing, where a simulation
// recorded it.
func Write(w io.Writer, run *trace.Run, reasons []overlap.Reason) error {
	p := newProfile(run, reasons)
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if err := p.Write(w); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}

func newProfile(run *trace.Run, reasons []overlap.Reason) *profile.Profile {
	b := builder{
		run: run, samples: map[stack]*profile.Sample{}, frames: map[string]*profile.Location{},
		profile: &profile.Profile{
			DefaultSampleType: valueTypes[valueTime].Type,
			TimeNanos:         run.Epoch,
			DurationNanos:     int64(run.End),
			Comments:          []string{plain.Line(run.Name)},
			// One mapping that claims to have its symbols, or pprof looks for a binary.
			Mapping: []*profile.Mapping{{ID: 1, File: "gpu", HasFunctions: true}},
		},
	}
	if run.Estimated != "" {
		b.profile.Comments = append(b.profile.Comments, plain.Line(run.Estimated))
	}
	for i := range valueTypes {
		v := valueTypes[i]
		b.profile.SampleType = append(b.profile.SampleType, &v)
	}
	slots := slotTime(run)
	wall := wallTime(run)
	for id, s := range run.Spans {
		switch {
		case s.Kind.OnDevice():
			b.device(s, slots[trace.SpanID(id)], wall.busy[id])
		case s.Kind.InKernel() && !s.Vacant() && kernelOf(run, s) == trace.None:
			b.orphan(s)
		}
	}
	b.states(reasons, wall.idle)
	return b.profile
}

// ends is the cause of idle time that is not between a rank's first and last work.
const ends = "before the first kernel or after the last"

// states adds exposed communication, and idle time by cause. What of a rank's wall time is
// idle without a cause is before its first or after its last work, or beside bytes under way.
func (b *builder) states(reasons []overlap.Reason, idle []trace.Time) {
	active := newActive(b.run)
	overlap.States(b.run, reasons, func(s overlap.State) {
		switch s.Is {
		case overlap.Transferring, overlap.Waiting:
			b.exposed(s, active)
		case overlap.Idle:
			v := b.sample(stack{rank: s.Rank, idle: s.Cause})
			v[valueIdle] += int64(s.End - s.Start)
			v[valueWall] += int64(s.End - s.Start)
			idle[s.Rank] -= s.End - s.Start
		}
	})
	for rank, left := range idle {
		if left > 0 {
			b.sample(stack{rank: int32(rank), idle: ends})[valueWall] += int64(left)
		}
	}
}

// exposed divides an interval among those that communicate in each part of it. A
// nanosecond that does not divide goes to those that began first.
func (b *builder) exposed(s overlap.State, on *active) {
	for at := s.Start; at < s.End; {
		ids, until := on.at(s.Rank, at)
		until = min(until, s.End)
		n := trace.Time(len(ids))
		for i, id := range ids {
			share := (until - at) / n
			if trace.Time(i) < (until-at)%n {
				share++
			}
			b.sample(b.stackOf(b.run.Spans[id]))[valueExposed] += int64(share)
		}
		at = until
	}
}

// active finds what communicates on each rank, in order of time.
type active struct {
	run     *trace.Run
	comm    [][]trace.SpanID // by rank, by start: those that did not start yet
	running [][]trace.SpanID
}

func newActive(run *trace.Run) *active {
	a := &active{run: run, comm: make([][]trace.SpanID, len(run.Ranks)), running: make([][]trace.SpanID, len(run.Ranks))}
	for i, s := range run.Spans {
		if run.Class(s) == trace.ClassCommunication && s.Dur() > 0 {
			rank := run.RankOf(s)
			a.comm[rank] = append(a.comm[rank], trace.SpanID(i))
		}
	}
	return a
}

// at are the kernels and copies that communicate at a time, or the transfers if there are
// only those, and until when they are the same.
func (a *active) at(rank int32, at trace.Time) (ids []trace.SpanID, until trace.Time) {
	next, running := a.comm[rank], a.running[rank]
	for len(next) > 0 && a.run.Spans[next[0]].Start <= at {
		running, next = append(running, next[0]), next[1:]
	}
	running = slices.DeleteFunc(running, func(id trace.SpanID) bool { return a.run.Spans[id].End <= at })
	a.comm[rank], a.running[rank] = next, running
	until = trace.Infinity
	if len(next) > 0 {
		until = a.run.Spans[next[0]].Start
	}
	for _, id := range running {
		until = min(until, a.run.Spans[id].End)
		if a.run.Spans[id].Kind.OnDevice() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		ids = running
	}
	return ids, until
}
