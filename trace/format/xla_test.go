package format

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestOpenXLA: of what JAX's profiler writes into the folder that it was given, the last profile is read, and of its two forms the one
// that has the programs.
func TestOpenXLA(t *testing.T) {
	data := must.Have(os.ReadFile("../perfetto/testdata/jax_tp.xplane.pb.gz"))(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"plugins/profile/2026_01_01/host.xplane.pb": "no profile", "plugins/profile/2026_01_02/host.xplane.pb": string(data),
		"plugins/profile/2026_01_02/host.trace.json.gz": "not read",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, path := range []string{dir, dir + "/plugins/profile/2026_01_02", dir + "/plugins/profile/2026_01_02/host.xplane.pb"} {
		run, err := Open(path, Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if len(run.Ranks) != 2 || run.Ranks[0].Compiler != trace.XLA || len(run.Collectives) != 24 {
			t.Errorf("%s: ranks %+v, %d collectives", path, run.Ranks, len(run.Collectives))
		}
	}
}
