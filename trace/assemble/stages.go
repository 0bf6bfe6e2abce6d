package assemble

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// stageWord is the stage in the name of a profile of SGLang, 1758-TP-0-DECODE.trace.json.gz: the
// profiler runs for some batches of one stage, then for some of another one.
var stageWord = regexp.MustCompile(`-(DECODE|EXTEND|PREFILL)\.`)

// stageOf returns the stage of a run by the name of its file, and the name without it; "" if it has none.
func stageOf(r *trace.Run) (stage, rest string) {
	if len(r.Ranks) != 1 {
		return "", ""
	}
	name := path.Base(strings.ReplaceAll(r.Ranks[0].Source, `\`, "/"))
	at := stageWord.FindStringSubmatchIndex(name)
	if at == nil {
		return "", name
	}
	return name[at[2]:at[3]], name[:at[0]] + name[at[3]:]
}

// ofStages reports whether two runs are of two stages of one profile.
func ofStages(a, b *trace.Run) bool {
	x, of := stageOf(a)
	y, with := stageOf(b)
	return x != "" && y != "" && x != y && of == with
}

// consecutive reports whether one of two runs with dates ends before the other starts.
func consecutive(a, b *trace.Run) bool {
	return a.Epoch+int64(a.End) <= b.Epoch || b.Epoch+int64(b.End) <= a.Epoch
}

// closeGaps moves the runs of each stage to the end of those of the stage before, on all ranks by the
// same time, where some rank has several and the stages do not overlap: between them nothing was
// profiled.
func closeGaps(runs []*trace.Run) []*trace.Run {
	several := slices.ContainsFunc(runs, func(a *trace.Run) bool {
		return slices.ContainsFunc(runs, func(b *trace.Run) bool { return ofStages(a, b) && sameRank(a, b) })
	})
	if !several || slices.ContainsFunc(runs, func(r *trace.Run) bool { s, _ := stageOf(r); return s == "" || r.Epoch == 0 }) {
		return runs
	}
	type window struct {
		stage      string
		start, end int64
	}
	var all []window
	for _, r := range runs {
		stage, _ := stageOf(r)
		i := slices.IndexFunc(all, func(w window) bool { return w.stage == stage })
		if i < 0 {
			i = len(all)
			all = append(all, window{stage, r.Epoch, r.Epoch})
		}
		all[i].start, all[i].end = min(all[i].start, r.Epoch), max(all[i].end, r.Epoch+int64(r.End))
	}
	slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.start, b.start) })
	earlier, order := map[string]int64{}, map[string]int64{}
	for i := 1; i < len(all); i++ {
		gap := all[i].start - all[i-1].end
		if gap < 0 {
			return runs
		}
		earlier[all[i].stage], order[all[i].stage] = earlier[all[i-1].stage]+gap, int64(i)
	}
	moved := make([]*trace.Run, len(runs))
	for i, r := range runs {
		stage, _ := stageOf(r)
		c := *r
		c.Epoch -= earlier[stage]
		if order[stage] > 0 { // operations of each stage are counted from 0
			c.Comms = slices.Clone(r.Comms)
			for k := range c.Comms {
				c.Comms[k].Seq += order[stage] << 32
			}
		}
		if gap := earlier[stage]; gap > 0 {
			c.Ledger.Entries = slices.Clone(r.Ledger.Entries)
			c.Ledger.Add(trace.Noted, r.Ranks[0].Source, "stage "+stage+" moved to the end of the one before it: "+
				trace.Roughly(trace.Time(gap))+" earlier, as the time between was not profiled", "", 0)
		}
		moved[i] = &c
	}
	return moved
}
