package format

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestMain finds readers that leave a goroutine behind, as after an error they may.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kineto is a small trace of one rank, whose only collective ends at 1 ms.
func kineto(rank int) string {
	return fmt.Sprintf(`{"schemaVersion":1,"distributedInfo":{"rank":%d,"world_size":4},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[
{"ph":"X","cat":"kernel","name":"gemm%d","pid":%[1]d,"tid":7,"ts":100,"dur":50.5,"args":{"stream":7}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16","pid":%[1]d,"tid":8,"ts":%d,"dur":%d,"args":{"stream":8}}
]}`, rank, rank, 200+rank, 800-rank)
}

const wg = `"Rank","Kernel_Name","Workgroup_Id","Persistent_Workgroup_Id","CU_Id","Destination_Rank","Start_Timestamp","Compute_End_Timestamp","End_Timestamp"
0,"pool",0,0,124,1,1795170572203729824,1795170572203750592,1795170572203750976
`

func zipped(b string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write([]byte(b))
	z.Close()
	return out.String()
}

func archived(t *testing.T, files ...string) string {
	names := map[string]string{}
	for i, f := range files {
		names[fmt.Sprintf("r%d.json", i)] = f
	}
	return archivedAs(t, names)
}

// archivedAs is a zip archive of files by name.
func archivedAs(t *testing.T, files map[string]string) string {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w := must.Have(z.Create(name))(t)
		w.Write([]byte(files[name]))
	}
	z.Close()
	return out.String()
}

// folder writes files, whose names may have folders, into a new one.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func TestOpen(t *testing.T) {
	dir := folder(t, map[string]string{
		"one/rank0.json":        kineto(0),
		"two/rank0.json":        kineto(0),
		"two/rank1.json.gz":     zipped(kineto(1)),
		"two/README.md":         "hello",
		"two/.hidden.json":      "{",
		"results/timeline.json": kineto(2),
		"results/result.json":   `{"strategies":[]}`,
		"results/table.csv":     "strategy,us\nbulk,1\n",
		"archive.zip":           archived(t, kineto(3), kineto(1)),
		"archive.tar":           tarred(t, kineto(3), kineto(1)),
		"archive.tar.gz":        zipped(tarred(t, kineto(3), zipped(kineto(1)))),
		"inner/a.tgz":           zipped(tarred(t, kineto(0))),
		"some_wg_trace.csv":     wg,
		"some_wg_trace.csv.gz":  zipped(wg),
		"concatenated.json.gz":  zipped(kineto(0)[:40]) + zipped(kineto(0)[40:]),
		"bom.json":              "\xEF\xBB\xBF" + kineto(0),
	})
	for _, c := range []struct {
		path  string
		ranks []int
		note  string // in the ledger
	}{
		{"one/rank0.json", []int{0}, "the job has 4 ranks, there are files for 1"},
		{"one", []int{0}, ""},
		{"two", []int{0, 1}, "the job has 4 ranks, there are files for 2"},
		{"two/rank*", []int{0, 1}, ""},
		{"two/rank1.json.gz", []int{1}, ""},
		{"results", []int{2}, "ignored: not a trace"},
		{"archive.zip", []int{1, 3}, ""},
		{"archive.tar", []int{1, 3}, ""},
		{"archive.tar.gz", []int{1, 3}, "the job has 4 ranks, there are files for 2"},
		{"inner", []int{0}, ""},
		{"some_wg_trace.csv", []int{0}, ""},
		{"some_wg_trace.csv.gz", []int{0}, ""},
		{"concatenated.json.gz", []int{0}, ""},
		{"bom.json", []int{0}, ""},
	} {
		t.Run(c.path, func(t *testing.T) {
			path := filepath.Join(dir, c.path)
			run := must.Have(Open(path, Options{}))(t)
			var ranks []int
			for _, r := range run.Ranks {
				ranks = append(ranks, r.ID)
			}
			if d := cmp.Diff(c.ranks, ranks); d != "" || run.Name != path {
				t.Error(d, run.Name)
			}
			if notes := fmt.Sprint(run.Ledger); !strings.Contains(notes, c.note) {
				t.Errorf("no %q in %s", c.note, notes)
			}
			if len(run.Comms) > 0 && len(run.Collectives) == 0 {
				t.Error("collectives are not matched")
			}
		})
	}
}

// A file that cannot be read is left out where the user says so, with its name in the ledger.
func TestSkipBad(t *testing.T) {
	cut := kineto(1)[:300]
	dir := folder(t, map[string]string{
		"job/rank0.json": kineto(0), "job/rank1.json": cut, "job/rank2.json": kineto(2), "job/rank3.json.gz": zipped(kineto(3))[:60], "job/table.csv": "strategy,us\nbulk,1\n",
		"job/et.json": `{"schema":"1.1.1-chakra.0.0.4","pid":7,"nodes":[{"id":1,`,
		"bad/a.json":  cut, "bad/b.json": cut, "alone.json": cut,
	})
	var left []string
	o := Options{SkipBad: func(err error) { left = append(left, err.Error()) }}
	run := must.Have(Open(filepath.Join(dir, "job"), o))(t)
	if len(run.Ranks) != 2 || run.Ranks[1].ID != 2 {
		t.Errorf("%+v", run.Ranks)
	}
	for i, want := range []string{"et.json:byte ", "rank1.json:byte 300: the file ends inside an event", "rank3.json.gz: the compressed file is truncated"} {
		if len(left) != 3 || !strings.Contains(left[i], want) {
			t.Fatalf("left out %q, want %s", left, want)
		}
		if notes := fmt.Sprint(run.Ledger); !strings.Contains(notes, "skipped, it cannot be read: "+left[i]) || !strings.Contains(notes, "ignored: not a trace") {
			t.Errorf("no %q in %s", left[i], notes)
		}
	}
	left = nil
	for _, path := range []string{"bad", "alone.json", "job/rank1.json"} {
		if _, err := Open(filepath.Join(dir, path), o); err == nil || len(left) > 0 {
			t.Errorf("%s: error %v, left out %v", path, err, left)
		}
	}
}

func TestOpenAll(t *testing.T) {
	dir := folder(t, map[string]string{
		"a/rank0.json": kineto(0), "a/rank1.json": kineto(1), "b/rank2.json": kineto(2), "c.tar": tarred(t, kineto(3)), "empty/x.md": "x",
	})
	at := func(names ...string) (paths []string) {
		for _, n := range names {
			paths = append(paths, filepath.Join(dir, n))
		}
		return paths
	}
	for _, c := range []struct {
		paths []string
		ranks int
		err   string
	}{
		{at("a/rank0.json", "a/rank1.json"), 2, ""},
		{at("a/rank1.json", "a/rank0.json", "a/rank0.json"), 2, ""},
		{at("a", "b/rank2.json", "c.tar"), 4, ""},
		{at("a", "b/rank*.json"), 3, ""},
		{at("a", "none.json"), 0, "none.json: cannot open"},
		{at("a", "empty"), 0, "empty: no trace in this folder (open it separately, or give the files of one run)"},
	} {
		run, err := OpenAll(c.paths, "some", Options{})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v", c.paths, err)
			}
		case err != nil || len(run.Ranks) != c.ranks || run.Name != "some":
			t.Errorf("%v: %v, %v", c.paths, run, err)
		}
	}
}

func TestOpenStandardInput(t *testing.T) {
	for _, in := range []string{kineto(1), zipped(kineto(1)), wg} {
		run, err := Open("-", Options{Stdin: strings.NewReader(in)})
		if err != nil || run.Name != "standard input" || len(run.Spans) == 0 {
			t.Errorf("%v %+v", err, run)
		}
	}
}

// TestOpenErrors: what a user gets wrong is told in one line, with what to do.
func TestOpenErrors(t *testing.T) {
	long := kineto(0)[:250] + strings.Repeat(" ", 1<<20) + kineto(0)[250:]
	cut := zipped(long)
	dir := folder(t, map[string]string{
		"cut.json.gz":          cut[:len(cut)-12],
		"cut.json":             kineto(0)[:250],
		"head.json.gz":         cut[:6],
		"damaged.json.gz":      cut[:60] + "damage" + cut[66:],
		"page.json":            "<!DOCTYPE html><html>",
		"empty.json":           "",
		"words.txt":            "hello, world\n",
		"other.json":           `{"metrics":1,"list":[]}`,
		"wstates1.json":        `{"name":"IDLE","state":[1,2],"time":[3,4]}`,
		"realtime.json":        `{"SE0":[[1,2]],"metadata":{"frequency":100000000}}`,
		"record.json":          `{"name":"llama","layers":80}`,
		"nsys.sqlite":          "SQLite format 3\x00....",
		"trace.pftrace":        "\n\x50\x0a\x02\x08\x01",
		"table.csv":            "strategy,us\n",
		"cut.zip":              archived(t, kineto(0))[:90],
		"none.zip":             archived(t),
		"twice/a.json":         kineto(1),
		"twice/b.json":         kineto(1),
		"empty/.keep":          "",
		"texts/a.md":           "",
		"parent/run1/rank0.gz": zipped(kineto(0)),
		"parent/run2/rank0.gz": zipped(kineto(0)),
		"one-broken/a.json":    kineto(0),
		"one-broken/b.json":    kineto(1)[:250],
	})
	reads := Options{}.begin().supported()
	for _, c := range []struct{ path, want string }{
		{"cut.json.gz", ": the compressed file is truncated: unexpected EOF (copy it again, or let the job finish writing it)"},
		{"cut.json", ":byte 250: the file ends inside an event: it is truncated (copy it again, or let the job finish writing it)"},
		{"head.json.gz", ": the compressed file is truncated: unexpected EOF (copy it again, or let the job finish writing it)"},
		{"damaged.json.gz", "corrupt"},
		{"page.json", ": this is a web page, which is not supported (download the raw file instead of the web page; " + reads + ")"},
		{"empty.json", ": the file is empty (was the profiler stopped before it wrote?)"},
		{"words.txt", `: the file starts with "hello, world\n": unrecognized format (` + reads + ")"},
		{"other.json", `: keys "metrics", "list": no traceEvents (give a trace of PyTorch's profiler or any Chrome trace)`},
		{"wstates1.json", ": this is a part of a thread trace without the rest, which is not supported (give the folder that contains it; overlapse reads"},
		{"realtime.json", ": this is a part of a thread trace without the rest"},
		{"record.json", `: keys "name": no traceEvents (`},
		{"nsys.sqlite", ": cannot read the database: sqlite: prepare: file is not a database (it may be cut short: copy it again, or let the profiler finish)"},
		{"trace.pftrace", ":byte 0: the file ends inside a packet (it may be cut short: copy it again)"},
		{"table.csv", `: the file starts with "strategy,us\n": unrecognized format (` + reads + ")"},
		{"cut.zip", ": the zip archive is truncated or damaged: zip: not a valid zip file (copy it again)"},
		{"none.zip", ": the archive is empty ("},
		{"twice", "b.json: rank 1 is also in "},
		{"empty", ": the folder is empty (" + reads + ")"},
		{"texts", ": no trace in this folder, only a.md (" + reads + ")"},
		{"parent", ": no trace in this folder, but folders: run1, run2 (give one of them)"},
		{"one-broken", "b.json:byte 250: the file ends inside an event"},
		{"absent.json", ": cannot open: file does not exist (give a trace, a folder with one file per rank, a pattern, or - for standard input)"},
		{"absent*.json", ": no file matches the pattern (check the path)"},
	} {
		t.Run(c.path, func(t *testing.T) {
			path := filepath.Join(dir, c.path)
			run, err := Open(path, Options{})
			if err == nil {
				t.Fatalf("no error, but %d spans", len(run.Spans))
			}
			var syntax *trace.SyntaxError
			got := err.Error()
			if !errors.As(err, &syntax) || !strings.HasPrefix(got, path) || !strings.Contains(got, c.want) || strings.ContainsRune(got, '\n') {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestLimit: an archive of a few kilobytes may not fill the memory.
func TestLimit(t *testing.T) {
	dir := folder(t, map[string]string{
		"bomb.json.gz": zipped(`{"traceEvents":[` + strings.Repeat("{},", 1<<20)),
		"bomb.csv.gz":  zipped(wg + strings.Repeat(strings.SplitAfter(wg, "\n")[1], 20000)),
	})
	for _, name := range []string{"bomb.json.gz", "bomb.csv.gz"} {
		_, err := Open(filepath.Join(dir, name), Options{Limit: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The limit is that of all files together.
func TestLimitInTotal(t *testing.T) {
	padded := func(rank int) string { return kineto(rank) + strings.Repeat(" ", 300<<10) }
	dir := folder(t, map[string]string{
		"ranks/0.json": padded(0), "ranks/1.json": padded(1), "ranks/2.json": padded(2), "ranks/3.json": padded(3),
		"ranks.zip":     archived(t, padded(0), padded(1), padded(2), padded(3)),
		"ranks.tar.gz":  zipped(tarred(t, padded(0), padded(1), padded(2), padded(3))),
		"two/rank0.zip": archived(t, padded(0), padded(1)), "two/rank1.json": padded(2), "two/rank2.json": padded(3),
	})
	for _, name := range []string{"ranks", "ranks/*.json", "ranks.zip", "ranks.tar.gz", "two"} {
		_, err := Open(filepath.Join(dir, name), Options{Limit: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "more than 1 MiB in all files together (raise --limit if this is a real trace)") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Open(filepath.Join(dir, name), Options{Limit: 2 << 20}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpenIsDeterministic: files are read side by side, but the result does not show it.
func TestOpenIsDeterministic(t *testing.T) {
	files := map[string]string{}
	for r := range 12 {
		files[fmt.Sprintf("trace.%d.json", r)] = strings.Replace(kineto(r), `"rank"`, `"r"`, 1)
	}
	dir := folder(t, files)
	var first *trace.Run
	for i := range 10 {
		previous := runtime.GOMAXPROCS(1 + i%3)
		run, err := Open(dir, Options{})
		runtime.GOMAXPROCS(previous)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = run
		}
		if d := cmp.Diff(first, run); d != "" {
			t.Fatal(d)
		}
	}
	for i, r := range first.Ranks {
		if want := filepath.Join(dir, fmt.Sprintf("trace.%d.json", i)); r.ID != i || r.Source != want {
			t.Errorf("row %d is rank %d from %s", i, r.ID, r.Source)
		}
	}
}
