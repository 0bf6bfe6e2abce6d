package lift

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

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
			spent[kernel.Short(l.Run.NameOf(s))] += s.Dur()
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
		if c.Bytes > 0 || c.Part || c.Op == trace.Barrier || c.Op == trace.UnknownOp || len(c.Members) < 2 || c.Engines {
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
		c.Bytes, c.In, c.Out, c.Guessed = bytes, bytes, bytes, true
		switch each := max(1, bytes/int64(len(c.Members))); c.Op {
		case trace.AllGather:
			c.In = each
		case trace.ReduceScatter:
			c.Out = each
		}
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
