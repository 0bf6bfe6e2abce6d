package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// What only copies is moved to copy engines where they do not move it yet, and back where they do, on machines that have some.
func TestOfCarriers(t *testing.T) {
	m := plantest.H200(t, 2)
	gather, reduce := workload.Collective{Op: trace.AllGather}, workload.Collective{Op: trace.AllReduce}
	moved := gather
	moved.Engines = true
	for want, c := range map[string][]workload.Collective{
		"carrier=dma": {reduce, gather}, "": {reduce}, "carrier=cu": {reduce, moved}, "carrier=dma, carrier=cu": {moved, gather},
	} {
		sel, err := OfCarriers(&workload.Workload{Collectives: c}, &m, false)
		var got []string
		for _, s := range sel {
			got = append(got, s.Strategy.String(s.Values))
		}
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("%q: %v, %v", want, got, err)
		}
	}
	m.Engines = machine.Engines{}
	if sel, _ := OfCarriers(&workload.Workload{Collectives: []workload.Collective{gather}}, &m, true); sel != nil {
		t.Errorf("without engines: %v", sel)
	}
}
