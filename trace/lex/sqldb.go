package lex

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/overlapse/overlapse/trace"
)

// Databases
//
// The functions of this file read tables of SQLite databases that profilers wrote. Columns
// come and go between their versions: one that a table lacks reads as NULL.
//
// The SQL of a file is untrusted: ordinary tables are read, but no views,
// virtual tables or generated columns.

// A DB is an open database. Close it.
type DB struct {
	File string // what errors call it

	conn   *sqlite.Conn
	tables map[string][]string // columns in lower case, by name of the table
	names  []string            // of tables, sorted
}

// Open opens the database file at a path. It is not written to.
func Open(path string) (*DB, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, &trace.SyntaxError{File: path, Msg: "cannot open the database", Err: err}
	}
	return prepare(conn, path)
}

// Load reads a database from a stream into memory, and calls it file in errors.
func Load(r io.Reader, file string) (*DB, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, &trace.SyntaxError{File: file, Pos: int64(len(data)), Unit: "byte", Msg: "read failed", Err: err}
	}
	if want := size(data); int64(len(data)) < want {
		return nil, &trace.SyntaxError{
			File: file, Pos: int64(len(data)), Unit: "byte", Cure: "copy it again",
			Msg: fmt.Sprintf("the database is cut short: %d of %d bytes", len(data), want),
		}
	}
	const format = 18 // offset of the versions of the format to write and to read
	if len(data) > format+1 && data[format] == 2 && data[format+1] == 2 {
		data[format], data[format+1] = 1, 1 // a write-ahead log cannot be in memory
	}
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenMemory)
	if err != nil {
		return nil, &trace.SyntaxError{File: file, Msg: "cannot open the database", Err: err}
	}
	if err := conn.Deserialize("main", data); err != nil {
		conn.Close()
		return nil, &trace.SyntaxError{File: file, Msg: "cannot open the database", Err: err}
	}
	return prepare(conn, file)
}

// size is the length of a database from its header, or 0 if the header lacks it.
func size(data []byte) int64 {
	if len(data) < 100 || string(data[24:28]) != string(data[92:96]) { // written by something before SQLite 3.7
		return 0
	}
	page := int64(binary.BigEndian.Uint16(data[16:]))
	if page == 1 {
		page = 1 << 16
	}
	return page * int64(binary.BigEndian.Uint32(data[28:]))
}

// mostBytes is the longest text or blob that is read: no name or message is longer.
const mostBytes = 64 << 20

func prepare(conn *sqlite.Conn, file string) (*DB, error) {
	db := &DB{conn: conn, File: file, tables: map[string][]string{}}
	conn.Limit(sqlite.LimitLength, mostBytes)
	conn.Limit(sqlite.LimitAttached, 0)
	err := db.query("PRAGMA trusted_schema = OFF", func(Row) {})
	if err == nil {
		err = db.list()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	slices.Sort(db.names)
	return db, nil
}

// list finds the tables. Virtual ones run a module's code to be read, views a
// query; generated columns, which table_info leaves out, an expression.
func (db *DB) list() error {
	return db.query("SELECT l.name, p.name FROM pragma_table_list l JOIN pragma_table_info(l.name) p WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite@_%' ESCAPE '@'", func(r Row) {
		table := r.Text(0)
		if _, ok := db.tables[table]; !ok {
			db.names = append(db.names, table)
		}
		db.tables[table] = append(db.tables[table], strings.ToLower(r.Text(1)))
	})
}

// Close closes the database.
func (db *DB) Close() { db.conn.Close() }

// Tables lists the tables, sorted.
func (db *DB) Tables() []string { return db.names }

// Columns lists the columns of a table in lower case; nil if there is no such table.
func (db *DB) Columns(table string) []string { return db.tables[table] }

// each calls f for every row of a table, with the values of the columns, given
// in lower case, that it has; the others are NULL. Hyphens and underscores are alike, and in front nothing. A table that does
// not exist has no rows. Rows come in the order in which they were written.
func (db *DB) each(table string, columns []string, f func(Row)) error {
	has, ok := db.tables[table]
	if !ok {
		return nil
	}
	selected := make([]string, len(columns))
	for i, c := range columns {
		selected[i] = "NULL"
		if at := slices.IndexFunc(has, func(h string) bool { return plain(h) == plain(c) }); at >= 0 {
			selected[i] = quote(has[at])
		}
	}
	return db.query("SELECT "+strings.Join(selected, ", ")+" FROM "+quote(table), f)
}

func plain(name string) string { return strings.TrimLeft(strings.ReplaceAll(name, "-", "_"), "_") }

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (db *DB) query(query string, f func(Row)) error {
	stmt, _, err := db.conn.PrepareTransient(query)
	if err != nil {
		return db.fail(err)
	}
	defer stmt.Finalize() //nolint:errcheck // it repeats the error of Step
	r := Row{stmt: stmt}
	for {
		more, err := stmt.Step()
		if err != nil {
			return db.fail(err)
		}
		if !more {
			return nil
		}
		r.Number++
		f(r)
	}
}

func (db *DB) fail(err error) error {
	return &trace.SyntaxError{
		File: db.File, Msg: "cannot read the database", Err: err, Cure: "it may be cut short: copy it again, or let the profiler finish",
	}
}

// A Row is a row of a table, valid during the call that hands it out.
type Row struct {
	stmt   *sqlite.Stmt
	Number int64 // in the table, from 1
}

// Int is the integer in a column; 0 for NULL.
func (r Row) Int(column int) int64 { return r.stmt.ColumnInt64(column) }

// Text is the text in a column; "" for NULL.
func (r Row) Text(column int) string { return r.stmt.ColumnText(column) }

// Null reports whether a column has no value.
func (r Row) Null(column int) bool { return r.stmt.ColumnIsNull(column) }

// time reads a start and an end in two columns. ok is false if one of them is
// no time; bad is true if the end had to be put at the start.
func (r Row) time(start, end int) (from, to trace.Time, ok, bad bool) {
	a, b := r.Int(start), r.Int(end)
	if r.Null(start) || r.Null(end) || a < 0 || b < 0 || !trace.ValidTime(a) || !trace.ValidTime(b) {
		return 0, 0, false, false
	}
	return trace.Time(a), trace.Time(max(a, b)), true, b < a
}

// A Scan reads tables of a database, one after another. After an error it reads nothing.
type Scan struct {
	DB  *DB
	To  *trace.Builder // of names and of the ledger
	Err error
}

// Each calls f for every row of a table; see DB.Each.
func (s *Scan) Each(table string, columns []string, f func(Row)) {
	if s.Err == nil {
		s.Err = s.DB.each(table, columns, f)
	}
}

// Kernels is Timed for a table of kernels or copies: skipped rows count as such.
func (s *Scan) Kernels(table string, columns []string, f func(r Row, start, end trace.Time)) {
	s.timed(table, columns, s.To.NoteKernel, f)
}

// Timed is Each for rows with a start and an end in the first two columns.
// Rows without are skipped, and ends before starts repaired, with an entry in
// the ledger. The first span that f adds is the row's.
func (s *Scan) Timed(table string, columns []string, f func(r Row, start, end trace.Time)) {
	s.timed(table, columns, s.To.Note, f)
}

func (s *Scan) timed(table string, columns []string, note func(a trace.Action, file, reason, unit string, pos int64),
	f func(r Row, start, end trace.Time),
) {
	s.Each(table, columns, func(r Row) {
		start, end, ok, bad := r.time(0, 1)
		if !ok {
			note(trace.Skipped, s.DB.File, table+": start or end is not a time", "row", r.Number)
			return
		}
		if bad {
			s.To.NoteSpan(trace.SpanID(s.To.Len()), trace.Repaired, s.DB.File, table+": "+trace.EndsEarly, "row", r.Number)
		}
		f(r, start, end)
	})
}

// Texts reads a table of numbered strings.
func (s *Scan) Texts(table, id, text string) Texts {
	t := Texts{s.To, map[int64]string{}, map[int64]trace.NameID{}}
	s.Each(table, []string{id, text}, func(r Row) { t.Of[r.Int(0)] = r.Text(1) })
	return t
}

// Texts are numbered strings. They become names once they are used.
type Texts struct {
	b     *trace.Builder
	Of    map[int64]string
	names map[int64]trace.NameID
}

// Name returns the name id of a string.
func (t Texts) Name(id int64) trace.NameID {
	return trace.Memo(t.names, id, func() trace.NameID { return t.b.Intern(t.Of[id]) })
}
