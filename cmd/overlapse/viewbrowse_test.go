package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/trace/format"
)

// A preview shows the first events of all ranks, unless reading is half done already.
func TestPreview(t *testing.T) {
	const kernels, ranks = 20_000, 2
	dir := t.TempDir()
	for r := range ranks {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank%d.json", r)), []byte(kinetoRank(r, kernels)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for read, want := range map[int64]int{0: 1, 49: 1, 50: 0, 100: 0} {
		a := &app{Reader: inputs.Reader{Console: &console.Console{}, Read: new(format.Progress)}}
		a.Read.Total.Store(100)
		a.Read.Read.Store(read)
		views := a.preview(dir)
		for _, v := range views {
			run := v.Run
			if n := len(run.Spans); n < 1000 || n >= 3*kernels*ranks || len(run.Ranks) != ranks {
				t.Errorf("%d spans of %d ranks", n, len(run.Ranks))
			}
		}
		if shown := len(views); shown != want {
			t.Errorf("with %d %% read, %d previews", read, shown)
		}
	}
}
