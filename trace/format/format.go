// Package format opens traces of any format: it undoes compression, recognises
// the format by the first bytes, and calls its reader. A folder or a pattern is
// one run with one file a rank. The formats are the rows of one table.
//
// Files in the order in which a path meets them:
//
//	open.go        opens a path; folder.go looks for files; parts.go groups those of a process
//	companion.go   takes out execution traces and captures of graphs, and gives them to the run
//	archive.go     files of archives; bounded.go, how much may be read; input.go, a file without its compression
//	format.go      the table of formats; database.go reads databases
//	intra.go       lifts timelines of workgroups from traces of other tools
package format

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/chakra"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/perfetto"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// Options of Open. The zero value is ready to use.
type Options struct {
	Stdin   io.Reader       // the input for the path -
	Context context.Context // ends reading; nil: nothing does
	Limit   int64           // most bytes to read of all files together, once inflated; 0: 32 GiB

	// SkipBad is called with the error of each file of several that cannot be
	// read, which is then left out; where it is nil the first one is Open's error.
	SkipBad func(error)

	Progress *Progress // is told how far Open is; nil: nobody asks

	formats    []format // the table
	budget     *budget
	alone      bool // no other file is read at the same time
	companions *companions
	root       string   // the folder that files were found below, "" where they lie in it
	archive    *archive // what paths lie in, if not in the file system
}

// begin is the options of one Open, with its budget and the table.
func (o Options) begin() Options {
	if o.budget == nil {
		o.budget = &budget{Context: cmp.Or(o.Context, context.Background()), limit: cmp.Or(o.Limit, defaultLimit)}
	}
	if o.formats == nil {
		o.formats = table()
	}
	return o
}

// A format is one row of the table of what files are. A new reader is a folder
// and a row.
type format struct {
	name       string                              // for people, with the extensions
	of         string                              // the same in a list of what can be read, once for several rows; "": name
	extensions []string                            // of files in a folder that may be this
	sniff      func(head []byte, file string) bool // by the first bytes, without compression, or by the name

	read      func(in *input) (*trace.Run, error)                                      // nil where there is only a cure or execution
	execution func(r io.Reader, file string, limit int64) (*assemble.Execution, error) // of an execution trace, beside a profile

	cure  string // where read is nil; FILE is replaced with the name of the file
	cause error  // of the error then
}

// sniffSize is how much of a file sniffing looks at.
const sniffSize = 4096

// table is in order of looking.
func table() []format {
	return []format{
		{name: "web page", sniff: starts("<"), cure: "download the raw file instead of the web page"},
		{
			name: "zip archive of these (.zip)", of: "archives", extensions: []string{".zip"},
			sniff: starts("PK\x03\x04", "PK\x05\x06"), read: readZip,
		},
		{name: "waves of a thread trace (occupancy.json)", of: "rocprof", sniff: matches(occupancyList), read: readOccupancy},
		{name: "part of a thread trace without the rest", sniff: matches(threadTraceKeys), cure: "give the folder that contains it"},
		{name: "rocprofv3 (.json)", of: "rocprof", extensions: []string{".json"}, sniff: isRocprofJSON, read: plain(rocprof.ReadJSON)},
		{name: "execution trace beside its Kineto file (.json)", of: "PyTorch", sniff: isExecutionJSON, execution: chrome.ReadExecution},
		{
			name: "execution trace of Chakra, with durations or beside its Kineto file (.et)", of: "Chakra", extensions: []string{".et"},
			sniff:     func(head []byte, _ string) bool { return chakra.IsTrace(head) },
			execution: func(r io.Reader, file string, _ int64) (*assemble.Execution, error) { return chakra.Read(r, file) },
			read:      plain(chakra.ReadRun),
		},
		{
			name: "Chrome trace events or PyTorch profiler (.json, .json.gz)", of: "PyTorch",
			extensions: []string{".json", ".jsonl", ".ndjson", ".chrome_trace"}, sniff: starts("{", "["), read: readChrome,
		},
		{
			name: "workgroup trace (*_wg_trace.csv)", of: "workgroups (*_wg_trace.csv)",
			extensions: []string{".csv"}, sniff: header("workgroup_id"), read: plain(rocprof.ReadWG),
		},
		{name: "tar archive of these (.tar, .tar.gz, .tgz)", of: "archives", extensions: []string{".tar", ".tgz"}, sniff: isTar, read: readTar},
		{
			name: "rocprof of any version (.csv)", of: "rocprof", extensions: []string{".csv"},
			sniff: func(head []byte, _ string) bool { return rocprof.IsCSV(head) }, read: readRocprofCSV,
		},
		{
			name: "rocpd, rocmProfileData or Nsight Systems (.db, .rpd, .sqlite)", of: "rocpd, rocmProfileData, Nsight Systems",
			extensions: []string{".db", ".rpd", ".sqlite", ".sqlite3"}, sniff: starts("SQLite format 3\x00"), read: readDatabase,
		},
		{name: "XLA, JAX (.xplane.pb)", of: "JAX", extensions: []string{".xplane.pb"}, sniff: isXPlane, read: plain(perfetto.ReadXPlane)},
		{
			name: "Perfetto (.pftrace)", of: "Perfetto",
			extensions: []string{".pftrace", ".perfetto-trace", ".proto"}, sniff: isProtobuf, read: readPerfetto,
		},
		{
			name: "report of Nsight Systems (.nsys-rep, .qdrep)", sniff: named(".nsys-rep", ".qdrep"),
			cure: "nsys export --type sqlite --include-json true FILE", cause: errUnknown,
		},
	}
}

// named returns a sniff for files whose names end so.
func named(extensions ...string) func([]byte, string) bool {
	return func(_ []byte, file string) bool {
		return slices.ContainsFunc(extensions, func(e string) bool { return strings.HasSuffix(file, e) })
	}
}

// matches returns a sniff for what a pattern finds.
func matches(pattern *regexp.Regexp) func([]byte, string) bool {
	return func(head []byte, _ string) bool { return pattern.Match(head) }
}

// starts returns a sniff for what begins with one of the words after white space.
func starts(words ...string) func([]byte, string) bool {
	return func(head []byte, _ string) bool {
		head = bytes.TrimPrefix(head, []byte("\ufeff"))
		return slices.ContainsFunc(words, func(w string) bool {
			return bytes.HasPrefix(head, []byte(w)) || bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte(w))
		})
	}
}

// header returns a sniff for CSV whose first line has the column, in lower case.
func header(column string) func([]byte, string) bool {
	return func(head []byte, _ string) bool {
		line, _, _ := bytes.Cut(bytes.ToLower(head), []byte("\n"))
		return slices.ContainsFunc(bytes.Split(line, []byte(",")), func(f []byte) bool {
			return string(bytes.Trim(f, "\" \t\r\ufeff")) == column
		})
	}
}

// isTar looks for the word that a tar archive has in its first header.
func isTar(head []byte, _ string) bool {
	const at = 257
	return len(head) > at+5 && string(head[at:at+5]) == "ustar"
}

// isProtobuf looks for what every Perfetto trace begins with, the tag of a
// packet, and for bytes that no text has.
func isProtobuf(head []byte, _ string) bool {
	return len(head) > 1 && head[0] == 0x0a && bytes.ContainsFunc(head[1:min(len(head), 64)], func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t'
	})
}

// isXPlane looks for what every profile of XLA begins with: a plane, whose first fields are its number and its name.
func isXPlane(head []byte, file string) bool {
	number := func() {
		_, n := binary.Uvarint(head[1:])
		head = head[min(len(head), 1+max(n, 1)):]
	}
	if !isProtobuf(head, file) {
		return false
	}
	number()
	if len(head) > 1 && head[0] == 0x08 {
		number()
	}
	return len(head) > 2 && head[0] == 0x12 && starts("/host:", "/device:", "Task Environment")(head[2:], file)
}

// isRocprofJSON looks for the one member of the file's object.
func isRocprofJSON(head []byte, file string) bool {
	return starts("{")(head, file) && bytes.Contains(head, []byte(`"rocprofiler-sdk-tool"`))
}

// isExecutionJSON looks for a schema and nodes before any event.
func isExecutionJSON(head []byte, file string) bool {
	before, _, _ := bytes.Cut(head, []byte(`"traceEvents"`))
	return starts("{")(head, file) && bytes.Contains(before, []byte(`"schema"`)) && bytes.Contains(before, []byte(`"nodes"`))
}

// plain returns the reader of a format that needs no more than the text of a file and its name.
func plain(read func(r io.Reader, file string) (*trace.Run, error)) func(*input) (*trace.Run, error) {
	return func(in *input) (*trace.Run, error) { return read(in.text(), in.name) }
}

func readRocprofCSV(in *input) (*trace.Run, error) {
	return rocprof.ReadCSV(in.name, rocprof.File{Name: in.name, R: in.text()})
}

func readPerfetto(in *input) (*trace.Run, error) {
	packed := in.inflation()
	run, err := perfetto.Read(in.text(), in.name, func(r io.Reader, size int) io.Reader {
		packed.in.Add(int64(size))
		return in.bounded(packed.check(r))
	})
	if err != nil {
		return nil, err
	}
	return liftStamps(run), nil
}

func readChrome(in *input) (*trace.Run, error) {
	options := chrome.Options{File: in.name, Limit: in.budget.limit, Part: in.part, Unmatched: !in.alone}
	if in.Progress != nil {
		options.Events = &in.Progress.Events
	}
	if in.companions != nil {
		options.Companion = in.companions.of
	}
	run, err := chrome.Read(in.text(), options)
	if err != nil {
		return nil, err
	}
	return liftStamps(run), nil
}

// supported lists what can be read.
func (o Options) supported() string {
	var names []string
	for _, f := range o.formats {
		if of := cmp.Or(f.of, f.name); (f.read != nil || f.execution != nil) && !slices.Contains(names, of) {
			names = append(names, of)
		}
	}
	return "overlapse reads " + strings.Join(names, ", ") + "; see trace/FORMATS.md"
}

// mayBeTrace reports whether the name ends like that of a trace.
func (o Options) mayBeTrace(name string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".gz")
	return slices.ContainsFunc(o.formats, func(f format) bool {
		return slices.ContainsFunc(f.extensions, func(e string) bool { return strings.HasSuffix(name, e) })
	})
}

// isNoTrace reports whether the error is about a file that is no trace.
func isNoTrace(err error) bool { return errors.As(err, new(trace.NoTrace)) }
