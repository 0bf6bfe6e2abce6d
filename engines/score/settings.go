package score

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine/dataset"
)

// A setting is a parameter of a row's strategy, as rows name it.
type setting struct{ name, value string }

// settingNames are the fields of dataset.Params that strategies have settings of.
var settingNames = []string{
	"chunks", "channels", "programs", "bucket_mb", "interleave", "schedule", "microbatches", "keep_gathered",
	"carrier", "copies", "order", "policy", "impl", "comm_priority", "compute_priority", "lds", "blocks", "graph",
}

// settingsOf are the settings of a row, those that it leaves out not among them.
func settingsOf(row *dataset.Row) (list []setting) {
	var given map[string]any
	text, _ := json.Marshal(row.Params) // plain fields: it cannot fail
	_ = json.Unmarshal(text, &given)
	for _, name := range settingNames {
		switch v := given[name].(type) {
		case nil:
		case bool: // true: rows leave out what is off
			list = append(list, setting{name, "on"})
		default:
			list = append(list, setting{name, fmt.Sprint(v)})
		}
	}
	return list
}

// RowName is a row's strategy with its settings.
func RowName(row dataset.Row) string {
	text := row.Strategy
	for _, s := range settingsOf(&row) {
		_, err := strconv.ParseFloat(s.value, 64)
		switch {
		case s.name == "graph" && row.Workload.Kind != "step":
		case s.value == "on":
			text += " " + strings.TrimPrefix(s.name, "comm_")
		case err != nil:
			text += " " + s.value
		default:
			text += " " + s.name + "=" + s.value
		}
	}
	if t := row.Params.Tokens; len(t) == 2 {
		text += fmt.Sprintf(" of %d tokens from %d", t[1], t[0])
	}
	return text
}

// selectionOf is the engine and the settings that a row's strategy stands for.
func selectionOf(row *dataset.Row) (plan.Selection, error) {
	e, ok := engines.Named(row.Strategy)
	if !ok {
		return plan.Selection{}, fmt.Errorf("no engine %q", row.Strategy)
	}
	return selectFrom(e, row)
}

// selectFrom is a strategy with the settings of a row.
func selectFrom(e plan.Strategy, row *dataset.Row) (plan.Selection, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(e.Params, func(p plan.Param) bool { return p.Name == name })
	}
	set := map[string]string{}
	if row.Workload.Framework == "fsdp" && has("keep_gathered") { // rows leave out what is off
		set["keep_gathered"] = "off"
	}
	for _, s := range settingsOf(row) {
		stands, renamed := e.Rows[s.name+"="+s.value]
		if !renamed {
			stands, renamed = e.Rows[s.name]
		}
		for text := range strings.SplitSeq(stands, ":") {
			if name, value, ok := strings.Cut(text, "="); ok {
				set[name] = value
			}
		}
		if !renamed || has(s.name) && set[s.name] == "" {
			set[s.name] = s.value
		}
		if s.name == "programs" && !has(s.name) {
			delete(set, s.name) // of the captured kernel
		}
	}
	v, err := e.Values(set)
	return plan.Selection{Strategy: e, Values: v}, err
}
