package chrome_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Further arrows begin and end within their slices, counters belong to their ranks, and
// reading skips both.
func TestWriteFlows(t *testing.T) {
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{ID: 0}), Peer: trace.None})
	for at := range trace.Time(3) {
		b.Add(trace.Span{Kind: trace.Compute, Lane: lane, Start: at * 10, End: at*10 + 8, Name: b.Intern("k"), Parent: trace.None, Attr: trace.None})
	}
	run := b.Finish(trace.Options{KeepZero: true})
	var plain, with bytes.Buffer
	must.Do(t, chrome.Write(&plain, run, nil, nil, nil))
	flows := []chrome.Flow{{From: 0, To: 2, Left: 8, Came: 20, Name: "flag \"1\""}}
	counters := []chrome.Counter{{Rank: 0, Name: "GB/s", At: []trace.Time{0, 8}, Values: []float64{1.5, 0}}}
	must.Do(t, chrome.Write(&with, run, nil, flows, counters))
	var file struct {
		TraceEvents []struct {
			Ph, Name string
			Pid, Tid int
			Ts       float64
			Args     struct{ Value float64 }
		}
	}
	must.Do(t, json.Unmarshal(with.Bytes(), &file))
	var got []any
	for _, e := range file.TraceEvents {
		switch e.Ph {
		case "s", "f":
			got = append(got, []any{e.Ph, e.Name, e.Pid, e.Tid, e.Ts})
		case "C":
			got = append(got, []any{e.Ph, e.Name, e.Pid, e.Ts, e.Args.Value})
		}
	}
	want := []any{
		[]any{"s", `flag "1"`, 1, 1, 0.007},
		[]any{"f", `flag "1"`, 1, 1, 0.020},
		[]any{"C", "GB/s", 1, 0.0, 1.5},
		[]any{"C", "GB/s", 1, 0.008, 0.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, text := range []*bytes.Buffer{&plain, &with} {
		back, err := chrome.Read(bytes.NewReader(text.Bytes()), chrome.Options{})
		if err != nil || len(back.Spans) != 3 || back.End != run.End {
			t.Errorf("read back %v, %v", back, err)
		}
	}
}
