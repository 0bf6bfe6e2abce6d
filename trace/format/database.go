package format

import (
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
	"github.com/overlapse/overlapse/trace/nsys"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// readDatabase reads a database where it lies, or loads into memory one that is
// compressed or comes down a pipe.
func readDatabase(in *input) (*trace.Run, error) {
	db, err := in.database()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	switch {
	case rocprof.HasTables(db.Tables()):
		return rocprof.ReadDB(db)
	case nsys.HasTables(db.Tables()):
		return nsys.ReadDB(db)
	}
	return nil, &trace.SyntaxError{
		File: db.File,
		Msg:  "not the database of a known profiler; its tables are " + list(db.Tables()),
		Cure: in.supported(),
		Err:  errUnknown,
	}
}

func (in *input) database() (*lex.DB, error) {
	if in.disk == nil {
		return lex.Load(in.text(), in.name)
	}
	info, err := in.disk.Stat()
	if err == nil {
		err = in.budget.take(info.Size())
	}
	if err != nil {
		return nil, &trace.SyntaxError{File: in.name, Msg: "cannot read the database", Err: err}
	}
	return lex.Open(in.name)
}
