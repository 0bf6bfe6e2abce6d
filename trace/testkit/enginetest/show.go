package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// show is what a script asks for of an outcome, of rank 0:
//
//	time        time of an iteration, us
//	simulated   the same before it is scaled to the captured time, us
//	spans       kernels of each stream, from and to, us; spans:1, of rank 1
//	order       their names in order of start; order:compute, without collectives
//	took:G*     the different durations of kernels of a name, and how often each, us
//	grids:G*    how many workgroups kernels of a name have
//	copies      copies of copy engines in order of start
//	copied      how many there are
//	lanes       how many streams there are
//	kernels     how often each kernel runs
//	sent        bytes that left the GPU, by kernel, MiB
//	memory      bytes that its memory moved, by kernel, MiB
//	unseen      time of waits for ranks that nobody captured, us
//	holds       memory against the captured schedule, MiB
//	draw        time of matrix units and links that power is drawn for, of the captured schedule and of the plan, s
//	notes       what the plan says of itself
//	never       what was never run
func (b *Bench) show(t testing.TB, out engines.Outcome, show string) []string {
	t.Helper()
	run := out.Result.Run
	show, of, _ := strings.Cut(show, ":")
	switch show {
	case "time":
		return []string{micros(out.Time) + " us"}
	case "simulated":
		return []string{micros(out.Simulated) + " us"}
	case "spans":
		return spans(run, of)
	case "grids":
		var grids []string
		for _, s := range run.Spans {
			if k := run.Kernel(s); k != nil && s.Kind.OnDevice() && run.RankOf(s) == 0 && matches(t, []string{of}, run.NameOf(s)) {
				grids = append(grids, fmt.Sprint(run.Setup(k).WGs()))
			}
		}
		return []string{"workgroups " + counted(grids)}
	case "copies", "copied":
		var names []string
		for _, s := range run.Spans {
			if s.Kind == trace.Copy && run.RankOf(s) == 0 && run.Lanes[s.Lane].Kind == trace.Queue {
				names = append(names, run.NameOf(s))
			}
		}
		if show == "copied" {
			return []string{fmt.Sprintf("%d copies", len(names))}
		}
		return []string{strings.Join(names, ", ")}
	case "lanes":
		lanes := map[trace.LaneID]bool{}
		for _, s := range run.Spans {
			if s.Kind.OnDevice() && run.RankOf(s) == 0 {
				lanes[s.Lane] = true
			}
		}
		return []string{fmt.Sprintf("%d streams", len(lanes))}
	case "order":
		var names []string
		for _, s := range run.Spans {
			if s.Kind.OnDevice() && run.RankOf(s) == 0 && (of == "" || s.Kind.String() == of) {
				names = append(names, run.NameOf(s))
			}
		}
		return []string{strings.Join(names, " ")}
	case "took":
		var took []string
		for _, s := range run.Spans {
			if s.Kind.OnDevice() && run.RankOf(s) == 0 && matches(t, []string{of}, run.NameOf(s)) {
				took = append(took, micros(s.Dur()))
			}
		}
		return []string{"took " + counted(took)}
	case "kernels":
		var names []string
		for _, s := range run.Spans {
			if s.Kind.OnDevice() && run.RankOf(s) == 0 {
				names = append(names, strings.ReplaceAll(run.NameOf(s), " ", "_"))
			}
		}
		return []string{counted(names)}
	case "sent":
		lines := mib("sent", Sent(out))
		if away := moved(out, replay.NICEgress); len(away) > 0 {
			lines = append(lines, mib("to other nodes", away)...)
		}
		return lines
	case "memory":
		return mib("moved", Memory(out))
	case "unseen":
		waits := trace.Time(0)
		for idle := range out.Result.IdleOf(0) {
			if idle.Cause == program.Unseen {
				waits += idle.End - idle.Start
			}
		}
		return []string{"waits " + micros(waits) + " us for unseen ranks"}
	case "holds":
		return []string{fmt.Sprintf("holds %+.1f MiB; lacks %q", float64(out.Memory.Bytes)/(1<<20), out.Memory.Lacks)}
	case "draw":
		all := plan.ClockOf(b.W, &out.Machine, out.Scenario, plan.Changes{}).Demand(out.Scenario, out.Time)
		of := plan.ClockOf(b.W, &out.Machine, out.Scenario, out.Changed).Demand(out.Scenario, out.Time)
		return []string{fmt.Sprintf("draws for %.6f s of matrix units and %.6f s of links, captured %.6f and %.6f", of.Matrix, of.Link, all.Matrix, all.Link)}
	case "notes":
		return []string{fmt.Sprintf("notes %q", out.Changed.Notes)}
	case "never":
		return []string{fmt.Sprintf("never %q", out.Changed.Never)}
	}
	t.Fatalf("nothing is shown as %q", show)
	return nil
}

// spans are the kernels of a rank by stream.
func spans(run *trace.Run, rank string) []string {
	of, _ := strconv.Atoi(rank)
	var lanes []trace.LaneID
	text := map[trace.LaneID]string{}
	for _, s := range run.Spans {
		if !s.Kind.OnDevice() || run.RankOf(s) != of {
			continue
		}
		if text[s.Lane] == "" {
			lanes = append(lanes, s.Lane)
		} else {
			text[s.Lane] += ", "
		}
		text[s.Lane] += fmt.Sprintf("%s %.0f-%.0f", run.NameOf(s), float64(s.Start)/1000, float64(s.End)/1000)
	}
	var lines []string
	for _, id := range lanes {
		name := run.Lanes[id].Name
		if name == "" {
			name = fmt.Sprint(run.Lanes[id].ID)
		}
		lines = append(lines, name+": "+text[id])
	}
	return lines
}

// counted lists words with how often each occurs, in order of first occurrence.
func counted(words []string) string {
	n := map[string]int{}
	var order []string
	for _, w := range words {
		if n[w]++; n[w] == 1 {
			order = append(order, w)
		}
	}
	for i, w := range order {
		if n[w] > 1 {
			order[i] = fmt.Sprintf("%d x %s", n[w], w)
		}
	}
	return strings.Join(order, ", ")
}

func mib(what string, by map[string]float64) []string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %.6g", name, by[name]/(1<<20)))
	}
	return []string{what + " MiB: " + strings.Join(parts, ", ")}
}
