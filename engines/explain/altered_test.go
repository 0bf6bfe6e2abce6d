package explain

import (
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
)

// What a user asks is answered as what Sensitivity asks by itself; nothing changed changes nothing.
func TestAlteredAgreesWithSensitivity(t *testing.T) {
	w := plantest.LiftSample(t, "moe-down-triton")
	sel, err := engines.ParseSelection("captured,bulk,decompose,fused")
	if err != nil {
		t.Fatal(err)
	}
	outs, err := compare.Compare(w, plantest.H200(t, w.World), sel, plan.Scenario{}, replay.Options{Causes: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Sensitivity(w, outs, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Altered(w, outs, "links=2", program.WhatIf{Links: 2}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	same, err := Altered(w, outs, "links=1", program.WhatIf{Links: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range outs {
		if !Sensitive(&outs[i]) {
			if got[i].Name != "" {
				t.Errorf("%s: %v, but it does not follow the machine", outs[i].Strategy.Name, got[i])
			}
			continue
		}
		if want := all[i][0]; want.Name != "links twice as fast" || got[i].Change != want.Change || got[i].Change >= 0 {
			t.Errorf("%s: %v, want %v", outs[i].Strategy.Name, got[i], want)
		}
		if same[i].Change != 0 {
			t.Errorf("%s: links=1 changes the time by %v", outs[i].Strategy.Name, same[i].Change)
		}
	}
}
