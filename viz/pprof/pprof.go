// Package pprof writes a run as a profile that `go tool pprof` opens.
//
// A stack is rank, kind and kernel, or the cause of idle time:
//
//	rank 0
//	└ collective
//	  └ ncclDevKernel_AllReduce_Sum_bf16_RING_LL
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
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
)

// The values of every sample, in this order.
const (
	valueTime = iota // durations of kernels and copies
	// Exposed is communication without computation, divided equally among the
	// kernels and copies that communicate. Its sum over a rank is overlap.Breakdown.Exposed.
	valueExposed
	// Idle is time without device work between the rank's first and last, by cause.
	valueIdle
	valueCount // kernels and copies
	valueBytes // what collectives (their larger buffer) and copies moved; 0 where unknown
	numValues
)

var valueTypes = [numValues]profile.ValueType{
	{Type: "time", Unit: "nanoseconds"},
	{Type: "exposed", Unit: "nanoseconds"},
	{Type: "idle", Unit: "nanoseconds"},
	{Type: "count", Unit: "count"},
	{Type: "bytes", Unit: "bytes"},
}

// Write writes the device work of a run to w as one gzipped profile.proto, with
// the sample types time (the default), exposed, idle, count and bytes, and the labels
// rank, kind, stream, op and bytes. Host calls, markers, workgroups and
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
			Comments:          []string{guard.Line(run.Name)},
			// One mapping that claims to have its symbols, or pprof looks for a binary.
			Mapping: []*profile.Mapping{{ID: 1, File: "gpu", HasFunctions: true}},
		},
	}
	if run.Estimated != "" {
		b.profile.Comments = append(b.profile.Comments, guard.Line(run.Estimated))
	}
	for i := range valueTypes {
		v := valueTypes[i]
		b.profile.SampleType = append(b.profile.SampleType, &v)
	}
	for _, s := range run.Spans {
		if s.Kind.OnDevice() {
			at := b.stackOf(s)
			v := b.sample(at)
			v[valueTime] += int64(s.Dur())
			v[valueCount]++
			v[valueBytes] += at.bytes
		}
	}
	b.states(reasons)
	return b.profile
}

// states adds exposed communication, and idle time by cause.
func (b *builder) states(reasons []overlap.Reason) {
	active := newActive(b.run)
	overlap.States(b.run, reasons, func(s overlap.State) {
		switch s.Is {
		case overlap.Transferring, overlap.Waiting:
			b.exposed(s, active)
		case overlap.Idle:
			b.sample(stack{rank: s.Rank, idle: s.Cause})[valueIdle] += int64(s.End - s.Start)
		}
	})
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
