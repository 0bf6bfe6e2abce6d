package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
)

// healthy are environment in which nothing is missing: four H200 in a terminal with all colours.
func healthy() Environment {
	return Environment{
		system: "linux",
		env:    vars("LANG=en_US.UTF-8", "TERM=xterm-256color", "COLORTERM=truecolor"),
		output: answers(map[string]string{
			"nvidia-smi": strings.Repeat("NVIDIA H200\n", 4),
			"sys":        "3.12.3\n",
			"torch":      "2.11.0+cu130 4\n",
		}),
		root: fstest.MapFS{},
		size: func() (int, int, error) { return 160, 50, nil },
		temp: func() (string, error) { return "/tmp", nil },
	}
}

func vars(set ...string) func(string) string {
	return func(name string) string {
		for _, s := range set {
			if n, value, _ := strings.Cut(s, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// answers is what commands print, by name, and of python3 by the module that it imports.
func answers(known map[string]string) func(context.Context, string, ...string) (string, error) {
	return func(_ context.Context, name string, args ...string) (string, error) {
		if name == "python3" {
			name = strings.TrimRight(strings.Fields(args[1])[1], ";")
		}
		if text, ok := known[name]; ok {
			return text, nil
		}
		return "", exec.ErrNotFound
	}
}

func TestDoctor(t *testing.T) {
	const mi300x = "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n"
	for _, c := range []struct {
		name    string
		change  func(*Environment)
		missing []string // checks
		says    []string
		fine    bool
	}{
		{"healthy", func(*Environment) {}, nil, []string{
			"ok       GPU          4 × NVIDIA H200 (nvidia-smi): profile h200 fits: --machine h200:4", "2.11.0+cu130, 4 GPUs", "LANG=en_US.UTF-8", "16 million",
		}, true},
		{"full disk", func(s *Environment) {
			s.temp = func() (string, error) { return "/var/tmp", errors.New("no space left on device") }
		}, []string{"temporary"}, []string{"/var/tmp: no space left on device", "set TMPDIR"}, false},
		{"C locale", func(s *Environment) {
			s.env = vars("LANG=en_US.UTF-8", "LC_ALL=C", "TERM=xterm-256color")
		}, []string{"locale"}, []string{"LC_ALL=C: not UTF-8", "export LC_ALL=C.UTF-8"}, true},
		{"Windows", func(s *Environment) { s.system, s.env = "windows", vars("WT_SESSION=1") }, nil, []string{"its console shows Unicode"}, true},
		{"no terminal", func(s *Environment) { s.size = func() (int, int, error) { return 0, 0, errors.New("not a terminal") } }, nil, []string{"standard output is not a terminal"}, true},
		{"dumb terminal", func(s *Environment) { s.env = vars("LANG=C.UTF-8", "TERM=dumb") }, []string{"terminal", "colours"}, []string{"TERM=dumb: view cannot"}, true},
		{"narrow", func(s *Environment) { s.size = func() (int, int, error) { return 60, 50, nil } }, []string{"terminal"}, []string{"60 columns, 50 lines", "make it 80 by 24"}, true},
		{"no colours", func(s *Environment) { s.env = vars("LANG=C.UTF-8", "TERM=xterm", "NO_COLOR=1") }, nil, []string{"NO_COLOR is set"}, true},
		{"no GPU, no Python", func(s *Environment) { s.output = answers(nil) }, []string{"GPU", "Python"}, []string{"none found", "no python3 on the PATH"}, true},
		{"old Python", func(s *Environment) {
			s.output = answers(map[string]string{"nvidia-smi": "NVIDIA H200", "sys": "3.9.18"})
		}, []string{"Python"}, []string{"samples/capture needs 3.10"}, true},
		{"PyTorch without GPUs", func(s *Environment) {
			s.output = answers(map[string]string{"nvidia-smi": "NVIDIA H200", "sys": "3.10.1", "torch": "2.6.0+cpu 0"})
		}, []string{"PyTorch"}, []string{"2.6.0+cpu, no GPU"}, true},
		{"driver alone", func(s *Environment) {
			s.output = answers(map[string]string{"sys": "3.10.1", "torch": "2.10.0 8"})
			s.root = fstest.MapFS{
				"proc/driver/nvidia/gpus/0000:1b:00.0/information": {Data: []byte("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 17\n")},
				"proc/driver/nvidia/gpus/0000:43:00.0/information": {Data: []byte("Model: \t\t NVIDIA H100 80GB HBM3\n")},
			}
		}, nil, []string{"2 × NVIDIA H100 80GB HBM3 (/proc/driver/nvidia): profile h100 fits: --machine h100:2"}, true},
		{"ROCm", func(s *Environment) {
			s.output = answers(map[string]string{
				"sys": "3.10.1", "torch": "2.10.0 2",
				"rocm-smi": `{"card1": {"Card Series": "AMD Instinct MI355X"}, "card0": {"Card series": "AMD Instinct MI300X OAM"}, "system": {"Driver version": "6.12"}}`,
			})
		}, nil, []string{"1 × AMD Instinct MI300X OAM (rocm-smi): profile mi300x fits", "1 × AMD Instinct MI355X (rocm-smi): profile mi355x fits"}, true},
		{"ROCm's driver alone", func(s *Environment) {
			s.output = answers(map[string]string{"sys": "3.10.1", "torch": "2.10.0 1"})
			s.root = fstest.MapFS{
				"sys/class/kfd/kfd/topology/nodes/0/properties":             {Data: []byte("cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n")},
				"sys/class/kfd/kfd/topology/nodes/1/properties":             {Data: []byte(mi300x)},
				"sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties": {Data: []byte("heap_type 1\nsize_in_bytes 206141652992\n")},
				"sys/class/kfd/kfd/topology/nodes/2/properties":             {Data: []byte(mi300x)},
				"sys/class/kfd/kfd/topology/nodes/2/mem_banks/0/properties": {Data: []byte("heap_type 1\nsize_in_bytes 274861129728\n")},
			}
		}, nil, []string{"1 × gfx942 (/sys/class/kfd): profile mi300x fits", "1 × gfx942 (/sys/class/kfd): profile mi325x fits"}, true},
		{"a GPU without a profile", func(s *Environment) {
			s.output = answers(map[string]string{"nvidia-smi": "NVIDIA GeForce RTX 4090\n\x1b[2J", "sys": "3.10.1", "torch": "2.10.0 1"})
		}, []string{"GPU", "GPU"}, []string{"1 × NVIDIA GeForce RTX 4090 (nvidia-smi): no profile fits", "overlapse calibrate mymachine -o mine.yaml"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := healthy()
			c.change(&s)
			var out, stderr bytes.Buffer
			con := &console.Console{Out: &out, Err: &stderr}
			err := Examine(t.Context(), con, s, "(devel)", "table")
			if (err == nil) != c.fine {
				t.Errorf("error %v, want none: %v", err, c.fine)
			}
			for _, text := range c.says {
				if !strings.Contains(out.String(), text) {
					t.Errorf("lacks %q", text)
				}
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Error("has an escape sequence")
			}
			var jsonOut bytes.Buffer
			con.Out = &jsonOut
			_ = Examine(t.Context(), con, s, "(devel)", "json")
			var d Diagnosis
			if err := json.Unmarshal(jsonOut.Bytes(), &d); err != nil {
				t.Fatal(err)
			}
			var missing []string
			for _, f := range d.Findings {
				if f.Found == "" || f.Means == "" || f.ok() != (f.Do == "") || !f.ok() && (f.Status == "missing") != f.Needed {
					t.Errorf("incomplete: %+v", f)
				}
				if !f.ok() {
					missing = append(missing, f.Check)
				}
			}
			if strings.Join(missing, ",") != strings.Join(c.missing, ",") {
				t.Errorf("missing %q, want %q", missing, c.missing)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		version, least string
		want           bool
	}{
		{"3.10.1", "3.10", true},
		{"3.9", "3.10", false},
		{"4", "3.10", true},
		{"2.11.0+cu130", "2.6", true},
		{"2.5.1", "2.6", false},
		{"", "2.6", false},
		{"unknown", "2.6", false},
	} {
		if got := atLeast(c.version, c.least); got != c.want {
			t.Errorf("%q at least %q: %v", c.version, c.least, got)
		}
	}
}
