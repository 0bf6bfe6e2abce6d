package lex

import "github.com/overlapse/overlapse/trace"

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

func (s *Scan) timed(table string, columns []string, note func(a trace.Action, file, reason, unit string, pos int64), f func(r Row, start, end trace.Time)) {
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
