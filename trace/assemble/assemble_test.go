package assemble

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// TestMain fixes the seed of random tests, unless the command line sets one.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	m.Run()
}

// A step adds one record to a session.
type step func(s *Session)

// records draws records of two processes with two GPUs each, as steps in any order.
func records(t *rapid.T) []step {
	var steps []step
	for i := range rapid.IntRange(1, 12).Draw(t, "records") {
		process := rapid.IntRange(0, 1).Draw(t, "process")
		gpu := rapid.IntRange(0, 1).Draw(t, "gpu")
		start := trace.Time(10*i + rapid.IntRange(0, 9).Draw(t, "start")) // distinct, so that there are no ties
		what := rapid.SampledFrom([]string{"kernel", "copy", "call"}).Draw(t, "what")
		steps = append(steps, func(s *Session) {
			p := s.Process(fmt.Sprint(process), int64(process), "f")
			name := s.Builder.Intern(fmt.Sprint("n", i))
			switch what {
			case "kernel":
				s.AddKernel(p, &Dispatch{Agent: s.Agent(p, fmt.Sprint("GPU ", gpu)), Queue: int64(i % 2), Name: name, Start: start, End: start + 3, Correlation: int64(i + 1)})
			case "copy":
				s.AddCopy(p, &Copy{Name: name, From: s.Agent(p, fmt.Sprint("GPU ", gpu)), To: trace.None, Dir: trace.DeviceToHost, Start: start, End: start + 3, Correlation: int64(i + 1)})
			default:
				s.AddCall(p, &Call{Name: name, Thread: 5, Start: start, End: start + 2, Correlation: int64(i)})
			}
		})
	}
	return steps
}

func draw(steps []step) string {
	s := New("t")
	for _, add := range steps {
		add(s)
	}
	run := s.Finish(0)
	var b strings.Builder
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%d/%d %s %d.%d %s %s %d\n", run.Ranks[l.Rank].ID, l.Device, l.Kind, l.ID, l.Sub, s.Kind, run.NameOf(s), s.Start)
	}
	return b.String()
}

// The run does not depend on the order of records.
func TestOrderOfRecords(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		steps := records(rt)
		want := draw(steps)
		shuffled := rapid.Permutation(steps).Draw(rt, "order")
		if diff := cmp.Diff(want, draw(shuffled)); diff != "" {
			rt.Fatalf("in another order (-first +other):\n%s", diff)
		}
	})
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // one per process, each with a kernel on GPU n
		want  []int
	}{
		{"numbered by their names", []string{"rank3.csv", "rank1.csv"}, []int{1, 3}},
		{"one without a number", []string{"a.csv"}, []int{trace.None}},
		{"several without", []string{"a.csv", "b.csv"}, []int{0, 1}},
		{"the same number twice", []string{"x_rank2.csv", "y_rank2.csv"}, []int{0, 1}},
	} {
		s := New("t")
		for i, f := range c.files {
			p := s.Process(f, int64(i), f)
			s.AddKernel(p, &Dispatch{Agent: s.Agent(p, fmt.Sprint("GPU ", i)), Start: 1, End: 2})
		}
		var ids []int
		for _, r := range s.Finish(0).Ranks {
			ids = append(ids, r.ID)
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: ranks %v, want %v", c.name, ids, c.want)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		start        trace.Time
		epoch        int64 // argument of Finish
		clock, dated int64
	}{
		{1000, 0, 1000, 0},
		{1795170572203729824, 0, 0, 1795170572203729824},
		{500, 1e18, 0, 1e18 + 500},
	} {
		s := New("t")
		s.AddKernel(s.Process("", 0, "f"), &Dispatch{Agent: trace.None, Start: c.start, End: c.start + 1})
		run := s.Finish(c.epoch)
		if run.Clock != c.clock || run.Epoch != c.dated {
			t.Errorf("from %d: clock %d, epoch %d; want %d and %d", c.start, run.Clock, run.Epoch, c.clock, c.dated)
		}
	}
}
