package lex

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/sqldbtest"
)

const script = `
CREATE TABLE "odd ""name" (Start INTEGER, end INTEGER, name TEXT, who TEXT);
INSERT INTO "odd ""name" VALUES (1, 5, 'a', 'x'), (7, 6, 'b', 'it''s'), (NULL, 3, NULL, 'x'), (-1, 3, '', '');
CREATE  VIRTUAL TABLE module USING fts5(x);
CREATE TABLE made (x INTEGER, y TEXT AS (zeroblob(1000000000)));
CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
`

func TestEach(t *testing.T) {
	path := sqldbtest.Create(t, "test.db", script)
	data := must.Have(os.ReadFile(path))(t)
	opened := must.Have(Open(path))(t)
	defer opened.Close()
	loaded := must.Have(Load(bytes.NewReader(data), "memory"))(t)
	defer loaded.Close()
	for _, db := range []*DB{opened, loaded} {
		if want := []string{"made", `odd "name`}; !slices.Equal(db.Tables(), want) || len(db.Columns("made")) != 1 {
			t.Errorf("tables %q", db.Tables())
		}
		var names []string
		var times []trace.Time
		skipped, repaired := 0, 0
		err := db.each(`odd "name`, []string{"name", "no such", "start", "end"}, func(r Row) {
			if !r.Null(1) || r.Int(1) != 0 || r.Text(1) != "" {
				t.Error("a column that does not exist has a value")
			}
			from, to, ok, bad := r.time(2, 3)
			switch {
			case !ok:
				skipped++
				return
			case bad:
				repaired++
			}
			names, times = append(names, r.Text(0)), append(times, from, to)
		})
		if err != nil || skipped != 2 || repaired != 1 || len(names) != 2 || names[1] != "b" || times[3] != 7 {
			t.Errorf("%v: names %q, times %v, %d skipped, %d repaired", err, names, times, skipped, repaired)
		}
		if err := db.each("endless", []string{"i"}, func(Row) { t.Fatal("a view was read") }); err != nil {
			t.Error(err)
		}
	}
}

func TestBroken(t *testing.T) {
	data := must.Have(os.ReadFile(sqldbtest.Create(t, "test.db", script)))(t)
	for name, broken := range map[string][]byte{"cut short": data[:5000], "no database": bytes.Repeat([]byte("x"), 4096)} {
		db, err := Load(bytes.NewReader(broken), name)
		if err == nil {
			err = db.each(`odd "name`, []string{"name"}, func(Row) {})
			db.Close()
		}
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || syntax.File != name {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.db")); err == nil {
		t.Error("a file that does not exist was opened")
	}
}

func FuzzLoad(f *testing.F) {
	data := must.Have(os.ReadFile(sqldbtest.Create(f, "test.db", script)))(f)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		db, err := Load(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		defer db.Close()
		for _, table := range db.Tables() {
			_ = db.each(table, db.Columns(table), func(r Row) { _, _ = r.Int(0), r.Text(0) })
		}
	})
}
