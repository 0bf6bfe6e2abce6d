package verdict

import (
	"maps"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A wrong is a kind of wrong contents of a valid trace: what becomes of an event of a rank, of which part is at (0 to 1 over
// the times of its kernels); nil: it is gone.
type wrong struct {
	sample, name string
	edit         func(rank int, at float64, nth int, e event) event
}

// isCollective reports whether an event is a kernel of a collective.
func isCollective(e event) bool {
	name, _ := e["name"].(string)
	return e["cat"] == "kernel" && strings.HasPrefix(name, "nccl")
}

func number(e event, key string) float64 { n, _ := e[key].(float64); return n }

// times is the event with another value of a number.
func times(e event, key string, by float64) event {
	e = maps.Clone(e)
	e[key] = number(e, key) * by
	return e
}

// argument is the event with numbers of its arguments changed.
func argument(e event, by float64, keys ...string) event {
	args, _ := e["args"].(map[string]any)
	e, args = maps.Clone(e), maps.Clone(args)
	for _, key := range keys {
		if n, ok := args[key].(float64); ok {
			args[key] = n * by
		}
	}
	e["args"] = args
	return e
}

func onStream(e event, stream float64) bool {
	args, _ := e["args"].(map[string]any)
	return onDevice(e) && args["stream"] == stream
}

// unless keeps the events for which gone is false.
func unless(gone bool, e event) event {
	if gone {
		return nil
	}
	return e
}

var wrongs = []wrong{
	{"fsdp-step", "nothing of the device in the second half", func(_ int, at float64, _ int, e event) event { return unless(onDevice(e) && at > 0.5, e) }},
	{"fsdp-step", "nothing of the device in the second half of rank 1", func(r int, at float64, _ int, e event) event { return unless(r == 1 && onDevice(e) && at > 0.5, e) }},
	{"fsdp-step", "rank 1 without its compute stream", func(r int, _ float64, _ int, e event) event { return unless(r == 1 && onStream(e, 7), e) }},
	{"fsdp-step", "rank 1 without its gathers", func(r int, _ float64, _ int, e event) event { return unless(r == 1 && onStream(e, 22), e) }},
	{"fsdp-step", "without every tenth kernel", func(_ int, _ float64, nth int, e event) event { return unless(onDevice(e) && nth%10 == 5, e) }},
	{"fsdp-step", "nothing of the device in a fifth", func(_ int, at float64, _ int, e event) event { return unless(onDevice(e) && at > 0.4 && at < 0.6, e) }},
	{"fsdp-step", "half the durations on rank 1", func(r int, _ float64, _ int, e event) event {
		if r == 1 && onDevice(e) {
			return times(e, "dur", 0.5)
		}
		return e
	}},
	{"fsdp-step", "half the durations of compute", func(_ int, _ float64, _ int, e event) event {
		if onDevice(e) && !isCollective(e) {
			return times(e, "dur", 0.5)
		}
		return e
	}},
	{"fsdp-step", "the device clock of rank 1 is 10 ms early", func(r int, _ float64, _ int, e event) event {
		if r == 1 && onDevice(e) {
			e = maps.Clone(e)
			e["ts"] = number(e, "ts") - 10e3
		}
		return e
	}},
	{"fsdp-step", "twice the bytes on rank 1", func(r int, _ float64, _ int, e event) event {
		if r == 1 && isCollective(e) {
			return argument(e, 2, "In msg nelems", "Out msg nelems")
		}
		return e
	}},
	{"fsdp-step", "a sixteenth of the bytes", func(_ int, _ float64, _ int, e event) event {
		if isCollective(e) {
			return argument(e, 1.0/16, "In msg nelems", "Out msg nelems")
		}
		return e
	}},
	{"fsdp-step", "one kernel of 22 ms on rank 0", func(r int, _ float64, nth int, e event) event {
		if r == 0 && nth == 100 && onDevice(e) {
			e = maps.Clone(e)
			e["dur"] = 22e3
		}
		return e
	}},
	{"fsdp-step", "the second half alone", func(_ int, at float64, _ int, e event) event { return unless(at < 0.5 && e["ph"] == "X", e) }},
	{"fsdp-step", "rank 1 is a copy", nil},
	{"moe-ep4", "nothing of the device in the second half of rank 1", func(r int, at float64, _ int, e event) event { return unless(r == 1 && onDevice(e) && at > 0.5, e) }},
	{"moe-ep4", "nothing of the device in a fifth", func(_ int, at float64, _ int, e event) event { return unless(onDevice(e) && at > 0.4 && at < 0.6, e) }},
	{"moe-ep4", "half the durations of collectives", func(_ int, _ float64, _ int, e event) event {
		if isCollective(e) {
			return times(e, "dur", 0.5)
		}
		return e
	}},
	{"llama70b-prefill", "nothing of the device in a fifth", func(_ int, at float64, _ int, e event) event { return unless(onDevice(e) && at > 0.4 && at < 0.6, e) }},
}

// make is a folder with the wrong contents.
func (x wrong) make(t *testing.T) string {
	files, list := events(t, x.sample)
	if x.edit == nil {
		list[1] = list[0]
		return write(t, files, list)
	}
	for rank, all := range list {
		first, last := 1e300, 0.0
		for _, e := range all {
			if onDevice(e) {
				first, last = min(first, number(e, "ts")), max(last, number(e, "ts"))
			}
		}
		var kept []event
		nth := 0
		for _, e := range all {
			if onDevice(e) {
				nth++
			}
			if e = x.edit(rank, (number(e, "ts")-first)/(last-first), nth, e); e != nil {
				kept = append(kept, e)
			}
		}
		list[rank] = kept
	}
	return write(t, files, list)
}

// word is what is said about the wrong contents of a workload; "": nothing.
func word(t *testing.T, w *workload.Workload) string {
	if what := DamageOf(w); what != "" {
		return what
	}
	m := plantest.H200(t, w.World)
	lift.GuessSizes(w, &m)
	var v Verdict
	v.slow(w, &m)
	return strings.Join(v.Sentences, "; ")
}

// Wrong contents are said, or nothing is likely; right ones are not called wrong.
func TestDamageIsSaid(t *testing.T) {
	for _, sample := range []string{"fsdp-step", "moe-ep4", "llama70b-prefill"} {
		if w := plantest.LiftSample(t, sample); len(w.Damage.Sentences) > 0 || word(t, w) != "" {
			t.Errorf("%s: %s %s", sample, w.Damage.Sentences, word(t, w))
		}
	}
	for _, x := range wrongs {
		t.Run(x.sample+": "+x.name, func(t *testing.T) {
			path := x.make(t)
			run := must.Have(format.Open(path, format.Options{}))(t)
			w := must.Have(lift.Workload(run, lift.Options{}))(t)
			if word(t, w) != "" {
				return
			}
			for name, p := range chances(t, path) {
				if c := p.Confidence.Chance; c.PFaster >= Likely {
					t.Errorf("%s: %+v of %.1f %%; %s, notes %s", name, c, 100*p.Change, w.Damage.Sentences, w.Notes)
				}
			}
		})
	}
}
