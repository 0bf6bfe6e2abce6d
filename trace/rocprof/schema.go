package rocprof

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pierrec/lz4/v4"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// required are the columns without which rows of a table mean nothing. One of several that stand
// together is enough: schema 4.1 has a track instead of process, agent, queue and stream.
var required = map[string][]string{
	dispatchTable:       {"start", "end", "kernel_id", "pid track_id", "agent_id track_id", "queue_id track_id"},
	"rocpd_memory_copy": {"start", "end", "size", "src_agent_id", "dst_agent_id", "pid track_id"},
	"rocpd_region":      {"start", "end", "name_id", "event_id", "pid track_id", "tid track_id"},
	"rocpd_event":       {"id", "stack_id"},
	"rocpd_string":      {"id", "string"},
	hipEventTable:       {"start", "end", "queue_id", "source_queue_id", "event_id"},
}

// check returns an error about a version of the schema that is not known, or a missing column.
func (g *rocpdReader) check() error {
	version := ""
	g.Each("rocpd_metadata"+g.suffix, []string{"tag", "value"}, func(r lex.Row) {
		if r.Text(0) == "schema_version" {
			version = r.Text(1)
		}
	})
	fail := func(msg string) error {
		return &trace.SyntaxError{
			File: g.Name, Msg: fmt.Sprintf("%s (schema_version %.20q of rocpd)", msg, version),
			Cure: "convert it with its own ROCm: rocpd convert -i FILE --output-format pftrace",
		}
	}
	if major, _, _ := strings.Cut(version, "."); g.Err == nil && version != "" && major != "3" && major != "4" {
		return fail("a version that is not known: 3 and 4 are")
	}
	for _, table := range g.DB.Tables() {
		name, ok := strings.CutSuffix(table, g.suffix)
		if !ok {
			continue
		}
		columns := g.DB.Columns(table)
		for _, either := range required[name] {
			if !slices.ContainsFunc(strings.Fields(either), func(c string) bool { return slices.Contains(columns, c) }) {
				return fail(fmt.Sprintf("table %s has no column %s", table, strings.ReplaceAll(either, " ", " or ")))
			}
		}
		if tracks := "rocpd_track" + g.suffix; required[name] != nil && slices.Contains(columns, "track_id") &&
			g.DB.Columns(tracks) == nil {
			return fail(fmt.Sprintf("table %s, of the column track_id, is missing", tracks))
		}
	}
	return g.Err
}

// A rocpdTrack is where a record belongs. In schema 4.1, records refer to a row of rocpd_track; before that,
// they have its columns.
type rocpdTrack struct {
	process, agent        int32 // rows; agent may be trace.None
	thread, queue, stream int64
}

// trackColumns are the columns 2 to 7 of every record.
var trackColumns = []string{"track_id", "pid", "tid", "agent_id", "queue_id", "stream_id"}

// trackOf is the track of a row with trackColumns.
func (g *rocpdReader) trackOf(r lex.Row) rocpdTrack {
	if t, ok := g.tracks[r.Int(2)]; ok && !r.Null(2) {
		return t
	}
	process := g.processOf(r.Int(3))
	return rocpdTrack{process, g.agentOf(r, 5, process), r.Int(4), r.Int(6), r.Int(7)}
}

// plain is extdata, which one writer compresses.
func plain(extdata string) string {
	const most = 1 << 20
	if !strings.HasPrefix(extdata, "\x04\x22\x4d\x18") {
		return extdata
	}
	text, err := io.ReadAll(io.LimitReader(lz4.NewReader(strings.NewReader(extdata)), most))
	if err != nil {
		return ""
	}
	return string(text)
}
