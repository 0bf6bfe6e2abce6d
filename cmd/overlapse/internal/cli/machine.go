package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// MachineNamed loads a machine for every command: a profile, a profile
// and a number of GPUs (h200:4, or h200x4 as in older rows), a YAML file, or a file and a number
// (mine.yaml:4). Without a number the machine has at least the given number of
// GPUs.
func (r *Reader) MachineNamed(name string, gpus int) (machine.Machine, error) {
	m, sized, err := r.readMachine(name)
	if err == nil && !sized && m.GPUs < gpus {
		m, err = m.Sized(gpus)
	}
	if err == nil {
		r.noteNetwork(&m)
	}
	return m, err
}

// noteNetwork says if the network between a machine's nodes is assumed.
func (r *Reader) noteNetwork(m *machine.Machine) {
	if m.AssumedNetwork() {
		r.Notef("%s has %d nodes of %d GPUs; the network between them is assumed: %v per NIC, %v NICs per node (set network: in a machine file)",
			m.Name, m.Nodes(), m.PerNode(), m.Network.Egress, m.Network.NICs)
	}
}

// readMachine loads a machine; sized reports whether its name has a number of GPUs. A name that is no profile's is a mistake on the
// command line.
func (r *Reader) readMachine(name string) (m machine.Machine, sized bool, err error) {
	file, gpus, sized := machine.CutCount(name)
	if !isPath(name) {
		if m, err = machine.Load(name); err != nil {
			err = Wrap(err)
		}
		return m, machine.Sized(name), err
	}
	m, err = machine.ParseFile(file, func(path string) (io.ReadCloser, error) { return guard.Open(path) })
	if err == nil && sized {
		m, err = m.Sized(gpus)
	}
	return m, sized, err
}

// isPath reports whether a machine's name is a file, with or without a number of GPUs.
func isPath(name string) bool {
	file, _, _ := machine.CutCount(name)
	return IsYAML(file) || strings.ContainsRune(file, os.PathSeparator)
}

// MachineFor loads the named machine, or the one for the trace's device and number
// of ranks.
func (r *Reader) MachineFor(name string, w *workload.Workload) (machine.Machine, error) {
	if name == "" {
		return r.suggested(w)
	}
	device := deviceOf(w)
	m, err := r.MachineNamed(name, w.World)
	if err == nil && device.Name != "" && machine.ForDevice(device) != machine.ForDevice(trace.Device{Name: m.GPU.Name}) {
		r.Notef("the trace was captured on %q: on %s, kernels keep their captured durations (--retarget scales them)", device.Name, m.Name)
	}
	return m, err
}

// KnownMachine is the machine of the trace's device, with as many GPUs as the job has ranks;
// nil where no profile matches.
func KnownMachine(w *workload.Workload) *machine.Machine {
	name := machine.ForDevice(deviceOf(w))
	if name == "" {
		return nil
	}
	m, err := machine.Load(machine.NameOf(name, max(1, w.World)))
	if err != nil {
		return nil
	}
	return &m
}

// Likely is the machine that suits a trace whose device matches no profile, with as many GPUs as the
// job has ranks, and why: the profiles with the device's properties, else a common GPU of the vendor
// that the format, or the name of a kernel or call, tells.
func Likely(w *workload.Workload) (name, why string) {
	d := deviceOf(w)
	alike := machine.Alike(d)
	if len(alike) > 0 {
		why = "a GPU with the properties in the trace"
		if len(alike) > 1 {
			why = "or " + strings.Join(sizedNames(alike[1:], w.World), " or ") + ", which have the same properties"
		}
		return sizedNames(alike, w.World)[0], why
	}
	gpu, why := likelyGPU(w, d)
	return machine.NameOf(gpu, max(1, w.World)), why
}

// likelyGPU is a common GPU of a trace's vendor, and what tells the vendor.
func likelyGPU(w *workload.Workload, d trace.Device) (gpu, why string) {
	if strings.HasPrefix(d.RuntimeVersion, "ROCm") {
		gpu, vendor := vendorOf("rccl")
		return gpu, vendor + ", by the trace's runtime " + d.RuntimeVersion
	}
	if gpu, vendor := vendorOf(d.Name); gpu != "" {
		return gpu, vendor + ", by that name"
	}
	for i := range w.Ops {
		if gpu, vendor := vendorOf(w.Ops[i].Name); gpu != "" {
			return gpu, vendor + ", by kernel " + Shorten(trace.Short(w.Ops[i].Name), 24)
		}
	}
	for _, name := range w.Run.Names {
		for prefix, kernel := range map[string]string{"hip": "rccl", "cuda": "cutlass"} {
			if call, ok := strings.CutPrefix(name, prefix); ok && call != "" && call[0] >= 'A' && call[0] <= 'Z' {
				gpu, vendor := vendorOf(kernel)
				return gpu, vendor + ", by call " + Shorten(name, 24)
			}
		}
	}
	return "h100", "nothing in the trace tells whose it is"
}

// deviceOf is the device of the first rank. If no profile has its name, the
// architecture in a kernel's name is used.
func deviceOf(w *workload.Workload) (d trace.Device) {
	if len(w.Run.Ranks) > 0 {
		d = w.Run.Ranks[0].Device
	}
	if machine.ForDevice(d) != "" {
		return d
	}
	for i := range w.Ops {
		if isa := machine.ArchitectureOf(w.Ops[i].Name); isa != "" {
			d.Name = isa
			break
		}
	}
	return d
}

// suggested is the profile for a trace's device, or a likely one where none matches, with as many
// GPUs as the job has ranks.
func (r *Reader) suggested(w *workload.Workload) (machine.Machine, error) {
	device, ranks := deviceOf(w), w.World
	name, alike := machine.ForDevice(device), machine.Alike(device)
	if name == "" {
		return r.guessed(w, device)
	}
	m, err := r.MachineNamed(machine.NameOf(name, max(1, ranks)), 0)
	if err == nil {
		if device.Name == "" {
			r.Notef("machine %s, from the trace's device %s (--machine selects another)", m.Name, properties(device))
		}
		if others := slices.DeleteFunc(alike, func(x string) bool { return x == name }); len(others) > 0 &&
			strings.HasPrefix(device.Name, "gfx") {
			r.Notef("its properties are also those of %s", strings.Join(sizedNames(others, ranks), ", "))
		}
	}
	if cus := int(m.GPU.CUs.Value); err == nil && device.CUs > 0 && device.CUs != cus {
		r.Notef("the trace's device has %d CUs, %s has %d", device.CUs, name, cus)
	}
	return m, err
}

// guessed is the likely machine of a trace whose device matches no profile.
func (r *Reader) guessed(w *workload.Workload, device trace.Device) (machine.Machine, error) {
	what := "the trace does not name its GPU"
	if device.Name != "" {
		what = "no profile matches the trace's device " + quoted(device.Name)
	}
	name, why := Likely(w)
	m, err := r.MachineNamed(name, 0)
	if err == nil {
		m.Guess = what + ": " + why
	}
	if err == nil && !r.OwnNotes { // else the title has it
		r.Notef("machine %s, a guess: %s (--machine names it; overlapse machines lists all %d)", m.Name, m.Guess, len(machine.Names()))
	}
	return m, err
}

// sizedNames are profiles with as many GPUs as the job has ranks.
func sizedNames(profiles []string, ranks int) []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = machine.NameOf(p, max(1, ranks))
	}
	return names
}

// properties describes a device without a name.
func properties(d trace.Device) string {
	text := fmt.Sprintf("with %d CUs", d.CUs)
	if d.ComputeMajor > 0 {
		text += fmt.Sprintf(" of compute capability %d.%d", d.ComputeMajor, d.ComputeMinor)
	}
	if d.MemoryBytes > 0 {
		text += fmt.Sprintf(" and %d GiB", d.MemoryBytes>>30)
	}
	return text
}

// quoted is a text in quotes, or "" for none.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

// vendorOf is the vendor whose libraries and compilers name a kernel so, or whose GPUs have such a name, and a common GPU of
// it; "" where the name does not tell.
func vendorOf(name string) (gpu, vendor string) {
	name = strings.ToLower(name)
	tells := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}
	switch {
	case strings.HasPrefix(name, "cijk_"), strings.HasSuffix(strings.TrimSuffix(name, "]"), ".kd"),
		tells("tensile", "rccl", "nccldevkernel_generic", "hip", "miopen", "ck_tile", "ck::", "rocblas", "rocprim", "gfx9", "_gfx",
			"aiter", "radeon", "instinct"):
		return "mi300x", "AMD"
	case tells("cutlass", "cublas", "cudnn", "nvjet", "sm80_", "sm90_", "sm100_", "ampere_", "hopper_", "volta_", "turing_", "nvidia",
		"tesla", "geforce", "quadro"):
		return "h100", "NVIDIA"
	}
	return "", ""
}
