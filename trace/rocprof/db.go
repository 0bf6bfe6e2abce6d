package rocprof

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// HasTables reports whether ReadDB reads a database with these tables.
func HasTables(tables []string) bool { return dbKind(tables) != nil }

// ReadDB reads a database: rocpd, which rocprofv3 writes by default, RPD of
// rocmProfileData, or results.db of rocprof v1. Times are nanoseconds.
func ReadDB(db *lex.DB) (*trace.Run, error) {
	read := dbKind(db.Tables())
	if read == nil {
		return nil, &trace.SyntaxError{
			File: db.File, Msg: fmt.Sprintf("not a rocprof database; its tables are %.200s", strings.Join(db.Tables(), ", ")),
			Cure: "give one of rocprofv3, rocmProfileData or rocprof",
		}
	}
	s := newSession(db.File)
	d := &dbReader{s, lex.Scan{DB: db, To: &s.Builder}}
	read(d)
	if d.Err != nil {
		return nil, d.Err
	}
	if d.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{File: db.File, Msg: "no kernel, copy or call in the database", Err: ErrNoTimes, Cure: "profile with rocprofv3 --kernel-trace, or --sys-trace"}
	}
	return d.Finish(0), nil
}

// A dbReader reads a database.
type dbReader struct {
	*assemble.Session
	lex.Scan
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
