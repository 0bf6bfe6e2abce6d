package engines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Values are the settings of one engine, every parameter present. Make them
// with Engine.Values or ParseSelection.
type Values map[string]string

// Int returns a whole number. Engine.Values has checked that it is one.
func (v Values) Int(name string) int {
	n, _ := strconv.Atoi(v[name])
	return n
}

// String lists the settings that differ from the engine's defaults, as users type them.
func (e Engine) String(v Values) string {
	var set []string
	for _, p := range e.Params {
		if v[p.Name] != p.Default {
			set = append(set, p.Name+"="+v[p.Name])
		}
	}
	return strings.Join(set, " ")
}

// Values completes settings with the engine's defaults and checks every one.
func (e Engine) Values(set map[string]string) (Values, error) {
	v := Values{}
	for _, p := range e.Params {
		v[p.Name] = p.Default
	}
	for name, value := range set {
		p := slices.IndexFunc(e.Params, func(p Param) bool { return p.Name == name })
		if p < 0 {
			return nil, &UnknownError{What: e.Name + ": no parameter", Name: name, There: "it has", Known: e.paramNames()}
		}
		if err := e.Params[p].check(value); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.Name, name, err)
		}
		v[name] = value
	}
	return v, nil
}

func (p Param) check(value string) error {
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

func (e Engine) paramNames() []string {
	names := make([]string, len(e.Params))
	for i, p := range e.Params {
		names[i] = p.Name
	}
	return names
}

// An UnknownError is a name of a strategy or of a parameter that there is not.
type UnknownError struct {
	What, Name, There string
	Known             []string
}

func (e *UnknownError) Error() string {
	known := "none"
	if n := len(e.Known); n > 0 {
		known = strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("%s %q (%s %s)", e.What, e.Name, e.There, known)
}

// A Selection is an engine with settings.
type Selection struct {
	Engine Engine
	Values Values
}

// ParseSelection reads what users type after --strategy: names separated by
// commas, each with settings behind colons ("decompose:chunks=4:priority=on,bulk"),
// or "all" for every engine with its defaults. A comma followed by name=value
// continues the engine before it.
func ParseSelection(s string) ([]Selection, error) {
	asked, err := parseAsked(s)
	if err != nil {
		return nil, err
	}
	var out []Selection
	for _, k := range asked {
		v, err := k.engine.Values(k.set)
		if err != nil {
			return nil, err
		}
		out = append(out, Selection{k.engine, v})
	}
	return out, nil
}

// ParseCandidates reads the same, and returns for each strategy the selections
// to tune over: settings that are given stay as they are, all others vary.
func ParseCandidates(s string) ([][]Selection, error) {
	asked, err := parseAsked(s)
	if err != nil {
		return nil, err
	}
	var out [][]Selection
	for _, k := range asked {
		sel, err := k.engine.Candidates(k.set)
		if err != nil {
			return nil, err
		}
		out = append(out, sel)
	}
	return out, nil
}

// asked is a strategy and the settings that a user gave it.
type asked struct {
	engine Engine
	set    map[string]string
}

func parseAsked(s string) ([]asked, error) {
	var out []asked
	for _, word := range splitSelection(s) {
		name, rest, _ := strings.Cut(word, ":")
		if name == "all" {
			for _, e := range All() {
				out = append(out, asked{e, nil})
			}
			continue
		}
		i := slices.IndexFunc(All(), func(e Engine) bool { return e.Name == name })
		if i < 0 {
			return nil, &UnknownError{What: "no strategy", Name: name, There: "there are", Known: append(Names(), "all")}
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
		out = append(out, asked{All()[i], set})
	}
	return out, nil
}

// splitSelection cuts at commas, and joins a piece that is only a setting to the engine before it.
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

// Names lists the engines' names in the order of All.
func Names() []string {
	var names []string
	for _, e := range All() {
		names = append(names, e.Name)
	}
	return names
}
