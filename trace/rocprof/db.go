package rocprof

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/session"
	"github.com/overlapse/overlapse/trace/sqldb"
)

// HasTables reports whether ReadDB reads a database with these tables.
func HasTables(tables []string) bool { return dbKind(tables) != nil }

// ReadDB reads a database: rocpd, which rocprofv3 writes by default, RPD of
// rocmProfileData, or results.db of rocprof v1. Times are nanoseconds.
func ReadDB(db *sqldb.DB) (*trace.Run, error) {
	read := dbKind(db.Tables())
	if read == nil {
		return nil, &trace.SyntaxError{
			File: db.File, Msg: "no database of rocprof: it has the tables " + shorten(strings.Join(db.Tables(), ", ")),
			Cure: "give one of rocprofv3, rocmProfileData or rocprof",
		}
	}
	d := &dbReader{Session: session.New(db.File), db: db}
	read(d)
	if d.err != nil {
		return nil, d.err
	}
	if d.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{File: db.File, Msg: "no kernel, copy or call in the database", Err: ErrNoTimes, Cure: "profile with rocprofv3 --kernel-trace, or --sys-trace"}
	}
	return d.Finish(0), nil
}

// A dbReader reads a database into a session. After an error, nothing.
type dbReader struct {
	*session.Session
	db  *sqldb.DB
	err error
}

// dbKind returns the reader of a database with these tables, or nil.
func dbKind(tables []string) func(*dbReader) {
	has := map[string]bool{}
	for _, t := range tables {
		has[t] = true
		if strings.HasPrefix(t, dispatchTable) {
			return (*dbReader).rocpd
		}
	}
	switch {
	case has["rocpd_op"]:
		return (*dbReader).rpd
	case has["OPS"] || has["KERN"]:
		return (*dbReader).v1
	}
	return nil
}

func shorten(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// each calls f for every row of a table; see sqldb.DB.Each.
func (d *dbReader) each(table string, columns []string, f func(sqldb.Row)) {
	if d.err == nil {
		d.err = d.db.Each(table, columns, f)
	}
}

// timed is each for rows with a start and an end in the first two columns.
// What f returns is whether times were good.
func (d *dbReader) timed(table string, columns []string, f func(r sqldb.Row, start, end trace.Time)) {
	d.each(table, columns, func(r sqldb.Row) {
		start, end, ok, bad := r.Time(0, 1)
		if !ok {
			d.Builder.Note(trace.Skipped, d.Name, table+": start or end is no time", "row", r.Number)
			return
		}
		if bad {
			d.Builder.Note(trace.Repaired, d.Name, table+": "+session.EndsEarly, "row", r.Number)
		}
		f(r, start, end)
	})
}

// texts reads a table of numbered strings.
func (d *dbReader) texts(table string) map[int64]string {
	texts := map[int64]string{}
	d.each(table, []string{"id", "string"}, func(r sqldb.Row) { texts[r.Int(0)] = r.Text(1) })
	return texts
}

// A namer interns strings of a table once they are used.
type namer struct {
	b     *trace.Builder
	texts map[int64]string
	names map[int64]trace.NameID
}

func (d *dbReader) namer(texts map[int64]string) namer {
	return namer{&d.Builder, texts, map[int64]trace.NameID{}}
}

func (n namer) of(id int64) trace.NameID {
	name, ok := n.names[id]
	if !ok {
		name = n.b.Intern(n.texts[id])
		n.names[id] = name
	}
	return name
}
