package main

import (
	"errors"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/machine"
)

func (a *app) machinesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "machines [NAME]",
		Short:   "List the machine profiles, or print one with the source of every number",
		Example: "  overlapse machines\n  overlapse machines h200x4 > mine.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listMachines()
			}
			m, err := machine.Load(args[0])
			var unknown *machine.UnknownError
			if errors.As(err, &unknown) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			return m.WriteYAML(a.out)
		},
	}
}

func (a *app) listMachines() error {
	t := a.table("machine", "GPU", "CUs", "memory", "links")
	for _, name := range machine.Names() {
		m, err := machine.Load(name)
		if err != nil {
			return err
		}
		t.AppendRow(table.Row{name, m.GPU.Name, m.GPU.CUs.String(), m.GPU.Memory.String(), string(m.Fabric.Topology) + ", " + m.Fabric.Egress.String() + " out of a GPU"})
	}
	t.Render()
	return nil
}
