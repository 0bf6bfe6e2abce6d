package format

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// What inflates as no trace does is not read to the limit, unless the user gave one.
func TestInflation(t *testing.T) {
	z := zipped(strings.Repeat(" ", 1<<20)) // about a thousand to one
	for _, c := range []struct {
		name    string
		options Options
		before  int64 // bytes that came already, from none
		packed  int64 // those that they took
		fails   bool
	}{
		{"little", Options{}, 0, 0, false},
		{"much, of little", Options{}, inflationFrom, 0, true},
		{"much, of much", Options{}, inflationFrom, inflationFrom / 30, false},
		{"a limit is given", Options{Limit: 1 << 40}, inflationFrom, 0, false},
	} {
		r, err := c.options.gunzip(strings.NewReader(z))
		if err != nil {
			t.Fatal(err)
		}
		i := r.(readCloser).Reader.(*inflated).i
		i.out.Add(c.before)
		i.in.Add(c.packed)
		_, err = io.Copy(io.Discard, r)
		if (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "0 MiB decompress to over 64 MiB (set --limit if this is a real trace)") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A file is read without its compression, up to the limit.
func TestInflated(t *testing.T) {
	text := strings.Repeat("one line\n", 1000)
	for name, content := range map[string]string{"plain": text, "packed.gz": zipped(text)} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
		var got []byte
		read := func(r io.Reader) (err error) {
			got, err = io.ReadAll(r)
			return err
		}
		if err := (Options{}).Inflated(path, read); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if err := (Options{Limit: 100}).Inflated(path, read); err == nil || !strings.Contains(err.Error(), "raise --limit") {
			t.Errorf("%s beyond the limit: %v", name, err)
		}
	}
}

// Databases and archives that lack what they must have, and what is no trace at all.
func TestRefused(t *testing.T) {
	header := strings.Repeat("x", 257) + "ustar\x0000"
	dir := folder(t, map[string]string{"ranks.tar": header, "ranks.tgz": zipped(header), "none.json": "{}", "a.nsys-rep": "\x01\x02"})
	for path, want := range map[string]string{
		"ranks.tar":  "ranks.tar: the tar archive is truncated or damaged: unexpected EOF (copy it again)",
		"ranks.tgz":  "ranks.tgz: the tar archive is truncated or damaged: unexpected EOF (copy it again)",
		"none.json":  "none.json: keys none: no traceEvents (",
		"a.nsys-rep": "a.nsys-rep: this is a report of Nsight Systems (.nsys-rep, .qdrep), which is not supported: unrecognized format (nsys export --type sqlite --include-json true a.nsys-rep; overlapse reads",
	} {
		_, err := Open(filepath.Join(dir, path), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Names are data, whatever a terminal or a page could take them for.
func TestHostileNames(t *testing.T) {
	name := "\x1b[31mred\x1b]0;x\x07<script>" + strings.Repeat("n", 1<<20)
	dir := folder(t, map[string]string{
		"a_kernel_trace.csv": strings.Replace(kernelAt(5), ",k,", `,"`+name+`",`, 1),
	})
	run, err := Open(dir, Options{})
	if err != nil || len(run.Spans) != 1 || run.NameOf(run.Spans[0]) != name || run.Spans[0].Kind != trace.Compute {
		t.Fatalf("%.80v, %v", err, run != nil)
	}
}

// A context that ends stops reading, whatever files may be skipped.
func TestContext(t *testing.T) {
	dir := folder(t, map[string]string{"rank0.json": `{"traceEvents":[]}`, "rank1.json": `{"traceEvents":[]}`})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Open(dir, Options{Context: ctx, SkipBad: func(error) {}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
