package main

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine/profile"
)

// Links move gains of sample workloads by points; the latency between nodes, which one node does not use, by none.
func TestAssumptionCosts(t *testing.T) {
	m, err := profile.Load("h100")
	if err != nil {
		t.Fatal(err)
	}
	found, err := costsOf(t.Context(), []profile.Assumption{{Key: "fabric.egress"}, {Key: "network.latency"}}, m)
	if err != nil {
		t.Fatal(err)
	}
	if found[0].points < 1 || found[0].in == "" || found[1].points != 0 {
		t.Errorf("%+v", found)
	}
}
