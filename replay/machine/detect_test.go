package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

func TestForDevice(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H200":               "h200",
		"NVIDIA H100 80GB HBM3":     "h100",
		"NVIDIA GH200 480GB":        "", // no H200
		"NVIDIA B200":               "b200",
		"NVIDIA GB200":              "gb200",
		"NVIDIA A100-SXM4-80GB":     "a100",
		"NVIDIA A100-SXM4-40GB":     "a100-40gb",
		"NVIDIA A100-PG509-200":     "a100",
		"NVIDIA A40":                "a40",
		"NVIDIA H20":                "h20",
		"NVIDIA H20-3e":             "h20",
		"NVIDIA H800":               "h800",
		"NVIDIA L40S":               "l40s",
		"NVIDIA L40":                "",
		"NVIDIA L20":                "l20",
		"AMD Instinct MI308X":       "mi308x",
		"AMD Instinct MI308X VF":    "mi308x",
		"Tesla V100-SXM2-16GB":      "v100",
		"AMD Instinct MI210":        "mi210",
		"AMD Instinct MI250X/MI250": "mi250x",
		"AMD Instinct MI250":        "mi250x",
		"AMD Instinct MI300X VF":    "mi300x",
		"AMD Instinct MI325X":       "mi325x",
		"AMD Instinct MI350X":       "mi350x",
		"AMD Instinct MI355X":       "mi355x",
		"gfx90a":                    "mi250x",
		"gfx942":                    "mi300x",
		"gfx950:sramecc+:xnack-":    "mi350x",
		"AMD Radeon Graphics":       "",
		"":                          "",
	} {
		if got := machine.ForDevice(trace.Device{Name: name}); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	if got := machine.ForDevice(trace.Device{Name: "gfx90a", CUs: 104}); got != "mi210" {
		t.Errorf("gfx90a with 104 CUs is taken for %q", got)
	}
	const gib = 1 << 30
	for _, c := range []struct {
		d     trace.Device
		want  string
		alike string
	}{
		{trace.Device{Name: "gfx942", CUs: 80}, "mi308x", "mi308x"},
		{trace.Device{Name: "gfx942", CUs: 304, MemoryBytes: 255 * gib}, "mi325x", "mi325x"},
		{trace.Device{Name: "gfx942", CUs: 228}, "mi300x", ""}, // MI300A
		{trace.Device{Name: "gfx942", CUs: 38}, "mi300x", ""},  // a die, in CPX mode
		{trace.Device{Name: "gfx950", CUs: 256}, "mi350x", "mi350x mi355x"},
		{trace.Device{Name: "gfx1100"}, "", ""},
		{trace.Device{CUs: 304, WaveSize: 64, MemoryBytes: 192 * gib}, "mi300x", "mi300x"},
		{trace.Device{Name: "AMD Radeon Graphics", CUs: 80, WaveSize: 64}, "mi308x", "mi308x"},
		{trace.Device{Name: "AMD Instinct MI308X", CUs: 80, WaveSize: 64}, "mi308x", "mi308x"},
		{trace.Device{CUs: 80, WaveSize: 32, ComputeMajor: 7}, "v100", "v100"},
		{trace.Device{CUs: 132, WaveSize: 32, ComputeMajor: 9, MemoryBytes: 140 * gib}, "h200", "h200"},
		{trace.Device{CUs: 132, WaveSize: 32, ComputeMajor: 9, MemoryBytes: 79 * gib}, "", "h100 h800"},
		{trace.Device{CUs: 78, WaveSize: 32, ComputeMajor: 9, MemoryBytes: 95 * gib}, "h20", "h20"},
		{trace.Device{CUs: 152, ComputeMajor: 10}, "gb200", "gb200"},
		{trace.Device{Name: "NVIDIA L40", CUs: 142, ComputeMajor: 8, ComputeMinor: 9}, "", "l40s"},
		{trace.Device{WaveSize: 64}, "", ""},
	} {
		if got, alike := machine.ForDevice(c.d), strings.Join(machine.Alike(c.d), " "); got != c.want || alike != c.alike {
			t.Errorf("%+v is taken for %q, want %q; alike are %q, want %q", c.d, got, c.want, alike, c.alike)
		}
	}
	// A profile is found by the name of its own GPU; several machines have an MI210.
	for _, name := range machine.Names() {
		m := machinetest.Load(t, name)
		if got := machine.ForDevice(trace.Device{Name: m.GPU.Name}); got != name && name != "mi210ib" && name != "torus128" && name != "t3" {
			t.Errorf("%s: its %s is taken for %q", name, m.GPU.Name, got)
		}
		if cus := int(m.GPU.CUs.Value); name != "t3" && !slices.Contains([]string{"mi210ib", "torus128"}, name) && !slices.Contains(machine.Alike(trace.Device{CUs: cus}), name) {
			t.Errorf("%s with %d CUs is not among the devices with properties", name, cus)
		}
	}
}

func TestArchitectureOf(t *testing.T) {
	for kernel, want := range map[string]string{
		"Cijk_Ailk_Bljk_SB_MT128x64x16_GSUASB_ISA90a_IU1_K1": "gfx90a",
		"Cijk_Ailk_Bljk_HHS_BH_ISA942_IU1":                   "gfx942",
		"Cijk_Ailk_Bljk":                                     "",
		"my_ISA942_kernel":                                   "",
	} {
		if got := machine.ArchitectureOf(kernel); got != want {
			t.Errorf("%s: %q, want %q", kernel, got, want)
		}
	}
}
