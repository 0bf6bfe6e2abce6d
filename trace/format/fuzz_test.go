package format

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// rankFiles are files of ranks in every text format, beside the execution trace of one.
func rankFiles(tb testing.TB) [][]byte {
	tb.Helper()
	files := [][]byte{
		[]byte(kineto(0)), []byte(kineto(1)), []byte(kineto(2)), []byte(wg), []byte(kernelAt(5)),
		[]byte(`{"0":[[100,6,1,0,1,2],[300,6,1,0,0,2]],"dispatches":{"2":"k"}}`),
		[]byte(`{"schema":"1.1.1-chakra.0.0.4","pid":7,"nodes":[{"id":1,"name":"aten::mm","ctrl_deps":0,"attrs":[]}]}`),
	}
	for _, text := range []string{kineto(0), kineto(3), wg} { // as overlapse writes them
		run := must.Have(Options{alone: true}.begin().readFile(strings.NewReader(text), "x"))(tb)
		var out bytes.Buffer
		must.Do(tb, chrome.Write(&out, run, nil, nil, nil))
		files = append(files, out.Bytes())
	}
	return files
}

// checkFolder opens files as those of one run. Either the error says which file
// it is about (by the name that the file gives itself, if overlapse wrote it), or the run is valid, and the same when written and read back.
func checkFolder(t *testing.T, dir string, files ...[]byte) {
	t.Helper()
	for i, data := range files {
		path := filepath.Join(dir, fmt.Sprintf("%d.json", i))
		if len(data) == 0 {
			os.Remove(path)
			continue
		}
		must.Do(t, os.WriteFile(path, data, 0o600))
	}
	run, err := Open(dir, Options{Limit: 1 << 24})
	if err != nil {
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || syntax.File == "" {
			t.Errorf("an error without its file: %v", err)
		}
		return
	}
	must.Do(t, trace.Validate(run))
	var out bytes.Buffer
	must.Do(t, chrome.Write(&out, run, nil, nil, nil))
	back := must.Have(chrome.Read(&out, chrome.Options{File: "back.json"}))(t)
	must.Do(t, trace.Validate(back))
	if len(back.Spans) != len(run.Spans) || len(back.Ledger.Entries) > 0 {
		t.Fatalf("%d spans of %d came back: %v", len(back.Spans), len(run.Spans), back.Ledger)
	}
}

// FuzzFolder opens two to four files as the ranks of one run.
func FuzzFolder(f *testing.F) {
	files := rankFiles(f)
	f.Add(files[0], files[1], files[2], files[6])
	f.Add(files[7], files[8], files[3], []byte{})
	f.Add(files[3], files[9], []byte{}, []byte{})
	f.Add(files[4], files[5], files[0], files[8])
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) { checkFolder(t, t.TempDir(), a, b, c, d) })
}

// TestMutatedFolders is FuzzFolder on random changes to files that are valid.
func TestMutatedFolders(t *testing.T) {
	const folders = 600
	files := rankFiles(t)
	dir := t.TempDir()
	for seed := range uint64(folders) {
		random := rand.New(rand.NewPCG(seed, 0))
		var chosen [4][]byte
		for i := range 2 + random.IntN(3) {
			chosen[i] = bytes.Clone(files[random.IntN(len(files))])
			if random.IntN(3) > 0 {
				chosen[i] = mutated(chosen[i], random)
			}
		}
		if checkFolder(t, dir, chosen[:]...); t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, bytes.Join(chosen[:], []byte("\n---\n")))
		}
	}
}

// mutated replaces numbers by others, and cuts, repeats and flips a few bytes.
func mutated(b []byte, random *rand.Rand) []byte {
	numbers := []string{"0", "-1", "1", "7", "1e3", "4294967296", "9223372036854775807", "2305843009213693951", "-9223372036854775808", "1e308", "null"}
	for range 1 + random.IntN(3) {
		i := random.IntN(len(b))
		j := min(len(b), i+1+random.IntN(40))
		switch random.IntN(6) {
		case 0:
			b[i] ^= 1 << random.IntN(8)
		case 1:
			b = append(b[:i:i], b[j:]...)
		case 2:
			b = append(b[:j:j], b[i:]...)
		default:
			from := i + bytes.IndexAny(b[i:], "0123456789")
			if from < i {
				continue
			}
			to := from
			for to < len(b) && b[to] >= '0' && b[to] <= '9' {
				to++
			}
			b = append(append(b[:from:from], numbers[random.IntN(len(numbers))]...), b[to:]...)
		}
		if len(b) == 0 {
			return []byte("{}")
		}
	}
	return b
}

// What is read is within the bounds of what is written: no reader takes a time that another refuses.
func TestTimesAtTheBound(t *testing.T) {
	const most = trace.MaxTime
	for name, text := range map[string]string{
		"kernel CSV":    fmt.Sprintf("Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\nKERNEL_DISPATCH,1,1,a,1,0,5\nKERNEL_DISPATCH,1,1,b,2,%d,%d\nKERNEL_DISPATCH,1,1,c,3,9,%d\n", most-1, most, most+1),
		"workgroup CSV": fmt.Sprintf("Kernel_Name,Workgroup_Id,Start_Timestamp,End_Timestamp\na,0,0,5\nb,0,%d,%d\nc,0,9,%d\n", most-1, most, most+1),
		"Chrome trace": fmt.Sprintf(`[{"ph":"X","name":"a","ts":0,"dur":5},{"ph":"X","name":"b","ts":%d.%03d,"dur":0.001},{"ph":"X","name":"c","ts":9,"dur":%d.%03d}]`,
			(most-1)/1000, (most-1)%1000, most/1000, most%1000),
	} {
		run, err := Open("-", Options{Stdin: strings.NewReader(text)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if run.End != most || run.Ledger.Count(trace.Skipped) != 1 {
			t.Errorf("%s: ends at %d, %v", name, run.End, run.Ledger)
		}
		dir := t.TempDir()
		var out bytes.Buffer
		must.Do(t, chrome.Write(&out, run, nil, nil, nil))
		checkFolder(t, dir, out.Bytes())
	}
}
