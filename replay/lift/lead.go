package lift

import "github.com/overlapse/overlapse/trace"

// A leadKernels is the device operations that hosts launched before the profiler recorded their calls: the device was behind.
type leadKernels struct {
	Spans  map[trace.SpanID]bool
	Behind trace.Time // from a rank's first recorded launch to the end of its last such operation; of all ranks the longest, ns
}

// leadOf finds them: a stream runs in the order of launches, so what starts on it before its first operation of a
// recorded launch was launched before the recording. A stream without recorded launches is compared with the first such
// operation of its rank. Where launches are not recorded of most later operations either, nothing tells (rule V31).
func leadOf(run *trace.Run) (lead leadKernels) {
	queues := map[trace.Lane]int{}
	of := make([]int, len(run.Lanes)) // by lane: its queue
	for i, lane := range run.Lanes {
		q := wholeQueue(lane)
		if _, ok := queues[q]; !ok {
			queues[q] = len(queues)
		}
		of[i] = queues[q]
	}
	type since struct {
		start, launched trace.Time // of the first operation of a recorded launch, and the first launch
		with, without   int        // recorded launches, of later operations
	}
	first := make([]trace.Time, len(queues)) // by queue, start of the first operation of a recorded launch; 0: none
	ranks := make([]since, len(run.Ranks))
	for _, s := range run.Spans { // by start
		if !s.Kind.OnDevice() {
			continue
		}
		r, q := &ranks[run.RankOf(s)], of[s.Lane]
		launch := launchOf(run, s)
		switch {
		case launch == trace.None:
			if first[q] > 0 {
				r.without++
			}
			continue
		case first[q] == 0:
			first[q] = s.Start + 1
		}
		if at := run.Spans[launch].Start; r.with == 0 {
			r.start, r.launched = s.Start, at
		} else {
			r.launched = min(r.launched, at)
		}
		r.with++
	}
	for i, s := range run.Spans {
		if !s.Kind.OnDevice() || launchOf(run, s) != trace.None {
			continue
		}
		r, until := ranks[run.RankOf(s)], first[of[s.Lane]]-1
		if until < 0 {
			until = r.start
		}
		if r.with <= r.without || s.Start >= until {
			continue
		}
		if lead.Spans == nil {
			lead.Spans = map[trace.SpanID]bool{}
		}
		lead.Spans[trace.SpanID(i)] = true
		lead.Behind = max(lead.Behind, s.End-r.launched)
	}
	return lead
}
