package format

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// shapeless is a Kineto file without record_shapes: two products, the second
// launching a kernel from an operator inside it. Numbers of calls are as given.
func shapeless(rank int, numbers string, calls ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"distributedInfo":{"rank":%d,"world_size":2},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[`, rank)
	for i, n := range calls {
		at := 100 * (i + 1)
		fmt.Fprintf(&b, `
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":70,"tid":70,"ts":%d,"dur":50,"args":{"External id":%d,"Ev Idx":%d%s}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":70,"tid":70,"ts":%d,"dur":5,"args":{"correlation":%d}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%d,"dur":20,"args":{"correlation":%d,"External id":%d,"stream":7,"device":0}},`,
			at, 900+i, i, fmt.Sprintf(numbers, n), at+10, 1+i, at+40, 1+i, 900+i)
	}
	return b.String() + `{}]}`
}

// recorded is an execution trace as PyTorch's observer writes it today.
func recorded(pid int, calls ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"schema": "1.1.1-chakra.0.0.4", "pid": %d, "time": "2025-04-11 13:43:51", "start_ts": 2188364098,
  "nodes": [
    {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1, "inputs": {"values": [], "shapes": [], "types": [], "strides": []},
     "outputs": {"values": [], "shapes": [], "types": []}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 0}]}`, pid)
	for i, n := range calls {
		fmt.Fprintf(&b, `,
    {"id": %d, "name": "aten::mm", "ctrl_deps": 2,
     "inputs": {"values": [[4,5,0,1048576,2,"cuda:0"],-inf], "shapes": [[%d,32],[32,64]], "types": ["Tensor(c10::BFloat16)","Tensor(c10::BFloat16)"]},
     "outputs": {"values": [], "shapes": [], "types": []},
     "attrs": [{"name": "fw_parent", "type": "uint64", "value": 0},{"name": "rf_id", "type": "uint64", "value": %d}]}`, 3+i, 16*(i+1), n)
	}
	return b.String() + "\n  ],\n  \"finish_ts\": 2188364099\n}"
}

// older is the same before attributes: schema 1.0.1.
func older(calls ...int) string {
	b := `{"schema":"1.0.1","pid":7,"time":"2023","start_ts":1,"nodes":[`
	for i, n := range calls {
		b += fmt.Sprintf(`{"name":"aten::mm","id":%d,"rf_id":%d,"parent":2,"inputs":[[4]],"input_shapes":[[%d,32],[32,64]],"input_types":["Tensor(c10::BFloat16)","Tensor(c10::BFloat16)"],"outputs":[]},`, 3+i, n, 16*(i+1))
	}
	return strings.TrimSuffix(b, ",") + "]}"
}

// chakraTrace is the same as Chakra converts it; with or without a version.
func chakraTrace(version bool, calls ...int) string {
	message := func(b []byte) []byte { return append(protowire.AppendVarint(nil, uint64(len(b))), b...) }
	text := func(b []byte, field protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
	}
	number := func(name string, v uint64) string {
		return string(protowire.AppendVarint(protowire.AppendTag(text(nil, 1, name), 9, protowire.VarintType), v))
	}
	var metadata []byte
	attr := protowire.Number(1)
	if version {
		metadata, attr = text(nil, 1, "0.0.4"), 2
	}
	metadata = text(metadata, attr, string(text(text(nil, 1, "schema"), 29, "1.0.2-chakra.0.0.4")))
	out := message(text(metadata, attr, number("pid", 70)))
	for i, n := range calls {
		node := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(3+i))
		node = text(node, 2, "aten::mm")
		node = text(node, 8, string(text(text(nil, 2, fmt.Sprintf("[[%d, 32], [32, 64]]", 16*(i+1))), 3, "['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']")))
		out = append(out, message(text(node, 10, number("rf_id", uint64(n))))...)
	}
	return string(out)
}

// shapesOf lists, by kernel in order, what its operator's first input is.
func shapesOf(run *trace.Run) (all []string) {
	for _, s := range run.Spans {
		if s.Kind == trace.Compute {
			o := run.Operator(run.Kernel(s))
			if o == nil {
				all = append(all, "-")
				continue
			}
			all = append(all, fmt.Sprint(o.Name, o.Dims[0], o.Types[0]))
		}
	}
	return all
}

const recordID = `,"Record function id":%d`

// An execution trace supplies what its Kineto file lacks, and nothing that is another's.
func TestCompanion(t *testing.T) {
	first, second := "aten::mm[16 32]c10::BFloat16", "aten::mm[32 32]c10::BFloat16"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
		note  string
	}{
		{"rf_id", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "rank0_et.json": recorded(70, 11, 12)}, []string{first, second}, "operator's shapes taken from the execution trace"},
		{"rf_id in another order", map[string]string{"rank0.json": shapeless(0, recordID, 12, 11), "et_0.json.gz": zipped(recorded(70, 11, 12))}, []string{second, first}, ""},
		{"older schema", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "et.json": older(11, 12)}, []string{first, second}, ""},
		{"external id", map[string]string{"rank0.json": shapeless(0, `,"none":%d`, 0, 0), "et.json": recorded(70, 900, 901)}, []string{first, second}, ""},
		{"event index", map[string]string{"rank0.json": shapeless(0, `,"none":%d`, 0, 0, 0), "et.json": recorded(70, 7, 1, 2)}, []string{"-", second, "aten::mm[48 32]c10::BFloat16"}, "operator without shapes that the execution trace does not have"},
		{"order", map[string]string{"rank0.json": shapeless(0, `,"none":%d`, 0, 0), "et.json": recorded(70, 0, 0)}, []string{first, second}, ""},
		{"not as many", map[string]string{"rank0.json": shapeless(0, `,"none":%d`, 0, 0), "et.json": recorded(70, 0, 0, 0)}, []string{"-", "-"}, "operator with shapes that the Kineto file does not have"},
		{"other names", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "et.json": strings.ReplaceAll(recorded(70, 11, 12), "aten::mm", "aten::bmm")}, []string{"-", "-"}, "operator with shapes that the Kineto file does not have"},
		{"one more on each side", map[string]string{"rank0.json": shapeless(0, recordID, 10, 11), "et.json": recorded(70, 11, 12)}, []string{"-", first}, "operator with shapes that the Kineto file does not have"},
		{"chakra", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "model.0.et": chakraTrace(true, 11, 12)}, []string{first, second}, ""},
		{"chakra without version", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "model.0.et": chakraTrace(false, 11, 12)}, []string{first, second}, ""},
		{"another rank's", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "rank1_et.json": recorded(99, 11, 12)}, []string{"-", "-"}, "execution trace ignored: no file is of its rank or process"},
		{"the process tells", map[string]string{"rank0.json": shapeless(0, recordID, 11, 12), "a.json": recorded(70, 11, 12), "b.json": recorded(71, 12, 11)}, []string{first, second}, "execution trace ignored"},
		{"ranks", map[string]string{
			"rank0.json": shapeless(0, recordID, 11), "rank1.json": shapeless(1, recordID, 11),
			"rank0_et.json": recorded(70, 11), "rank1_et.json": recorded(70, 9, 11),
		}, []string{first, second}, ""},
		{"archive", map[string]string{"all.zip": archived(t, shapeless(0, recordID, 11, 12), recorded(70, 11, 12))}, []string{first, second}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := folder(t, c.files)
			if c.files["all.zip"] != "" {
				path = filepath.Join(path, "all.zip")
			}
			run := must.Have(Open(path, Options{}))(t)
			if d := cmp.Diff(c.want, shapesOf(run)); d != "" {
				t.Error(d)
			}
			if notes := fmt.Sprint(run.Ledger); !strings.Contains(notes, c.note) {
				t.Errorf("no %q in %s", c.note, notes)
			}
		})
	}
}

// An execution trace alone has no times, and says what it needs; one that is broken says where.
func TestCompanionErrors(t *testing.T) {
	cut := recorded(70, 11)
	dir := folder(t, map[string]string{
		"et.json":         recorded(70, 11),
		"model.0.et":      chakraTrace(true, 11),
		"two/0.et":        chakraTrace(true, 11),
		"two/1.et":        chakraTrace(false, 11),
		"cut/rank0.json":  shapeless(0, recordID, 11),
		"cut/et.json":     cut[:len(cut)-60],
		"cut2/rank0.json": shapeless(0, recordID, 11),
		"cut2/0.et":       chakraTrace(true, 11)[:90],
	})
	for path, want := range map[string]string{
		"et.json":    "et.json: this is an execution trace: it has shapes but no times (give it with the Kineto trace of the same rank, as a folder or a pattern with both)",
		"model.0.et": "model.0.et: this is an execution trace: it has shapes but no times (give it with the Kineto trace",
		"two":        "0.et: this is an execution trace: it has shapes but no times (give it with the Kineto trace",
		"cut":        fmt.Sprintf("et.json:byte %d: the file ends inside a value: it is truncated", len(cut)-60),
		"cut2":       "0.et:byte 48: the file ends inside a message (it may be cut short: copy it again)",
	} {
		_, err := Open(filepath.Join(dir, path), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", path, err, want)
		}
	}
}
