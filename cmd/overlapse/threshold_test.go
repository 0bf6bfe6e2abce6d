package main

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Batches have whole tokens: of one captured token no eighth is tried, of many every one.
func TestWholeTokens(t *testing.T) {
	for _, c := range []struct {
		tokens int64
		batch  int
		want   bool
	}{{1, 1, false}, {1, 8, true}, {1, 9, false}, {1, 64, true}, {4, 2, true}, {4, 3, false}, {1021, 1, true}, {1021, 3, true}, {0, 1, true}, {1024, 512, true}, {1025, 512, false}, {57287, 8, true}, {57287, 64, false}, {100_000, 8, true}} {
		s := &batchSearch{w: &workload.Workload{Steps: []workload.Step{{Batch: workload.Batch{Tokens: c.tokens}}}}}
		if got := s.whole(c.batch); got != c.want {
			t.Errorf("%d eighths of %d tokens: %v", c.batch, c.tokens, got)
		}
	}
}

// A captured schedule that does not fit on the machine is an error.
func TestThresholdThatCannotRun(t *testing.T) {
	s := &batchSearch{w: plantest.Step(t, 2, "7 G1 500\n7 AR1 400 G1"), m: plantest.H200(t, 2), of: map[int]*workload.Workload{}, by: map[int][]engines.Outcome{}}
	s.m.GPU.Shared.Value = 1
	captured := *s.w
	s.w.Rescaled = &workload.Rescaling{From: s.m.Name, To: s.m.Name, Same: true, Of: &captured, On: s.m} // durations are the model's
	for i := range s.w.Ops {
		k := *s.w.Ops[i].Kernel
		k.Footprint.Shared = 1 << 20
		s.w.Ops[i].Kernel = &k
	}
	if err := s.replay(eighths, nil); err == nil || !strings.Contains(err.Error(), "the captured schedule: ") {
		t.Errorf("error %v", err)
	}
}

// timed is a batch's row.
func timed(batch, change, faster float64) batchTime {
	t := batchTime{Batch: batch}
	t.Change, t.PFaster = change, faster
	return t
}

// The answer names a batch that was the only one, and what is predicted but not likely, with its probability.
func TestThresholdAnswer(t *testing.T) {
	w, m := plantest.Step(t, 2, "7 G1 500\n7 AR1 400 G1\n7 G2 500 AR1"), plantest.H200(t, 2)
	out := enginetest.Outcome(t, w, m, "multistream", nil)
	slower, faster, more := timed(1, 0.02, 0), timed(1, -0.02, 0.6), timed(2, 0.011, 0)
	for _, c := range []struct {
		tried []batchTime
		pays  [][]float64
		want  string
	}{
		{[]batchTime{slower}, nil, "does not pay for 4 tokens, the only batch tried: leave it off"},
		{[]batchTime{slower, more}, nil, "does not pay for any batch from 4 tokens to 8 tokens: leave it off"},
		{[]batchTime{faster, more}, nil, "may pay, best for 4 tokens: -2.0 %, but at most 60 % likely"},
		{[]batchTime{faster}, [][]float64{{1, 1}}, "likely pays for 4 tokens, the only batch tried"},
		{[]batchTime{faster, more}, [][]float64{{1, 1}}, "likely pays up to a batch of about 4 tokens"},
	} {
		p := phaseFrom{Tokens: 4}
		if got := p.answer(w, &batchRange{Strategy: "multistream", Tried: c.tried, Pays: c.pays, outcome: out}); !strings.HasPrefix(got, "multistream "+c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A batch that is too many tokens for a prefill is tried for a decode of the same capture.
func TestWholeInAPhase(t *testing.T) {
	s := &batchSearch{w: &workload.Workload{Steps: []workload.Step{{Batch: workload.Batch{Tokens: 57_287}}, {Batch: workload.Batch{Tokens: 64}}}}}
	if !s.whole(8*eighths) || !tooMany(57_287, 8*eighths) || tooMany(64, 8*eighths) {
		t.Error("8 times 64 tokens of decoding are not tried, or 8 times 57,287 of a prefill are")
	}
}
