package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The host is a stream of delays and posts: an operation cannot start before
// its launch has been issued. Where a strategy issues other operations than
// were captured, they cost what the machine's profile says (rules H1 and H2).

// hostPace is how many times longer a rank's host takes to issue than the one
// that the profile was measured on: as many times as the driver's launch calls
// took, of the same profiler's. 1 where the trace or the profile has none (rule H3).
func (pl *Planner) hostPace(rank int) float64 {
	call := pl.Machine.Launch.Call.Or(0)
	if call <= 0 || rank >= len(pl.Workload.Calls) || pl.Workload.Calls[rank] == 0 {
		return 1
	}
	return float64(pl.Workload.Calls[rank]) / 1e9 / call
}

// issueAsCaptured writes the host's side of an operation and returns the count
// of r.issued to wait for and the captured time at which it was issued; 0 where
// the trace has no host calls.
func (r *Rank) issueAsCaptured(op *workload.Op) (int64, trace.Time) {
	if op.Issued == trace.Infinity || op.Issued > op.Start {
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

// pause writes captured host time, less what issuing other operations than the
// captured ones has taken already (rule H4).
func (r *Rank) pause(d trace.Time, name string) {
	used := min(d, r.ahead)
	r.ahead -= used
	r.Host.Delay(d-used, program.HostIssue, name)
}

// waitForDevice writes a host wait for everything that had ended when the call returned (rule H5).
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

// lastEnded is the last operation written to a stream that had ended by the time.
func (r *Rank) lastEnded(st *Stream, by trace.Time) *workload.Op {
	for i := len(st.Commands) - 1; i >= 0; i-- {
		if id := st.Commands[i].Origin; id >= 0 && r.Planner.Workload.Ops[id].End <= by {
			return &r.Planner.Workload.Ops[id]
		}
	}
	return nil
}

// hostStall is the pause of the host beyond which it was busy with the
// program's own work. Where a run without the profiler is predicted, shorter
// ones are taken to be the launch path's, which a profiler slows down several
// times over; there the machine's profile counts instead (rule H6).
const hostStall = trace.Time(1_000_000)

// reach writes the host's time up to the first operation of a pair.
func (r *Rank) reach(op *workload.Op) {
	if op.Issued == trace.Infinity {
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

// passed writes what is left of the captured time up to the issue of an
// operation, when a strategy has issued all that stands for it.
func (r *Rank) passed(op *workload.Op) {
	if op.Issued == trace.Infinity {
		return
	}
	if d := op.Issued - r.clock; d > 0 && !r.Planner.Workload.Unprofiled {
		r.pause(d, op.Name)
	}
	r.clock = max(r.clock, op.Issued)
}

// notBefore keeps an operation of a pair from being issued before the program came to it.
func (r *Rank) notBefore(op *workload.Op) {
	if op.Issued == trace.Infinity || r.Planner.Workload.Unprofiled {
		return
	}
	if d := op.Issued - r.clock - r.ahead; d > 0 {
		r.Host.Delay(d, program.HostIssue, op.Name)
		r.ahead += d
	}
}

// Issue writes the issue of one operation that was not captured; seconds is what it
// costs on the profile's host.
func (r *Rank) Issue(seconds float64, name string) int64 {
	d := Duration(seconds * r.HostPace)
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

// Duration converts seconds to whole nanoseconds, to nearest.
func Duration(seconds float64) trace.Time { return trace.Time(seconds*1e9 + 0.5) }
