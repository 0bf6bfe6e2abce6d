package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
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
		share := func(n int) string { return fmt.Sprintf("%.0f %%", percentOf(n, o.Measured+o.Published+o.Assumed)) }
		t.Add(name, m.GPU.Name, share(o.Measured), share(o.Published), share(o.Assumed), m.GPU.CUs.String(), m.GPU.Memory.String(),
			string(m.Fabric.Topology)+", "+m.Fabric.Egress.String()+" out of a GPU", networkOf(m))
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

// private finds what a shared profile must not have: paths of a file system, hosts, addresses.
var private = regexp.MustCompile(`(?:^|[\s"'(])(?:~|/(?:home|root|mnt|data|scratch|users?|tmp|var|work|opt)/)[\w./-]*|\b\d+\.\d+\.\d+\.\d+\b|\b[\w-]+\.(?:local|internal|lan|corp)\b|\b[\w.]+@[\w.]+\b`)

// checkMachine checks a machine file that is to be shared, with the folder of its rows, as
// capture.py writes it; "": none.
func (a *app) checkMachine(ctx context.Context, file, folder string) error {
	text, err := guard.ReadFile(file)
	if err != nil {
		return err
	}
	m, err := a.MachineNamed(file, 0)
	if err != nil {
		return err
	}
	fix := 0
	say := func(check, cure, format string, args ...any) {
		word := "ok"
		if cure != "" {
			word, fix = "fix", fix+1
		}
		a.Labelled(word, check+": "+fmt.Sprintf(format, args...))
		if cure != "" {
			a.Labelled("", "to do: "+cure)
		}
	}
	o := machine.OriginOf(m)
	cure := ""
	if o.Measured == 0 {
		cure = "torchrun --nproc-per-node N samples/capture/capture.py --out mymachine, then overlapse calibrate mymachine -o " +
			cli.ShellWord(file)
	}
	say("sources", cure, "%d numbers measured, %d published, %d assumed or unknown (overlapse machines %s lists them)", o.Measured,
		o.Published, o.Assumed, cli.ShellWord(file))
	cure = ""
	known := machine.ForDevice(trace.Device{Name: m.GPU.Name})
	if known == "" {
		cure = "add a row to replay/machine/detect.go, by which traces of this GPU find the profile"
	}
	say("GPU", cure, "%s, %d in a node", m.GPU.Name, m.PerNode())
	cure = ""
	found := private.FindString(string(text))
	if found != "" {
		cure = "remove it"
	}
	say("private", cure, "%s", map[bool]string{
		true:  "no path, host or address",
		false: fmt.Sprintf("has %q", strings.Trim(found, " \n\t\"'(")),
	}[found == ""])
	if folder == "" {
		say("rows", "overlapse machines --check "+cli.ShellWord(file)+" FOLDER",
			"nobody can compute the numbers again without the rows that they were read off")
	} else {
		base, err := a.checkRows(m, folder, say)
		if rows := filepath.Join(folder, "rows.jsonl"); err == nil && cli.IsFile(rows) {
			err = a.checkProfile(ctx, rows, base, m)
		}
		if err != nil {
			return err
		}
	}
	if fix > 0 {
		return fmt.Errorf("%s: %s to fix before it is shared", file, cli.Counted(fix, "thing"))
	}
	return nil
}

// checkRows compares a machine with what calibrate reads off its rows, and returns the base of
// that.
func (a *app) checkRows(m machine.Machine, folder string, say func(check, cure, format string, args ...any)) (base machine.Machine, err error) {
	d, err := dataset.OpenRows(filepath.Join(folder, "calibrate.jsonl"))
	if err != nil {
		return base, err
	}
	rows := d.Sets[0].Rows
	if base, err = a.MachineNamed(baseOf(rows), 0); err != nil {
		return base, err
	}
	res, err := dataset.CalibrateMachine(rows, base)
	if err != nil {
		return base, err
	}
	res.Machine.Profile, res.Machine.GPU.Name = m.Profile, m.GPU.Name
	var want, got bytes.Buffer
	if err := errors.Join(machine.WriteYAML(res.Machine, &want), machine.WriteYAML(m, &got)); err != nil {
		return base, err
	}
	wanted := strings.Split(want.String(), "\n")
	other := slices.DeleteFunc(strings.Split(got.String(), "\n"), func(line string) bool { return slices.Contains(wanted, line) })
	cure, first := "", ""
	if len(other) > 0 {
		first = strings.TrimSpace(other[0])
		cure = "write it with overlapse calibrate " + cli.ShellWord(folder) + " -o, and do not edit it"
	}
	say("rows", cure, "%d of %s read; %s", res.Rows, cli.Counted(len(rows), "row"), map[bool]string{
		true: "calibrate gives the same numbers", false: fmt.Sprintf("calibrate gives other numbers in %s, first: %s",
			cli.Counted(len(other), "line"), cli.Shorten(first, 80)),
	}[len(other) == 0])
	return base, nil
}

// hostProfiles says, a line for each kind of GPU of this host, which profile fits it. None
// without GPUs.
func hostProfiles(ctx context.Context, root fs.FS) (lines []string) {
	devices := hostGPUs(ctx, root)
	for i, d := range devices {
		if slices.Contains(devices[:i], d) {
			continue
		}
		n := len(slices.DeleteFunc(slices.Clone(devices), func(other trace.Device) bool { return other != d }))
		line := fmt.Sprintf("this host has %d × %s: ", n, d.Name)
		if name := machine.ForDevice(d); name != "" {
			lines = append(lines, line+fmt.Sprintf("%s fits (--machine %s:%d)", name, name, n))
			continue
		}
		line += fmt.Sprintf("no profile fits; measure it: torchrun --nproc-per-node %d samples/capture/capture.py --out mymachine; overlapse calibrate mymachine -o mine.yaml", n)
		if alike := machine.Alike(d); len(alike) > 0 {
			line += " --base " + strings.Join(alike, " or ")
		}
		lines = append(lines, line)
	}
	return lines
}

// hostGPUs are the GPUs of this host, as nvidia-smi or AMD's driver name them. root is the file system, for /sys.
func hostGPUs(ctx context.Context, root fs.FS) (list []trace.Device) {
	for _, name := range strings.Split(outputOf(ctx, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader"), "\n") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, trace.Device{Name: name})
		}
	}
	if len(list) > 0 {
		return list
	}
	return driverDevices(root)
}

// outputOf is what a program printed; "" if it is not there or failed.
func outputOf(ctx context.Context, name string, args ...string) string {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = time.Second
	text, err := c.Output()
	if err != nil {
		return ""
	}
	return string(text)
}

// driverDevices are the GPUs of /sys/class/kfd: architecture, CUs and memory.
func driverDevices(root fs.FS) (list []trace.Device) {
	nodes, _ := fs.Glob(root, "sys/class/kfd/kfd/topology/nodes/*/properties")
	for _, name := range nodes {
		p := driverProperties(root, name)
		v := p["gfx_target_version"] // 90402 is gfx942; 0 is a CPU
		if v == 0 {
			continue
		}
		d := trace.Device{Name: fmt.Sprintf("gfx%d%x%x", v/10000, v/100%100, v%100), CUs: int(p["simd_count"] / max(1, p["simd_per_cu"]))}
		banks, _ := fs.Glob(root, path.Join(path.Dir(name), "mem_banks/*/properties"))
		for _, bank := range banks {
			d.MemoryBytes += driverProperties(root, bank)["size_in_bytes"]
		}
		list = append(list, d)
	}
	return list
}

// driverProperties are the lines "name number" of a file of the driver.
func driverProperties(root fs.FS, name string) map[string]int64 {
	p := map[string]int64{}
	text, _ := fs.ReadFile(root, name)
	for _, line := range strings.Split(string(text), "\n") {
		key, value, _ := strings.Cut(line, " ")
		p[key], _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	}
	return p
}
