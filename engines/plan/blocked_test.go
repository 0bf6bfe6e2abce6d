package plan

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The gaps of 30 kernels and more while a collective waits, less those while none does, are the delay of its stream (rule
// S23). Of fewer nothing is concluded.
func TestDelaysOfFewGaps(t *testing.T) {
	for _, c := range []struct {
		kernels int
		known   bool
	}{{enoughGaps - 2, false}, {enoughGaps + 2, true}} {
		kernel := &workload.Kernel{Name: "k"}
		w := &workload.Workload{World: 1, Hosts: []*workload.Host{{Latency: 5_000}}, Ranks: make([][]int32, 1)}
		add := func(op workload.Op) {
			op.ID, op.Kernel = int32(len(w.Ops)), kernel
			w.Ops, w.Ranks[0] = append(w.Ops, op), append(w.Ranks[0], op.ID)
		}
		at := trace.Time(1_000_000)
		for _, gap := range []trace.Time{1_300, 2_400} {
			for range c.kernels {
				add(workload.Op{Queue: 7, Kind: trace.Compute, Collective: -1, Start: at + gap, End: at + gap + 10_000})
				at += gap + 10_000
			}
		}
		add(workload.Op{Queue: 20, Kind: trace.Collective, Issued: w.Ops[c.kernels].Start - 1, Start: at, End: at + 5_000})
		var m machine.Machine
		m.Launch.Gap.Value, m.Launch.Event.Value = 1.3e-6, 5.5e-6
		by, known := (&Planner{Workload: w, Machine: m}).Blocked(0).By[20]
		if known != c.known || known && by != 1_100 {
			t.Errorf("%d kernels beside a waiting collective: delay %d ns, known: %t", c.kernels, by, known)
		}
	}
}

// The host is late with a graph whose launch call still ran when the stream had become idle: with its first kernel, and with one that
// the call handed over later. Kernels that follow at once, or that had long been launched, wait for the device alone.
func TestHostsLateWithGraphs(t *testing.T) {
	for _, c := range []struct {
		what                     string
		before, start, call, end trace.Time // us: end of the kernel before; start; the launch call
		same, want               bool       // same: one call launched both
	}{
		{"launched long before", 100, 140, 10, 30, false, false},
		{"still launching", 100, 140, 60, 130, false, true},
		{"ends as the call does", 100, 140, 60, 100, false, false},
		{"at once", 100, 105, 60, 130, false, false},
		{"launched when idle", 100, 140, 101, 150, false, true},
		{"in the graph, launched", 100, 140, 10, 90, true, false},
		{"in the graph, still launching", 100, 140, 10, 130, true, true},
		{"in the graph, at once", 100, 101, 10, 130, true, false},
	} {
		const us = 1000
		w := &workload.Workload{Run: &trace.Run{}, Hosts: []*workload.Host{{}}, Ranks: [][]int32{{0, 1}}}
		w.Run.Kernels = []trace.Kernel{{Launch: 1}}
		w.Run.Spans = []trace.Span{{Kind: trace.Compute}, {Kind: trace.Launch, Start: c.call * us, End: c.end * us}}
		w.Ops = []workload.Op{{End: c.before * us, Launched: workload.Launched{Graph: true}}, {ID: 1, Start: c.start * us, Issued: c.call * us, Launched: workload.Launched{Graph: true}}}
		if c.same {
			w.Ops[0].Issued = w.Ops[1].Issued
		}
		var m machine.Machine
		m.Launch.Event.Value = 5.5e-6
		if got := (&Planner{Workload: w, Machine: m}).HostWasLate(&w.Ops[1], &w.Ops[0]); got != c.want {
			t.Errorf("%s: late: %t", c.what, got)
		}
		w.Hosts[0].Syncs = []workload.HostSync{{}}
		if (&Planner{Workload: w, Machine: m}).HostWasLate(&w.Ops[1], &w.Ops[0]) {
			t.Errorf("%s: late, though the host waits for the device", c.what)
		}
	}
}
