package chrome

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestMain fixes the seed of random tests, unless the command line sets one.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	m.Run()
}

var update = flag.Bool("update", false, "write the goldens anew")

// describe prints a run, one item per line.
func describe(run *trace.Run) string {
	var b strings.Builder
	for i, r := range run.Ranks {
		b.WriteString(strings.TrimSpace(fmt.Sprintf("rank %d of %d %+v %s", r.ID, r.World, r.Device, r.Compiler)) + "\n")
		for _, m := range r.Memory {
			fmt.Fprintf(&b, "  %d bytes allocated at %d\n", m.Bytes, m.At)
		}
		for id, l := range run.Lanes {
			if int(l.Rank) == i {
				fmt.Fprintf(&b, "  lane %d: %s device %d id %d sub %d %q\n", id, l.Kind, l.Device, l.ID, l.Sub, l.Name)
			}
		}
	}
	if run.Epoch != 0 {
		fmt.Fprintf(&b, "epoch %d\n", run.Epoch)
	}
	for i, s := range run.Spans {
		fmt.Fprintf(&b, "%d: %d+%d lane %d %s %q", i, s.Start, s.Dur(), s.Lane, s.Kind, run.NameOf(s))
		if s.Parent != trace.None {
			fmt.Fprintf(&b, " in %d", s.Parent)
		}
		b.WriteString(describeRow(run, s))
		if n, ok := run.NodeOf(trace.SpanID(i)); ok {
			fmt.Fprintf(&b, " node %d of graph %d", n.Number, n.Graph)
		}
		b.WriteByte('\n')
	}
	for _, c := range run.Collectives {
		fmt.Fprintf(&b, "collective %s of %d: %d bytes, %d members, the first %d+%d\n", c.Op, c.Size, c.Bytes, len(c.Members), c.Members[0].Start, c.Members[0].End-c.Members[0].Start)
	}
	for _, d := range run.Depends {
		fmt.Fprintf(&b, "%d waits for %d\n", d.To, d.From)
	}
	if d := run.Damage(); d.Skipped > 0 {
		fmt.Fprintf(&b, "%d of %d kernels are unread\n", d.Skipped, d.Skipped+d.Kernels)
	}
	for _, e := range run.Ledger.Entries {
		fmt.Fprintf(&b, "%s %d: %s (%s %d)\n", e.Action, e.Count, e.Reason, e.Unit, e.Positions[0])
	}
	return b.String()
}

func describeRow(run *trace.Run, s trace.Span) string {
	var b strings.Builder
	op := int32(trace.None)
	if k := run.Kernel(s); k != nil {
		op = k.Op
		s := run.Setup(k)
		fmt.Fprintf(&b, " grid %v block %v shared %d registers %d stream %d correlation %d", s.Grid, s.Block, s.Shared, s.Registers, s.Stream, k.Correlation)
		if k.Launch != trace.None {
			fmt.Fprintf(&b, " launch %d", k.Launch)
		}
	}
	if c := run.Comm(s); c != nil {
		fmt.Fprintf(&b, " comm %s seq %d in %d out %d %s", c.Op, c.Seq, c.In, c.Out, c.DType)
		if c.Sent > 0 {
			fmt.Fprintf(&b, " sent %d", c.Sent)
		}
		b.WriteString(map[bool]string{true: " even"}[c.Even] + map[bool]string{true: " by copy engines"}[c.Engines])
		if c.Group != trace.None {
			fmt.Fprintf(&b, " group %+v", run.Groups[c.Group])
		}
		if c.Peer != trace.None {
			fmt.Fprintf(&b, " peer %d", c.Peer)
		}
	}
	if c := run.Copy(s); c != nil {
		op = c.Op
		fmt.Fprintf(&b, " %s %d bytes stream %d", c.Dir, c.Bytes, c.Stream)
	}
	if s.Attr != trace.None && (s.Kind == trace.HostCall || s.Kind == trace.Launch) {
		c := run.Calls[s.Attr]
		op = c.Op
		fmt.Fprintf(&b, " correlation %d external %d", c.Correlation, c.External)
	}
	if op != trace.None {
		o := run.Operators[op]
		fmt.Fprintf(&b, " op %+v", struct {
			Name  string
			Dims  [][]int64
			Types []string
			Lists [][][]int64
		}{o.Name, o.Dims, o.Types, o.Lists})
		if len(o.Strides) > 0 {
			fmt.Fprintf(&b, " strides %v", o.Strides)
		}
	}
	return b.String()
}

// TestGoldens reads every case of testdata/read.txtar: file NAME is the input,
// NAME.want the run or the error. -update rewrites it.
func TestGoldens(t *testing.T) {
	const file = "testdata/read.txtar"
	archive := must.Have(txtar.ParseFile(file))(t)
	var out txtar.Archive
	out.Comment = archive.Comment
	want := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = string(f.Data)
	}
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".want") {
			continue
		}
		var got string
		run, err := Read(strings.NewReader(string(f.Data)), Options{File: f.Name})
		if err != nil {
			got = "error " + err.Error() + "\n"
			checkPosition(t, f.Name, err, len(f.Data))
		} else {
			got = describe(run)
			if d := sameRun(run, writeRead(t, run)); d != "" {
				t.Errorf("%s: written and read back: %s", f.Name, d)
			}
			if slices.Contains(asRecorded, f.Name) {
				checkAsRecorded(t, f.Name, run)
			}
		}
		if d := cmp.Diff(want[f.Name+".want"], got); d != "" && !*update {
			t.Errorf("%s: -want +got:\n%s", f.Name, d)
		}
		out.Files = append(out.Files, f, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
	}
	if *update {
		must.Do(t, os.WriteFile(file, txtar.Format(&out), 0o644))
	}
}

// asRecorded are inputs whose collectives and operators are the same when their rank is written as the profiler records it.
var asRecorded = []string{"copies-between-barriers.json", "strides.json", "memory.json", "kineto-nvidia-rank3.json"}

func checkAsRecorded(t *testing.T, name string, run *trace.Run) {
	t.Helper()
	facts := func(run *trace.Run) (all []string) {
		for i := range run.Collectives {
			c := &run.Collectives[i]
			all = append(all, fmt.Sprintf("%s of %d: %d bytes in %d ns", c.Op, c.Size, c.Bytes, c.Members[0].End-c.Members[0].Start))
		}
		for _, op := range run.Operators {
			all = append(all, fmt.Sprintf("%s %v %v", op.Name, op.Dims, op.Strides))
		}
		slices.Sort(all) // operators that were alike but for strides that are not kept become one
		return slices.Compact(all)
	}
	var file strings.Builder
	must.Do(t, WriteRank(&file, run, 0, nil))
	if name == "strides.json" && !strings.Contains(file.String(), `"Input Strides":[[4,20,1],[4,1],[]]`) {
		t.Errorf("%s lacks the strides", file.String())
	}
	again := must.Have(Read(strings.NewReader(file.String()), Options{File: "rank0.json"}))(t)
	if d := cmp.Diff(facts(run), facts(again)); d != "" {
		t.Errorf("%s: written as recorded and read back: %s", name, d)
	}
}

// checkPosition requires a typed error whose position is in the input.
func checkPosition(t *testing.T, name string, err error, size int) {
	t.Helper()
	var e *trace.SyntaxError
	if !errors.As(err, &e) {
		t.Errorf("%s: %T is no SyntaxError", name, err)
		return
	}
	if e.Pos < 0 || e.Pos > int64(size) {
		t.Errorf("%s: position %d of %d bytes", name, e.Pos, size)
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Errorf("%s: more than one line: %s", name, err)
	}
}

// TestOrderOfEventsDoesNotMatter shuffles the events of each golden with one object per
// line.
func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	archive := must.Have(txtar.ParseFile("testdata/read.txtar"))(t)
	shuffled := 0
	for _, f := range archive.Files {
		head, rest, ok := strings.Cut(string(f.Data), "\"traceEvents\":[\n")
		body, tail, ok2 := strings.Cut(rest, "\n]")
		if !ok || !ok2 || strings.HasSuffix(f.Name, ".want") {
			continue
		}
		want, err := Read(strings.NewReader(string(f.Data)), Options{File: f.Name})
		if err != nil {
			continue
		}
		shuffled++
		events := strings.Split(strings.TrimSuffix(body, ","), ",\n")
		for seed := range uint64(20) {
			rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			in := head + "\"traceEvents\":[\n" + strings.Join(events, ",\n") + "\n]" + tail
			got, err := Read(strings.NewReader(in), Options{File: f.Name})
			if err != nil {
				t.Fatal(f.Name, err)
			}
			if d := sameRun(want, got); d != "" {
				t.Fatalf("%s, seed %d: -in order +shuffled:\n%s\n%s", f.Name, seed, d, in)
			}
		}
	}
	if shuffled < 5 {
		t.Fatalf("only %d goldens were shuffled", shuffled)
	}
}

// TestLimit: the limit stops an endless input.
func TestLimit(t *testing.T) {
	_, err := Read(&endless{[]byte(`[`), []byte(`{"ph":"X","ts":1,"dur":1},`)}, Options{File: "bomb.json", Limit: 3 << 20})
	if err == nil || !strings.Contains(err.Error(), "more than 3 MiB of JSON") {
		t.Fatal(err)
	}
	checkPosition(t, "bomb.json", err, 3<<20)
	_, err = Read(&endless{[]byte(`{"x":"`), []byte(strings.Repeat("a", 1<<16))}, Options{File: "string.json"})
	if err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Fatal(err)
	}
	_, err = Read(&endless{[]byte(`{"x":`), []byte(`[`)}, Options{File: "deep.json"})
	if err == nil || !strings.Contains(err.Error(), "unexpected") {
		t.Fatal(err)
	}
}

// endless returns a reader of head followed by endless repetitions of body.
type endless struct{ head, body []byte }

func (e *endless) Read(b []byte) (int, error) {
	if len(e.head) > 0 {
		n := copy(b, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	n := 0
	for n < len(b) {
		k := copy(b[n:], e.body)
		if k < len(e.body) {
			e.head = e.body[k:]
		}
		n += k
	}
	return n, nil
}

// FuzzRead: no input panics or hangs; an error has a position in the input; a run is
// valid, is the same when written and read back, and can be merged.
func FuzzRead(f *testing.F) {
	archive := must.Have(txtar.ParseFile("testdata/read.txtar"))(f)
	for _, c := range archive.Files {
		if !strings.HasSuffix(c.Name, ".want") {
			f.Add(c.Data)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		run, err := Read(strings.NewReader(string(b)), Options{File: "fuzz.json"})
		if err != nil {
			checkPosition(t, "fuzz.json", err, len(b))
			return
		}
		checkRun(t, run)
		if d := sameRun(run, writeRead(t, run)); d != "" {
			t.Errorf("written and read back: %s", d)
		}
		other := must.Have(Read(strings.NewReader(`[{"ph":"X","cat":"kernel","name":"nccl","ts":1,"dur":1,"args":{"Collective name":"allreduce"}}]`), Options{File: "rank77.json"}))(t)
		if joint, err := assemble.Join([]*trace.Run{run, other}, "joint"); err == nil {
			checkRun(t, joint)
		}
	})
}

// checkRun checks the invariants of trace.Run and those of this reader.
func checkRun(t *testing.T, run *trace.Run) {
	t.Helper()
	must.Do(t, trace.Validate(run))
	for i, s := range run.Spans {
		if s.Kind.OnDevice() && s.Attr == trace.None && run.Lanes[s.Lane].Kind == trace.Queue {
			t.Fatalf("span %d: device work without a row", i)
		}
		describeRow(run, s) // follows every index
	}
}

// What is no process of a file that SGLang merged of all ranks' profiles.
func TestNoProcessOfMerged(t *testing.T) {
	for _, pid := range []string{"65212", "[TP] 0", "[TPx1] 0", "[DP00] 0", "[Unknown] 7", "[TP99999999999] 1", "[-] 1", "python [3] 4"} {
		if _, _, ok := mergedPid(pid); ok {
			t.Errorf("%q taken for a process of a merged file", pid)
		}
	}
}
