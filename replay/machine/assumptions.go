package machine

import (
	"regexp"
)

// An Assumption is a number of a profile that nobody measured on that machine.
type Assumption struct {
	Key    string // "fabric.latency"
	Value  string // "1.5 us", or "unknown"
	Why    string
	Absent bool // there is no number at all
}

// Assumptions lists what a reader of results must know, in the profile's order.
func Assumptions(m Machine) []Assumption {
	var list []Assumption
	for _, e := range Entries(&m) {
		mark, why := e.mark()
		if mark != Sourced && !e.omitted() {
			list = append(list, Assumption{Key: e.Key, Value: e.String(), Why: why, Absent: mark == Unknown})
		}
	}
	return list
}

// Inherit marks numbers that a machine has from a base of another machine, by their source, as assumed, and returns how
// many it has from there.
func Inherit(m *Machine, base Machine) (n int) {
	of := Entries(&base)
	for i, e := range Entries(m) {
		was, source := of[i].mark()
		if mark, now := e.mark(); e.omitted() || mark == Unknown || mark != was || now != source {
			continue
		}
		n++
		if was != Sourced {
			continue
		}
		text := "as " + base.Profile + ": " + source
		if e.Table != nil {
			e.Table.Mark, e.Table.Source = Assumed, text
		} else {
			e.Quantity.Mark, e.Quantity.Source = Assumed, text
		}
	}
	return n
}

// An Origin counts the numbers and tables of a profile by where they are from.
type Origin struct {
	Measured  int `json:"measured"`  // on this machine: the source names rows of a data set or traces
	Published int `json:"published"` // a document, or the source of a library
	Assumed   int `json:"assumed"`   // taken from elsewhere, or unknown
}

// rows are the ids of rows of a data set in a source: c0522, m3100, hl017.
var rows = regexp.MustCompile(`\b(\w*[chkm]\d{4}|hl\d{3})\b|^traces of `)

// OriginOf counts the numbers of a machine.
func OriginOf(m Machine) (o Origin) {
	for _, e := range Entries(&m) {
		switch mark, source := e.mark(); {
		case e.omitted():
		case mark != Sourced:
			o.Assumed++
		case rows.MatchString(source):
			o.Measured++
		default:
			o.Published++
		}
	}
	return o
}
