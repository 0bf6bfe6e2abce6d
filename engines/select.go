package engines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// ParseSelection parses the value of --strategy: names separated by commas, each with
// settings after colons ("decompose:chunks=4:priority=on,bulk"), or "all" for every
// strategy with its defaults. name=value after a comma belongs to the strategy before it.
func ParseSelection(s string) ([]plan.Selection, error) {
	asked, err := parseItems(s)
	if err != nil {
		return nil, err
	}
	var out []plan.Selection
	for _, k := range asked {
		v, err := k.engine.Values(k.set)
		if err != nil {
			return nil, err
		}
		for _, p := range k.engine.Params {
			if set, ok := k.set[p.Name]; ok && set != p.Default && !p.Matters(v) {
				return nil, fmt.Errorf("%s: %s=%s has no effect without %s", k.engine.Name, p.Name, set, p.For)
			}
		}
		out = append(out, plan.Selection{Strategy: k.engine, Values: v})
	}
	return out, nil
}

// ParseCandidates parses the same syntax and returns, for each strategy, the selections to
// tune over: given settings are fixed, all others vary.
func ParseCandidates(s string) ([][]plan.Selection, error) {
	asked, err := parseItems(s)
	if err != nil {
		return nil, err
	}
	var out [][]plan.Selection
	for _, k := range asked {
		sel, err := k.engine.Candidates(k.set)
		if err != nil {
			return nil, err
		}
		out = append(out, sel)
	}
	return out, nil
}

// Cheap are the single settings that a comparison of all strategies tries beside their defaults:
// a flag each, and no other kernel.
func Cheap() ([]plan.Selection, error) {
	return ParseSelection("multistream:keep_gathered=on,multistream:bucket_mb=100,multistream:channels=16,multistream:priority=on,captured:graph=on")
}

// OfServing are what serving engines can switch on for a step, which a comparison of all strategies
// tries for traces of them and of captured graphs.
const OfServing = "multistream:interleave=2,onesided:impl=oneshot,onesided:impl=twoshot"

// OfCarriers is the captured schedule with copy engines instead of compute units, and the other way round where engines moved some
// collectives, which comparisons of all strategies and tuning try on machines whose engines have a known rate, and if deep with
// parameters that stay gathered; nil where they can move none of the collectives.
func OfCarriers(w *workload.Workload, m *machine.Machine, deep bool) ([]plan.Selection, error) {
	var list []string
	for _, carrier := range []string{plan.ByEngines, plan.ByUnits} {
		moves := func(c workload.Collective) bool {
			return c.Engines == (carrier == plan.ByUnits) && slices.Contains(plan.CarrierParams[0].Ops, c.Op)
		}
		if m.Engines.Rate.Or(0) > 0 && slices.ContainsFunc(w.Collectives, moves) {
			list = append(list, "multistream:carrier="+carrier)
			if deep {
				list = append(list, "multistream:carrier="+carrier+":keep_gathered=on")
			}
		}
	}
	return ParseSelection(strings.Join(list, ","))
}

// leastCopied is the share of the time from which copies can gain what a change is recommended for.
const leastCopied = 0.01

// OfSchedules are the schedules that a trace's pipeline may have, and if deep with numbers of micro-batches, and of a step that
// gathers and sums those with other numbers of workgroups for each; and those of its copies from the host where they take a
// hundredth of the time; nil: it has none of these.
func OfSchedules(w *workload.Workload, m *machine.Machine, deep bool) ([]plan.Selection, error) {
	list, more := schedule.Settings(w)
	if deep {
		list = append(list, more...)
	}
	var all, copies trace.Time
	for i := range w.Ops {
		op := &w.Ops[i]
		all += op.Dur()
		if c := w.Run.Copy(w.Run.Spans[op.Span]); c != nil && c.Dir == trace.HostToDevice {
			copies += op.Dur()
		}
	}
	if float64(copies) >= leastCopied*float64(all) && copies > 0 {
		list = append(list, schedule.Copied(w, m)...)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return ParseSelection("multistream:" + strings.Join(list, ",multistream:"))
}

// item is a strategy and the settings that a user gave it.
type item struct {
	engine plan.Strategy
	set    map[string]string
}

func parseItems(s string) ([]item, error) {
	var out []item
	for _, word := range splitSelection(s) {
		name, rest, _ := strings.Cut(word, ":")
		if name == "all" {
			for _, e := range All() {
				out = append(out, item{e, nil})
			}
			continue
		}
		e, ok := Named(name)
		if !ok {
			return nil, plan.Unknown("no strategy", name, "there are", append(Names(), "all"))
		}
		set := map[string]string{}
		for _, p := range strings.Split(rest, ":") {
			if p == "" {
				continue
			}
			k, value, ok := strings.Cut(p, "=")
			if !ok {
				return nil, fmt.Errorf("%s: %q is not name=value", name, p)
			}
			set[k] = value
		}
		out = append(out, item{e, set})
	}
	return out, nil
}

// splitSelection splits at commas and joins a piece that is only a setting to the strategy
// before it.
func splitSelection(s string) []string {
	var words []string
	for _, w := range strings.Split(s, ",") {
		w = strings.TrimSpace(w)
		head, _, _ := strings.Cut(w, ":")
		switch {
		case w == "":
		case strings.Contains(head, "=") && len(words) > 0:
			words[len(words)-1] += ":" + w
		default:
			words = append(words, w)
		}
	}
	return words
}

// Names lists the names of strategies in the order of All.
func Names() []string {
	var names []string
	for _, e := range All() {
		names = append(names, e.Name)
	}
	return names
}
