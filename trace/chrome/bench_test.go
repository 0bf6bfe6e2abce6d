package chrome

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// benchmarkEvents is the number of events of one rank of the eight-rank job that HTA
// reads in 142 s.
const benchmarkEvents = 525005

func syntheticBytes(b *testing.B) []byte {
	b.Helper()
	var out bytes.Buffer
	must.Do(b, synthetic(&out, 0, 8, benchmarkEvents))
	return out.Bytes()
}

// benchmark reports JSON bytes per second and retained memory per span.
func benchmark(b *testing.B, json int, read func() (*trace.Run, error)) {
	b.SetBytes(int64(json))
	b.ReportAllocs()
	var run *trace.Run
	for b.Loop() {
		var err error
		if run, err = read(); err != nil {
			b.Fatal(err)
		}
	}
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	spans := len(run.Spans)
	runtime.KeepAlive(run) // the next collection frees it
	runtime.GC()
	runtime.ReadMemStats(&without)
	runtime.KeepAlive(read)
	b.ReportMetric(float64(int64(with.HeapAlloc)-int64(without.HeapAlloc))/float64(spans), "B/span")
}

func packed(in []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(in)
	z.Close()
	return out.Bytes()
}

func BenchmarkReadPlain(b *testing.B) {
	in := syntheticBytes(b)
	benchmark(b, len(in), func() (*trace.Run, error) { return Read(bytes.NewReader(in), Options{File: "rank0.json"}) })
}

func BenchmarkReadGzip(b *testing.B) {
	in := syntheticBytes(b)
	packed := packed(in)
	benchmark(b, len(in), func() (*trace.Run, error) {
		r := must.Have(gzip.NewReader(bytes.NewReader(packed)))(b)
		return Read(r, Options{File: "rank0.json"})
	})
}

func BenchmarkWrite(b *testing.B) {
	run := must.Have(Read(bytes.NewReader(syntheticBytes(b)), Options{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, Write(io.Discard, run, nil, nil, nil))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(run.Spans)), "ns/span")
}
