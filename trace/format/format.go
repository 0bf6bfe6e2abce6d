// Package format opens whatever a user has: it looks at the first bytes of a
// file, undoes compression, and hands it to the reader of its format. A folder
// or a pattern is a run with a file a rank.
package format

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/intra"
	"github.com/overlapse/overlapse/trace/perfetto"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// Options of Open. The zero value is ready to use.
type Options struct {
	Stdin      io.Reader // what the path - stands for
	KeepPython bool      // keep frames of Python functions
	Limit      int64     // most bytes to read of all files together, once inflated; 0 stands for 32 GiB

	// SkipBad is called with the error of each file of several that cannot be
	// read, which is then left out; where it is nil the first one is Open's error.
	SkipBad func(error)

	budget     *budget
	alone      bool // no other file is read at the same time
	companions *companions
	root       string   // the folder that files were found below, "" where they lie in it
	archive    *archive // what paths lie in, if not in the file system
}

// begin is the options of one Open, with its budget.
func (o Options) begin() Options {
	if o.budget == nil {
		o.budget = &budget{limit: cmp.Or(o.Limit, defaultLimit)}
	}
	return o
}

// A format is one row of the table of what files are.
type format struct {
	name  string
	sniff func(head []byte) bool // head: the first bytes, without compression
	read  func(r io.Reader, file string, o Options) (*trace.Run, error)
	cure  string // where read is nil
}

// sniffSize is how much of a file sniffing looks at.
const sniffSize = 4096

// table is in order of looking.
func table() []format {
	return []format{
		{name: "web page", sniff: starts("<"), cure: "download the raw file instead of the page that shows it"},
		{name: "waves of a thread trace (occupancy.json)", sniff: occupancyList.Match, read: readOccupancy},
		{name: "part of a thread trace without the rest", sniff: isThreadTracePart, cure: "give the folder that it lies in"},
		{name: "rocprofv3 (.json)", sniff: isRocprofJSON, read: readRocprofJSON},
		{name: "execution trace beside its Kineto file (.json, .et)", sniff: isExecution, read: aloneExecution},
		{name: "Chrome trace events or PyTorch profiler (.json, .json.gz)", sniff: starts("{", "["), read: readChrome},
		{name: "workgroup trace (*_wg_trace.csv)", sniff: header("workgroup_id"), read: readWG},
		{name: "tar archive of these (.tar, .tar.gz, .tgz)", sniff: isTar, read: readTar},
		{name: "rocprof of any version (.csv)", sniff: rocprof.IsCSV, read: readRocprofCSV},
		{name: "rocpd, rocmProfileData or Nsight Systems (.db, .rpd, .sqlite)", sniff: starts(sqliteMagic), read: loadDatabase},
		{name: "Perfetto (.pftrace)", sniff: isProtobuf, read: readPerfetto},
	}
}

// starts returns a sniff for what begins with one of the words after white space.
func starts(words ...string) func([]byte) bool {
	return func(head []byte) bool {
		head = bytes.TrimPrefix(head, []byte("\ufeff"))
		return slices.ContainsFunc(words, func(w string) bool {
			return bytes.HasPrefix(head, []byte(w)) || bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte(w))
		})
	}
}

// header returns a sniff for CSV whose first line has the column, in lower case.
func header(column string) func([]byte) bool {
	return func(head []byte) bool {
		line, _, _ := bytes.Cut(bytes.ToLower(head), []byte("\n"))
		return slices.ContainsFunc(bytes.Split(line, []byte(",")), func(f []byte) bool {
			return string(bytes.Trim(f, "\" \t\r\ufeff")) == column
		})
	}
}

// isTar looks for the word that a tar archive has in its first header.
func isTar(head []byte) bool {
	const at = 257
	return len(head) > at+5 && string(head[at:at+5]) == "ustar"
}

// isProtobuf looks for what every Perfetto trace begins with, the tag of a
// packet, and for bytes that no text has.
func isProtobuf(head []byte) bool {
	return len(head) > 1 && head[0] == 0x0a && bytes.ContainsFunc(head[1:min(len(head), 64)], func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t'
	})
}

// isRocprofJSON looks for the one member of the file's object.
func isRocprofJSON(head []byte) bool {
	return starts("{")(head) && bytes.Contains(head, []byte(`"rocprofiler-sdk-tool"`))
}

func readRocprofJSON(r io.Reader, file string, _ Options) (*trace.Run, error) {
	return rocprof.ReadJSON(r, file)
}

func readRocprofCSV(r io.Reader, file string, _ Options) (*trace.Run, error) {
	return rocprof.ReadCSV(file, rocprof.File{Name: file, R: r})
}

func readPerfetto(r io.Reader, file string, o Options) (*trace.Run, error) {
	packed := o.inflation()
	run, err := perfetto.Read(r, file, func(r io.Reader, size int) io.Reader {
		packed.in.Add(int64(size))
		return o.bounded(packed.check(r))
	})
	if err != nil {
		return nil, err
	}
	return intra.Lift(run), nil
}

func readWG(r io.Reader, file string, _ Options) (*trace.Run, error) {
	return rocprof.ReadWG(r, file)
}

func readChrome(r io.Reader, file string, o Options) (*trace.Run, error) {
	options := chrome.Options{File: file, KeepPython: o.KeepPython, Limit: o.budget.limit}
	if o.companions != nil {
		options.Companion = o.companions.of
	}
	run, err := chrome.Read(r, options)
	if err != nil {
		return nil, err
	}
	return intra.Lift(run), nil
}

// supported lists what can be read.
func supported() string {
	var names []string
	for _, f := range table() {
		if f.read != nil {
			names = append(names, f.name)
		}
	}
	return "overlapse reads " + strings.Join(names, ", ")
}
