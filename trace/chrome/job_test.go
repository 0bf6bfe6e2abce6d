package chrome_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// BenchmarkEightRanks reads a job that HTA reads in 142 s with over 1 GB: 8 ranks of
// 525,005 events each, 770 MB of JSON in 47 MB of gzip. It reports the peak memory of
// the process.
func BenchmarkEightRanks(b *testing.B) {
	const ranks, events = 8, 525005
	dir := b.TempDir()
	size := int64(0)
	for rank := range ranks {
		size += writeRank(b, filepath.Join(dir, fmt.Sprintf("rank%d.json.gz", rank)), rank, ranks, events)
	}
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // Linux: reset the peak; elsewhere it is not reported
	b.SetBytes(size)
	spans := 0
	for b.Loop() {
		run := must.Have(format.Open(dir, format.Options{}))(b)
		spans = len(run.Spans)
		if m := overlap.Collect(run).Metrics(); len(m.Ranks) != ranks {
			b.Fatalf("metrics of %d ranks", len(m.Ranks))
		}
		b.StopTimer()
		debug.FreeOSMemory() // free the memory of the previous iteration
		b.StartTimer()
	}
	b.ReportMetric(float64(spans), "spans")
	if peak := peakMemory(); peak > 0 {
		b.ReportMetric(peak/1e6, "peak-MB")
	}
}

// writeRank writes the trace of a rank and returns its size before compression.
func writeRank(b *testing.B, path string, rank, world, events int) int64 {
	b.Helper()
	f := must.Have(os.Create(path))(b)
	defer f.Close()
	z := must.Have(gzip.NewWriterLevel(f, gzip.BestSpeed))(b)
	c := &counter{w: z}
	must.Do(b, chrome.Synthetic(c, rank, world, events))
	must.Do(b, z.Close())
	return c.n
}

type counter struct {
	w *gzip.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

// peakMemory is the peak resident memory of this process in bytes; 0 if unknown.
func peakMemory() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	line, _, _ := bytes.Cut(after, []byte("kB"))
	kilobytes, _ := strconv.ParseFloat(string(bytes.TrimSpace(line)), 64)
	return kilobytes * 1024
}
