package machine

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestQuantityString(t *testing.T) {
	for _, s := range []string{"381 GB/s", "4.259 TB/s", "1.375 us", "228 KiB", "103808 B", "0 B", "824.4 TFLOP/s", "0.6299", "132"} {
		parsed := false
		for d := range numDimensions {
			if q, err := parseQuantity(s, d); err == nil {
				parsed = true
				if q.String() != s {
					t.Errorf("%s reads as %s", s, q)
				}
			}
		}
		if !parsed {
			t.Errorf("%s is of no dimension", s)
		}
	}
	q, err := parseQuantity("1.5 us", Span)
	if err != nil || q.Value != 1.5e-6 {
		t.Errorf("1.5 us is %v, %v", q.Value, err)
	}
}

func TestUnitsBelongToOneDimension(t *testing.T) {
	seen := map[string]bool{}
	for _, u := range units {
		if seen[u.name] {
			t.Errorf("%s stands twice", u.name)
		}
		seen[u.name] = true
	}
	for d := range numDimensions {
		if u := UsualUnit(d); u != "" && !seen[u] {
			t.Errorf("%v is written in %s, which is no unit", d, u)
		}
	}
}

func TestTableInterpolation(t *testing.T) {
	points := []point{{1, 10}, {4, 40}, {16, 10}}
	for _, c := range []point{{0.5, 10}, {1, 10}, {2, 20}, {4, 40}, {8, 20}, {16, 10}, {99, 10}} {
		if y := at(points, c.X); off(y, c.Y) > 1e-12 {
			t.Errorf("at %v: %v, want %v", c.X, y, c.Y)
		}
	}
}

func off(got, want float64) float64 { return math.Abs(got/want - 1) }

// TestTwice checks that every key that stands twice in one mapping is an error, at any
// depth, with the errors found later in the order of lines.
func TestTwice(t *testing.T) {
	const text = "a: 1\nb: {c: 2, c: 3}\nlist:\n- {d: 1}\n- {d: 2, d: 3}\na: 4\n"
	body, errs, err := Read(strings.NewReader(text), "x.yaml", 1000, "a test")
	if err != nil {
		t.Fatal(err)
	}
	errs.Fail(Pairs(body)[0].Key, "", "first")
	want := "x.yaml:1:1: first\nx.yaml:2:11: b.c stands twice, first at line 2 (keep one)\n" +
		"x.yaml:5:10: list.d stands twice, first at line 5 (keep one)\nx.yaml:6:1: a stands twice, first at line 1 (keep one)"
	if got := errs.Err(); got == nil || got.Error() != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if n := len(Pairs(body)); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}

// What a profile has from a base of another machine is assumed, with the base's source; what was
// measured stays measured. The base itself does not change.
func TestInherit(t *testing.T) {
	base := must.Have(Load("h200"))(t)
	m := base
	m.GPU.Memory = Quantity{Value: 3e12, Unit: "TB/s", Source: "bytes read and written by a large copy: x2c0000"}
	before := OriginOf(m)
	n := Inherit(&m, base)
	o := OriginOf(m)
	if o.Measured != 1 || o.Published != 0 || o.Measured+o.Assumed != before.Measured+before.Published+before.Assumed {
		t.Errorf("%+v of %+v", o, before)
	}
	if n == 0 || m.GPU.CUs.Mark != Assumed || !strings.HasPrefix(m.GPU.CUs.Source, "as h200: ") || base.GPU.CUs.Mark != Sourced {
		t.Errorf("%d: %+v, base %+v", n, m.GPU.CUs, base.GPU.CUs)
	}
	if again := Inherit(&m, base); OriginOf(m) != o || again > n {
		t.Errorf("%d again, %+v", again, OriginOf(m))
	}
}

// What a profile assumes to be as on h200 is what h200 has, also after h200 was measured again. AMD's GPUs and older
// ones assume ratios of it, which their sources state.
func TestAssumedAsMeasured(t *testing.T) {
	h200 := must.Have(Load("h200"))(t)
	want := map[string]Entry{}
	for _, e := range Entries(&h200) {
		want[e.Key] = e
	}
	for _, name := range []string{"h100", "h800"} {
		m := must.Have(Load(name))(t)
		n := 0
		for _, e := range Entries(&m) {
			of := want[e.Key]
			switch {
			case e.Quantity != nil && e.Quantity.Mark == Assumed && strings.HasPrefix(e.Quantity.Source, "as h200"):
				if n++; e.Quantity.Value != of.Quantity.Value {
					t.Errorf("%s: %s is %g, on h200 %g", name, e.Key, e.Quantity.Value, of.Quantity.Value)
				}
			case e.Table != nil && e.Table.Mark == Assumed && strings.HasPrefix(e.Table.Source, "as h200"):
				if n++; !reflect.DeepEqual(e.Table.Rows, of.Table.Rows) {
					t.Errorf("%s: %s differs from that of h200", name, e.Key)
				}
			}
		}
		if n < 30 {
			t.Errorf("%s assumes %d values to be as on h200", name, n)
		}
	}
}
