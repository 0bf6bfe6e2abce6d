package plan

import (
	"slices"
	"strconv"
)

// Candidates are the settings that tuning tries: every combination of parameters that are
// not fixed, the defaults first.
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
		case p.Keep:
		case p.Choices != nil:
			values = append(values, without(p.Choices, p.Default)...)
		default:
			for _, n := range p.Tune {
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
		sel = append(sel, Selection{Strategy: e, Values: v})
	}
	return sel, nil
}

// Matters reports whether the parameter has an effect with the given settings.
func (p Param) Matters(set map[string]string) bool { return holds(p.For, set) }

func without(words []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word })
}
