package format

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A progress ends at the sizes of the files and at the number of events of all of them.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	var size, events int64
	for rank, n := range []int64{3, 5000} {
		event := `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":0,"args":{"stream":7}}`
		text := `{"distributedInfo":{"rank":` + string(rune('0'+rank)) + `},"traceEvents":[` + strings.Repeat(event+",", int(n)) + `]}`
		if err := os.WriteFile(filepath.Join(dir, "rank"+string(rune('0'+rank))+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		size, events = size+int64(len(text)), events+n
	}
	for _, path := range []string{dir, filepath.Join(dir, "rank1.json")} {
		var p Progress
		run, err := Open(path, Options{Progress: &p})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Events.Load(); got != int64(len(run.Spans)) || p.Total.Load() != p.Read.Load() || !strings.HasSuffix(p.File(), ".json") {
			t.Errorf("%s: %d of %d bytes, %d events, last %q", path, p.Read.Load(), p.Total.Load(), got, p.File())
		}
		if path == dir && (p.Total.Load() != size || p.Events.Load() != events) {
			t.Errorf("%d bytes and %d events, want %d and %d", p.Total.Load(), p.Events.Load(), size, events)
		}
	}
}

// Head reads the events that start in the first bytes of each file, and no format that has
// no such part.
func TestHead(t *testing.T) {
	dir := t.TempDir()
	const events, header = 1000, `{"traceEvents":[`
	for rank := range 2 {
		var text strings.Builder
		text.WriteString(header)
		for i := range events {
			fmt.Fprintf(&text, `{"ph":"X","cat":"kernel","name":"k","pid":%d,"tid":7,"ts":%d,"dur":1,"args":{"stream":7}},`, rank, 10000+i)
		}
		fmt.Fprintf(&text, `{}],"distributedInfo":{"rank":%d}}`, rank)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank%d.json", rank)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const event = len(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10000,"dur":1,"args":{"stream":7}},`)
	for _, n := range []int{1, 2, 500, events} {
		run, err := Open(dir, Options{Head: 2 * int64(len(header)+event*(n-1)+1)})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Spans) != 2*n || len(run.Ranks) != 2 {
			t.Errorf("%d events of each file are %d spans of %d ranks", n, len(run.Spans), len(run.Ranks))
		}
	}
	other := filepath.Join(dir, "x.csv")
	if err := os.WriteFile(other, []byte("\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other, Options{Head: 1}); !errors.Is(err, ErrNoHead) {
		t.Errorf("a part of CSV: error %v", err)
	}
}
