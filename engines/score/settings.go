package score

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine/dataset"
)

// RowName is a row's strategy with its settings.
func RowName(row dataset.Row) string {
	text := row.Strategy
	for name, value := range settingText(&row.Params.Settings) {
		_, err := strconv.ParseFloat(value, 64)
		switch {
		case name == "graph" && row.Workload.Kind != "step":
		case value == "on":
			text += " " + strings.TrimPrefix(name, "comm_")
		case err != nil && name != "sums":
			text += " " + value
		default:
			text += " " + name + "=" + value
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
	for name, value := range settingText(&row.Params.Settings) {
		stands, renamed := e.Rows[name+"="+value]
		if !renamed {
			stands, renamed = e.Rows[name]
		}
		for text := range strings.SplitSeq(stands, ":") {
			if name, value, ok := strings.Cut(text, "="); ok {
				set[name] = value
			}
		}
		if !renamed || has(name) && set[name] == "" {
			set[name] = value
		}
		if name == "programs" && !has(name) {
			delete(set, name) // of the captured kernel
		}
	}
	v, err := e.Values(set)
	return plan.Selection{Strategy: e, Values: v}, err
}

// settingText is the settings by name, as text: a number, a word or "on". Those that are left out or off are not among them.
func settingText(s *dataset.Settings) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for f, v := range reflect.ValueOf(s).Elem().Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			value := fmt.Sprint(v)
			if v.Kind() == reflect.Bool {
				value = "on"
			}
			if !v.IsZero() && !yield(name, value) {
				return
			}
		}
	}
}
