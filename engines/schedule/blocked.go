package schedule

import (
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The gaps of a capture tell which of its streams of collectives delay other kernels while they wait (rule S23).
// launch.blocked is the delay of the stream that the library gives collectives which were captured among compute.
// Another number of channels is of another process group, with a stream of its own: of the pairs of streams that were
// measured few share a hardware channel group, so that it delays none.

// A streamOf is a stream of exchanges: a captured queue, or one that the schedule adds for what ran on that queue.
type streamOf struct {
	queue int64
	name  string
}

// A delay is what a waiting exchange of a stream adds to a gap, ns, and, by item, when the host issued the stream's next
// exchange, ns of the capture.
type delay struct {
	by     trace.Time
	issued []trace.Time
}

// findDelays finds what the exchanges of the new schedule add to the gaps of the rank's kernels.
func (rw *rankWriter) findDelays() {
	captured := rw.pl.Blocked(rw.ID)
	rw.delays = map[streamOf]*delay{}
	items := rw.items[rw.ID]
	for _, x := range rw.exchanges {
		m := x.member(rw.ID)
		if m == nil || m.place < 0 || x.message {
			continue
		}
		by, known := captured.By[m.op.Queue]
		if !known || x.name != "" {
			by = plan.Duration(rw.pl.Machine.Launch.Blocked.Or(0))
		}
		regroups := rw.regroups(x.coll)
		if rw.regrouped = rw.regrouped || regroups; by > 0 && regroups {
			rw.pl.OwnGroup = true
			rw.pl.Note("a process group of its own has another stream, which most likely delays no kernel; where a variable sets the channels, kernels beside a collective that waits start about a microsecond later")
			continue
		}
		on := streamOf{m.op.Queue, x.name}
		if rw.delays[on] == nil {
			rw.delays[on] = &delay{by, slices.Repeat([]trace.Time{trace.Infinity}, len(items))}
		}
		issued := rw.delays[on].issued
		issued[m.place] = min(issued[m.place], items[m.place].op.Issued)
	}
	for _, d := range rw.delays {
		for i := len(d.issued) - 2; i >= 0; i-- {
			d.issued[i] = min(d.issued[i], d.issued[i+1])
		}
	}
}

// regroups reports whether a collective runs on another number of channels than captured.
func (sw *stepWriter) regroups(c *workload.Collective) bool {
	n := sw.channels.of(c)
	return n > 0 && sw.pl.Chunks(c, 1, n, nil).Channels != sw.pl.Chunks(c, 1, 0, nil).Channels
}

// delay is what the schedule changes of the gap before a captured kernel, ns: without the
// collectives that waited on other streams when it was captured, and with those that wait now: that the host has issued, or
// that come later if the hosts run ahead.
func (rw *rankWriter) delay(op *workload.Op) trace.Time {
	before := rw.queued(op).Before
	late := rw.pl.HostWasLate(op, before)
	switch {
	case rw.keep && !rw.regrouped:
		return rw.pl.GapChange(op)
	case rw.loop || op.Kind != trace.Compute || !late && !rw.pl.LaunchedAhead(op, before):
		return 0
	}
	was, is := trace.Time(0), trace.Time(0)
	if !late {
		was = rw.pl.Blocked(rw.ID).Captured(op)
	}
	for on, d := range rw.delays {
		if at := rw.at[op.ID]; at >= 0 && !rw.serial && on != (streamOf{op.Queue, ""}) && (d.issued[at] < op.Start || rw.pl.Ahead && d.issued[at] < trace.Infinity) {
			is = max(is, d.by)
		}
	}
	return is - was
}
