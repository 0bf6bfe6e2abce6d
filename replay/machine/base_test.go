package machine

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

func mustParse(t *testing.T, text string) Machine {
	t.Helper()
	return must.Have(Parse(strings.NewReader(text), "dir/mine.yaml"))(t)
}

func TestBaseAloneIsTheProfile(t *testing.T) {
	for _, name := range Names() {
		if d := cmp.Diff(mustLoad(t, name), mustParse(t, "base: "+name+"\nprofile: "+name+"\n")); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestBaseWithChanges(t *testing.T) {
	h200 := mustLoad(t, "h200")
	m := mustParse(t, `
base: h200
gpu: {groups: [], cus: 264, shared: {value: 256 KiB, source: "data sheet"}}
fabric: {egress: 785 GB/s, ingress: {value: 785 GB/s}, pair: 785 GB/s}
`)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"profile", m.Profile, "mine"},
		{"groups", m.GPU.Groups.Known(), false},
		{"cus", m.GPU.CUs, Quantity{Value: 264, Source: "set in mine.yaml, not measured; h200 has 132", Mark: Assumed}},
		{"shared", m.GPU.Shared, Quantity{Value: 256 << 10, Unit: "KiB", Source: "data sheet"}},
		{"egress", m.Fabric.Egress, Quantity{Value: 785e9, Unit: "GB/s", Source: "set in mine.yaml, not measured; h200 has 392.5 GB/s", Mark: Assumed}},
		{"ingress", m.Fabric.Ingress.Mark, Assumed},
		{"kept", m.GPU.Memory, h200.GPU.Memory},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s:\n%s", c.what, d)
		}
	}
}

// An empty list drops any table of the base, and what is printed says so.
func TestEmptyListDropsATable(t *testing.T) {
	m := mustParse(t, "base: h200\ngpu: {stream: [], groups: []}\nmatmul: {clusters: [], tiles: []}\nlibrary: {all_reduce: {times: []}}\n")
	for what, table := range map[string]Table{"stream": m.GPU.Stream, "groups": m.GPU.Groups, "clusters": m.Matmul.Clusters, "tiles": m.Matmul.Tiles, "times": m.Library.AllReduce.Times} {
		if table.Known() || table.Mark != Unknown {
			t.Errorf("%s: %+v", what, table)
		}
	}
	var b strings.Builder
	must.Do(t, WriteYAML(m, &b))
	if d := cmp.Diff(m, mustParse(t, b.String())); d != "" {
		t.Error(d)
	}
}

// What was measured of the base was not measured of another device.
func TestAnotherDeviceIsAssumed(t *testing.T) {
	m := mustParse(t, "base: h200\ngpu: {name: \"NVIDIA H300\", cus: {value: 132, source: \"data sheet\"}}\n")
	for _, e := range Entries(&m) {
		if mark, why := e.mark(); mark == Sourced && e.Key != "gpu.cus" {
			t.Errorf("%s counts as measured: %s", e.Key, why)
		} else if mark == Assumed && !strings.HasPrefix(why, "as h200") {
			t.Errorf("%s: %s", e.Key, why)
		}
	}
}

func TestBrokenBaseFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{
			"base: h200\ngpu: {cus: 264}\n",
			"dir/mine.yaml:2:12: gpu.groups: groups make up 132 CUs, not the 264 of gpu.cus (rows are [CUs of a group, groups of that size]; to leave the groups unknown, write groups: [])",
		},
		{
			"base: h200\ngpu:\n  cus: 70000\n",
			"dir/mine.yaml:3:8: gpu.cus: 70000 CUs; at most 65536",
		},
		{
			"base: h200\nmatmul:\n  clusters:\n    - [128, 256, 2, 16]\n",
			"dir/mine.yaml:4:7: matmul.clusters: tiles of 128x256 in clusters of 2x16 do not fit: the largest of gpu.groups has 18 CUs (give larger gpu.groups or smaller clusters; to leave the groups unknown, write groups: [])",
		},
		{
			"base: h200\nlibrary: {cluster: 32}\n",
			"dir/mine.yaml:2:20: library.cluster: clusters of 32 channels do not fit: the largest of gpu.groups has 18 CUs (give larger gpu.groups or smaller clusters; to leave the groups unknown, write groups: [])",
		},
		{
			"base: h200\nfabric: {egress: 785 GB/s, ingress: 785 GB/s}\n",
			"dir/mine.yaml:2:18: fabric.pair: 392.5 GB/s is less than the 785 GB/s out of and into a GPU, but through a switch one pair takes all of it (raise fabric.pair too; to ask what faster links would change, use replay --what-if links=2)",
		},
		{
			"base: t3\nnetwork: {node: 8}\n",
			"network.nics is missing",
		},
		{
			"base: h200\ngpu: {shared: 64 KiB}\n",
			"dir/mine.yaml:2:15: library.shared: a channel's workgroup needs 104832, gpu.shared has 65536 (give less of it, or more of gpu.shared)",
		},
		{"base: h200\ngpu: {cus: []}\n", "gpu.cus: "},
		{"base: h200\ngpu: {flopps: 3}\n", "unknown key gpu.flopps (did you mean gpu.flops?)"},
		{"base: h200\nmatmul: {crowd: 0.1}\n", "unknown key matmul.crowd (it is matmul.idle_gain now)"},
		{"base: h200\ngpu: 5\n", "dir/mine.yaml:2:6: gpu is a section, and this is none (write gpu: {KEY: ..., ...})"},
		{"base: h200\ngpu: {cus: {value: 1, value: 2}}\n", "dir/mine.yaml:2:23: gpu.cus.value stands twice, first at line 2 (keep one)"},
		{"base: h200\ngpu: {cus: 2}\ngpu.cus: 3\n", "dir/mine.yaml:3:1: gpu.cus stands twice, first at line 2 (keep one)"},
		{"base: h200\n---\nbase: h100\n", "dir/mine.yaml:3:5: a second document (write two files)"},
		{"base: [h200]\n", "base: \"\" is no profile (one of a100, a100-40gb, "},
	} {
		_, err := Parse(strings.NewReader(c.text), "dir/mine.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.text, err, c.want)
		}
	}
	_, err := Parse(strings.NewReader("base: h200\ngpu: {groups: [[1, 132]]}\n"), "mine.yaml")
	if err == nil || !strings.Contains(err.Error(), "mine.yaml:2:15: matmul.clusters: tiles of 64x24 in clusters of 4x2 do not fit: the largest of gpu.groups has 1 CUs") {
		t.Errorf("groups of one CU: %v", err)
	}
}

// Whatever groups and clusters a profile has: it is refused, or the laws that go by them hold.
func TestGroupsThatParseDoNotBreakLaws(t *testing.T) {
	parsed := 0
	for seed := range uint64(600) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		small := func(most int) int { return 1 + rnd.IntN(most) }
		sum, rows := 0, ""
		for size, i := 0, 0; i < small(3); i++ {
			size += small(9)
			n := small(6)
			sum += size * n
			rows += fmt.Sprintf("[%d, %d], ", size, n)
		}
		if rnd.IntN(8) == 0 {
			sum += rnd.IntN(3)
		}
		text := fmt.Sprintf("base: h100\ngpu: {cus: %d, groups: [%s]}\nmatmul: {clusters: [[128, 128, %d, %d], [128, 256, %d, 1]]}\nlibrary: {cluster: %d}\n",
			sum, rows, small(4), small(3), small(8), small(8))
		m, err := Parse(strings.NewReader(text), "random.yaml")
		if err != nil {
			continue
		}
		parsed++
		cus := int(m.GPU.CUs.Value)
		if n := len(m.GPU.Grouping()); n != cus {
			t.Fatalf("%s: %d CUs in groups", text, n)
		}
		for size := 1; size <= 20; size++ {
			if n := m.GPU.Clustered(size); n != float64(size*m.GPU.Clusters(size, 0)) || n > float64(cus) {
				t.Errorf("%s: clusters of %d use %g CUs", text, size, n)
			}
			for held := 0; held <= cus+1; held++ {
				if n := m.GPU.Clusters(size, held); n < 0 || n*size > cus {
					t.Errorf("%s: %d clusters of %d with %d CUs held", text, n, size, held)
				}
			}
		}
		for range 8 {
			M, N, K := int64(small(9000)), int64(small(9000)), int64(small(9000))
			ti := m.Tiling(M, N, K)
			if c := m.Cluster(ti); c < 1 || !(ti.Seconds > 0) || math.IsInf(ti.Seconds, 0) || ti.Waves < 1 {
				t.Errorf("%s: %dx%dx%d in clusters of %d: %+v", text, M, N, K, c, ti)
			}
		}
	}
	if parsed < 100 {
		t.Errorf("only %d of 600 profiles were read: the property tests nothing", parsed)
	}
}

// tree is files by path.
type tree map[string]string

func (t tree) open(path string) (io.ReadCloser, error) {
	text, ok := t[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// A base may be a file, relative to the file that names it.
func TestBaseFiles(t *testing.T) {
	files := tree{
		"dir/mine.yaml":        "base: site/common.yaml\ngpu: {memory: 4 TB/s}\n",
		"dir/site/common.yaml": "base: ../h100s.yml\nprofile: site\ngpu: {read: 3 TB/s}\n",
		"dir/h100s.yml":        "base: h100\n",
		"dir/self.yaml":        "base: self.yaml\n",
		"dir/a.yaml":           "base: ./b.yaml\n",
		"dir/b.yaml":           "base: a.yaml\n",
		"dir/gone.yaml":        "profile: x\nbase: nowhere.yaml\n",
		"dir/wrong.yaml":       "base: bad.yaml\ngpu: {cus: -1}\n",
		"dir/bad.yaml":         "base: h100\ngpu: {cus: many}\n",
	}
	for i := range 10 {
		files[fmt.Sprintf("deep%d.yaml", i)] = fmt.Sprintf("base: deep%d.yaml\n", i+1)
	}
	m, err := ParseFile("dir/mine.yaml", files.open)
	if err != nil {
		t.Fatal(err)
	}
	if m.Profile != "mine" || m.GPU.Memory.Value != 4e12 || m.GPU.Read.Value != 3e12 || m.GPU.CUs.Value != 132 {
		t.Errorf("%s: memory %v, read %v, %v CUs", m.Profile, m.GPU.Memory, m.GPU.Read, m.GPU.CUs)
	}
	if want := "set in mine.yaml, not measured; site has 3.028 TB/s"; m.GPU.Memory.Source != want {
		t.Errorf("memory: %s, want %s", m.GPU.Memory.Source, want)
	}
	for path, want := range map[string]string{
		"dir/self.yaml":  "dir/self.yaml:1:7: base: a file is its own base: dir/self.yaml, dir/self.yaml (name another file or a profile)",
		"dir/a.yaml":     "dir/b.yaml:1:7: base: a file is its own base: dir/a.yaml, dir/b.yaml, dir/a.yaml (name another file or a profile)",
		"dir/gone.yaml":  `dir/gone.yaml:2:7: base: "dir/nowhere.yaml" does not exist (the path is relative to this file)`,
		"dir/wrong.yaml": `dir/bad.yaml:2:12: gpu.cus: "many" is no number (write {value: NUMBER, source: TEXT})`,
		"deep0.yaml":     "deep7.yaml:1:7: base: more than 8 files, each the base of the one before (name a profile)",
	} {
		if _, err := ParseFile(path, files.open); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", path, err, want)
		}
	}
	_, err = Parse(strings.NewReader("base: other.yaml"), "x.yaml")
	if want := `x.yaml:1:7: base: "other.yaml" is a file, and this profile cannot refer to files (name a profile)`; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
