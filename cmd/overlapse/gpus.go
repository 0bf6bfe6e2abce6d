package main

import (
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// hostProfiles says, a line for each kind of GPU of this host, which profile fits it. None
// without GPUs.
func hostProfiles(ctx context.Context, root fs.FS) (lines []string) {
	devices := hostGPUs(ctx, root)
	for i, d := range devices {
		if slices.Contains(devices[:i], d) {
			continue
		}
		n := 0
		for _, other := range devices[i:] {
			if other == d {
				n++
			}
		}
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
