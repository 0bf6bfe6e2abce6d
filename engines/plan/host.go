package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The host is a stream of delays and posts: an operation cannot start before its launch
// has been issued. Operations that were not captured cost the profile's issue times
// (rules H1 and H2). What follows writes the host's part with each operation: with the
// profiler, and in a loop of pairs. Otherwise writeHost does.

// hostPace is the issue time of a rank's host relative to the profile's host: the ratio of
// the driver's launch calls, with the same profiler. 1 if the trace or the profile has
// none (rule H3).
func (pl *Planner) hostPace(rank int) float64 {
	call := pl.Machine.Launch.Call.Or(0)
	if call <= 0 || rank >= len(pl.Workload.Calls) || pl.Workload.Calls[rank] == 0 {
		return 1
	}
	return float64(pl.Workload.Calls[rank]) / 1e9 / call
}

// issueAsCaptured writes the host's part of an operation. It returns the count of
// HostIssued to wait for and the captured time of the issue; 0 if the trace has no host
// calls.
func (r *Rank) issueAsCaptured(op *workload.Op) (int64, trace.Time) {
	if op.Issued == trace.Infinity || op.Issued > op.Start || r.Planner.Graph {
		return 0, 0
	}
	at := max(op.Issued, r.clock)
	for len(r.syncs) > 0 && r.syncs[0].End <= at {
		r.waitForDevice(r.syncs[0])
		r.syncs = r.syncs[1:]
	}
	r.pause(at-r.clock, op.Name)
	r.clock = at
	return r.postIssued(), at
}

// pause writes captured host time, minus the time already used to issue operations that
// were not captured (rule H1).
func (r *Rank) pause(d trace.Time, name string) {
	used := min(d, r.ahead)
	r.ahead -= used
	r.Host.Delay(d-used, program.HostIssue, name)
}

// waitForDevice writes a host wait for all operations that had ended when the call
// returned (rule H1).
func (r *Rank) waitForDevice(s workload.HostSync) {
	latest := r.clock
	for _, st := range r.Streams {
		if last := r.lastEnded(st, s.End); last != nil && last.End > s.Start {
			r.Host.Wait(r.Planner.Done[last.ID], 1, last.Name)
			latest = max(latest, last.End)
		}
	}
	r.Host.Delay(s.End-latest, program.HostIssue, "synchronize")
	r.clock = max(r.clock, s.End)
}

// lastEnded is the last operation of a stream that had ended by the given time.
func (r *Rank) lastEnded(st *Stream, by trace.Time) *workload.Op {
	for i := len(st.Commands) - 1; i >= 0; i-- {
		if id := st.Commands[i].Origin; id >= 0 && r.Planner.Workload.Ops[id].End <= by {
			return &r.Planner.Workload.Ops[id]
		}
	}
	return nil
}

// hostStall is the pause from which the host was busy with the program's own work. If a
// run without profiler is predicted, shorter pauses count as the launch path, which a
// profiler slows several times; the profile's times replace them (rule H6).
const hostStall = trace.Time(1_000_000)

// reach writes the host's time up to the first operation of a pair.
func (r *Rank) reach(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.hostOrder != nil {
		return
	}
	first := r.clock == 0
	for len(r.syncs) > 0 && r.syncs[0].End <= op.Issued {
		r.waitForDevice(r.syncs[0])
		r.syncs = r.syncs[1:]
	}
	if d := op.Issued - r.clock; d > 0 && (first || d > hostStall || !r.Planner.Workload.Unprofiled) {
		r.pause(d, op.Name)
	}
	r.clock = max(r.clock, op.Issued)
}

// passed writes the remaining captured time up to the issue of an operation, after a
// strategy has issued its replacement.
func (r *Rank) passed(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.hostOrder != nil {
		return
	}
	if d := op.Issued - r.clock; d > 0 && !r.Planner.Workload.Unprofiled {
		r.pause(d, op.Name)
	}
	r.clock = max(r.clock, op.Issued)
}

// notBefore delays the issue of an operation of a pair until the program had reached it in
// the capture.
func (r *Rank) notBefore(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.Workload.Unprofiled || r.Planner.hostOrder != nil {
		return
	}
	if d := op.Issued - r.clock - r.ahead; d > 0 {
		r.Host.Delay(d, program.HostIssue, op.Name)
		r.ahead += d
	}
}

// Issue writes the issue of one operation that was not captured. seconds is its cost on
// the profile's host.
func (r *Rank) Issue(seconds float64, name string) int64 {
	d := Duration(seconds * r.HostPace)
	if r.Planner.hostOrder != nil {
		return r.call(r.at, d, name)
	}
	r.Host.Delay(d, program.HostIssue, name)
	if !r.Planner.Workload.Unprofiled {
		r.ahead += d
	}
	return r.postIssued()
}

func (r *Rank) postIssued() int64 {
	r.count++
	r.Host.Post(r.HostIssued, 1)
	return r.count
}

// Duration converts seconds to nanoseconds, rounded to nearest.
func Duration(seconds float64) trace.Time { return trace.Time(seconds*1e9 + 0.5) }
