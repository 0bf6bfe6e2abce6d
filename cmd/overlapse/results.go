package main

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/pprof"
)

// writeResults writes the four files of `replay -o`. Each is complete or absent.
func (a *app) writeResults(ctx context.Context, dir string, r *replayed) (err error) {
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil && missing != nil {
			os.Remove(dir) // fails if it is not empty
		}
	}()
	runs := r.runs()
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"result.json", func(w io.Writer) error { return writeJSON(w, r) }},
		{"timeline.json.gz", func(w io.Writer) error { return compressed(w, trace.SideBySide(aligned(r.workload, runs), r.Path)) }},
		{"profile.pb.gz", func(w io.Writer) error { return pprof.Write(w, runs...) }},
		{"report.html", func(w io.Writer) error { return html.Write(w, a.report(r)) }},
	}
	bar := a.progress(len(files), "writing")
	for _, f := range files {
		if err := a.writeFile(filepath.Join(dir, f.name), func(w io.Writer) error { return f.write(interruptible{w, ctx}) }); err != nil {
			return err
		}
		_ = bar.Add(1)
	}
	_ = bar.Finish()
	if left := r.coarse(); left != "" {
		a.notef("%s", left)
	}
	a.notef("wrote report.html, timeline.json.gz, profile.pb.gz and result.json to %s", dir)
	return nil
}

// compressed writes a timeline as Perfetto opens it.
func compressed(w io.Writer, run *trace.Run) error {
	z := gzip.NewWriter(w)
	if err := chrome.Write(z, run); err != nil {
		return err
	}
	return z.Close()
}
