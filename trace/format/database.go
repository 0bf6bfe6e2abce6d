package format

import (
	"io"
	"os" // the size of a file
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/nsys"
	"github.com/overlapse/overlapse/trace/rocprof"
	"github.com/overlapse/overlapse/trace/sqldb"
)

// sqliteMagic is what every SQLite database begins with.
const sqliteMagic = "SQLite format 3\x00"

// openDatabase reads a database where it lies.
func openDatabase(f *os.File, path string, o Options) (*trace.Run, error) {
	info, err := f.Stat()
	if err == nil {
		err = o.budget.take(info.Size())
	}
	if err != nil {
		return nil, &trace.SyntaxError{File: path, Msg: "cannot read the database", Err: err}
	}
	db, err := sqldb.Open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return readDatabase(db)
}

// loadDatabase takes a database that is compressed or comes down a pipe into memory.
func loadDatabase(r io.Reader, file string, _ Options) (*trace.Run, error) {
	db, err := sqldb.Load(r, file)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return readDatabase(db)
}

// readDatabase tells by the tables who wrote a database.
func readDatabase(db *sqldb.DB) (*trace.Run, error) {
	switch {
	case rocprof.HasTables(db.Tables()):
		return rocprof.ReadDB(db)
	case nsys.HasTables(db.Tables()):
		return nsys.ReadDB(db)
	}
	return nil, &trace.SyntaxError{
		File: db.File,
		Msg:  "a database of no known profiler, with the tables " + list(db.Tables()),
		Cure: strings.TrimSpace(supported()),
		Err:  errUnknown,
	}
}
