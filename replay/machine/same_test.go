package machine

import (
	"reflect"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

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
