package machine_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// Two nodes of four GPUs, two NICs each: a NIC serves two neighbours.
func TestNodesAndNICs(t *testing.T) {
	m := machine.Machine{GPUs: 7, Network: machine.Network{Node: machine.Quantity{Value: 4}, NICs: machine.Quantity{Value: 2}}}
	if m.Nodes() != 2 || m.PerNode() != 4 {
		t.Errorf("%d nodes of %d", m.Nodes(), m.PerNode())
	}
	for rank, want := range [][2]int{{0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 2}, {1, 2}, {1, 3}} {
		if node, nic := m.Node(rank), m.NIC(rank); node != want[0] || nic != want[1] {
			t.Errorf("rank %d: node %d, NIC %d, want %v", rank, node, nic, want)
		}
	}
	one := machinetest.Load(t, "h200:4")
	if one.Nodes() != 1 || one.Node(3) != 0 {
		t.Errorf("h200:4: %d nodes, rank 3 in node %d", one.Nodes(), one.Node(3))
	}
}

// A profile has all keys of its network, or none.
func TestNetworkIsWholeOrAbsent(t *testing.T) {
	good := machine.ReadFile(t, "profiles/mi210ib.yaml")
	at := strings.Index(good, "network:")
	end := strings.Index(good, "engines:")
	m, err := machine.Parse(strings.NewReader(good[:at]+good[end:]), "x.yaml")
	if err != nil || m.Nodes() != 1 {
		t.Errorf("without a network: %d nodes, %v", m.Nodes(), err)
	}
	_, err = machine.Parse(strings.NewReader(strings.Replace(good, "  nics:", "  cards:", 1)), "x.yaml")
	if err == nil || !strings.Contains(err.Error(), "network.nics is missing (add network.nics: {value: NUMBER, source: TEXT}, or base: NAME of a profile that has what is left out)") {
		t.Errorf("without network.nics: %v", err)
	}
	for _, a := range machine.Assumptions(m) {
		if strings.HasPrefix(a.Key, "network.") || a.Key == "fabric.hop" {
			t.Errorf("%s is left out and listed as %s", a.Key, a.Value)
		}
	}
}
