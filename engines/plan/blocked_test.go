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
