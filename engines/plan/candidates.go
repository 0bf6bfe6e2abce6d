package plan

import (
	"slices"
	"strconv"
	"strings"
)

// tuned are the values that tuning tries for integer parameters; other parameters are
// tried with all their choices.
var tuned = map[string][]int{
	"chunks":     {1, 2, 4, 8, 16},
	"channels":   {0, 2, 4, 8, 16, 24, 32},
	"bucket_mb":  {0, 12, 25, 50, 100, 200},
	"prefetch":   {0, 1, 2, 3},
	"interleave": {0, 2},
	"buffers":    {0, 2},
	"slice":      {8, 16, 32, 64},
}

// Candidates are the settings that tuning tries: every combination of parameters that are
// not fixed, the defaults first. Whether the host launches graphs and what carries collectives
// are not tuned.
func (e Strategy) Candidates(fixed map[string]string) ([]Selection, error) {
	if _, err := e.Values(fixed); err != nil {
		return nil, err
	}
	sets := []map[string]string{{}}
	for _, p := range e.Params {
		values := []string{p.Default}
		switch set, ok := fixed[p.Name]; {
		case ok:
			values = []string{set}
		case p.Name == "graph", p.Name == CarrierParam.Name:
		case p.Choices != nil:
			values = append(values, without(p.Choices, p.Default)...)
		default:
			for _, n := range tuned[p.Name] {
				values = append(values, without([]string{strconv.Itoa(n)}, p.Default)...)
			}
		}
		var next []map[string]string
		for _, value := range values {
			for _, set := range sets {
				if value != values[0] && !p.Matters(set) {
					continue
				}
				more := map[string]string{p.Name: value}
				for k, v := range set {
					more[k] = v
				}
				next = append(next, more)
			}
		}
		sets = next
	}
	var sel []Selection
	for _, set := range sets {
		v, err := e.Values(set)
		if err != nil {
			return nil, err
		}
		sel = append(sel, Selection{e, v})
	}
	return sel, nil
}

// Matters reports whether the parameter has an effect with the given settings.
func (p Param) Matters(set map[string]string) bool {
	name, values, _ := strings.Cut(p.For, "=")
	return p.For == "" || slices.Contains(strings.Split(values, "|"), set[name])
}

func without(words []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word })
}
