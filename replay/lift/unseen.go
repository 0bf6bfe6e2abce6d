package lift

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// waitsForUnseen finds how long collectives waited for ranks that nobody captured: what they
// take with nothing else on their captured ranks, which could slow them, beyond the whole time
// of the shortest one of the same operation and group with as many bytes or more, or of the same unknown number (rule C27).
func (l *lifter) waitsForUnseen() {
	if !l.unseen {
		return
	}
	var order []int32
	twins := twinsOf(l.Workload)
	for i := range l.Collectives {
		c := &l.Collectives[i]
		if (c.Bytes > 0 || twins[i] > 0) && c.Op != trace.SendRecv && !c.Engines && hasUnseen(l.Workload, c) {
			order = append(order, int32(i))
		}
	}
	class := func(a, b int32) int {
		x, y := &l.Collectives[a], &l.Collectives[b]
		return cmp.Or(cmp.Compare(x.Op, y.Op), cmp.Compare(x.Group, y.Group), cmp.Compare(len(x.Members), len(y.Members)),
			cmp.Compare(twins[a], twins[b]))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(class(a, b), cmp.Compare(l.Collectives[b].Bytes, l.Collectives[a].Bytes))
	})
	alone := ranAlone(l.Workload, order)
	waits := slices.Clone(alone)
	least := trace.Infinity // of the class, with so many bytes or more
	for from := 0; from < len(order); {
		if from > 0 && class(order[from-1], order[from]) != 0 {
			least = trace.Infinity
		}
		first, to := order[from], from
		for ; to < len(order) && class(first, order[to]) == 0 && l.Collectives[first].Bytes == l.Collectives[order[to]].Bytes; to++ {
			least = min(least, l.Collectives[order[to]].Transfer())
		}
		for ; from < to; from++ {
			waits[from] -= least
		}
	}
	for k, row := range order {
		if c := &l.Collectives[row]; waits[k] > 0 {
			c.Serial = alone[k] == l.Ops[c.Members[0]].Dur()
			c.Late, c.Arrive, c.Shortest = waits[k], c.Arrive+waits[k], max(1, c.Shortest-waits[k])
		}
	}
}

// OnMachine finds what laws of a machine tell of a capture on it: slow collectives (rule C28), waits for ranks that nobody
// captured (rule C27), and the sizes of GEMMs in captured graphs (rule V26).
func OnMachine(w *workload.Workload, m *machine.Machine) {
	if w.Slow == nil { // else found before waits were known by the law
		w.Slow = SlowCollectives(w, m)
	}
	waitsOn(w, m)
	Shapes(w, m)
}

// waitsOn is waitsForUnseen where the profile has times of its machine's collectives: beyond those, with sizeSpread, is
// a wait too. The shortest collective of a size may have waited as all others did (rule C27).
func waitsOn(w *workload.Workload, m *machine.Machine) {
	if t := m.Library.AllReduce.Times; len(t.Rows) == 0 || t.Mark != machine.Sourced {
		return
	}
	BeyondLaw(w, m, func(c *workload.Collective, more trace.Time, serial bool) {
		c.Serial = serial
		c.Late, c.Arrive, c.Shortest = c.Late+more, c.Arrive+more, max(1, c.Shortest-more)
	})
}

// BeyondLaw calls emit for each collective of ranks that nobody captured that takes more than its Late and the time of its
// size on the machine with sizeSpread: by how much, with nothing beside it, and whether nothing was beside it in all its time.
func BeyondLaw(w *workload.Workload, m *machine.Machine, emit func(c *workload.Collective, more trace.Time, serial bool)) {
	if w.Captured == w.World || m.Nodes() > 1 {
		return
	}
	laws := cost.Laws{Machine: m, Workload: w}
	var rows []int32
	for i := range w.Collectives {
		if c := &w.Collectives[i]; laws.Captured(c) > 0 && hasUnseen(w, c) {
			rows = append(rows, int32(i))
		}
	}
	for k, alone := range ranAlone(w, rows) {
		c := &w.Collectives[rows[k]]
		law := laws.Captured(c) * (1 + sizeSpread)
		if more := alone - trace.Time(law*1e9) - c.Late; more > 0 {
			emit(c, more, alone == w.Ops[c.Members[0]].Dur())
		}
	}
}

// ranAlone is, by collective, the time in which nothing else ran on a member's rank, of the member with the least.
func ranAlone(l *workload.Workload, collectives []int32) []trace.Time {
	until := make([]trace.Time, len(l.Ops)) // by op: the latest end of its rank's ops in front of it
	for _, ids := range l.Ranks {
		latest := trace.Time(0)
		for _, id := range ids {
			until[id], latest = latest, max(latest, l.Ops[id].End)
		}
	}
	alone := make([]trace.Time, len(collectives))
	for k, row := range collectives {
		alone[k] = trace.Infinity
		for _, id := range l.Collectives[row].Members {
			op := &l.Ops[id]
			others := []overlap.Interval{{Start: op.Start, End: max(op.Start, min(until[id], op.End))}}
			for next := id + 1; int(next) < len(l.Ops) && l.Ops[next].Rank == op.Rank && l.Ops[next].Start < op.End; next++ {
				others = append(others, overlap.Interval{Start: l.Ops[next].Start, End: min(l.Ops[next].End, op.End)})
			}
			alone[k] = min(alone[k], op.Dur()-overlap.Covered(others))
		}
	}
	return alone
}

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

// noteUnknownCommunication adds a note about compute kernels with names as of
// communication kernels.
func (l *lifter) noteUnknownCommunication() {
	looks, spent, count := map[trace.NameID]bool{}, map[string]trace.Time{}, 0
	for _, s := range l.Run.Spans {
		if s.Kind != trace.Compute {
			continue
		}
		yes, known := looks[s.Name]
		if !known {
			yes = trace.LooksLikeCommunication(l.Run.NameOf(s))
			looks[s.Name] = yes
		}
		if yes {
			spent[workload.FunctionName(l.Run.NameOf(s))] += s.Dur()
			count++
		}
	}
	if count == 0 {
		return
	}
	const most = 3
	names := slices.SortedFunc(maps.Keys(spent), func(a, b string) int {
		return cmp.Or(cmp.Compare(spent[b],
			spent[a]), cmp.Compare(a, b))
	})
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	l.noteCount(count, "kernel", "kernels", "with names as of communication that are not known: "+
		strings.Join(names, ", ")+"; counted as compute")
}

// GuessSizes gives every collective of unknown size the bytes that the law moves in its captured time. One that would
// not fit into the GPU's memory waited, and keeps no size; nor has one
// that no iteration of a loop repeats.
// If ranks are missing, a collective's time includes waits for them, and the size is an upper bound. It returns
// what to tell the user, "" if every size is known. The workload is changed (rule V10).
func GuessSizes(w *workload.Workload, m *machine.Machine) string {
	least, most := int64(math.MaxInt64), int64(0)
	n := 0
	laws, twins := &cost.Laws{Machine: m, Workload: w}, twinsOf(w)
	shortest := map[int32]trace.Time{} // of twins
	for i, twin := range twins {
		if t, ok := shortest[twin]; twin > 0 && (!ok || w.Collectives[i].Transfer() < t) {
			shortest[twin] = w.Collectives[i].Transfer()
		}
	}
	places := placesIn(w)
	loop, holds := slices.ContainsFunc(places, func(p int32) bool { return p > 0 }), int64(0)
	if len(w.Run.Ranks) > 0 {
		holds = machine.MemoryBytes(w.Run.Ranks[0].Device)
	}
	for i := range w.Collectives {
		c := &w.Collectives[i]
		// the law is of kernels
		if c.Bytes > 0 || c.Earlier || c.Op == trace.Barrier || c.Op == trace.UnknownOp || len(c.Members) < 2 || c.Engines {
			continue
		}
		if loop && places[i] == 0 && twins[i] == 0 {
			continue // as at the start, where ranks wait for each other, and no other iteration shows for how long
		}
		took := c.Transfer()
		if twins[i] > 0 {
			took = shortest[twins[i]]
		}
		bytes := laws.BytesIn(c, took)
		if bytes == 0 || holds > 0 && bytes > holds { // it waited
			continue
		}
		c.Bytes, c.Guessed = bytes, true
		c.In, c.Out = c.Op.Sides(bytes, len(c.Members))
		least, most = min(least, bytes), max(most, bytes)
		n++
	}
	OnMachine(w, m)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s of unknown size: guessed from the times and the laws of %s, %s, at most if ranks waited in them",
		counted(n, "collective", "collectives"), m.Name, trace.Range(least, most))
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// sizeSpread is the relative error of a collective's time by the laws of machines:
// laws of small collectives are off by up to 10 %, and collectives of a step vary by as much.
const sizeSpread = 0.25

// hasUnseen reports whether a collective has members that nobody captured.
func hasUnseen(w *workload.Workload, c *workload.Collective) bool {
	return slices.ContainsFunc(c.Members, func(id int32) bool { return w.Copies[w.Ops[id].Rank] })
}
