package rocprof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
	"github.com/overlapse/overlapse/trace/testkit/sqldbtest"
)

func readDB(path string) (*trace.Run, error) {
	db, err := lex.Open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return ReadDB(db)
}

// database is what testdata/db/NAME.sql has, with values for its @words: of rocpd the suffix of its tables, the environment of its
// process and the time that it starts at.
func database(t testing.TB, name string, set map[string]string) string {
	t.Helper()
	text := string(must.Have(os.ReadFile(filepath.Join("testdata/db", name+".sql")))(t))
	for word, value := range map[string]string{"suffix": "_a", "environment": "{}", "start": "1000"} {
		if set[word] != "" {
			value = set[word]
		}
		text = strings.ReplaceAll(text, "@"+word, value)
	}
	return text
}

// rocpd is a database of one process.
func rocpd(t testing.TB) string {
	t.Helper()
	return database(t, "rocpd", nil)
}

// Scripts of databases: "db" adds tables (see database), "read" adds the lines below it and shows what is read.
func TestReadDB(t *testing.T) {
	scripttest.Run(t, "testdata/databases.txt", func(testing.TB) scripttest.Handler {
		var tables string
		return func(t testing.TB, c scripttest.Call) string {
			if c.Name == "db" {
				tables += database(t, c.Args[0], c.Set)
				return ""
			}
			path := sqldbtest.Create(t, "x.db", tables+c.Input)
			run, err := readDB(path)
			if tables = ""; err != nil {
				var syntax *trace.SyntaxError
				if !errors.As(err, &syntax) {
					t.Errorf("%T is no SyntaxError", err)
				}
				return strings.ReplaceAll(err.Error(), path, "x.db")
			}
			checkRun(t, run)
			return strings.ReplaceAll(shown(run), path, "x.db")
		}
	})
}

// TestDamagedTables damages every table and column. The reader never panics: it returns an
// error about the file, or a valid run.
func TestDamagedTables(t *testing.T) {
	for name, script := range databases(t) {
		t.Run(name, func(t *testing.T) { sqldbtest.Damage(t, script, checkDamaged) })
	}
}

// databases are those of all schemas.
func databases(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{
		"rocpd": rocpd(t) + database(t, "events", nil), "rocpd 4.1": database(t, "rocpd41", nil), "rpd": database(t, "rpd", nil), "v1": database(t, "v1", nil),
	}
}

func checkDamaged(t *testing.T, data []byte, did string) {
	t.Helper()
	db := must.Have(lex.Load(bytes.NewReader(data), "damaged"))(t)
	defer db.Close()
	run, err := ReadDB(db)
	var syntax *trace.SyntaxError
	switch {
	case err == nil:
		err = trace.Validate(run)
	case errors.As(err, &syntax) && syntax.File != "":
		err = nil
	}
	if err != nil {
		t.Errorf("%s: %v", did, err)
	}
}

// The published databases, against what their manifest counts.
func TestReadDBCaptured(t *testing.T) {
	for _, c := range []struct {
		file                   string
		kernels, copies, calls int
	}{
		{"rocprofv3-att-batched_gemm/37ca13315e70/28_results.db", 151, 0, 629},
		{"rocmProfileData/matmul_result.rpd", 30, 55, 125},
		{"rocm-blogs/HIP_trace/results.db", 1, 6, 135},
		{"rocprof-v1-HIP_Programming/results.db", 1, 3, 13},
	} {
		run, err := readDB(shared(t, "traces", c.file))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		checkRun(t, run)
		n := map[trace.Kind]int{}
		for _, s := range run.Spans {
			n[s.Kind]++
		}
		if n[trace.Compute] != c.kernels || n[trace.Copy] != c.copies || n[trace.HostCall]+n[trace.Launch] != c.calls || run.Ledger.Count(trace.Skipped) != 0 {
			t.Errorf("%s: %v, ledger %v", c.file, n, run.Ledger.Entries)
		}
		if n[trace.Launch] != c.kernels+c.copies && c.file != "rocprof-v1-HIP_Programming/results.db" {
			t.Errorf("%s: %d launches of %d operations", c.file, n[trace.Launch], c.kernels+c.copies)
		}
	}
}

func FuzzReadDB(f *testing.F) {
	for name, script := range databases(f) {
		data := must.Have(os.ReadFile(sqldbtest.Create(f, name, script)))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		db, err := lex.Load(bytes.NewReader(data), "fuzz.db")
		if err != nil {
			return
		}
		defer db.Close()
		if run, err := ReadDB(db); err == nil {
			checkRun(t, run)
		}
	})
}

func BenchmarkReadRocpd(b *testing.B) {
	const n = 200000
	path := sqldbtest.Create(b, "bench.db", rocpd(b)+fmt.Sprintf(`
WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)
INSERT INTO rocpd_kernel_dispatch_a SELECT n, 'g', 9, 80, 1, 2, 10, n, 16, 3, 2000 + n * 100, 2090 + n * 100, 0, 512, 256, 1, 1, 1024, 1, 1, 1, n FROM i;
DELETE FROM rocpd_region_a;
`, n))
	b.ReportAllocs()
	for b.Loop() {
		run, err := readDB(path)
		if err != nil || len(run.Spans) != n+2 {
			b.Fatal(len(run.Spans), err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e6, "Mdispatches/s")
	b.ReportMetric(n*float64(b.N)/1e6/b.Elapsed().Seconds(), "Mdispatches/s")
}
