package profile_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine/machinetest"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/trace"
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
		if got := profile.ForDevice(trace.Device{Name: name}); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	if got := profile.ForDevice(trace.Device{Name: "gfx90a", CUs: 104}); got != "mi210" {
		t.Errorf("gfx90a with 104 CUs is taken for %q", got)
	}
	// A profile is found by the name of its own GPU; several machines have an MI210.
	for _, name := range profile.Names() {
		m := machinetest.Load(t, name)
		if got := profile.ForDevice(trace.Device{Name: m.GPU.Name}); got != name && name != "mi210ib" && name != "torus128" && name != "t3" {
			t.Errorf("%s: its %s is taken for %q", name, m.GPU.Name, got)
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
		if got := profile.ArchitectureOf(kernel); got != want {
			t.Errorf("%s: %q, want %q", kernel, got, want)
		}
	}
}
