package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Collectives are slow where they take slowFrom times the machine's law, and that costs leastSlow of the time.
const (
	slowFrom  = 3
	leastSlow = 0.01
)

// SlowCollectives are the operations whose collectives take more than slowFrom times the law of the machine in every iteration:
// what they take with nothing beside them, beyond the waits for ranks that are late (C10, C27), counts (rule C28). None where
// the machine is a guess or another one than the captured one.
func SlowCollectives(w *workload.Workload, m *machine.Machine) (slow []workload.SlowCollective) {
	if w.Run.Estimated != "" || m.Nodes() > 1 || m.Guess != "" || len(w.Run.Ranks) == 0 {
		return nil
	}
	if was := machine.ForDevice(w.Run.Ranks[0].Device); was != "" && was != machine.ForDevice(trace.Device{Name: m.GPU.Name}) {
		return nil
	}
	var rows []int32
	laws := cost.Laws{Machine: m, Workload: w}
	for i := range w.Collectives {
		if laws.Captured(&w.Collectives[i]) > 0 {
			rows = append(rows, int32(i))
		}
	}
	of, n := workload.IterationsOf(w)
	if n < 2 || len(rows) == 0 { // one iteration has a cold start
		return nil
	}
	type sum struct{ took, law, bytes float64 } // seconds, bytes that a rank sends
	sums := map[trace.CollectiveOp][]sum{}      // by iteration
	for k, alone := range ranAlone(w, rows) {
		c := &w.Collectives[rows[k]]
		law := laws.Captured(c)
		at := of[c.Members[0]]
		if at < 0 {
			continue
		}
		if sums[c.Op] == nil {
			sums[c.Op] = make([]sum, n)
		}
		// A rank's iteration holds one of each group's; copies' groups are as large.
		share := float64(len(c.Members)) / float64(w.World)
		s := &sums[c.Op][at]
		s.took, s.law = s.took+share*float64(alone-c.Late)/1e9, s.law+share*law
		s.bytes += share * float64(c.Op.WireBytes(c.Bytes, len(c.Members)))
	}
	length := iterationLength(w, of, n)
	for op, all := range sums {
		if slices.ContainsFunc(all, func(s sum) bool { return s.took <= slowFrom*s.law }) {
			continue
		}
		var total sum
		for _, s := range all {
			total = sum{total.took + s.took, total.law + s.law, total.bytes + s.bytes}
		}
		if total.took-total.law < leastSlow*float64(n)*length {
			continue
		}
		slow = append(slow, workload.SlowCollective{
			Op: op, Iterations: n, Took: trace.Time(1e9 * total.took / float64(n)), Law: trace.Time(1e9 * total.law / float64(n)),
			Bus: total.bytes / total.took, Links: m.LinkRate(w.World), Machine: m.Name,
		})
	}
	slices.SortFunc(slow, func(a, b workload.SlowCollective) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Op, b.Op))
	})
	return slow
}

// iterationLength is the mean time from the start of one iteration's first operation to the end of its last, seconds.
func iterationLength(w *workload.Workload, of []int32, n int) float64 {
	start, end := slices.Repeat([]trace.Time{trace.Infinity}, n), make([]trace.Time, n)
	for i := range w.Ops {
		if at := of[i]; at >= 0 {
			start[at], end[at] = min(start[at], w.Ops[i].Start), max(end[at], w.Ops[i].End)
		}
	}
	var all trace.Time
	for i := range start {
		all += max(0, end[i]-start[i])
	}
	return float64(all) / 1e9 / float64(n)
}
