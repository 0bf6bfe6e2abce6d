package workload

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A Host is what the host of one rank did to issue the rank's ops, as captured (rule H7).
type Host struct {
	Issues []Issue    // by position in Workload.Ranks
	Order  []int32    // positions in order of issue; ops without a host call are not in it
	Syncs  []HostSync // calls in which it waited for the device, by end

	// Latency is the time from the start of a launch call to the start of its op on an idle
	// device, ns: the median; 0 if no op found the device idle.
	Latency trace.Time
}

// An Issue is the host's work to issue one op: from the start of the call that issued the
// previous one to the start of the call that issues this one. It is zero for ops
// without a host call and for all but the first op of a graph.
type Issue struct {
	Work      trace.Time // ns, without the time in which the host waited for the device
	Operators int        // framework operators and ranges that the profiler recorded in it
	Calls     int        // runtime and driver calls that it recorded
}

// A HostSync is a call in which the host waited for the device.
type HostSync struct{ Start, End trace.Time }

// A hostEvent is one host span of a rank.
type hostEvent struct {
	at   trace.Time
	lane trace.LaneID
	call bool // of the runtime or driver
}

// hostRecord is the host spans of one captured rank.
type hostRecord struct {
	events []hostEvent // by start
	held   []heldCall  // by start: calls in which the host waited for the device
	syncs  []HostSync
}

// A heldCall is a call in which the host waited for the device for some time.
type heldCall struct {
	at, wait trace.Time
	lane     trace.LaneID
}

// queueFull is the duration of a launch call, relative to the median of the rank's calls of
// that name, from which the call waited: the queue of the device was full (1024 launches),
// or the driver loaded a module, which a later step does not repeat.
const queueFull = 10

// recordHosts collects the host spans of every captured rank.
func recordHosts(run *trace.Run) []hostRecord {
	kinds := make([]callKind, len(run.Names))
	for i, n := range run.Names {
		kinds[i] = callKindOf(n)
	}
	type calls struct {
		row  int
		name trace.NameID
	}
	durations := map[calls][]trace.Time{}
	for _, s := range run.Spans {
		if s.Kind == trace.Launch && kinds[s.Name].enqueues {
			k := calls{run.RankOf(s), s.Name}
			durations[k] = append(durations[k], s.Dur())
		}
	}
	typical := map[calls]trace.Time{}
	for k, list := range durations {
		typical[k] = middle(list)
	}
	records := make([]hostRecord, len(run.Ranks))
	for _, s := range run.Spans {
		if run.Lanes[s.Lane].Kind != trace.HostThread || s.Kind != trace.HostCall && s.Kind != trace.Launch && s.Kind != trace.Marker {
			continue
		}
		row := run.RankOf(s)
		r, k := &records[row], kinds[s.Name]
		r.events = append(r.events, hostEvent{s.Start, s.Lane, k.call && s.Kind != trace.Marker})
		switch usual := typical[calls{row, s.Name}]; {
		case s.Kind == trace.HostCall && k.syncs:
			r.syncs = append(r.syncs, HostSync{s.Start, s.End})
			r.held = append(r.held, heldCall{s.Start, s.Dur(), s.Lane})
		case s.Kind == trace.Launch && usual > 0 && s.Dur() > queueFull*usual:
			r.held = append(r.held, heldCall{s.Start, s.Dur() - usual, s.Lane})
		}
	}
	for i := range records {
		slices.SortFunc(records[i].syncs, func(a, b HostSync) int { return cmp.Compare(a.End, b.End) })
	}
	return records
}

// A callKind is the properties of a host call that follow from its name.
type callKind struct {
	call     bool // of the runtime or driver, not of the framework
	syncs    bool // the host waits for the device
	enqueues bool // a kernel, copy or fill
}

func callKindOf(name string) callKind {
	var k callKind
	switch rest, ok := strings.CutPrefix(name, "cu"); {
	case strings.HasPrefix(name, "hip"), strings.HasPrefix(name, "cuda"):
		k.call = true
	default:
		k.call = ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z'
	}
	k.syncs = strings.HasSuffix(name, "Synchronize")
	k.enqueues = strings.Contains(name, "LaunchKernel") || strings.Contains(name, "Memcpy") || strings.Contains(name, "Memset")
	return k
}

// host derives what the host of a captured rank did for each op from its record.
func (src *source) host(run *trace.Run, rec *hostRecord) Host {
	h := Host{Issues: make([]Issue, len(src.ops)), Syncs: rec.syncs}
	var latencies []trace.Time
	busy := trace.Time(0) // until then
	for i := range src.ops {
		op := &src.ops[i]
		if src.facts[i].launch != trace.None {
			h.Order = append(h.Order, int32(i))
			if op.Issued >= busy && op.Start >= op.Issued {
				latencies = append(latencies, op.Start-op.Issued)
			}
		}
		busy = max(busy, op.End)
	}
	h.Latency = middle(latencies)
	slices.SortStableFunc(h.Order, func(a, b int32) int {
		return cmp.Compare(src.ops[a].Issued, src.ops[b].Issued)
	})
	var from trace.Time
	lane := trace.LaneID(-1)
	for n, i := range h.Order {
		op, is := &src.ops[i], &h.Issues[i]
		own := run.Spans[src.facts[i].launch].Lane
		if n > 0 {
			is.Work = op.Issued - from
		} // what the host did before the first op is not recorded
		for len(rec.events) > 0 && rec.events[0].at < op.Issued {
			switch e := rec.events[0]; {
			case n == 0, e.lane != lane && e.lane != own: // another thread
			case e.call:
				is.Calls++
			default:
				is.Operators++
			}
			rec.events = rec.events[1:]
		}
		for len(rec.held) > 0 && rec.held[0].at < op.Issued {
			if c := rec.held[0]; c.lane == lane || c.lane == own {
				is.Work -= min(is.Work, c.wait)
			}
			rec.held = rec.held[1:]
		}
		from, lane = op.Issued, own
	}
	return h
}
