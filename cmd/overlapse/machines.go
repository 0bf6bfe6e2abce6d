package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/samples/workloads"
	"github.com/overlapse/overlapse/trace/guard"
)

func (a *app) machinesCommand() *cobra.Command {
	check, costs := "", false
	c := &cobra.Command{
		Use:   "machines [NAME|FILE.yaml] | --check FILE.yaml [FOLDER]",
		Short: "List the machine profiles, or print one with the source of every number",
		Long: `List the machine profiles, with the shares of their numbers that were measured on such a
machine, taken from documents, and assumed, and which profile fits the GPUs of this host (as nvidia-smi,
rocm-smi or /sys/class/kfd name them); or print one with the source of every number.

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

--costs lists what the assumed numbers of a machine cost: how far the gain of the best strategy of
some sample workloads moves if the number is half or twice as large, and where another strategy wins.

--check says what keeps a calibrated profile from being shared: numbers without a
measurement, paths and hosts in its text, a GPU that traces do not find, and with FOLDER,
which capture.py wrote, numbers that its rows do not give. CONTRIBUTING.md has the steps.`,
		Example: "  overlapse machines\n  overlapse machines h200:4 > mine.yaml\n  overlapse machines h100 --costs\n  overlapse machines --check mine.yaml mymachine",
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if check != "" {
				return a.checkMachine(c.Context(), check, strings.Join(args, ""))
			}
			if len(args) == 0 && costs {
				return cli.Errorf("--costs needs a machine: overlapse machines h100 --costs")
			}
			if len(args) == 0 {
				return a.listMachines(c.Context())
			}
			m, err := a.MachineNamed(args[0], 0)
			if err != nil {
				return err
			}
			if costs {
				return a.assumptionCosts(c.Context(), args[0], m)
			}
			fmt.Fprint(a.Out, originText(args[0], m))
			return profile.WriteYAML(m, a.Out)
		},
		ValidArgsFunction: completeMachines,
	}
	c.Flags().StringVar(&check, "check", "", "check this machine file, which is to be shared")
	c.Flags().BoolVar(&costs, "costs", false, "list what each assumed number costs: how far gains of sample workloads move with it")
	return c
}

// originText says, as comments of YAML, how much of a machine was measured and which numbers are assumed.
func originText(name string, m machine.Machine) string {
	o := profile.OriginOf(m)
	all := o.Measured + o.Published + o.Assumed
	var text strings.Builder
	fmt.Fprintf(&text, "# %d numbers and tables: %.0f %% measured on such a machine, %.0f %% published, %.0f %% assumed\n",
		all, percentOf(o.Measured, all), percentOf(o.Published, all), percentOf(o.Assumed, all))
	var sections []string
	keys := map[string][]string{}
	for _, x := range profile.Assumptions(m) {
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
	if len(sections) > 0 {
		fmt.Fprintf(&text, "# what they cost: overlapse machines %s --costs\n", name)
	}
	return text.String()
}

func percentOf(n, all int) float64 { return 100 * float64(n) / float64(max(1, all)) }

// costed are the workload files that the cost of an assumption is read off: a gather before and a
// reduction behind a GEMM, and an all-to-all behind one.
var costed = []string{"td-ag-gemm.yaml", "td-gemm-rs.yaml", "sc24-gemm-a2a.yaml"}

// A cost is what an assumed number moves.
type cost struct {
	points float64 // the largest move of a gain
	in     string  // workload file
	wins   string  // a strategy that wins with the changed number, and did not before; "" where none
}

// assumptionCosts prints what half and twice of each assumed number move.
func (a *app) assumptionCosts(ctx context.Context, name string, m machine.Machine) error {
	assumed := slices.DeleteFunc(profile.Assumptions(m), func(x profile.Assumption) bool { return x.Absent })
	done := a.Waiting(func() string { return "half and twice of each assumed number" }, nil)
	found, err := costsOf(ctx, assumed, m)
	done()
	if err != nil {
		return err
	}
	order := make([]int, len(assumed))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(found[k].points, found[i].points) })
	t := console.Table{Columns: []string{"assumed", "value", "moves gains by, points", "most in", "then wins"}}
	without := 0
	for _, i := range order {
		if found[i].points < 0.05 && found[i].wins == "" {
			without++
			continue
		}
		t.Add(assumed[i].Key, assumed[i].Value, fmt.Sprintf("%.1f", found[i].points), found[i].in, found[i].wins)
	}
	if without < len(assumed) {
		a.Show(&t)
		fmt.Fprintln(a.Out)
	}
	fmt.Fprintf(a.Out, "half and twice of each of %d assumed numbers of %s, in %s; %d move no gain by 0.05 points\n",
		len(assumed), name, strings.Join(costed, ", "), without)
	return nil
}

func costsOf(ctx context.Context, assumed []profile.Assumption, m machine.Machine) ([]cost, error) {
	found := make([]cost, len(assumed))
	for _, file := range costed {
		before, err := gains(file, m, nil)
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", file, m.Name, err)
		}
		best := before[0]
		err = guard.Each(len(assumed), func(i int) error {
			for _, by := range []float64{0.5, 2} {
				if err := ctx.Err(); err != nil {
					return err
				}
				after, err := gains(file, profile.Times(m, assumed[i].Key, by), before)
				if err != nil {
					continue // a machine that cannot run it
				}
				x := &found[i]
				if moved := 100 * math.Abs(after[0].change-best.change); moved > x.points {
					x.points, x.in = moved, strings.TrimSuffix(file, ".yaml")
				}
				for _, g := range after[1:] {
					if g.change < after[0].change-0.01 {
						x.wins = fmt.Sprintf("%s instead of %s", g.of, best.of)
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// A gain is the predicted change of a strategy against the captured schedule: -0.1 is 10 % less time.
type gain struct {
	of     plan.Selection
	change float64
}

// gains are those of strategies on a workload file, the fastest first; with known those of its
// first three, in their order.
func gains(file string, m machine.Machine, known []gain) ([]gain, error) {
	text, err := workloads.Files.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	f, err := operator.Parse(text, file)
	if err != nil {
		return nil, err
	}
	m = m.Resize(max(m.GPUs, f.Ranks))
	run, err := f.Run(m)
	if err != nil {
		return nil, err
	}
	w, err := lift.Workload(run, lift.Options{})
	if err != nil {
		return nil, err
	}
	var sel []plan.Selection
	for _, g := range known[:min(3, len(known))] {
		sel = append(sel, g.of)
	}
	if known == nil {
		if sel, err = engines.ParseSelection("multistream,decompose,onesided,fused"); err != nil {
			return nil, err
		}
	}
	return gainsOf(w, m, sel, known == nil)
}

func gainsOf(w *workload.Workload, m machine.Machine, sel []plan.Selection, sorted bool) (list []gain, err error) {
	base, err := compare.Run(w, m, engines.CapturedSelection(), plan.Scenario{}, replay.Options{})
	if err != nil {
		return nil, err
	}
	for _, s := range sel {
		if s.Strategy.Exact || s.Strategy.Bound || s.Strategy.Future {
			continue
		}
		out, err := compare.Run(w, m, s, plan.Scenario{}, replay.Options{})
		if err != nil {
			return nil, err
		}
		if out.Result != nil {
			list = append(list, gain{s, float64(out.Expected)/float64(base.Expected) - 1})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no strategy applies")
	}
	if sorted {
		slices.SortStableFunc(list, func(a, b gain) int { return cmp.Compare(a.change, b.change) })
	}
	return list, nil
}

func (a *app) listMachines(ctx context.Context) error {
	t := console.Table{Columns: []string{"machine", "GPU", "measured", "published", "assumed", "CUs", "memory", "links", "network"}}
	for _, name := range profile.Names() {
		m, err := profile.Load(name)
		if err != nil {
			return err
		}
		o := profile.OriginOf(m)
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
