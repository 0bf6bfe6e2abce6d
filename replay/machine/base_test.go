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
