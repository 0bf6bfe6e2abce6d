package engines_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// TestFoldedAsUnfolded simulates every strategy on the samples with equal ranks folded and
// with every rank for itself: spans, idle times and bytes are the same. Their programs and times are
// those of testdata/programs.golden. Rates of large components
// are approximate, and more exact when they are folded: there the makespans differ by less than
// Approximation.Error.
func TestFoldedAsUnfolded(t *testing.T) {
	type sample struct {
		name string
		w    *workload.Workload
		m    machine.Machine
	}
	var samples []sample
	for _, name := range plantest.SampleOperators(t) {
		w, m := plantest.SampleOperator(t, name)
		samples = append(samples, sample{name, w, m})
	}
	for _, of := range []struct {
		name  string
		ranks int
	}{{"ddp-step", 4}, {"ddp-step", 16}, {"fsdp-step", 4}, {"moe-ep4", 8}, {"llama70b-prefill", 8}} {
		if of.name == "ddp-step" && (of.ranks > 8) != longtest.Asked() {
			continue
		}
		w, m := copied(t, of.name, of.ranks)
		samples = append(samples, sample{fmt.Sprintf("%s:%d", of.name, of.ranks), w, m})
	}
	all := must.Have(engines.ParseSelection("all"))(t)
	folds, shared := 0, 0
	var programs strings.Builder
	for _, x := range samples {
		for _, s := range all {
			pl, err := schedule.Planned(s.Strategy, x.w, x.m, s.Values, plan.Scenario{})
			if err != nil {
				continue
			}
			name := x.name + " " + s.String()
			a, errA := replay.Simulate(x.m, pl.Program, replay.Options{})
			if longtest.Asked() {
				fmt.Fprintf(&programs, "%s: %.8x, %d ns\n", name, hashOf(pl.Program), a.Makespan)
			}
			if errA == nil && a.Folded.Classes == 0 {
				continue // simulated as unfolded
			}
			b, errB := replay.Simulate(x.m, pl.Program, replay.Options{Unfolded: true})
			if fmt.Sprint(errA) != fmt.Sprint(errB) {
				t.Errorf("%s: %v, unfolded %v", name, errA, errB)
			}
			if errA != nil {
				continue
			}
			folds++
			shared += sharedAsWhole(t, name, x.w, x.m, s, a)
			t.Logf("%s: %d ranks as %d", name, a.Folded.GPUs, a.Folded.Classes)
			if b.Approximation.Paths == 0 {
				sameResults(t, name, a, b)
			} else if off := math.Abs(float64(a.Makespan)/float64(b.Makespan) - 1); off > b.Approximation.Error+1e-9 {
				t.Errorf("%s: %d ns, unfolded %d ns, of which up to %.4f are approximate", name, a.Makespan, b.Makespan, b.Approximation.Error)
			}
		}
	}
	least := 25
	if longtest.Asked() {
		least = 30
		goldenIs(t, "testdata/programs.golden", programs.String())
	}
	if folds < 100 || shared < least {
		t.Errorf("%d simulations were folded, %d of them of programs of which only some ranks are written", folds, shared)
	}
}

// sharedAsWhole plans only the ranks that others are not equal to, and simulates them: makespan, bytes, and
// spans and idle times of these ranks are those of the whole program. It returns 1, or 0 if all ranks
// were written.
func sharedAsWhole(t *testing.T, name string, w *workload.Workload, m machine.Machine, s plan.Selection, whole *replay.Result) int {
	t.Helper()
	pl, err := schedule.Planned(s.Strategy, w, m, s.Values, plan.Scenario{Shared: true})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if pl.Program.Equal == nil {
		if w.Captured < w.World {
			t.Errorf("%s: copies of ranks are written", name)
		}
		return 0
	}
	r, err := replay.Simulate(m, pl.Program, replay.Options{})
	if err != nil {
		t.Fatalf("%s: of some ranks: %v", name, err)
	}
	if r.Makespan != whole.Makespan || r.Folded != whole.Folded || !slices.Equal(r.Traffic, whole.Traffic) || plan.StepsOf(w, r.Run).Time() != plan.StepsOf(w, whole.Run).Time() {
		t.Errorf("%s: of some ranks %d ns, %+v; of all %d ns, %+v", name, r.Makespan, r.Folded, whole.Makespan, whole.Folded)
	}
	numbers := regexp.MustCompile(`lane \d+ |Collective:\d+`) // of the lanes and collectives of all ranks
	var spans, want []string
	for i, span := range whole.Run.Spans {
		if r.Run.Own(whole.Run.RankOf(span)) {
			want = append(want, numbers.ReplaceAllString(spanText(whole.Run, i), ""))
		}
	}
	for i := range r.Run.Spans {
		spans = append(spans, numbers.ReplaceAllString(spanText(r.Run, i), ""))
	}
	slices.Sort(spans)
	if slices.Sort(want); !slices.Equal(spans, want) {
		t.Errorf("%s: %d spans of some ranks, %d of all", name, len(spans), len(want))
	}
	for rank := range w.World {
		times := func(r *replay.Result) (all []replay.Idle) {
			for i := range r.IdleOf(rank) {
				i.Flag = 0 // flags have other numbers
				all = append(all, i)
			}
			return all
		}
		if r.Run.Own(rank) && !slices.Equal(times(r), times(whole)) {
			t.Errorf("%s: idle times of rank %d", name, rank)
		}
	}
	return 1
}

// copied is a sample with copies of its ranks, and a machine for them.
func copied(t testing.TB, name string, ranks int) (*workload.Workload, machine.Machine) {
	t.Helper()
	w := must.Have(lift.Workload(plantest.LiftSample(t, name).Run, lift.Options{World: ranks}))(t)
	m := must.Have(machine.Load(fmt.Sprintf("h200:%d", ranks)))(t)
	return w, m
}

// BenchmarkFold plans and simulates 64 ranks of a step of two captured ones under all strategies, on as
// many cores as there are.
func BenchmarkFold(b *testing.B) {
	all := must.Have(engines.ParseSelection("all"))(b)
	for _, name := range []string{"ddp-step", "fsdp-step"} {
		w, m := copied(b, name, 64)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := engines.Compare(w, m, all, plan.Scenario{}, replay.Options{}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func sameResults(t *testing.T, name string, a, b *replay.Result) {
	t.Helper()
	if a.Makespan != b.Makespan {
		t.Errorf("%s: %d ns, unfolded %d ns", name, a.Makespan, b.Makespan)
	}
	idleA, idleB := a.Idle(), b.Idle()
	bad := 0
	report := func(format string, args ...any) {
		if bad++; bad <= 3 {
			t.Errorf(name+": "+format, args...)
		}
	}
	if len(a.Run.Spans) != len(b.Run.Spans) || len(idleA) != len(idleB) || len(a.Traffic) != len(b.Traffic) {
		report("%d spans, %d idle times, %d of traffic, unfolded %d, %d, %d", len(a.Run.Spans), len(idleA), len(a.Traffic), len(b.Run.Spans), len(idleB), len(b.Traffic))
		return
	}
	for i := range a.Run.Spans {
		if x, y := spanText(a.Run, i), spanText(b.Run, i); x != y {
			report("span %d: %s, unfolded %s", i, x, y)
		}
	}
	for i := range idleA {
		x, y := idleA[i], idleB[i]
		if x.Flag != program.NoFlag && x.Cause != program.HostIssue && y.Cause != program.HostIssue { // several GPUs may post at the same time
			x.Note, y.Note, x.Cause, y.Cause = "", "", 0, 0
		}
		if x != y {
			report("idle %d: %v, unfolded %v", i, x, y)
		}
	}
	for i := range a.Traffic {
		x, y := a.Traffic[i], b.Traffic[i]
		if math.Abs(x.Bytes-y.Bytes) > 1e-9*y.Bytes || math.Abs(x.Written-y.Written) > 1e-9*y.Bytes {
			report("traffic %v, unfolded %v", x, y)
		}
	}
}

// spanText is all that a run says of a span.
func spanText(r *trace.Run, i int) string {
	s := r.Spans[i]
	lane := r.Lanes[s.Lane]
	lane.Name = "" // of the last stream on the lane that began something, of several at the same time
	text := fmt.Sprintf("%d to %d %s %q lane %d %v", s.Start, s.End, s.Kind, r.Names[s.Name], s.Lane, lane)
	if k := r.Kernel(s); k != nil {
		row := *k
		row.Comm = 0
		text += fmt.Sprintf(" %+v", row)
	}
	if c := r.Comm(s); c != nil {
		text += fmt.Sprintf(" %+v", *c)
	}
	if c := r.Copy(s); c != nil {
		text += fmt.Sprintf(" %+v", *c)
	}
	return text
}

// TestCopiesFold holds that copies between GPUs, which the run shows with both of them, are those of
// one GPU for all that are alike.
func TestCopiesFold(t *testing.T) {
	w, m := copied(t, "fsdp-step", 8)
	all := must.Have(engines.ParseSelection("onesided"))(t)
	pl := must.Have(schedule.Planned(all[0].Strategy, w, m, all[0].Values, plan.Scenario{}))(t)
	r := must.Have(replay.Simulate(m, pl.Program, replay.Options{}))(t)
	named := slices.IndexFunc(r.Run.Spans, func(s trace.Span) bool { return r.Run.NameOf(s) == "copy 5→4" })
	if r.Folded.GPUs != 8 || r.Folded.Classes != 2 || named < 0 {
		t.Errorf("%d GPUs as %d; span of a copy: %d", r.Folded.GPUs, r.Folded.Classes, named)
	}
}

// TestTooManyWorkgroups counts the workgroups that are simulated: those of equal ranks once.
func TestTooManyWorkgroups(t *testing.T) {
	w, m := copied(t, "ddp-step", 8)
	all := must.Have(engines.ParseSelection("bulk"))(t)
	pl := must.Have(schedule.Planned(all[0].Strategy, w, m, all[0].Values, plan.Scenario{}))(t)
	refused := func(o replay.Options) *replay.TooManyError {
		var many *replay.TooManyError
		if _, err := replay.Simulate(m, pl.Program, o); !errors.As(err, &many) {
			t.Fatal(err)
		}
		return many
	}
	folded, whole := refused(replay.Options{MostWGs: 1}), refused(replay.Options{MostWGs: 1, Unfolded: true})
	if 4*folded.WGs != whole.WGs {
		t.Errorf("%d workgroups of two classes, %d of eight ranks", folded.WGs, whole.WGs)
	}
	if want := fmt.Sprintf("%d workgroups on 2 of 8 ranks take too long to simulate (capture fewer steps)", folded.WGs); folded.Error() != want {
		t.Errorf("%q, want %q", folded, want)
	}
	whole.Most = whole.WGs - 1
	if want := fmt.Sprintf("%d workgroups on 8 ranks take too long to simulate (capture fewer steps, or a job of at most 7 ranks)", whole.WGs); whole.Error() != want {
		t.Errorf("%q, want %q", whole, want)
	}
	if _, err := replay.Simulate(m, pl.Program, replay.Options{MostWGs: folded.WGs}); err != nil {
		t.Error(err)
	}
}

// TestPlansGrowWithRanks bounds the memory that a plan of many copies takes: four times the ranks take
// little more than four times as much, and 3.5 KB for each operation.
func TestPlansGrowWithRanks(t *testing.T) {
	all := must.Have(engines.ParseSelection("bulk,decompose,multistream,tilesync"))(t)
	type job struct {
		w *workload.Workload
		m machine.Machine
	}
	var jobs [2]job
	for i, ranks := range []int{16, 64} {
		jobs[i].w, jobs[i].m = copied(t, "ddp-step", ranks)
	}
	for _, s := range all {
		var took [2]float64
		for i, j := range jobs {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := schedule.Planned(s.Strategy, j.w, j.m, s.Values, plan.Scenario{}); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			took[i] = float64(after.TotalAlloc - before.TotalAlloc)
		}
		if each := took[1] / float64(len(jobs[1].w.Ops)); took[1] > 5*took[0] || each > 3500 {
			t.Errorf("%s: %.0f bytes for 16 ranks, %.0f for 64, %.0f for each operation", s, took[0], took[1], each)
		}
	}
}
