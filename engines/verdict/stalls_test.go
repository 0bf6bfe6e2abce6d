package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Only what no launch takes is a pause, and only while all streams wait.
func TestStalls(t *testing.T) {
	ms := func(list ...[2]float64) (all []overlap.Interval) {
		for _, x := range list {
			all = append(all, overlap.Interval{Start: trace.Time(1e6 * x[0]), End: trace.Time(1e6 * x[1])})
		}
		return all
	}
	for _, c := range []struct {
		name         string
		busy, late   []overlap.Interval
		sum, longest float64 // ms
	}{
		{"launches", ms([2]float64{0, 1}, [2]float64{1.5, 2}, [2]float64{2.5, 3}), ms([2]float64{1, 1.5}, [2]float64{2, 2.5}), 0, 0},
		{"a pause", ms([2]float64{0, 1}, [2]float64{6, 7}, [2]float64{7.1, 8}), ms([2]float64{1, 6}, [2]float64{7, 7.1}), 5, 5},
		{"one stream waits long, another works", ms([2]float64{0, 3}, [2]float64{3.2, 6}), ms([2]float64{0, 6}), 0, 0},
		{"idle for another cause", ms([2]float64{0, 1}, [2]float64{6, 7}), ms([2]float64{1, 1.2}), 0, 0},
		{"two pauses", ms([2]float64{0, 1}, [2]float64{3, 4}, [2]float64{9, 10}), ms([2]float64{1, 3}, [2]float64{4, 9}), 7, 5},
	} {
		sum, longest := stalls(0, c.busy, c.late)
		if float64(sum) != 1e6*c.sum || float64(longest) != 1e6*c.longest {
			t.Errorf("%s: %d and %d ns, want %v and %v ms", c.name, sum, longest, c.sum, c.longest)
		}
	}
}

// A pause of a few percent is told behind what to change, and once.
func TestShortPausesAreNoHeadline(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	captured := enginetest.Outcome(t, w, m, "captured", nil)
	v := Judge(w, captured, nil, nil)
	v.Sentences, v.paused = []string{"what to change"}, "pauses"
	v.waiting(w)
	v.waiting(w)
	if want := []string{"what to change", "pauses"}; !slices.Equal(v.Sentences, want) {
		t.Errorf("%q, want %q", v.Sentences, want)
	}
}

// The longest pause is named by the shortest range that has most of it, and not by one that has far more, as a step.
func TestPausesAreNamed(t *testing.T) {
	const calls = "loader"
	w := plantest.LiftSample(t, "measurements/2026-11-30-h200-inputs/traces/mlp_pageable")
	if got, _ := pausesIn(w); got != "" {
		t.Errorf("no pause is %q", got)
	}
	run, h, ids := *w.Run, w.Hosts[0], w.Ranks[0]
	w.Run = &run
	from, late := w.Ops[ids[h.Order[4]]].Issued, 500*trace.Time(1e6)
	for _, at := range h.Order[5:] {
		w.Ops[ids[at]].Issued += late
	}
	h.Issues[h.Order[5]].Work = late
	var lane trace.LaneID
	for i := range run.Lanes {
		if run.Lanes[i].Kind == trace.HostThread {
			lane = trace.LaneID(i)
		}
	}
	span := func(name string, from, until trace.Time) {
		run.Names = append(run.Names, name)
		run.Spans = append(run.Spans, trace.Span{Kind: trace.Marker, Name: trace.NameID(len(run.Names) - 1), Lane: lane, Start: from, End: until})
	}
	span("epoch", from-10*late, from+10*late)
	span("batch", from, from+late)
	span(calls, from, from+late*3/4)
	span("short", from, from+late/4)
	if in, less := pausesIn(w); in != "the longest mostly in "+calls || less != "" {
		t.Errorf("%q%q, want %q", in, less, calls)
	}
	const loads = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
	run.Names[len(run.Names)-2] = loads
	if in, less := pausesIn(w); in != "the longest mostly in "+loads || !strings.Contains(less, "num_workers") {
		t.Errorf("%q%q, want %q and num_workers", in, less, loads)
	}
	h.Issues[h.Order[5]].Work = late / 3
	if in, _ := pausesIn(w); in != "" {
		t.Errorf("a wait for the device is %q", in)
	}
}

// Pauses are what no schedule shortens, but where one that is likely to gain lets the host be ahead of its device.
func TestPausesThatAScheduleShortens(t *testing.T) {
	const none = "no schedule and no graph shortens them"
	w, m := plantest.LiftSample(t, "measurements/2026-11-30-h200-inputs/traces/mlp_pageable"), plantest.H200(t, 1)
	h := w.Hosts[0]
	for i := range h.Order { // behind each copy from pageable memory, 15 ms of the host
		if id := w.Ranks[0][h.Order[i]]; strings.Contains(w.Ops[id].Name, "HtoD") && i+1 < len(h.Order) {
			h.Issues[h.Order[i+1]].Work += 15e6
		}
	}
	w.Unprofiled = true
	captured := enginetest.Outcome(t, w, m, "captured", nil)
	pinned := Predict(w, captured, enginetest.Outcome(t, w, m, "multistream", map[string]string{"copies": "pinned"}))
	graph := Predict(w, captured, enginetest.Outcome(t, w, m, "captured", map[string]string{"graph": "on"}))
	pinned.Result, graph.Result = nil, nil // as a command keeps them
	if v := Judge(w, captured, nil, nil); !strings.Contains(strings.Join(v.Sentences, " "), none) {
		t.Errorf("alone: %q, want that %s", v.Sentences, none)
	}
	if v := Judge(w, captured, []Prediction{pinned}, nil); strings.Contains(strings.Join(v.Sentences, " "), none) || !pinned.likely() {
		t.Errorf("beside pinned memory, %+.2f: %q, want not that %s", pinned.Change, v.Sentences, none)
	}
	if v := Judge(w, captured, []Prediction{graph}, nil); !strings.Contains(strings.Join(v.Sentences, " "), none) {
		t.Errorf("beside a graph, %+.2f: %q, want that %s", graph.Change, v.Sentences, none)
	}
}
