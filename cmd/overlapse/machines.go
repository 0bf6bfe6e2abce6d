package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/machine"
)

func (a *app) machinesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "machines [NAME]",
		Short: "List the machine profiles, or print one with the source of every number",
		Long: `List the machine profiles, or print one with the source of every number.

A machine is a profile and a number of GPUs: h200x4. A profile whose network.node
says how many GPUs a node has makes nodes of them: h800x16 is two nodes of eight,
mi210ibx2 two nodes of one, their ranks in order. GPUs of a node are joined by
the profile's fabric, nodes by its network, through NICs. Members of a torus lie
in rows as nearly square as their number allows: torus128 is 16 by 8.`,
		Example: "  overlapse machines\n  overlapse machines h200x4 > mine.yaml",
		Args:    atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listMachines()
			}
			m, err := machine.Load(args[0])
			if err != nil {
				return usageError{err}
			}
			return m.WriteYAML(a.out)
		},
		ValidArgsFunction: completeMachines,
	}
}

func (a *app) listMachines() error {
	t := a.table("machine", "GPU", "CUs", "memory", "links", "network")
	for _, name := range machine.Names() {
		m, err := machine.Load(name)
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
