package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// Marks are what Figure 11 of the fused operators shows: when workgroups of rank 0 put slices
// to other ranks and complete slices that stay.
type marks struct {
	lastPut, firstSlice trace.Time // ns
	puts                int
	top                 float64 // share of the puts by the two workgroups with most of them
}

// withMarks reports whether a measure needs phases of workgroups.
func withMarks(measure string) bool { return strings.HasPrefix(measure, "mark.") }

// phases are the options that record them, for workgroups of as many tiles as a figure shows.
func phases(o replay.Options) replay.Options {
	o.Level, o.Ranks, o.Tiles = replay.Phases, []int{0}, 1<<15
	return o
}

func marksOf(run *trace.Run) marks {
	m := marks{firstSlice: trace.Infinity}
	puts := map[trace.LaneID]int{}
	for i := range run.Spans {
		s := &run.Spans[i]
		if s.Kind != trace.PhasePut && s.Kind != trace.Marker {
			continue
		}
		switch name := run.NameOf(*s); { // replay names what a workgroup puts or posts by its mark
		case strings.HasPrefix(name, "put"):
			puts[s.Lane]++
			m.lastPut = max(m.lastPut, s.Start)
		case name == "slice ready":
			m.firstSlice = min(m.firstSlice, s.Start)
		}
	}
	var counts []int
	for _, n := range puts {
		counts, m.puts = append(counts, n), m.puts+n
	}
	slices.Sort(counts)
	for _, n := range counts[max(0, len(counts)-2):] {
		m.top += float64(n) / float64(m.puts)
	}
	return m
}

// value is a mark by name.
func (m *marks) value(name string) (float64, error) {
	switch {
	case name == "firstslice" && m.firstSlice < trace.Infinity:
		return float64(m.firstSlice) / 1e9, nil
	case name == "firstslice" || m.puts == 0:
		return 0, noNumber("mark." + name + ": the replay has no such mark")
	case name == "lastput":
		return float64(m.lastPut) / 1e9, nil
	case name == "top":
		return m.top, nil
	case name == "rest":
		return 1 - m.top, nil
	}
	return 0, fmt.Errorf("unknown measure %q", "mark."+name)
}
