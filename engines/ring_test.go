package engines_test

import (
	"os"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A collective that reads what another one brought runs behind it, in every iteration: in ring attention each send passes on what
// the one before brought. A send takes no less than its bytes on the link, and with the stream of collectives first, the sends
// run beside attention.
func TestRingAttention(t *testing.T) {
	const file = "../samples/workloads/ring-attention.yaml"
	text := must.Have(os.ReadFile(file))(t)
	f := must.Have(operator.Parse(strings.NewReader(string(text)), file, nil))(t)
	m := plantest.H200(t, 4)
	run := must.Have(f.Run(m))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	for i := range w.Collectives {
		if c := &w.Collectives[i]; float64(c.Bytes)/m.LinkRate(4) > float64(c.Transfer())/1e9 {
			t.Errorf("%v of %d bytes in %d ns: faster than the link", c.Op, c.Bytes, c.Transfer())
		}
	}
	outs := must.Have(engines.Compare(w, m, enginetest.MustParse(t, "captured,multistream,multistream:priority=on"), plan.Scenario{}, replay.Options{}, nil))(t)
	if change := outs[2].ChangeFrom(outs[0].Expected); change > -0.05 {
		t.Errorf("priority=on: %+.1f %%", 100*change)
	}
	for _, out := range outs {
		starts, ends := make([]trace.Time, len(w.Ops)), make([]trace.Time, len(w.Ops))
		for _, s := range out.Result.Run.Spans {
			if op := plan.OriginOf(out.Result.Run, s); op >= 0 && s.Kind == trace.Collective {
				starts[op], ends[op] = s.Start, s.End
			}
		}
		for id, edges := range w.Flow {
			for _, e := range edges {
				if w.Ops[id].Collective >= 0 && w.Ops[e.Op].Collective >= 0 && starts[id] < ends[e.Op] {
					t.Errorf("%s: send %d starts at %d, before %d has ended at %d", out, id, starts[id], e.Op, ends[e.Op])
				}
			}
		}
	}
}

// Ulysses' all-to-alls lie between GEMMs and attention: strategies split and fuse them, and none hides more than they take.
func TestUlysses(t *testing.T) {
	const file = "../samples/workloads/ulysses.yaml"
	text := must.Have(os.ReadFile(file))(t)
	m := plantest.H200(t, 4)
	run := must.Have(must.Have(operator.Parse(strings.NewReader(string(text)), file, nil))(t).Run(m))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	outs := must.Have(engines.Compare(w, m, enginetest.MustParse(t, "captured,ideal,multistream,decompose,fused,onesided"), plan.Scenario{}, replay.Options{}, nil))(t)
	bound := outs[1].ChangeFrom(outs[0].Expected)
	for _, out := range outs[2:] {
		if change := out.ChangeFrom(outs[0].Expected); out.Why != "" || change < bound {
			t.Errorf("%s: %+.1f %%, want at least %+.1f; %s", out, 100*change, 100*bound, out.Why)
		}
	}
}
