package layout

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Address is what a view shows, as one short text:
//
//	strategy=bulk,fused&show=fused&t=1.2ms-3ms&row=rank+0/stream+7&at=1.25ms
//
// The zero value is all of the first run. What a run does not have is left out when an
// address is gone to.
type Address struct {
	Strategy string // the selection that was replayed; "": none
	Show     string // name of the run; "": the first, "all": all on one axis
	Rank     int    // rank row of workgroups
	Kernel   string // the part of the step whose workgroups are compared; "": lanes
	Window   Window // zero: all
	Find     string // what was searched for
	Row      string // labels of the row and its headings
	At       trace.Time
	Selected bool // At is the start of the selected span of the row
}

// String is the address as ParseAddress reads it.
func (a Address) String() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			escaped := strings.NewReplacer("%2C", ",", "%3A", ":", "%2F", "/", "%3D", "=").Replace(url.QueryEscape(value))
			parts = append(parts, name+"="+escaped)
		}
	}
	add("strategy", a.Strategy)
	add("show", a.Show)
	if a.Rank != 0 {
		add("rank", strconv.Itoa(a.Rank))
	}
	add("kernel", a.Kernel)
	if a.Window != (Window{}) {
		add("t", compact(a.Window.From)+"-"+compact(a.Window.To))
	}
	add("find", a.Find)
	add("row", a.Row)
	if a.Selected {
		add("at", compact(a.At))
	}
	return strings.Join(parts, "&")
}

func compact(t trace.Time) string {
	return strings.NewReplacer(" ", "", "µ", "u").Replace(Exact(t))
}

// ParseAddress is the inverse of String. The error names the part that is wrong.
func ParseAddress(s string) (a Address, err error) {
	for _, part := range strings.Split(strings.TrimPrefix(strings.TrimSpace(s), "#"), "&") {
		name, value, _ := strings.Cut(part, "=")
		if value, err = url.QueryUnescape(value); err != nil {
			return a, fmt.Errorf("address: %s: %w", name, err)
		}
		switch name {
		case "":
		case "strategy":
			a.Strategy = value
		case "show":
			a.Show = value
		case "kernel":
			a.Kernel = value
		case "find":
			a.Find = value
		case "row":
			a.Row = value
		case "rank":
			if a.Rank, err = strconv.Atoi(value); err != nil || a.Rank < 0 {
				return a, fmt.Errorf("address: rank: %q is no rank", value)
			}
		case "t":
			if a.Window, err = parseWindow(value); err != nil {
				return a, fmt.Errorf("address: t: %w", err)
			}
		case "at":
			if a.At, err = ParseTime(value); err != nil {
				return a, fmt.Errorf("address: at: %w", err)
			}
			a.Selected = true
		default:
			return a, fmt.Errorf("address: no part %q (there are strategy, show, rank, kernel, t, find, row and at)", name)
		}
	}
	return a, nil
}

// parseWindow reads "1.2ms-3ms"; the times may be negative.
func parseWindow(s string) (Window, error) {
	for i := 1; i < len(s); i++ {
		if s[i] != '-' || i+1 == len(s) {
			continue
		}
		from, err := ParseTime(s[:i])
		if err != nil {
			return Window{}, err
		}
		to, err := ParseTime(s[i+1:])
		if err != nil {
			return Window{}, err
		}
		if to <= from {
			return Window{}, fmt.Errorf("%q ends before it starts", s)
		}
		return Window{from, to}, nil
	}
	return Window{}, fmt.Errorf("%q is no range (write one like 1.2ms-3ms)", s)
}
