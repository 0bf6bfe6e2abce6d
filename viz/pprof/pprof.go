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
//
// Streams are a label and no frame, so that -diff_base compares a kernel with
// itself although another strategy runs it on another stream.
package pprof

import (
	"cmp"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/overlapse/overlapse/trace"
)

// The values of every sample, in this order.
const (
	// Time is durations of kernels and copies. The duration of a kernel whose
	// workgroups were recorded is divided among their phases in proportion to
	// the slot time that those took, so that a kernel's total stays its duration.
	valueTime = iota
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
	{Type: "wall", Unit: "nanoseconds"},
	{Type: "workgroup_time", Unit: "nanoseconds"},
	{Type: "count", Unit: "count"},
	{Type: "bytes", Unit: "bytes"},
}

// Write writes the device work of runs to w as one gzipped profile.proto, with
// the sample types time (the default), wall, workgroup_time, count and bytes,
// and the labels rank, kind, stream, op and bytes. Host calls, markers and
// transfers on links are left out: they overlap with device work, whose time
// they would count twice. Of several runs each is a root of its own, named as
// the label "run" is (`go tool pprof -tagfocus=run=bulk`).
func Write(w io.Writer, runs ...*trace.Run) error {
	p := newProfile(runs...)
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if err := p.Write(w); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}

func newProfile(runs ...*trace.Run) *profile.Profile {
	b := builder{
		frames: map[string]*profile.Location{},
		profile: &profile.Profile{
			DefaultSampleType: valueTypes[valueTime].Type,
			// One mapping that claims to have its symbols, or pprof looks for a binary.
			Mapping: []*profile.Mapping{{ID: 1, File: "gpu", HasFunctions: true}},
		},
	}
	for i := range valueTypes {
		v := valueTypes[i]
		b.profile.SampleType = append(b.profile.SampleType, &v)
	}
	for _, run := range runs {
		b.profile.TimeNanos = cmp.Or(b.profile.TimeNanos, run.Epoch)
		b.profile.DurationNanos = max(b.profile.DurationNanos, int64(run.End))
		b.profile.Comments = append(b.profile.Comments, run.Name)
		if run.Estimated != "" {
			b.profile.Comments = append(b.profile.Comments, run.Name+": "+run.Estimated)
		}
		b.several = len(runs) > 1
		b.add(run)
	}
	return b.profile
}

// add samples one run.
func (b *builder) add(run *trace.Run) {
	b.run, b.samples = run, map[stack]*profile.Sample{}
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
	for rank, idle := range wall.idle {
		if idle > 0 {
			b.sample(stack{rank: int32(rank), idle: true})[valueWall] += int64(idle)
		}
	}
}
