package format

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
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

// TestExtremeNumbers puts extreme values in the place of every number of a file, of a
// profiler and of overlapse. The result is a valid run or an error: a run that the reader
// made and the validator refuses is a defect of the reader.
func TestExtremeNumbers(t *testing.T) {
	kineto := `{"deviceProperties":[{"id":0,"name":"H100","totalGlobalMem":80,"numSms":132,"warpSize":32,"regsPerMultiprocessor":65536}],
	"distributedInfo":{"rank":0,"world_size":2,"pg_config":[{"pg_name":"0","pg_size":2,"ranks":[0,1]}]},"baseTimeNanoseconds":1700000000000000000,
	"traceEvents":[
	{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":5,"dur":2,"args":{"correlation":3,"External id":4}},
	{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":4,"dur":4,"args":{"External id":4,"Input Dims":[[8,8],[8,8]]}},
	{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":10,"dur":5,"args":{"device":0,"stream":7,"correlation":3,"External id":4,
	 "registers per thread":32,"shared memory":1024,"grid":[4,2,1],"block":[128,1,1]}},
	{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":8,"ts":15,"dur":5,"args":{"device":0,"stream":8,"Collective name":"allreduce",
	 "In msg nelems":64,"Out msg nelems":64,"Group size":2,"dtype":"BFloat16","Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":1}},
	{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":20,"dur":5,"args":{"device":0,"stream":7,"bytes":64}},
	{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":7,"ts":26,"dur":1,"args":{"device":0,"stream":7,"wait_on_stream":8}}]}`
	run := must.Have(Options{alone: true}.begin().readFile(strings.NewReader(kineto), "kineto.json"))(t)
	var own bytes.Buffer
	must.Do(t, chrome.Write(&own, run, nil, nil, nil))
	values := []string{
		"-1", "0", "1e308", "9223372036854775807", "-9223372036854775808", "2305843009213693951", "-2305843009213693.951", "4294967296", "null", `""`,
	}
	numbers := regexp.MustCompile(`-?\d+(\.\d+)?`)
	read, refused := 0, 0
	for _, text := range []string{kineto, own.String()} {
		for _, at := range numbers.FindAllStringIndex(text, -1) {
			for _, v := range values {
				run, err := Options{alone: true}.begin().readFile(strings.NewReader(text[:at[0]]+v+text[at[1]:]), "x.json")
				if err == nil {
					err = trace.Check(run)
				}
				var syntax *trace.SyntaxError
				switch {
				case err == nil:
					read++
				case !errors.As(err, &syntax) || syntax.File == "" || strings.Contains(err.Error(), "contradict"):
					t.Errorf("%s for %q at %d: %v", v, text[at[0]:at[1]], at[0], err)
				default:
					refused++
				}
			}
		}
	}
	if read < 500 || refused == 0 {
		t.Errorf("%d read, %d refused", read, refused)
	}
}
