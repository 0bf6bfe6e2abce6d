package profile

import "github.com/overlapse/overlapse/replay/machine"

// An Assumption is a number of a profile that nobody measured on that machine.
type Assumption struct {
	Key    string // "fabric.latency"
	Value  string // "1.5 us", or "unknown"
	Why    string
	Absent bool // there is no number at all
}

// Assumptions lists what a reader of results must know, in the profile's order.
func Assumptions(m machine.Machine) []Assumption {
	var list []Assumption
	for _, e := range Entries(&m) {
		mark, why := e.mark()
		if mark != machine.Sourced && !e.omitted() {
			list = append(list, Assumption{Key: e.Key, Value: e.String(), Why: why, Absent: mark == machine.Unknown})
		}
	}
	return list
}
