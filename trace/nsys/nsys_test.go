package nsys

import (
	"bytes"
	"errors"
	"flag"
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

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

func read(path string) (*trace.Run, error) {
	db, err := lex.Open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return ReadDB(db)
}

// sql is what testdata/db/NAME.sql has, of several names.
func sql(t testing.TB, names ...string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range names {
		b.Write(must.Have(os.ReadFile(filepath.Join("testdata/db", name+".sql")))(t))
	}
	return b.String()
}

// Scripts of databases and what is read of them:
//
//	read report graphs     a database as testdata/db/*.sql make it, changed by the lines that follow
//	: UPDATE StringIds ...
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string {
			path := sqldbtest.Create(t, "test.sqlite", sql(t, c.Args...)+c.Input)
			run, err := read(path)
			if err != nil {
				return strings.ReplaceAll(err.Error(), path, "test.sqlite")
			}
			must.Do(t, trace.Validate(run))
			return describe(run)
		}
	})
}

func describe(run *trace.Run) string {
	var b strings.Builder
	for _, r := range run.Ranks {
		fmt.Fprintf(&b, "rank %d, process %d on %s, %s with %d threads a CU, from %d on\n", r.ID, r.Process, r.Host, r.Device.Name, r.Device.ThreadsPerCU, run.Epoch)
	}
	name := func(id trace.SpanID) string {
		if id == trace.None {
			return "none"
		}
		return fmt.Sprintf("%s at %d", run.NameOf(run.Spans[id]), run.Spans[id].Start)
	}
	for i, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%d/%d %s %d %s %q %d-%d", run.Ranks[l.Rank].ID, l.Device, l.Kind, l.ID, s.Kind, run.NameOf(s), s.Start, s.End)
		if k := run.Kernel(s); k != nil {
			u := run.Setup(k)
			fmt.Fprintf(&b, " grid %v block %v shared %d registers %d launched by %s", u.Grid, u.Block, u.Shared, u.Registers, name(k.Launch))
		}
		if c := run.Comm(s); c != nil {
			fmt.Fprintf(&b, " %s in %d out %d %s peer %d", c.Op, c.In, c.Out, c.DType, c.Peer)
			if c.Group != trace.None {
				fmt.Fprintf(&b, " of %s, %d ranks", run.Groups[c.Group].Name, run.Groups[c.Group].Size)
			}
		}
		if c := run.Copy(s); c != nil {
			fmt.Fprintf(&b, " %s %d", c.Dir, c.Bytes)
		}
		if n, ok := run.NodeOf(trace.SpanID(i)); ok {
			fmt.Fprintf(&b, " node %d of graph %d", n.Number, n.Graph)
		}
		b.WriteString("\n")
	}
	for _, w := range run.Waits {
		fmt.Fprintf(&b, "wait %d-%d of stream %d of %d for stream %d, by %s, recorded by %s\n", w.Start, w.End, w.Stream, w.Device, w.On, name(w.Call), name(w.Recorded))
	}
	for _, e := range run.Ledger.Entries {
		fmt.Fprintf(&b, "%s %d: %s", e.Action, e.Count, e.Reason)
		if e.Kernels > 0 {
			fmt.Fprintf(&b, ", %d kernels", e.Kernels)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestDamagedTables damages every table and column. The reader never panics: it returns an
// error about the file, or a valid run.
func TestDamagedTables(t *testing.T) {
	sqldbtest.Damage(t, sql(t, "report", "graphs", "nodes"), func(t *testing.T, data []byte, did string) {
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
	})
}

func TestReadDBCaptured(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "traces", "pipit-nsys", "saxpy-mpi-cuda_nsys_perlmutter0.sqlite")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%v: needs the captured traces beside the checkout", err)
	}
	run := must.Have(read(path))(t)
	n := map[trace.Kind]int{}
	for _, s := range run.Spans {
		n[s.Kind]++
	}
	// Each runtime call contains a driver call with its correlation: the outer one is the launch. 16 marks are when the profiler held up a thread.
	if n[trace.Compute] != 5 || n[trace.Copy] != 15 || n[trace.HostCall]+n[trace.Launch] != 95 || n[trace.Launch] != 20 || n[trace.Marker] != 38 {
		t.Errorf("%v, ledger %+v", n, run.Ledger.Entries)
	}
	if r := run.Ranks[0]; len(run.Ranks) != 1 || r.ID != 0 || r.Device.Name != "NVIDIA A100-SXM4-40GB" || r.Device.CUs != 108 || r.Host != "nid001608" {
		t.Errorf("ranks %+v", run.Ranks)
	}
}

func FuzzReadDB(f *testing.F) {
	data := must.Have(os.ReadFile(sqldbtest.Create(f, "test.sqlite", sql(f, "report"))))(f)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		db, err := lex.Load(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		defer db.Close()
		run, err := ReadDB(db)
		if err != nil {
			return
		}
		for _, s := range run.Spans {
			if s.End < s.Start || s.Start < 0 {
				t.Fatalf("span from %d to %d", s.Start, s.End)
			}
			_, _ = run.Ranks[run.RankOf(s)], run.NameOf(s)
		}
	})
}
