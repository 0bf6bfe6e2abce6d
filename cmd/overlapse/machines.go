package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
)

func (a *app) machinesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "machines [NAME|FILE.yaml]",
		Short: "List the machine profiles, or print one with the source of every number",
		Long: `List the machine profiles, or print one with the source of every number.

A machine is a profile and a number of GPUs: h200x4 or h200:4, mi300x:8. One GPU
of mi250x is one of a module's two dies. More GPUs than a node has are nodes, their
ranks in order: GPUs of a node are joined by the profile's fabric, nodes by its
network, through NICs. h800x16 is two nodes of eight. Where a profile states no
network, as in h200x16, one NIC of 400 Gb/s a GPU is assumed. Members of a torus lie
in rows as nearly square as their number allows: torus128 is 16 by 8.

Wherever a machine is named, a YAML file may stand: mine.yaml or mine.yaml:8. It
holds all that a printed profile does, or a base and what differs from it:

  base: h200
  network: {topology: switch, node: 8, nics: 4, egress: 25 GB/s, ingress: 25 GB/s,
    pair: 100 GB/s, latency: 2 us, hop: 0 us, message: 0.1 us}
  gpu: {groups: [], cus: 264}

Numbers without a source are marked as assumed. groups: [] leaves the groups of CUs
unknown. A replay on another machine plans anew, but what was captured keeps its
time; to ask what faster links, memory or compute would change, use
replay --what-if.`,
		Example: "  overlapse machines\n  overlapse machines h200x4 > mine.yaml",
		Args:    atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listMachines()
			}
			m, err := a.machineNamed(args[0], 0)
			if err != nil {
				return err
			}
			return profile.WriteYAML(m, a.out)
		},
		ValidArgsFunction: completeMachines,
	}
}

func (a *app) listMachines() error {
	t := a.table("machine", "GPU", "CUs", "memory", "links", "network")
	for _, name := range profile.Names() {
		m, err := profile.Load(name)
		if err != nil {
			return err
		}
		t.AppendRow(table.Row{name, m.GPU.Name, m.GPU.CUs.String(), m.GPU.Memory.String(), string(m.Fabric.Topology) + ", " + m.Fabric.Egress.String() + " out of a GPU", networkOf(m)})
	}
	t.Render()
	return nil
}

// networkOf says how nodes are joined; nothing for a machine of one.
func networkOf(m machine.Machine) string {
	if m.Network.Node.Value == 0 {
		return ""
	}
	return fmt.Sprintf("%s, GPUs a node: %v, NICs of %v", m.Network.Topology, m.Network.Node, m.Network.Egress)
}
