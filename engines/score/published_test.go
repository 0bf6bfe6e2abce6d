package score

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	embedded "github.com/overlapse/overlapse/samples"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A workload file as it is has what its paper says of it; with another size, or under strategies that the paper does not
// have, it has nothing.
func TestPublished(t *testing.T) {
	for _, c := range []struct {
		file, from, to string
		strategies     string
		want           string // part of the sentence; "": none
	}{
		{"sc24-embedding-a2a-2nodes.yaml", "", "", "all", "31 % less, at most 58 % (SC-7, "},
		{"sc24-embedding-a2a-2nodes.yaml", "", "", "fused:occupancy=87", "Fig. 14"},
		{"sc24-embedding-a2a-2nodes.yaml", "", "", "fused:order=oblivious", "Fig. 14"},
		{"sc24-embedding-a2a-2nodes.yaml", "", "", "trigger", ""},
		{"sc24-gemv-ar.yaml", "", "", "all", "13 % less, at most 22 % (SC-3, section IV-B, Fig. 9), over sizes of which this is one"},
		{"sc24-gemv-ar.yaml", "m: 65536", "m: 65280", "all", ""},
		{"cusync-conv.yaml", "", "", "all", "1.02 to 1.20 times as fast (CS-11, section VI-C.1, Table V); batch 16 1.07"},
		{"cusync-conv.yaml", "", "", "tilesync:tickets=parts", "batch 16 1.071, here 1.223 under tilesync:policy=row:tickets=parts; why apart: Table V and"},
		{"cusync-conv.yaml", "iterations: 3", "iterations: 1", "tilesync", "batch 16 1.07"}, // of the same setting
		{"cusync-conv.yaml", "times: 105 105", "times: 100 100", "tilesync", ""},
		{"cusync-gpt3-mlp.yaml", "", "", "tilesync:policy=streamk:splits=kept", "Stream-K against kernels one after the other"},
		{"cusync-gpt3-mlp.yaml", "", "", "tilesync:tickets=parts", "(CS-raw-mlp, "},
		{"cusync-gpt3-mlp.yaml", "", "", "tilesync", "(CS-raw-mlp, "},
		{"cusync-resnet38.yaml", "", "", "tilesync", "over sizes of which this is one; here 0.97"},
		{"t3-tnlg-fc2.yaml", "", "", "trigger:arbitration=mca", "T3 with arbitration: 30 % faster, at most 47 % (T3-1, "},
		{"t3-tnlg-fc2.yaml", "", "", "trigger", "T3 without arbitration: 20 % faster, at most 39 % (T3-2, "},
		{"resource-aware-cb-ar.yaml", "", "", "multistream", "priority helps at medium to high numbers of blocks (RA-4, "},
		{"resource-aware-mb-ar.yaml", "", "", "multistream:buffers=2:priority=on", "(RA-10, section 4.2.2); a100-40gbx4, memory-bound: here too under multistream"},
		{"resource-aware-cb-a2a.yaml", "", "", "multistream", "(RA-10, "},
		{"resource-aware-mb-a2a.yaml", "", "", "multistream", "(RA-10, "},
		{"all-reduce.yaml", "", "", "bulk", "only of other sizes or machines than this file's; compare: overlapse reproduce clusters"}, // none is of 64 MiB
		{"all-reduce.yaml", "machine: h100:8", "machine: h100:4", "bulk", ""},
		{"ulysses.yaml", "", "", "bulk", "no number of this operator is among those"},
	} {
		text := must.Have(fs.ReadFile(embedded.Workloads(), c.file))(t)
		sel := must.Have(engines.ParseSelection(c.strategies))(t)
		got, err := Published(embedded.Workloads(), "elsewhere/"+c.file, bytes.ReplaceAll(text, []byte(c.from), []byte(c.to)), sel, nil)
		if c.from == "" {
			got, err = Published(embedded.Workloads(), c.file, text, sel, nil)
		}
		if err != nil || !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s %v %q: %q, %v; want %q", c.file, c.strategies, c.to, got, err, c.want)
		}
	}
}
