package machine

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

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
