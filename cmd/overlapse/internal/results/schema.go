package results

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
)

// What programs read
//
// schema.go writes what programs read: JSON and CSV, with the version of their fields
// (SCHEMA.md), and the table of kernels, collectives and copies.

// Version is that of the JSON and CSV that commands write (SCHEMA.md). A field that
// is removed or renamed, or whose type or meaning changes, raises it; a new one does not.
const Version = 6

// mostResult is the largest result.json that is read, in bytes.
const mostResult = 256 << 20

// Read reads a result.json: what it has of a Replayed.
func Read(file string) (*Replayed, error) {
	f, err := guard.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r Replayed
	err = json.NewDecoder(io.LimitReader(f, mostResult)).Decode(&r)
	if r.Schema > 0 && r.Schema != Version {
		return nil, fmt.Errorf("%s: has schema %d, this overlapse reads %d (read it with the overlapse that wrote it)",
			file, r.Schema, Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}

// A Span is a kernel, collective or copy of spans.csv.gz and of export.
type Span struct {
	Run        string `json:"run"` // measured, estimated, or a strategy with its settings
	Rank       int64  `json:"rank"`
	Stream     string `json:"stream"`
	Kind       string `json:"kind"` // compute, collective, copy, or transfer: sent by a kernel from inside, on a link
	Name       string `json:"name"`
	Start      int64  `json:"start_ns"` // since the first event of the run
	Duration   int64  `json:"duration_ns"`
	Workgroups *int64 `json:"workgroups,omitempty"` // where it is known
	Collective string `json:"collective,omitempty"` // all_reduce; "": none
	Bytes      *int64 `json:"bytes,omitempty"`      // of a collective or copy, where they are known
}

// Spans are the kernels, collectives and copies of runs, and what kernels put on links from inside, each in order of start.
func Spans(name func(*trace.Run) string, runs ...*trace.Run) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for _, run := range runs {
			for _, s := range run.Spans {
				sent := s.Kind == trace.Transfer && run.Lanes[s.Lane].Kind == trace.Link
				if (sent || s.Kind.OnDevice()) && !yield(spanRowOf(guard.Line(name(run)), run, s)) {
					return
				}
			}
		}
	}
}

func spanRowOf(name string, run *trace.Run, s trace.Span) Span {
	row := Span{
		Run: name, Rank: int64(run.RankID(int32(run.RankOf(s)))), Stream: guard.Line(run.LaneLabel(s.Lane)), Kind: s.Kind.String(),
		Name: guard.Line(run.NameOf(s)), Start: int64(s.Start), Duration: int64(s.Dur()),
	}
	if setup := run.Setup(run.Kernel(s)); setup.WGs() > 0 {
		n := int64(setup.WGs())
		row.Workgroups = &n
	}
	if x := run.Comm(s); x != nil {
		n := x.Bytes()
		row.Collective, row.Bytes = x.Op.String(), &n
	}
	if x := run.Copy(s); x != nil && x.Bytes > 0 {
		row.Bytes = &x.Bytes
	}
	return row
}

// WriteJSON writes indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(guard.JSON(w))
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteTableCSV writes rows of a struct as CSV, of which the columns are the fields of its JSON. A field that JSON
// may omit is empty then.
func WriteTableCSV[T any](w io.Writer, rows iter.Seq[T]) error {
	var head []any
	var optional []bool
	for f := range reflect.TypeFor[T]().Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		head, optional = append(head, name), append(optional, options == "omitempty")
	}
	return WriteCSV(w, func(yield func([]any) bool) {
		more := yield(head)
		for row := range rows {
			cells := make([]any, len(head))
			for i, v := 0, reflect.ValueOf(row); i < len(head); i++ {
				switch f := v.Field(i); {
				case optional[i] && f.IsZero():
				case f.Kind() == reflect.Pointer:
					cells[i] = f.Elem().Interface()
				default:
					cells[i] = f.Interface()
				}
			}
			if more = more && yield(cells); !more {
				return
			}
		}
	})
}

// WriteCSV writes lines as CSV, the head first. Nil is an empty cell. A text that a spreadsheet would take for a formula gets an
// apostrophe in front, as spreadsheets mark text.
func WriteCSV(w io.Writer, lines iter.Seq[[]any]) error {
	c := csv.NewWriter(guard.Writer(w))
	for line := range lines {
		cells := make([]string, len(line))
		for i, cell := range line {
			switch x := cell.(type) {
			case nil:
			case float64:
				cells[i] = strconv.FormatFloat(x, 'g', 6, 64)
			default:
				cells[i] = fmt.Sprint(x)
			}
			if text := cells[i]; text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
				if _, err := strconv.ParseFloat(text, 64); err != nil {
					cells[i] = "'" + text
				}
			}
		}
		_ = c.Write(cells) // Error returns the first error
	}
	c.Flush()
	return c.Error()
}

// An Inspected is the JSON form.
type Inspected struct {
	Schema   int                  `json:"schema"`
	Workload workload.Summary     `json:"workload"`
	Metrics  overlap.Metrics      `json:"metrics"`
	Times    []overlap.Times      `json:"iteration"`            // what one consists of, by rank row; empty where phases are answered apart
	Late     *overlap.LateRank    `json:"waited_for,omitempty"` // by the other ranks
	Phases   []phase              `json:"phases,omitempty"`     // where they are answered apart
	Better   []improvement        `json:"better"`               // captures: what this one lacks, best first
	Flows    workload.FlowSummary `json:"dependencies"`
	Spans    map[string]int       `json:"spans"` // by kind
	Ledger   []ledgerEntry        `json:"ledger"`
	LeftOut  leftOut              `json:"left_out"`
}

// A phase is the steps of one phase in the JSON form.
type phase struct {
	plan.PhaseTime
	Times []overlap.Times   `json:"iteration"` // what the median step consists of, by rank row
	Late  *overlap.LateRank `json:"waited_for,omitempty"`
}

// maxListed bounds the lists of the JSON form that grow with the trace.
const maxListed = 10_000

// leftOut counts the elements of metrics beyond maxListed, which are not listed.
// Sums and tables include them.
type leftOut struct {
	Collectives  int `json:"collectives"`
	CriticalPath int `json:"critical_path_steps"`
}

// truncateList cuts a list to maxListed elements and returns the number that it cut.
func truncateList[T any](list *[]T) (more int) {
	if more = len(*list) - maxListed; more <= 0 {
		return 0
	}
	*list = slices.Clone((*list)[:maxListed])
	return more
}

type ledgerEntry struct {
	Action    string  `json:"action"`
	File      string  `json:"file"`
	Reason    string  `json:"reason"`
	Count     int     `json:"count"`
	Unit      string  `json:"unit"`
	Positions []int64 `json:"positions"` // of the first
}
