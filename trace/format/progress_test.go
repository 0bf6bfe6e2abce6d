package format

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A progress ends at the sizes of the files and at the number of events of all of them.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	var size, events int64
	for rank, n := range []int64{3, 5000} {
		event := `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":0,"args":{"stream":7}}`
		text := `{"distributedInfo":{"rank":` + string(rune('0'+rank)) + `},"traceEvents":[` + strings.Repeat(event+",", int(n)) + `]}`
		must.Do(t, os.WriteFile(filepath.Join(dir, "rank"+string(rune('0'+rank))+".json"), []byte(text), 0o600))
		size, events = size+int64(len(text)), events+n
	}
	for _, path := range []string{dir, filepath.Join(dir, "rank1.json")} {
		var p Progress
		run := must.Have(Open(path, Options{Progress: &p}))(t)
		if got := p.Events.Load(); got != int64(len(run.Spans)) || p.Total.Load() != p.Read.Load() || !strings.HasSuffix(p.File(), ".json") {
			t.Errorf("%s: %d of %d bytes, %d events, last %q", path, p.Read.Load(), p.Total.Load(), got, p.File())
		}
		if path == dir && (p.Total.Load() != size || p.Events.Load() != events) {
			t.Errorf("%d bytes and %d events, want %d and %d", p.Total.Load(), p.Events.Load(), size, events)
		}
	}
}
