package verdict

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Less information never means more certainty: without a field, a rank or a companion file the
// evidence of every row is at most as good, no row becomes likely, and the probability of the same
// predicted change moves towards even odds.
func TestLessInformation(t *testing.T) {
	for _, sample := range []string{"moe-ep4", "llama70b-fc2-allreduce", "llama70b-prefill", "moe-down-triton", "fsdp-step"} {
		if !longtest.Asked() && sample == "fsdp-step" {
			continue
		}
		from := filepath.Join("../../samples", sample)
		whole := chances(t, from)
		for _, c := range []struct {
			name string
			drop *regexp.Regexp // from the text of every rank
			with string
			only string // the files that stay; "": all
		}{
			{"correlation ids", regexp.MustCompile(`"(correlation|External id)": *[0-9]+`), `"dropped": 0`, ""},
			{"step marks", regexp.MustCompile(`ProfilerStep#`), "Other ", ""},
			{"a rank", nil, "", "rank0.json.gz"},
			{"companion files", nil, "", "rank*.json.gz"},
		} {
			for name, less := range chances(t, edited(t, from, c.drop, c.with, c.only)) {
				all, ok := whole[name]
				if !ok {
					continue
				}
				if worse := less.Evidence.Poor+2*less.Evidence.Unproven < all.Evidence.Poor+2*all.Evidence.Unproven || less.Evidence.besideCopies(less.Noise, all.Change).Untested < all.Evidence.Untested; worse {
					t.Errorf("%s without %s: %s: %+v, with all of it %+v", sample, c.name, name, less.Evidence, all.Evidence)
				}
				p, q := all.Confidence.Chance.PFaster, less.Confidence.Chance.PFaster
				if q >= Likely && p < Likely {
					t.Errorf("%s without %s: %s is likely: %.2f of %.1f %%, with all of it %.2f of %.1f %%", sample, c.name, name, q, 100*less.Change, p, 100*all.Change)
				}
				if q = less.Evidence.besideCopies(less.Noise, all.Change).Confidence(all.Change).Chance.PFaster; all.Change != 0 && math.Abs(q-0.5) > math.Abs(p-0.5)+surer(c.name) {
					t.Errorf("%s without %s: %s: probability %.3f of a change by %.1f %%, with all of it %.3f", sample, c.name, name, q, 100*all.Change, p)
				}
			}
		}
	}
}

// surer is how much surer a probability may be: copies of one rank have no dispatch orders of their own to vary, which
// the measured copiedRanks includes.
func surer(without string) float64 {
	if without == "a rank" {
		return 0.03
	}
	return 1e-9
}

// chances are the contenders of a trace, by name.
func chances(t *testing.T, path string) map[string]Prediction {
	t.Helper()
	run := must.Have(format.Open(path, format.Options{}))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	m := plantest.H200(t, w.World)
	lift.GuessSizes(w, &m)
	sel := must.Have(engines.ParseSelection("captured,bulk,decompose,multistream,fused,onesided"))(t)
	outcomes := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
	list := map[string]Prediction{}
	for _, c := range (&Verdict{}).contenders(predicted(w, outcomes[0], outcomes)) {
		list[c.Selection.String()] = c
	}
	return list
}

// edited is a copy of a folder with other text in its compressed files; only those that match.
func edited(t *testing.T, from string, drop *regexp.Regexp, with, only string) string {
	t.Helper()
	to := t.TempDir()
	for _, pattern := range []string{"*", "*/*"} {
		paths := must.Have(filepath.Glob(filepath.Join(from, pattern)))(t)
		for _, path := range paths {
			if at, err := os.Stat(path); err != nil || at.IsDir() {
				continue
			}
			name, _ := filepath.Rel(from, path)
			if ok, _ := filepath.Match(only, name); only != "" && !ok {
				continue
			}
			data := must.Have(os.ReadFile(path))(t)
			if drop != nil && filepath.Ext(name) == ".gz" {
				data = rewritten(t, data, drop, with)
			}
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(to, name), data, 0o644))
		}
	}
	return to
}

func rewritten(t *testing.T, data []byte, drop *regexp.Regexp, with string) []byte {
	t.Helper()
	z := must.Have(gzip.NewReader(bytes.NewReader(data)))(t)
	text := must.Have(io.ReadAll(z))(t)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(drop.ReplaceAll(text, []byte(with))); err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.Close())
	return out.Bytes()
}
