package schedule

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// beside estimates what computes alongside each exchange, which decides how it is slowed
// (rule L5): compute runs back to back, and the exchanges of a line run one after another,
// each from its place on. What waits for an exchange does not run alongside it.
func (sw *stepWriter) beside() {
	if sw.loop { // the next iteration
		for i := range sw.pl.Pairs {
			p := &sw.pl.Pairs[i]
			for _, x := range sw.carriers[p.Collective] {
				for k := range x.members {
					if t := sw.w.Ops[p.First[k]].DurAlone(); t > 0 { // else its end is lost
						x.members[k].runners = []workload.CoRun{{Op: p.First[k], Time: t}}
					}
				}
			}
		}
	}
	if sw.serial || sw.loop || sw.pl.Measured {
		return
	}
	busy := map[line]trace.Time{}
	type during struct{ from, to trace.Time }
	placed := make([]map[int32][]*exchange, len(sw.items)) // by rank and item that the host issues it before
	for _, x := range sw.exchanges {
		for k := range x.members {
			m := &x.members[k]
			if placed[m.rank] == nil {
				placed[m.rank] = map[int32][]*exchange{}
			}
			placed[m.rank][m.place+1] = append(placed[m.rank][m.place+1], x)
		}
	}
	for rank, items := range sw.items { // compute starts behind what it waits for, collectives behind those of their stream
		starts, runs, at := make([]trace.Time, len(items)), map[*exchange]during{}, trace.Time(0)
		for i := range len(items) + 1 {
			for _, x := range placed[rank][int32(i)] {
				on := sw.lineOf(x, x.member(rank))
				from := max(at, busy[on])
				busy[on] = from + sw.pl.Laws().Collective(x.coll, x.coll.Bytes, sw.channels.of(x.coll)).Alone
				runs[x] = during{from, busy[on]}
			}
			if i < len(items) {
				for _, x := range items[i].waits {
					at = max(at, runs[x].to)
				}
				starts[i] = at
				at += items[i].op.DurAlone()
			}
		}
		for x, r := range runs {
			m := x.member(rank)
			i, _ := slices.BinarySearch(starts, r.from+1)
			for i = max(0, i-1); i < len(items) && starts[i] < r.to; i++ {
				it := items[i]
				if slices.Contains(it.waits, x) {
					break
				}
				if t := min(starts[i]+it.op.DurAlone(), r.to) - max(starts[i], r.from); it.op.Kind == trace.Compute && t > 0 {
					m.runners = append(m.runners, workload.CoRun{Op: it.op.ID, Time: t})
				}
			}
		}
	}
}
