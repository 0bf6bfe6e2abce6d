package score

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// What strategies say was run on hardware is what the dataset's rows have, no less and no more.
func TestMeasuredIsWhatRowsHave(t *testing.T) {
	d := must.Have(dataset.Open(samples + "/measurements"))(t)
	ran := map[string]bool{
		"onesided impl=auto": true, "onesided gemm=auto": true, // of captures: pull, and chunks
		"bulk carrier=dma": true, "multistream carrier=dma": true, // of pairs of captures, of which no row asks: FSDP2 on H200, GEMMs on MI300X
	}
	for i := range d.Sets {
		for _, row := range d.Sets[i].Rows {
			if !slices.Contains(engines.Names(), row.Strategy) {
				continue // a benchmark
			}
			s, err := selectionOf(&row)
			if err != nil {
				t.Fatalf("%s: %v", row.ID, err)
			}
			var ops []trace.CollectiveOp
			for op := trace.UnknownOp; op <= trace.Barrier; op++ {
				if op.String() == row.Workload.Collective {
					ops = append(ops, op)
				}
			}
			if never := plan.Unmeasured(s, ops); len(never) > 0 {
				t.Errorf("%s ran %s, and %v is said to be unmeasured", row.ID, s, never)
			}
			for _, p := range s.Strategy.Params {
				if v := s.Values[p.Name]; p.Matters(s.Values) {
					ran[row.Strategy+" "+p.Name+"="+v] = true
					if v != p.Default {
						ran[row.Strategy+" "+p.Name+"="+plan.AnyNumber] = true
					}
				}
			}
			for _, op := range ops {
				ran[row.Strategy+" "+op.String()] = true
			}
		}
	}
	for _, e := range engines.All() {
		for _, p := range e.Params {
			for _, v := range p.Measured {
				if !ran[e.Name+" "+p.Name+"="+v] {
					t.Errorf("%s %s=%s is said to be measured, and no row has it", e.Name, p.Name, v)
				}
			}
		}
		for _, op := range e.MeasuredOn {
			if !ran[e.Name+" "+op.String()] {
				t.Errorf("%s with %s is said to be measured, and no row has it", e.Name, op)
			}
		}
	}
}

// A new strategy needs nothing here: rows have its parameters' names, or it says what they stand for.
func TestRowsOfAnyStrategy(t *testing.T) {
	toy := plan.Strategy{
		Name:   "toy",
		Params: []plan.Param{plan.ChannelsParam, {Name: "order", Default: "up", Choices: []string{"up", "down"}}, {Name: "speed", Default: "low", Choices: []string{"low", "high"}}},
		Rows:   map[string]string{"impl=torch_toy": "speed=high", "comm_priority": ""},
	}
	row := dataset.Row{Strategy: "toy", Params: dataset.Params{Settings: dataset.Settings{Channels: 4, Order: "down", Impl: "torch_toy", CommPriority: true, Programs: 9}}}
	s, err := selectFrom(toy, &row)
	if got := s.String(); err != nil || got != "toy channels=4 order=down speed=high" {
		t.Errorf("%q, %v", got, err)
	}
	if got := RowName(row); got != "toy channels=4 programs=9 down torch_toy priority" {
		t.Errorf("row is named %q", got)
	}
	row.Params.Chunks = 2
	if _, err := selectFrom(toy, &row); err == nil {
		t.Error("a setting that the strategy lacks is taken")
	}
}

// Rows of pipelines name the schedule and the number of micro-batches as the settings do.
func TestRowsOfPipelines(t *testing.T) {
	row := dataset.Row{Strategy: "multistream", Params: dataset.Params{Settings: dataset.Settings{Schedule: "1f1b", Microbatches: 16}}}
	s, err := selectionOf(&row)
	if err != nil || s.String() != "multistream schedule=1f1b microbatches=16" || RowName(row) != "multistream 1f1b microbatches=16" {
		t.Errorf("%s is %s, %v", RowName(row), s, err)
	}
}
