package machine

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
)

//go:embed profiles/*.yaml
var profiles embed.FS // read only

// Names lists the embedded profiles, sorted. A machine is a profile and a
// number of GPUs: "h200x4".
func Names() []string {
	files, err := profiles.ReadDir("profiles")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// An UnknownError is a name that no embedded profile has.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown machine %q (have %s with a number of GPUs, as in h200x4, or a path to a YAML file)",
		e.Name, strings.Join(Names(), ", "))
}

// Load returns an embedded machine by name: "h200x4" is profile h200 with four
// GPUs, "h200" has as many as its collectives were recorded with. "h800x16" is
// two nodes, for its profile says that a node has eight. The error
// is an *UnknownError where there is no such profile.
func Load(name string) (Machine, error) {
	prof, gpus := splitName(name)
	f, err := profiles.Open(path.Join("profiles", prof+".yaml"))
	if err != nil || strings.ContainsAny(prof, `/\`) {
		return Machine{}, &UnknownError{Name: name}
	}
	defer f.Close()
	m, err := Parse(f, "profile "+prof)
	if err != nil {
		return Machine{}, err
	}
	if gpus == 0 {
		return m, nil
	}
	if most := int(m.Most.Value); gpus > most {
		return Machine{}, fmt.Errorf("%s: %d GPUs: %s joins at most %d (%sx1 to %sx%d)", name, gpus, prof, most, prof, prof, most)
	}
	return m.Resize(gpus), nil
}

// splitName cuts "mi300xx8" into mi300x and 8; 0 where no number follows the last x.
func splitName(name string) (prof string, gpus int) {
	i := strings.LastIndexByte(name, 'x')
	if i < 0 {
		return name, 0
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n < 1 || name[i+1] == '+' {
		return name, 0
	}
	return name[:i], n
}
