package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/replay/machine"
)

func (a *app) machinesCommand() *cobra.Command {
	check := ""
	c := &cobra.Command{
		Use:   "machines [NAME|FILE.yaml] | --check FILE.yaml [FOLDER]",
		Short: "List the machine profiles, or print one with the source of every number",
		Long: `List the machine profiles, with the shares of their numbers that were measured on such a
machine, taken from documents, and assumed, and which profile fits the GPUs of this host (as nvidia-smi or
/sys/class/kfd name them); or print one with the source of every number.

A machine is a profile and a number of GPUs: h200:4, mi300x:8. (h200x4 means the same.) One GPU of
mi250x is one of the two dies of a module. More GPUs than fit in a node make several
nodes, with ranks in order. The fabric of the profile connects the GPUs of a node; its
network connects nodes through NICs: h200:16 is two nodes of eight. If a machine file has
no network, one NIC of 400 Gb/s per GPU is assumed. A torus is near-square: torus128 is
16 by 8.

A YAML file can replace the name of a profile: mine.yaml or mine.yaml:8. It contains
a full profile as printed, or a base and the differences from it. The base is a profile,
or another file, relative to the first:

  base: h200
  network: {topology: switch, node: 8, nics: 4, egress: 25 GB/s, ingress: 25 GB/s,
    pair: 100 GB/s, latency: 2 us, hop: 0 us, message: 0.1 us}
  gpu: {groups: [], cus: 264}

scale: multiplies what the base measures, before the file's own values apply, by the
properties of --what-if (links, nics, memory, cus, clock, latency), and by flops: the rate
of all matrix units, which otherwise follows cus and clock:

  base: h200
  scale: {memory: {value: 0.833, source: "data sheets: 4.0 over 4.8 TB/s"}, links: 0.5}

Values without a source are marked as assumed. groups: [] leaves the groups of CUs
unknown. A replay on another machine plans the strategies for that machine, but captured
kernels keep their durations. For the effect of faster links, memory or compute, use
replay --what-if.

--check says what keeps a calibrated profile from being shared: numbers without a
measurement, paths and hosts in its text, a GPU that traces do not find, and with FOLDER,
which capture.py wrote, numbers that its rows do not give. CONTRIBUTING.md has the steps.`,
		Example: "  overlapse machines\n  overlapse machines h200:4 > mine.yaml\n  overlapse machines --check mine.yaml mymachine",
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if check != "" {
				return a.checkMachine(c.Context(), check, strings.Join(args, ""))
			}
			if len(args) == 0 {
				return a.listMachines(c.Context())
			}
			m, err := a.MachineNamed(args[0], 0)
			if err != nil {
				return err
			}
			fmt.Fprint(a.Out, originText(m))
			return machine.WriteYAML(m, a.Out)
		},
		ValidArgsFunction: completeMachines,
	}
	c.Flags().StringVar(&check, "check", "", "check this machine file, which is to be shared")
	return c
}

// originText says, as comments of YAML, how much of a machine was measured and which numbers are assumed.
func originText(m machine.Machine) string {
	o := machine.OriginOf(m)
	all := o.Measured + o.Published + o.Assumed
	var text strings.Builder
	fmt.Fprintf(&text, "# %d numbers and tables: %.0f %% measured on such a machine, %.0f %% published, %.0f %% assumed\n",
		all, percentOf(o.Measured, all), percentOf(o.Published, all), percentOf(o.Assumed, all))
	var sections []string
	keys := map[string][]string{}
	for _, x := range machine.Assumptions(m) {
		at := strings.LastIndexByte(x.Key, '.')
		section, key := x.Key[:max(0, at)], x.Key[at+1:]
		if keys[section] == nil {
			sections = append(sections, section)
		}
		keys[section] = append(keys[section], key)
	}
	for _, section := range sections {
		fmt.Fprintf(&text, "# assumed or unknown: %s: %s\n", cmp.Or(section, "machine"), strings.Join(keys[section], ", "))
	}
	return text.String()
}

func percentOf(n, all int) float64 { return 100 * float64(n) / float64(max(1, all)) }

func (a *app) listMachines(ctx context.Context) error {
	t := cli.Table{Columns: []string{"machine", "GPU", "measured", "published", "assumed", "CUs", "memory", "links", "network"}}
	for _, name := range machine.Names() {
		m, err := machine.Load(name)
		if err != nil {
			return err
		}
		o := machine.OriginOf(m)
		share := func(n int) string {
			return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(o.Measured+o.Published+o.Assumed))
		}
		t.Add(name, m.GPU.Name, share(o.Measured), share(o.Published), share(o.Assumed), m.GPU.CUs.String(), m.GPU.Memory.String(), string(m.Fabric.Topology)+", "+m.Fabric.Egress.String()+" out of a GPU", networkOf(m))
	}
	a.Show(&t)
	fmt.Fprintln(a.Out, "\nmeasured, published, assumed: shares of a profile's numbers; overlapse machines NAME has the source of each")
	for _, line := range hostProfiles(ctx, os.DirFS("/")) {
		a.Say(line)
	}
	return nil
}

// networkOf describes the network between nodes; "" for a machine of one node.
func networkOf(m machine.Machine) string {
	if m.Network.Node.Value == 0 {
		return ""
	}
	return fmt.Sprintf("%s, nodes of %v, %v × %v", m.Network.Topology, m.Network.Node, m.Network.NICs, m.Network.Egress)
}
