package chrome

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// shared is the folder next to the checkout with traces that are not part of it.
const shared = "../../../shared/data"

func needShared(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the folder shared beside the checkout is absent: no real traces to read")
	}
}

// open returns a file's bytes as JSON.
func open(t testing.TB, path string) io.Reader {
	t.Helper()
	f := must.Have(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	if !strings.HasSuffix(path, ".gz") {
		return f
	}
	return must.Have(gzip.NewReader(f))(t)
}

// The manifest has counts of each file, made by an independent script.
var (
	manifestRow     = regexp.MustCompile(`(?m)^\| (\S+\.json(?:\.gz)?) \|.*; (\d+) ev; ([^|]*)\|$`)
	manifestPhase   = regexp.MustCompile(`(\w+):(\d+)`)
	manifestKernels = regexp.MustCompile(`(\d+) kernels, (\d+) nccl/rccl, (\d+) copies`)
	manifestRank    = regexp.MustCompile(`rank (\d+)/(\d+)`)
)

// TestManifest compares every JSON trace of the collection with the manifest.
func TestManifest(t *testing.T) {
	needShared(t)
	manifest := must.Have(os.ReadFile(filepath.Join(shared, "traces/MANIFEST.md")))(t)
	rows := manifestRow.FindAllStringSubmatch(string(manifest), -1)
	if len(rows) < 25 {
		t.Fatalf("only %d rows in the manifest", len(rows))
	}
	for _, row := range rows {
		name, events, rest := row[1], atoi(row[2]), row[3]
		path := filepath.Join(shared, "traces", name)
		if _, err := os.Stat(path); err != nil {
			path += ".gz" // the larger files are compressed
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := must.Have(Read(open(t, path), Options{File: name}))(t)
			checkRun(t, run)
			phases := map[string]int{}
			for _, m := range manifestPhase.FindAllStringSubmatch(rest, -1) {
				phases[m[1]] = atoi(m[2])
			}
			if phases["B"]+phases["b"]+phases["S"] == 0 {
				if got := accounted(run); got != events {
					t.Errorf("%d of %d events are accounted for", got, events)
				}
			}
			if m := manifestKernels.FindStringSubmatch(rest); m != nil {
				kernels, nccl, copies := counts(run)
				if want := []int{atoi(m[1]), atoi(m[2]), atoi(m[3])}; !slices.Equal(want, []int{kernels, nccl, copies}) {
					t.Errorf("got %d kernels, %d of them NCCL's, %d copies, want %d", kernels, nccl, copies, want)
				}
			}
			if m := manifestRank.FindStringSubmatch(rest); m != nil {
				if r := run.Ranks[0]; r.ID != atoi(m[1]) || r.World != atoi(m[2]) {
					t.Errorf("got rank %d of %d, want %s", r.ID, r.World, m[0])
				}
			}
		})
	}
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// accounted is the number of events that are spans or skipped in the ledger.
func accounted(run *trace.Run) int {
	n := len(run.Spans) + run.Ledger.Count(trace.Skipped)
	for _, e := range run.Ledger.Entries {
		if e.Action == trace.Noted && e.Unit == "byte" {
			n += e.Count
		}
	}
	return n
}

func counts(run *trace.Run) (kernels, nccl, copies int) {
	for _, s := range run.Spans {
		switch {
		case run.Kernel(s) != nil:
			kernels++
			if strings.Contains(run.NameOf(s), "nccl") {
				nccl++
			}
		case s.Kind == trace.Copy && run.Copy(s).Dir != trace.Fill:
			copies++
		}
	}
	return kernels, nccl, copies
}

// A naiveEvent is a device event decoded by encoding/json and exact arithmetic.
type naiveEvent struct {
	Name       string
	Start, Dur int64 // nanoseconds
	Stream     int64
	Grid       string
	Bytes      int64
	Op         string
}

// naive reads the device events of a Kineto file with a simple slow algorithm.
func naive(t *testing.T, r io.Reader) (events []naiveEvent) {
	t.Helper()
	var doc struct {
		Base   int64 `json:"baseTimeNanoseconds"`
		Events []struct {
			Cat, Name string
			TS, Dur   json.Number
			Args      struct {
				Stream, Bytes int64
				Grid          []int
				Collective    string `json:"Collective name"`
			}
		} `json:"traceEvents"`
	}
	d := json.NewDecoder(r)
	must.Do(t, d.Decode(&doc))
	for _, e := range doc.Events {
		if e.Cat != "kernel" && e.Cat != "gpu_memcpy" && e.Cat != "gpu_memset" {
			continue
		}
		events = append(events, naiveEvent{e.Name, exact(t, e.TS) + doc.Base, exact(t, e.Dur), e.Args.Stream, fmt.Sprint(e.Args.Grid), e.Args.Bytes, trace.CollectiveOpIn(e.Args.Collective).String()})
	}
	return events
}

func exact(t *testing.T, n json.Number) int64 {
	x, ok := new(big.Rat).SetString(n.String())
	if !ok || !x.Mul(x, big.NewRat(1000, 1)).IsInt() {
		t.Fatalf("%s µs is no whole number of nanoseconds", n)
	}
	return x.Num().Int64()
}

// deviceEvents returns the device events of a run in the form of naive.
func deviceEvents(run *trace.Run) (events []naiveEvent) {
	for _, s := range run.Spans {
		e := naiveEvent{Name: run.NameOf(s), Start: int64(s.Start) + run.Epoch, Dur: int64(s.Dur()), Grid: "[]", Op: "unknown"}
		if k := run.Kernel(s); k != nil {
			e.Stream, e.Grid = run.Setup(k).Stream, fmt.Sprint(run.Setup(k).Grid)
		} else if c := run.Copy(s); c != nil {
			e.Stream, e.Bytes = c.Stream, c.Bytes
		} else {
			continue
		}
		if c := run.Comm(s); c != nil && c.Op != trace.Barrier { // symmetric memory's barrier has only a name
			e.Op = c.Op.String()
		}
		events = append(events, e)
	}
	return events
}

// TestAgainstNaiveTwin compares all device work of one rank of each measured trace with
// a simple decoder.
func TestAgainstNaiveTwin(t *testing.T) {
	needShared(t)
	paths, err := filepath.Glob(filepath.Join(shared, "h200/traces/*/rank1.json.gz"))
	if err != nil || len(paths) < 40 {
		t.Fatal(len(paths), err)
	}
	order := func(a, b naiveEvent) int {
		return strings.Compare(fmt.Sprintf("%20d %d %s", a.Start, a.Stream, a.Name), fmt.Sprintf("%20d %d %s", b.Start, b.Stream, b.Name))
	}
	for _, path := range paths {
		run := must.Have(Read(open(t, path), Options{File: path}))(t)
		checkRun(t, run)
		got, want := deviceEvents(run), naive(t, open(t, path))
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -naive +read\n%s", path, d)
		}
		if d := sameRun(run, writeRead(t, run)); d != "" {
			t.Errorf("%s: written and read back: %s", path, d)
		}
		for _, s := range run.Spans {
			k := run.Kernel(s)
			if op := run.Operator(k); strings.HasPrefix(run.NameOf(s), "nvjet") && (op == nil || len(op.Dims[0]) < 2) { // cuBLAS
				t.Errorf("%s: no shapes for %q: %+v", path, run.NameOf(s), op)
			}
			if c := run.Comm(s); c != nil && c.Op != trace.Barrier && (c.Group == trace.None || c.Bytes() == 0) {
				t.Errorf("%s: %q lacks group or bytes: %+v", path, run.NameOf(s), c)
			}
		}
	}
}
