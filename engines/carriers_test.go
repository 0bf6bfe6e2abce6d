package engines

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Tuning moves to copy engines what only copies and is not moved by them yet, on machines that have some.
func TestOfCarriers(t *testing.T) {
	m := plantest.H200(t, 2)
	gather, reduce := workload.Collective{Op: trace.AllGather}, workload.Collective{Op: trace.AllReduce}
	moved := gather
	moved.Engines = true
	for want, c := range map[string][]workload.Collective{"carrier=dma": {reduce, gather}, "": {reduce, moved}} {
		sel, err := OfCarriers(&workload.Workload{Collectives: c}, &m)
		if err != nil || (len(sel) == 1) != (want != "") || want != "" && sel[0].Strategy.String(sel[0].Values) != want {
			t.Errorf("%q: %v, %v", want, sel, err)
		}
	}
	m.Engines = machine.Engines{}
	if sel, _ := OfCarriers(&workload.Workload{Collectives: []workload.Collective{gather}}, &m); sel != nil {
		t.Errorf("without engines: %v", sel)
	}
}
