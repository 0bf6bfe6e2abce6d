package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// The profile of a host's GPUs, as nvidia-smi or AMD's driver name them.
func TestHostProfiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tools are shell scripts")
	}
	const mi300x = "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n"
	for _, c := range []struct {
		name  string
		tools map[string]string // what they print
		sys   fstest.MapFS
		want  []string // how lines begin
	}{
		{"no GPU", nil, nil, nil},
		{"no driver", map[string]string{"nvidia-smi": ""}, nil, nil},
		{"NVIDIA", map[string]string{"nvidia-smi": strings.Repeat("NVIDIA H200\n", 4)}, nil, []string{"this host has 4 × NVIDIA H200: h200 fits (--machine h200:4)"}},
		{"no profile", map[string]string{"nvidia-smi": "NVIDIA GeForce RTX 4090\n"}, nil, []string{"this host has 1 × NVIDIA GeForce RTX 4090: no profile fits; measure it: torchrun --nproc-per-node 1 "}},
		{
			"ROCm", nil,
			fstest.MapFS{
				"sys/class/kfd/kfd/topology/nodes/0/properties":             {Data: []byte("cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n")},
				"sys/class/kfd/kfd/topology/nodes/1/properties":             {Data: []byte(mi300x)},
				"sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties": {Data: []byte("heap_type 1\nsize_in_bytes 206141652992\n")},
				"sys/class/kfd/kfd/topology/nodes/2/properties":             {Data: []byte(mi300x)},
				"sys/class/kfd/kfd/topology/nodes/2/mem_banks/0/properties": {Data: []byte("heap_type 1\nsize_in_bytes 274861129728\n")},
			},
			[]string{"this host has 1 × gfx942: mi300x fits (--machine mi300x:1)", "this host has 1 × gfx942: mi325x fits (--machine mi325x:1)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := t.TempDir()
			for tool, text := range c.tools {
				script := "#!/bin/sh\nprintf '%s' '" + text + "'\n"
				must.Do(t, os.WriteFile(filepath.Join(bin, tool), []byte(script), 0o777))
			}
			t.Setenv("PATH", bin)
			if got := hostProfiles(t.Context(), c.sys); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
