package doctor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/trace"
)

// gpus checks that there is a profile for each kind of GPU of this machine.
func (s *Environment) gpus(ctx context.Context) []finding {
	devices, from := s.Devices(ctx)
	if len(devices) == 0 {
		return []finding{checked("GPU", "none found", "traces of other machines can be replayed; nothing can be captured here",
			"nothing, or install the driver; check: nvidia-smi or rocm-smi")}
	}
	var list []finding
	for i, d := range devices {
		if slices.Contains(devices[:i], d) {
			continue
		}
		n := 0
		for _, e := range devices {
			if e == d {
				n++
			}
		}
		found := fmt.Sprintf("%d × %s (%s)", n, d.Name, from)
		if name := profile.ForDevice(d); name != "" {
			list = append(list, checked("GPU", found, fmt.Sprintf("profile %s fits: --machine %s:%d; overlapse machines %s prints what was measured and what is assumed", name, name, n, name), ""))
			continue
		}
		do := "measure it: torchrun --nproc-per-node " + strconv.Itoa(n) + " samples/capture/capture.py --out mymachine; overlapse calibrate mymachine -o mine.yaml; then --machine mine.yaml"
		if alike := profile.Alike(d); len(alike) > 0 {
			do += " (--base " + strings.Join(alike, " or ") + ")"
		}
		list = append(list, checked("GPU", found, "no profile fits", do))
	}
	return list
}

// Devices are the GPUs, and what told of them.
func (s *Environment) Devices(ctx context.Context) (list []trace.Device, from string) {
	if text, err := s.output(ctx, "nvidia-smi", "--query-gpu=name", "--format=csv,noheader"); err == nil {
		for _, name := range lines(text) {
			list = append(list, trace.Device{Name: name})
		}
		if len(list) > 0 {
			return list, "nvidia-smi"
		}
	}
	if list = s.nvidiaDriver(); len(list) > 0 {
		return list, "/proc/driver/nvidia"
	}
	if text, err := s.output(ctx, "rocm-smi", "--showproductname", "--json"); err == nil {
		if list = rocmDevices(text); len(list) > 0 {
			return list, "rocm-smi"
		}
	}
	return s.amdDriver(), "/sys/class/kfd"
}

// nvidiaDriver are the GPUs of /proc/driver/nvidia/gpus: "Model: NVIDIA H200".
func (s *Environment) nvidiaDriver() (list []trace.Device) {
	files, _ := fs.Glob(s.root, "proc/driver/nvidia/gpus/*/information")
	for _, name := range files {
		text, _ := fs.ReadFile(s.root, name)
		for _, line := range lines(string(text)) {
			if model, ok := strings.CutPrefix(line, "Model:"); ok {
				list = append(list, trace.Device{Name: strings.TrimSpace(model)})
			}
		}
	}
	return list
}

// rocmDevices are the GPUs of {"card0": {"Card Series": "AMD Instinct MI300X OAM", "GFX Version": "gfx942"}}.
func rocmDevices(text string) (list []trace.Device) {
	var cards map[string]map[string]any
	if json.Unmarshal([]byte(text), &cards) != nil {
		return nil
	}
	var names []string
	for card := range cards {
		if strings.HasPrefix(card, "card") {
			names = append(names, card)
		}
	}
	slices.Sort(names)
	for _, card := range names {
		fields := map[string]string{}
		for name, value := range cards[card] { // releases of ROCm differ in upper and lower case
			fields[strings.ToLower(name)] = fmt.Sprint(value)
		}
		if name := cmp.Or(fields["card series"], fields["card model"], fields["gfx version"]); name != "" {
			list = append(list, trace.Device{Name: name})
		}
	}
	return list
}

// amdDriver are the GPUs of /sys/class/kfd: architecture, CUs and memory.
func (s *Environment) amdDriver() (list []trace.Device) {
	nodes, _ := fs.Glob(s.root, "sys/class/kfd/kfd/topology/nodes/*/properties")
	for _, name := range nodes {
		p := s.properties(name)
		v := p["gfx_target_version"] // 90402 is gfx942; 0 is a CPU
		if v == 0 {
			continue
		}
		d := trace.Device{Name: fmt.Sprintf("gfx%d%x%x", v/10000, v/100%100, v%100), CUs: int(p["simd_count"] / max(1, p["simd_per_cu"]))}
		banks, _ := fs.Glob(s.root, path.Join(path.Dir(name), "mem_banks/*/properties"))
		for _, bank := range banks {
			d.MemoryBytes += s.properties(bank)["size_in_bytes"]
		}
		list = append(list, d)
	}
	return list
}

// properties are the lines "name number" of a file of the driver.
func (s *Environment) properties(name string) map[string]int64 {
	p := map[string]int64{}
	text, _ := fs.ReadFile(s.root, name)
	for _, line := range lines(string(text)) {
		key, value, _ := strings.Cut(line, " ")
		p[key], _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	}
	return p
}

// lines are the lines of a text that are not blank, without spaces around.
func lines(text string) (list []string) {
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" {
			list = append(list, line)
		}
	}
	return list
}
