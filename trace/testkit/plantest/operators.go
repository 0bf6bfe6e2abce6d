package plantest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
)

// OperatorOf is a workload file's text on the machine that it names.
func OperatorOf(t testing.TB, text string) (*workload.Workload, machine.Machine) {
	t.Helper()
	f, err := operator.Parse(strings.NewReader(text), "w.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.Load(f.Machine)
	if err != nil {
		t.Fatal(err)
	}
	run, err := f.Run(m)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lift.Workload(run, lift.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w, m
}

// SampleOperator is a file of samples/workloads.
func SampleOperator(t testing.TB, name string) (*workload.Workload, machine.Machine) {
	t.Helper()
	text, err := os.ReadFile(root(t) + "/samples/workloads/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return OperatorOf(t, string(text))
}

// SampleOperators are the names of the files of samples/workloads. Those of over 32 ranks are left
// out: all their strategies take minutes. engines/score replays them.
func SampleOperators(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(root(t) + "/samples/workloads/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if w, _ := SampleOperator(t, name); w.World <= 32 {
			names = append(names, name)
		}
	}
	if len(names) < 18 {
		t.Fatalf("%d workload files", len(names))
	}
	return names
}

// LiftSample is the workload of a trace under samples.
func LiftSample(t testing.TB, name string) *workload.Workload {
	t.Helper()
	run, err := format.Open(root(t)+"/samples/"+name, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := lift.Workload(run, lift.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// root is the folder of the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above this folder")
	return ""
}
