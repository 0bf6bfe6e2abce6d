package machine

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Profiles
//
// load.go, parse.go, schema.go and base.go read and write machine profiles: YAML files in which every
// number has a unit and a source. The shipped ones are embedded.

//go:embed profiles/*.yaml
var profiles embed.FS // read only

// Names lists the embedded profiles, sorted. A machine is a profile and a
// number of GPUs: "h200:4".
func Names() []string {
	files, err := profiles.ReadDir("profiles")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// documents are those of embedded profiles that were loaded, by name: reading YAML takes longer than all else of a load.
var documents sync.Map

// loadProfile reads an embedded profile.
func loadProfile(name string) (Machine, error) {
	if d, ok := documents.Load(name); ok {
		return d.(document).machine(files{})
	}
	f, err := profiles.Open(path.Join("profiles", name+".yaml"))
	if err != nil || strings.ContainsAny(name, `/\`) {
		return Machine{}, unknown(name)
	}
	defer f.Close()
	d, err := read(f, "profile "+name)
	if err != nil {
		return Machine{}, err
	}
	documents.Store(name, d)
	return d.machine(files{})
}

// unknown is the error of a name that is no embedded profile's.
func unknown(name string) error {
	known := Names()
	if profile, count, cut := strings.Cut(name, ":"); cut && slices.Contains(known, profile) {
		return fmt.Errorf("machine %q: %q is no number of GPUs (as in %s:4)", name, count, profile)
	}
	if i := strings.LastIndexAny(name, ":x"); i > 0 {
		if gpus, _ := strconv.Atoi(name[i+1:]); gpus > 0 {
			for _, n := range Names() {
				known = append(known, NameOf(n, gpus))
			}
		}
	}
	return fmt.Errorf("unknown machine %q (have %s with a number of GPUs, as in h200:4, or a path to a YAML file)%s",
		name, strings.Join(Names(), ", "), Suggestion(name, known))
}

// ambiguous is the error of a name that several profiles have with a number of GPUs.
func ambiguous(name string, found []Selected) error {
	var all []string
	for _, r := range found {
		all = append(all, NameOf(r.profile, r.gpus))
	}
	return fmt.Errorf("machine %q may mean %s: write one of these", name, strings.Join(all, " or "))
}

// Load returns an embedded machine by name: "h200:4" and "h200x4" are profile
// h200 with four GPUs, "h200" has as many as its collectives were recorded
// with, "h800:16" is two nodes of eight. It is an error if the name
// means no profile, or more than one.
func Load(name string) (Machine, error) {
	found := Readings(strings.ToLower(name), Names())
	switch len(found) {
	case 0:
		return Machine{}, unknown(name)
	case 1:
	default:
		return Machine{}, ambiguous(name, found)
	}
	m, err := loadProfile(found[0].profile)
	if err != nil || found[0].gpus == 0 {
		return m, err
	}
	return m.Sized(found[0].gpus)
}

// Sized reports whether a machine's name has a number of GPUs.
func Sized(name string) bool {
	found := Readings(strings.ToLower(name), Names())
	return len(found) == 1 && found[0].gpus > 0
}

// Named is the embedded profile that a machine's name means, or "".
func Named(name string) string {
	found := Readings(strings.ToLower(name), Names())
	if len(found) != 1 {
		return ""
	}
	return found[0].profile
}

// A Selected is what a machine's name may mean. gpus is 0 where the name has no number.
type Selected struct {
	profile string
	gpus    int
}

// Readings are what a name may mean, given the names of all profiles: a profile,
// a profile and a number behind ":" or "x", or, where the profile's name ends in
// an x, a number behind that ("mi300x8").
func Readings(name string, all []string) (found []Selected) {
	add := func(profile string, gpus int) {
		if slices.Contains(all, profile) {
			found = append(found, Selected{profile, gpus})
		}
	}
	add(name, 0)
	if profile, n, ok := CutCount(name); ok {
		add(profile, n)
	}
	if i := strings.LastIndexByte(name, 'x'); i >= 0 {
		if n, ok := countOf(name[i+1:]); ok {
			add(name[:i], n)
			add(name[:i+1], n)
		}
	}
	return found
}

// CutCount cuts "h200:4" or "mine.yaml:4" into what precedes the colon and the number behind it.
func CutCount(name string) (before string, gpus int, ok bool) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return name, 0, false
	}
	n, ok := countOf(name[i+1:])
	if !ok {
		return name, 0, false
	}
	return name[:i], n, true
}

// countOf reads a number of GPUs, digits only.
func countOf(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && s[0] != '+'
}
