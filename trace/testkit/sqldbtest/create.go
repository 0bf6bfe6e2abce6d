// Package sqldbtest makes databases for the tests of readers.
package sqldbtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Create writes a database of a name with a script of SQL, and returns its path.
func Create(t testing.TB, name, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	conn, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// values are what Damage writes into a column, beside deleting it.
var values = [...]string{
	"NULL", "'text'", "''", "x'00ff'", "-1", "0", "1e308", "9223372036854775807", "-9223372036854775808", "4294967296",
}

// Damage calls check with a damaged copy of a database for every table and column: tables
// dropped, emptied, cut to one row and doubled, columns dropped and set to other values.
// did is the statement.
func Damage(t *testing.T, script string, check func(t *testing.T, data []byte, did string)) {
	t.Helper()
	var all []string
	for table, columns := range columnsOf(t, script) {
		table = fmt.Sprintf("%q", table)
		all = append(all,
			"DROP TABLE "+table,
			"DELETE FROM "+table,
			fmt.Sprintf("DELETE FROM %s WHERE rowid > (SELECT min(rowid) FROM %s)", table, table),
			fmt.Sprintf("CREATE TABLE twin AS SELECT * FROM %[1]s; INSERT INTO twin SELECT * FROM %[1]s; DROP TABLE %[1]s; ALTER TABLE twin RENAME TO %[1]s", table))
		for _, column := range columns {
			column = fmt.Sprintf("%q", column)
			// A copy has no types and no primary key, so that every value fits.
			if len(columns) > 1 {
				all = append(all, fmt.Sprintf("CREATE TABLE twin AS SELECT * FROM %[1]s; ALTER TABLE twin DROP COLUMN %[2]s; DROP TABLE %[1]s; ALTER TABLE twin RENAME TO %[1]s", table, column))
			}
			for _, v := range values {
				all = append(all, fmt.Sprintf("CREATE TABLE twin AS SELECT * FROM %[1]s; UPDATE twin SET %[2]s = %[3]s; DROP TABLE %[1]s; ALTER TABLE twin RENAME TO %[1]s", table, column, v))
			}
		}
	}
	const fewest = 50
	if len(all) < fewest {
		t.Fatalf("only %d ways to damage the database", len(all))
	}
	whole := inMemory(t, script)
	defer whole.Close()
	intact, err := whole.Serialize("main")
	if err != nil {
		t.Fatal(err)
	}
	for _, did := range all {
		conn := inMemory(t, "")
		if err := conn.Deserialize("main", slices.Clone(intact)); err != nil {
			t.Fatal(err)
		}
		if err := sqlitex.ExecuteScript(conn, did, nil); err != nil {
			t.Fatal(err)
		}
		data, err := conn.Serialize("main")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		check(t, data, did)
	}
}

// columnsOf lists the columns of every table.
func columnsOf(t *testing.T, script string) map[string][]string {
	t.Helper()
	conn := inMemory(t, script)
	defer conn.Close()
	columns := map[string][]string{}
	const query = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'"
	err := sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
		columns[stmt.ColumnText(0)] = append(columns[stmt.ColumnText(0)], stmt.ColumnText(1))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return columns
}

func inMemory(t *testing.T, script string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenMemory)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
		t.Fatal(err)
	}
	return conn
}
