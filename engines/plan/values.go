package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// Values are the settings of one strategy, every parameter present. Strategy.Values and
// ParseSelection make them.
type Values map[string]string

// Int returns an integer setting. Strategy.Values has checked it.
func (v Values) Int(name string) int {
	n, _ := strconv.Atoi(v[name])
	return n
}

// String lists the settings that differ from the defaults, as users type them.
func (e Strategy) String(v Values) string {
	var set []string
	for _, p := range e.Params {
		if v[p.Name] != p.Default {
			set = append(set, p.Name+"="+v[p.Name])
		}
	}
	return strings.Join(set, " ")
}

// Values completes settings with the defaults and checks every one.
func (e Strategy) Values(set map[string]string) (Values, error) {
	v := Values{}
	for _, p := range e.Params {
		v[p.Name] = p.Default
	}
	for name, value := range set {
		p := slices.IndexFunc(e.Params, func(p Param) bool { return p.Name == name })
		if p < 0 {
			return nil, Unknown(e.Name+": no parameter", name, "it has", e.paramNames())
		}
		if err := e.Params[p].check(value); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.Name, name, err)
		}
		v[name] = value
	}
	return v, nil
}

func (p Param) check(value string) error {
	if p.Text != nil {
		return p.Text(value)
	}
	if p.Choices != nil {
		if !slices.Contains(p.Choices, value) {
			return fmt.Errorf("%q is none of %s", value, strings.Join(p.Choices, ", "))
		}
		return nil
	}
	n, err := strconv.Atoi(value)
	switch {
	case err != nil || n < 0:
		return fmt.Errorf("%q is not a whole number", value)
	case n < p.Least:
		return fmt.Errorf("%d is less than %d", n, p.Least)
	case p.Most > 0 && n > p.Most:
		return fmt.Errorf("%d is more than %d", n, p.Most)
	}
	return nil
}

func (e Strategy) paramNames() []string {
	names := make([]string, len(e.Params))
	for i, p := range e.Params {
		names[i] = p.Name
	}
	return names
}

// Unknown is the error of an unknown name of a strategy or parameter, with what there is.
func Unknown(what, name, there string, known []string) error {
	all := "none"
	if len(known) > 0 {
		all = strings.Join(known, ", ")
	}
	return fmt.Errorf("%s %q (%s %s)%s", what, name, there, all, machine.Suggestion(name, known))
}

// A Selection is a strategy with settings.
type Selection struct {
	Strategy Strategy
	Values   Values
	On       trace.CollectiveOp // of a part of a mix: the collectives that it is kept to
}

// String is the strategy with the settings that differ from its defaults.
func (s Selection) String() string {
	return strings.TrimSpace(s.Strategy.Name + " " + s.Strategy.String(s.Values))
}

// Experimental reports whether an experimental setting, also of a part of a mix, is not at its default.
func (s Selection) Experimental() bool {
	return slices.ContainsFunc(s.Strategy.Params, func(p Param) bool { return p.Experimental && s.Values[p.Name] != p.Default }) ||
		slices.ContainsFunc(s.Strategy.Parts, Selection.Experimental)
}

// Candidates are the settings that tuning tries: every combination of parameters that are
// not fixed or experimental, the defaults first.
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
		case p.Keep, p.Experimental:
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
				maps.Copy(more, set)
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
