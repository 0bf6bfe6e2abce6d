package format

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// tarred is a tar archive of files, in a folder and with the header that git adds.
func tarred(t *testing.T, files ...string) string {
	headers := []tar.Header{{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "x"}}, {Typeflag: tar.TypeDir, Name: "job/", Mode: 0o755}}
	for i, f := range files {
		headers = append(headers, tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("job/r%d.json", i), Mode: 0o644, Size: int64(len(f))})
	}
	return tarredAs(t, headers, append([]string{"", ""}, files...))
}

// tarredAs is a tar archive of headers and what follows each.
func tarredAs(t *testing.T, headers []tar.Header, files []string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range headers {
		must.Do(t, w.WriteHeader(&headers[i]))
		if _, err := w.Write([]byte(files[i])); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return out.String()
}

// Archives from which no trace comes.
func TestRefusedArchives(t *testing.T) {
	entry := func(kind byte, name string) []tar.Header {
		return []tar.Header{{Typeflag: kind, Name: name, Linkname: "/etc/passwd", Mode: 0o644}}
	}
	inner := tarred(t, kineto(0))
	dir := folder(t, map[string]string{
		"link.tar":     tarredAs(t, entry(tar.TypeSymlink, "a.json"), []string{""}),
		"hardlink.tar": tarredAs(t, entry(tar.TypeLink, "a.json"), []string{""}),
		"fifo.tar":     tarredAs(t, entry(tar.TypeFifo, "a.json"), []string{""}),
		"up.tar":       tarredAs(t, entry(tar.TypeReg, "a/../../b.json"), []string{""}),
		"up.zip":       archivedAs(t, map[string]string{"../b.json": "{}"}),
		"root.tgz":     zipped(tarredAs(t, entry(tar.TypeReg, "/b.json"), []string{""})),
		"none.tar":     tarredAs(t, entry(tar.TypeDir, "a/"), []string{""}),
		"cut.tar":      tarred(t, kineto(0))[:1800],
		"cut.tgz":      zipped(tarred(t, kineto(0)))[:200],
		"nested.tar":   tarred(t, inner, inner),
		"nested.zip":   archived(t, inner),
	})
	for name, want := range map[string]string{
		"link.tar":     `link.tar: the entry "a.json" is a link or device, not a file (archive the files themselves)`,
		"hardlink.tar": `hardlink.tar: the entry "a.json" is a link or device, not a file`,
		"fifo.tar":     `fifo.tar: the entry "a.json" is a link or device, not a file`,
		"up.tar":       `up.tar: the name of the entry "a/../../b.json" points outside the archive (unpack it with care, and give the folder)`,
		"up.zip":       `up.zip: the name of the entry "../b.json" points outside the archive`,
		"root.tgz":     `root.tgz: the name of the entry "/b.json" points outside the archive`,
		"none.tar":     "none.tar: the archive is empty (overlapse reads ",
		"cut.tar":      "cut.tar: the tar archive is truncated or damaged: ",
		"cut.tgz":      `cut.tgz: cannot unpack the entry "job/r0.json": unexpected EOF (copy the archive again, and see that TMPDIR has space)`,
		"nested.tar":   "an archive in an archive (unpack it and give the folder)",
		"nested.zip":   "an archive in an archive (unpack it and give the folder)",
	} {
		run, err := Open(filepath.Join(dir, name), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v, %v\nwant %s", run != nil, err, want)
		}
	}
}

// Entries of archives are checked as compressed files are.
func TestInflationOfArchives(t *testing.T) {
	bomb := kineto(0) + strings.Repeat(" ", inflationFrom+1<<20)
	dir := folder(t, map[string]string{"bomb.zip": archived(t, bomb), "bomb.tgz": zipped(tarred(t, bomb))})
	for _, name := range []string{"bomb.zip", "bomb.tgz"} {
		_, err := Open(filepath.Join(dir, name), Options{})
		if err == nil || !strings.Contains(err.Error(), "0 MiB decompress to over 64 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sparse is a tar archive with an entry of one block of data and then a hole.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	block := strings.Repeat("{", 512)
	out := []byte(tarredAs(t, []tar.Header{{Typeflag: tar.TypeReg, Name: "a.json", Mode: 0o644, Size: 512, Format: tar.FormatGNU}}, []string{block}))
	const kind, offsets, length, sum = 156, 386, 483, 148
	out[kind] = tar.TypeGNUSparse
	copy(out[offsets:], fmt.Sprintf("%011o\x00%011o\x00%011o\x00%011o\x00", 0, 512, size, 0))
	copy(out[length:], fmt.Sprintf("%011o\x00", size))
	copy(out[sum:], "        ")
	total := 0
	for _, b := range out[:512] {
		total += int(b)
	}
	copy(out[sum:], fmt.Sprintf("%06o\x00 ", total))
	return string(out)
}

// TestHoles: a hole in an archive of a few kilobytes fills neither disk nor memory, with and
// without a limit.
func TestHoles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := folder(t, map[string]string{"hole.tar": sparse(t, 3<<30), "small.tar": sparse(t, 1<<20)})
	for _, c := range []struct {
		limit int64
		want  string
	}{
		{0, "0 MiB decompress to over 64 MiB (unpack it with tar if this is a real trace)"},
		{1 << 40, "0 MiB decompress to over 64 MiB (unpack it with tar if this is a real trace)"},
		{2 << 20, "more than 2 MiB in all files together"},
	} {
		if _, err := Open(filepath.Join(dir, "hole.tar"), Options{Limit: c.limit}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("limit %d: %v", c.limit, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "small.tar"), Options{}); err == nil || !strings.Contains(err.Error(), "small.tar:a.json") {
		t.Errorf("a small hole is unpacked: %v", err)
	}
}

// A spy calls look before every read.
type spy struct {
	io.Reader
	look func()
}

func (s spy) Read(p []byte) (int, error) {
	s.look()
	return s.Reader.Read(p)
}

// TestNoFileIsLeft: what an archive is unpacked into has no name, so that nothing is left
// when the process ends.
func TestNoFileIsLeft(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files keep their names")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	reads := 0
	in := spy{strings.NewReader(tarred(t, kineto(0)+strings.Repeat(" ", 1<<20))), func() {
		reads++
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%d files, %v", len(left), err)
		}
	}}
	if _, err := Open("-", Options{Stdin: in}); err != nil || reads < 3 {
		t.Errorf("%d reads: %v", reads, err)
	}
}
