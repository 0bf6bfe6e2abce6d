package format

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestDoubledEvents: a trace that has every event twice gives the run of the trace itself,
// and says that all is damaged.
func TestDoubledEvents(t *testing.T) {
	csv := "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
	for i := range 5 {
		csv += fmt.Sprintf("KERNEL_DISPATCH,Agent 4,1,k%d,%d,%d,%d\n", i%2, i+1, 100*i, 100*i+50)
	}
	header, rows, _ := strings.Cut(csv, "\n")
	once, twice := sampleEvents(t)
	for _, c := range []struct{ name, once, twice string }{
		{"rank0.json", once, twice},
		{"x_kernel_trace.csv", csv, header + "\n" + rows + rows},
	} {
		t.Run(c.name, func(t *testing.T) {
			var texts [2]string
			for i, text := range []string{c.once, c.twice} {
				run := must.Have(Options{alone: true}.begin().readFile(strings.NewReader(text), c.name))(t)
				var out bytes.Buffer
				must.Do(t, chrome.Write(&out, run, nil, nil, nil))
				texts[i] = out.String()
				d := run.Damage()
				if want := i * d.Kernels; d.Doubled != want || d.Kernels == 0 {
					t.Errorf("%d of %d kernels are doubled, want %d", d.Doubled, d.Kernels, want)
				}
				if skipped := run.Ledger.Count(trace.Skipped); i == 1 && skipped < d.Kernels {
					t.Errorf("%d events skipped", skipped)
				}
			}
			if texts[0] != texts[1] {
				t.Error("the run of the doubled events differs")
			}
		})
	}
}

// sampleEvents is a sample as JSON, and with every event twice.
func sampleEvents(t *testing.T) (once, twice string) {
	t.Helper()
	f, err := os.Open("../../samples/moe-ep4/rank0.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.NewDecoder(z).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var texts [2]string
	var events []json.RawMessage
	if err := json.Unmarshal(doc["traceEvents"], &events); err != nil {
		t.Fatal(err)
	}
	for i, all := range [][]json.RawMessage{events, append(events, events...)} {
		if doc["traceEvents"], err = json.Marshal(all); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return texts[0], texts[1]
}
