package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// insideText says what the workgroups of a run spend the time of their kernels on, if they store to other ranks: communication inside
// kernels. The whole is the workgroups' places, of the processors or of a persistent kernel, times the length of each rank's kernels:
// what is left of it is between workgroups, and the tail, in which some places have none any more. "" without such workgroups.
func insideText(run *trace.Run) string {
	type place struct {
		kernel trace.SpanID
		lane   trace.LaneID
	}
	ends, of := map[place]trace.Time{}, map[string]trace.Time{}
	stores := 0
	for i := range run.Spans {
		s := &run.Spans[i]
		wg := s
		if s.Kind > trace.Workgroup && s.Kind <= trace.PhaseWait && s.Parent != trace.None {
			wg = &run.Spans[s.Parent]
		}
		at := run.Workgroup(*wg)
		if wg.Kind != trace.Workgroup || at == nil || wg.Parent == trace.None || run.Spans[wg.Parent].Kind != trace.Compute {
			continue
		}
		away := at.Peer != trace.None && int(at.Peer) != run.RankID(run.Lanes[wg.Lane].Rank)
		switch s.Kind {
		case trace.Workgroup:
			p := place{wg.Parent, wg.Lane}
			ends[p] = max(ends[p], s.End)
			if away {
				stores++
			}
		case trace.PhaseCompute:
			if away {
				of["compute for peers"] += s.Dur()
			} else {
				of["compute for the own rank"] += s.Dur()
			}
		case trace.PhaseWait:
			of["waiting"] += s.Dur()
		default:
			of["stores"] += s.Dur()
		}
	}
	if stores == 0 {
		return ""
	}
	var whole, phases trace.Time
	for p, end := range ends {
		k := &run.Spans[p.kernel]
		whole += k.Dur()
		of["tail"] += max(0, k.End-end)
	}
	for _, t := range of {
		phases += t
	}
	of["between workgroups"] = max(0, whole-phases)
	type share struct {
		name string
		time trace.Time
	}
	var list []share
	for name, t := range of {
		list = append(list, share{name, t})
	}
	slices.SortFunc(list, func(a, b share) int { return cmp.Or(cmp.Compare(b.time, a.time), strings.Compare(a.name, b.name)) })
	var said []string
	for _, x := range list {
		if percent := fmt.Sprintf("%.0f %%", 100*float64(x.time)/float64(max(1, whole))); percent != "0 %" {
			said = append(said, x.name+" "+percent)
		}
	}
	return fmt.Sprintf("the communication is inside kernels: %d workgroups or tiles store to other ranks; of their places' time: %s",
		stores, strings.Join(said, ", "))
}
