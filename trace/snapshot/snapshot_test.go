package snapshot

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type point struct {
	X, Y int64
	Kind uint8
}

type tree struct {
	Name   string
	Points []point
	Words  []string
	Parts  []*tree
	Fixed  [2]string
	none   []int32
	empty  []int32
	same   []point
	self   *tree
	flag   bool
}

func sample() *tree {
	t := &tree{Name: "räin", Points: []point{{1, 2, 3}, {-1, 1 << 40, 0}}, Words: []string{"", "a", "bc"}, Fixed: [2]string{"x", "y"}, empty: []int32{}, flag: true}
	t.same, t.self = t.Points, t
	t.Parts = []*tree{{Name: "leaf"}, nil, {Name: "twig", Points: t.Points[:1]}}
	return t
}

func written(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, "key", v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is read is what was written, sharing included.
func TestReadIsInverse(t *testing.T) {
	want := sample()
	var got tree
	data := written(t, want)
	if err := Read(data, "key", &got, nil); err != nil {
		t.Fatal(err)
	}
	if got.self == &got || got.self == nil || got.self.self != got.self {
		t.Error("the pointer to itself is not one")
	}
	if &got.same[0] != &got.Points[0] || got.none != nil || got.empty == nil {
		t.Errorf("arrays are shared: %v, nil: %v, empty: %v", &got.same[0] == &got.Points[0], got.none, got.empty)
	}
	got.self, want.self = nil, nil
	if diff := cmp.Diff(*want, got, cmp.AllowUnexported(tree{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := Read(data, "other key", &got, nil); !errors.Is(err, ErrStale) {
		t.Errorf("another key: %v", err)
	}
	var other struct{ Name string }
	if err := Read(data, "key", &other, nil); !errors.Is(err, ErrStale) {
		t.Errorf("another type: %v", err)
	}
	if err := Write(&bytes.Buffer{}, "", &struct{ M map[string]int }{}); err == nil {
		t.Error("a map can be written")
	}
}

// A file with a changed byte, or without its end, is an error and no panic.
func TestReadDetectsDamage(t *testing.T) {
	data := written(t, sample())
	random := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= byte(1 + random.IntN(255))
		var got tree
		if err := Read(bad, "key", &got, nil); err == nil {
			t.Fatalf("byte %d of %d changed: no error", i, len(data))
		}
		if err := Read(data[:i], "key", &got, nil); err == nil {
			t.Fatalf("%d of %d bytes: no error", i, len(data))
		}
	}
}

// Check sums of several blocks.
func TestManyBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 160 MiB")
	}
	want := struct{ Points []point }{make([]point, 7_000_000)}
	want.Points[6_000_000].X = 5
	data := written(t, &want)
	got := want
	got.Points = nil
	if err := Read(data, "key", &got, nil); err != nil || got.Points[6_000_000].X != 5 || len(got.Points) != 7_000_000 {
		t.Fatalf("%v, %d points", err, len(got.Points))
	}
	data[len(data)/2] ^= 1
	if err := Read(data, "key", &got, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed byte: %v", err)
	}
}
