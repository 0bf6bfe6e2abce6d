package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// What a trace's device selects, --machine accepts under the name that is printed.
func TestSelectedMachinesAreAccepted(t *testing.T) {
	r := &Reader{Console: &Console{Out: io.Discard, Err: io.Discard, Quiet: true}}
	for _, name := range machine.Names() {
		base := must.Have(machine.Load(name))(t)
		device := trace.Device{Name: base.GPU.Name}
		for _, ranks := range []int{1, 2, 3, 4, 6, 8, 9, 12, 16, 64, 72, 100, 128, 512, 4096} {
			m, err := r.suggested(captured(device, ranks))
			if known := machine.ForDevice(device) != ""; err == nil && known == (m.Guess != "") {
				t.Errorf("%q selects %s, a guess: %q", device.Name, m.Name, m.Guess)
			}
			if machine.ForDevice(device) == "" {
				continue
			}
			if err != nil { // a ring that has fewer: --machine refuses it too
				if _, again := r.MachineNamed(fmt.Sprintf("%s:%d", name, ranks), 0); base.Fabric.Topology != machine.Ring || again == nil || again.Error() != err.Error() {
					t.Errorf("%q with %d ranks: %v, and --machine: %v", device.Name, ranks, err, again)
				}
				continue
			}
			again, err := r.MachineNamed(m.Name, 0)
			if err != nil || again.Profile != m.Profile || again.GPUs != ranks {
				t.Errorf("%q with %d ranks selects %s, and --machine of that gives %s with %d GPUs, %v", device.Name, ranks, m.Name, again.Profile, again.GPUs, err)
			}
		}
	}
}

// Where a trace names no device, the names of AMD's matrix kernels state its architecture.
func TestDeviceOfKernels(t *testing.T) {
	for _, c := range []struct{ device, kernel, want string }{
		{"", "Cijk_Ailk_Bljk_SB_MT128x64x16_ISA90a_IU1", "gfx90a"},
		{"AMD Radeon Graphics", "Cijk_Ailk_Bljk_HHS_ISA942_IU1", "gfx942"},
		{"AMD Instinct MI210", "Cijk_Ailk_Bljk_HHS_ISA90a_IU1", "AMD Instinct MI210"},
		{"", "gemm", ""},
	} {
		w := &workload.Workload{Run: &trace.Run{Ranks: []trace.Rank{{Device: trace.Device{Name: c.device}}}}, Ops: []workload.Op{{Kernel: &workload.Kernel{Name: "copy"}}, {Kernel: &workload.Kernel{Name: c.kernel}}}}
		if got := deviceOf(w).Name; got != c.want {
			t.Errorf("%q with %s is taken for %q, want %q", c.device, c.kernel, got, c.want)
		}
	}
}

// captured is a workload of a device, with kernels.
func captured(d trace.Device, ranks int, kernels ...string) *workload.Workload {
	w := &workload.Workload{Run: &trace.Run{Ranks: []trace.Rank{{Device: d}}}, World: ranks}
	for _, name := range kernels {
		w.Ops = append(w.Ops, workload.Op{Kernel: &workload.Kernel{Name: name}})
	}
	return w
}

// A device without a name is recognized by its properties; where several machines or none have
// them, the one that is taken is a guess, and the note says why.
func TestSuggestionsByProperties(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		d          trace.Device
		want, note string
		kernels    []string
	}{
		{trace.Device{CUs: 80, WaveSize: 64, MemoryBytes: 192 * gib}, "mi308x:8", "machine mi308x:8, from the trace's device with 80 CUs and 192 GiB (--machine selects another)", nil},
		{trace.Device{Name: "gfx950", CUs: 256}, "mi350x:8", "its properties are also those of mi355x:8", nil},
		{trace.Device{CUs: 132, WaveSize: 32, ComputeMajor: 9, MemoryBytes: 80 * gib}, "h100:8", "a guess: the trace does not name its GPU: or h800:8, which have the same properties (--machine", nil},
		{trace.Device{Name: "NVIDIA L40", CUs: 142, ComputeMajor: 8, ComputeMinor: 9}, "l40s:8", `a guess: no profile matches the trace's device "NVIDIA L40": a GPU with the properties in the trace (`, nil},
		{trace.Device{}, "mi300x:8", "a guess: the trace does not name its GPU: AMD, by kernel Cijk_Ailk_Bljk_HHS (", []string{"copy", "Cijk_Ailk_Bljk_HHS"}},
		{trace.Device{}, "mi300x:8", "AMD, by kernel ncclDevKernel_Generic_4 (", []string{"ncclDevKernel_Generic_4"}},
		{trace.Device{}, "h100:8", "NVIDIA, by kernel gemm (", []string{"cutlass::gemm"}},
		{trace.Device{}, "mi300x:8", "AMD, by kernel elementwise (", []string{"void elementwise<int>(int) [clone .kd]"}},
		{trace.Device{RuntimeVersion: "ROCm"}, "mi300x:8", "AMD, by the trace's runtime ROCm (", []string{"test"}},
		{trace.Device{Name: "Other GPU"}, "h100:8", `no profile matches the trace's device "Other GPU": nothing in the trace tells whose it is (`, nil},
		{trace.Device{Name: "Tesla T4"}, "h100:8", `no profile matches the trace's device "Tesla T4": NVIDIA, by that name (`, []string{"solve"}},
	} {
		var notes strings.Builder
		r := &Reader{Console: &Console{Out: io.Discard, Err: &notes}}
		m, err := r.suggested(captured(c.d, 8, c.kernels...))
		if guess := strings.Contains(notes.String(), "a guess"); err != nil || m.Name != c.want || guess != (m.Guess != "") || !strings.Contains(notes.String(), c.note) {
			t.Errorf("%+v: machine %q, %q, %v, %s\nwant %q, %s", c.d, m.Name, m.Guess, err, notes.String(), c.want, c.note)
		}
	}
}
