package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// AwaitUnseen holds a stream for as long as a captured collective waited for ranks that nobody
// captured. These run the same kernels, so their hosts are taken to be late: less so without the
// profiler, by as much as the captured hosts, and not at all where captured graphs launch the
// kernels. What such a host launches after the collective is as late, so that the streams that the
// collective depends on are held too, if nothing ran beside it in the capture (rule C27).
func (r *Rank) AwaitUnseen(s *Stream, op *workload.Op, c *workload.Collective) {
	pl := r.Planner
	if c == nil || c.Late == 0 || pl.Graph {
		return
	}
	late := trace.Time(float64(c.Late) * pl.hostsWithout())
	s.Delay(late, program.Unseen, "ranks that were not captured")
	for _, d := range op.After {
		if on := pl.Workload.Ops[d.Op].Queue; c.Serial && on != op.Queue {
			r.Stream(on).Delay(late, program.Unseen, "ranks that were not captured")
		}
	}
}

// hostsWithout is the time that the hosts take without the profiler over the time that they took in
// the capture (rule H7); 1 if the run is predicted with it.
func (pl *Planner) hostsWithout() float64 {
	if pl.withoutProfiler == 0 {
		var without, with trace.Time
		for rank, h := range pl.Workload.Hosts {
			for i, cost := range pl.IssueCosts(rank) {
				without, with = without+cost, with+h.Issues[i].Work
			}
		}
		if pl.withoutProfiler = 1; with > 0 {
			pl.withoutProfiler = float64(without) / float64(with)
		}
	}
	return pl.withoutProfiler
}
