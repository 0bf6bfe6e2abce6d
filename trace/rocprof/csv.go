package rocprof

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// A File is one of the files that a profiler wrote for one process.
type File struct {
	Name string
	R    io.Reader
}

// ReadCSV reads the CSV files of one process: kernels, copies, API calls,
// markers, memory events and descriptions of agents, as rocprof v1, rocprofv2
// and every generation of rocprofv3 write them, or rocpd after it. What a file
// has follows from its header. Times are nanoseconds; grids are in work-items
// and become workgroups.
//
// CSV files have no bytes of copies, and no operation of RCCL's kernels: that is
// taken from the calls of RCCL if their file is among the files.
//
// Statistics, which have no times, are noted in the ledger and otherwise
// ignored. Rows that cannot be used are skipped, and times that contradict
// each other repaired, with an entry in the ledger. It is an error if no file
// has anything with a time.
func ReadCSV(name string, files ...File) (*trace.Run, error) {
	s := newSession(name)
	cure := "give the kernel trace of the same process"
	var spans windows
	for _, f := range files {
		t, err := newTable(f.R, f.Name)
		if err != nil {
			return nil, err
		}
		k := kindOf(t)
		if k == nil && len(files) > 1 {
			s.Builder.Note(trace.Noted, f.Name, "ignored: not a known table", "", 0)
			continue
		}
		if k == nil {
			return nil, t.fail("give CSV files of rocprof, rocprofv2 or rocprofv3", "not a known table; the header is %.300q",
				strings.Join(t.header, ","))
		}
		if k.read == nil {
			s.Builder.Note(trace.Noted, f.Name, k.name+": it has no times", "", 0)
			cure = k.cure
			continue
		}
		r := csvReader{Session: s, t: t, group: name}
		r.columns = findColumns(t)
		first := s.Builder.Len()
		err = t.each(&s.Builder, func() {
			s.Record = assemble.Record{File: t.file, Unit: "line", At: t.line}
			k.read(&r)
		})
		if err != nil {
			return nil, err
		}
		r.kernels.noteMissing(&s.Builder, t.file, "line", t.line)
		addHIPEvents(s, r.events)
		if err := spans.add(&s.Builder, first, f.Name); err != nil {
			return nil, err
		}
	}
	if s.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{File: name, Msg: "no kernel, copy or call", Cure: cure, Err: noTimes}
	}
	return s.Finish(0), nil
}

// mostApart is the largest accepted distance between the times of files of one process.
const mostApart = trace.Time(time.Hour)

// windows are the times that files of one process cover.
type windows struct {
	any         bool
	file        string // the first
	first, last trace.Time
}

// add takes in the spans from the given one on, which a file had. It is an
// error if they are of another time.
func (w *windows) add(b *trace.Builder, from int, file string) error {
	if from == b.Len() {
		return nil
	}
	first, last := b.Span(trace.SpanID(from)).Start, trace.Time(0)
	for i := from; i < b.Len(); i++ {
		s := b.Span(trace.SpanID(i))
		first, last = min(first, s.Start), max(last, s.End)
	}
	if !w.any {
		*w = windows{true, file, first, last}
		return nil
	}
	if gap := max(first-w.last, w.first-last); gap > mostApart {
		return &trace.SyntaxError{
			File: file,
			Msg:  fmt.Sprintf("its times are %v from those of %s: they are not of one process", time.Duration(gap), w.file),
			Cure: "give the files of one process",
		}
	}
	w.first, w.last = min(w.first, first), max(w.last, last)
	return nil
}

// A csvKind is a kind of CSV file, recognised by columns that no other kind has.
type csvKind struct {
	name    string
	columns []string // in lower case
	read    func(r *csvReader)
	cure    string // where read is nil
}

// csvKinds is in order of looking.
func csvKinds() []csvKind {
	return []csvKind{
		{"counters of kernels", []string{"counter_name", "kernel_name", "start_timestamp", "end_timestamp"}, (*csvReader).counters, ""},
		{"kernels", []string{"kernel_name", "start_timestamp", "end_timestamp"}, (*csvReader).kernel, ""},
		{"kernels of rocprofv2's HCC operations", []string{"kernel_name", "start_timestamp", "stop_timestamp"}, (*csvReader).kernel, ""},
		{"kernels of rocprof v1", []string{"kernelname", "beginns", "endns"}, (*csvReader).kernel, ""},
		{"HIP events", []string{"source_queue_id", "start_timestamp", "end_timestamp"}, (*csvReader).event, ""},
		{"copies", []string{"direction", "start_timestamp", "end_timestamp"}, (*csvReader).copied, ""},
		{"copies of rocprofv2", []string{"operation", "start_timestamp", "stop_timestamp"}, (*csvReader).copied, ""},
		{"API calls", []string{"function", "start_timestamp", "end_timestamp"}, (*csvReader).called, ""},
		{"markers of rocprofv2", []string{"roctx_id", "message", "timestamp"}, (*csvReader).marked, ""},
		{"memory events", []string{"operation", "start_timestamp", "end_timestamp"}, (*csvReader).memory, ""},
		{"agents", []string{"node_id", "agent_type"}, (*csvReader).agent, ""},
		{
			"statistics",
			[]string{"name", "calls", "totaldurationns"},
			nil,
			"give the trace that the statistics are of: *_kernel_trace.csv, or results.csv of rocprof --timestamp on",
		},
		{"kernels without times", []string{"kernelname"}, nil, "profile again with rocprof --timestamp on"},
		{"counters without times", []string{"counter_name"}, nil, "profile again with rocprofv3 --kernel-trace"},
		{"program counter samples", []string{"sample_timestamp"}, nil, "profile again with rocprofv3 --kernel-trace"},
		{"instruction statistics of a thread trace", []string{"codeobj", "hitcount"}, nil, "give the folder ui_output_* beside it"},
	}
}

func kindOf(t *table) *csvKind {
	for _, k := range csvKinds() {
		if !slices.ContainsFunc(k.columns, func(c string) bool { return !t.has(c) }) {
			return &k
		}
	}
	return nil
}

// IsCSV reports whether the first line of a file is the header of a table that
// ReadCSV knows.
func IsCSV(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	t, err := newTable(bytes.NewReader(line), "")
	return err == nil && kindOf(t) != nil
}

// Stem is the part of a path that all files of one process share: host/1234 of
// host/1234_kernel_trace.csv and of host/1234_results.db. ok is false for a
// name that is not like those that the profilers give.
func Stem(file string) (stem string, ok bool) {
	dir, base := path.Split(file)
	base = strings.TrimSuffix(base, ".gz")
	base, ext, _ := strings.Cut(base, ".") // results.stats.csv of rocprof v1 has more than one
	switch ext[strings.LastIndexByte(ext, '.')+1:] {
	case "csv", "json", "db", "pftrace":
	default:
		return "", false
	}
	m := ofProcess.FindStringSubmatch(base)
	if m == nil {
		return "", false
	}
	return dir + m[1] + m[2], true
}

// ofProcess is the names of files of one process: what it is called stands before what the file has or, in rocprofv2's, behind.
var ofProcess = regexp.MustCompile(`^(?:(.*)_)?(?:results|counter_collection|agent_info|(?:domain|kernel|memory_copy|(?:hip|hsa|marker|rccl)_api)_stats|` +
	`(?:kernel|memory_copy|memory_allocation|scratch_memory|(?:hip|hsa|marker|rccl|rocdecode|rocjpeg)_api|hip|hip_event|hsa|marker|rccl)_trace)$|` +
	`^(?:results|(?:hip_api|hsa_api|hcc_ops|async_copy|roctx)_trace)_(.*)$`)
