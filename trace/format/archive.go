package format

import (
	"io"
	"os" // opening what the user names is what this package is for
	"path"
	"strings"

	"github.com/klauspost/compress/zip"

	"github.com/overlapse/overlapse/trace"
)

// An archive holds files as a folder does.
type archive struct {
	path    string
	entries map[string]*zip.File
}

// openZip reads the files in an archive as those of a folder.
func openZip(f *os.File, name string, o Options) (*trace.Run, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, &trace.SyntaxError{File: name, Msg: "cannot open", Err: err}
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, &trace.SyntaxError{File: name, Msg: "not a whole zip archive", Cure: "copy it again", Err: err}
	}
	o.archive = &archive{path: name, entries: map[string]*zip.File{}}
	var paths []string
	for _, entry := range z.File {
		hidden := strings.HasPrefix(path.Base(entry.Name), ".") || strings.HasPrefix(entry.Name, "__MACOSX/")
		if _, twice := o.archive.entries[entry.Name]; twice || hidden || entry.FileInfo().IsDir() {
			continue
		}
		o.archive.entries[entry.Name] = entry
		paths = append(paths, entry.Name)
	}
	if len(paths) == 0 {
		return nil, &trace.SyntaxError{File: name, Msg: "the archive is empty", Cure: supported()}
	}
	return openFiles(paths, name, o)
}

// open opens a file of the file system, or of the archive.
func (o Options) open(path string) (io.ReadCloser, error) {
	var f io.ReadCloser
	var err error
	if o.archive == nil {
		f, err = os.Open(path)
	} else {
		f, err = o.archive.entries[path].Open()
	}
	if err != nil {
		return nil, &trace.SyntaxError{File: o.nameOf(path), Msg: "cannot open", Err: err}
	}
	return f, nil
}

// nameOf is what to call the file at a path.
func (o Options) nameOf(path string) string {
	if o.archive == nil {
		return path
	}
	return o.archive.path + ":" + path
}
