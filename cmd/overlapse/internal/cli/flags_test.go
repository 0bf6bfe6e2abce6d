package cli

import (
	"os"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A strategy that panicked fails the command, also with --strategy all.
func TestDefectFails(t *testing.T) {
	out := engines.Outcome{Selection: engines.CapturedSelection(), Why: engines.DefectPrefix + "x", Err: &guard.PanicError{Value: "x"}}
	f := Flags{Strategy: "all"}
	if err := f.FailedError([]engines.Outcome{out}); err != out.Err {
		t.Errorf("got %v", err)
	}
	out.Err = nil
	if err := f.FailedError([]engines.Outcome{out}); err != nil {
		t.Errorf("got %v", err)
	}
}

// A file of settings is replaced by its content, wherever it lies.
func TestWithSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"mine.yaml", `C:\mine.yaml`} { // a name like any other but on Windows
		must.Do(t, os.WriteFile(name, []byte("wait: 1 us\n"), 0o666))
	}
	want := must.Have(withSettings("bulk,tilesync:mine.yaml:policy=tile,fused"))(t)
	for _, selection := range []string{`bulk,tilesync:C:\mine.yaml:policy=tile,fused`} {
		if got, err := withSettings(selection); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", selection, got, err, want)
		}
	}
}
