package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Dependencies between the nodes of a captured graph are exact, and between nodes there are no
// others: neither by the order of a stream nor by times.
//
//	stream 7 |eager  AAAA  BBBB      EEEE|   B after A, E after C and D, as the file states
//	stream 8 |             CCCCCCC       |   C after A
//	stream 9 |             DD            |   D states nothing: a root of the graph
func TestStatedDependencies(t *testing.T) {
	var events []string
	kernel := func(name string, stream, start, end, correlation, node int) {
		graph := ""
		if node > 0 {
			graph = fmt.Sprintf(`,"graph id":1,"graph node id":%d`, node)
		}
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d%s}}`,
			name, stream, start, end-start, stream, correlation, graph))
	}
	call := func(name string, start, correlation int) {
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":%q,"pid":9,"tid":9,"ts":%d,"dur":1,"args":{"correlation":%d}}`, name, start, correlation))
	}
	call("cudaLaunchKernel", 0, 1)
	call("cudaGraphLaunch", 2, 2)
	kernel("eager", 7, 5, 10, 1, 0)
	kernel("A", 7, 12, 20, 2, 1)
	kernel("B", 7, 21, 30, 2, 2)
	kernel("C", 8, 21, 40, 2, 3)
	kernel("D", 9, 20, 25, 2, 4)
	kernel("E", 7, 41, 50, 2, 5)
	for i, a := range [][4]int{{7, 20, 7, 21}, {7, 20, 8, 21}, {8, 40, 7, 41}, {9, 25, 7, 41}} {
		events = append(events, fmt.Sprintf(`{"ph":"s","id":%d,"pid":0,"tid":%d,"ts":%d,"cat":"ac2g"},{"ph":"f","id":%d,"pid":0,"tid":%d,"ts":%d,"cat":"ac2g"}`,
			1<<40+i, a[0], a[1], 1<<40+i, a[2], a[3]))
	}
	run := must.Have(chrome.Read(strings.NewReader(`{"traceEvents":[`+strings.Join(events, ",")+`]}`), chrome.Options{}))(t)
	w := must.Have(Workload(run, Options{}))(t)
	checkInvariants(t, w)
	var got []string
	for i := range w.Ops {
		line := w.Ops[i].Name + " " + w.EvidenceOf(int32(i)).String()
		for _, e := range w.Edges(int32(i)) {
			line += fmt.Sprintf(", %s %s %s", w.Ops[e.Op].Name, e.Kind, e.Evidence)
		}
		got = append(got, line)
	}
	want := strings.Join([]string{
		"eager guessed",
		"A guessed, eager stream order only guessed",
		"D exact",
		"B exact, A stream order only exact",
		"C exact, A read after write exact",
		"E exact, D read after write exact, C read after write exact",
	}, "\n")
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, d := range w.Ops[5].After {
		if w.Ops[d.Op].Name != "B" && d.Why != workload.Stated {
			t.Errorf("E waits for %s by %s", w.Ops[d.Op].Name, d.Why)
		}
	}
}
