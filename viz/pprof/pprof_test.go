package pprof

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// draw builds a run from rows of "rank kind name |..AAA..|", a column a
// microsecond; a letter other than the row's dots is time on that row's queue.
func draw(t *testing.T, rows ...string) *trace.Run {
	t.Helper()
	b := new(trace.Builder)
	ranks := map[int]int32{}
	for queue, row := range rows {
		var rank int
		var kind, name, line string
		if _, err := fmt.Sscanf(row, "%d %s %s %s", &rank, &kind, &name, &line); err != nil {
			t.Fatalf("row %q: %v", row, err)
		}
		if _, ok := ranks[rank]; !ok {
			ranks[rank] = b.AddRank(trace.Rank{ID: rank})
		}
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: ranks[rank], ID: int64(queue), Peer: trace.None})
		line = strings.Trim(line, "|")
		start := strings.IndexFunc(line, func(r rune) bool { return r != '.' })
		end := strings.LastIndexFunc(line, func(r rune) bool { return r != '.' }) + 1
		s := trace.Span{
			Start: trace.Time(start) * 1000, End: trace.Time(end) * 1000,
			Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Compute,
		}
		if kind == "collective" {
			s.Kind = trace.Collective
			comm := b.AddComm(trace.Comm{Op: trace.AllReduce, Group: trace.None, In: 4096, Out: 4096, Peer: trace.None})
			s.Attr = b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Stream: 20}), Comm: comm, Op: trace.None, Origin: trace.None})
		}
		b.Add(s)
	}
	return b.Finish(trace.Options{Name: t.Name(), KeepZero: true})
}

// sums adds the values of the samples by their stack, root first.
func sums(p *profile.Profile, value int) map[string]int64 {
	got := map[string]int64{}
	for _, s := range p.Sample {
		var names []string
		for i := len(s.Location) - 1; i >= 0; i-- {
			names = append(names, s.Location[i].Line[0].Function.Name)
		}
		if v := s.Value[value]; v != 0 {
			got[strings.Join(names, "/")] += v
		}
	}
	return got
}

func TestTime(t *testing.T) {
	run := draw(t,
		"0 compute    gemm |AAAA......|",
		"0 collective ring |..BBBB....|",
		"1 compute    gemm |......AAAA|",
	)
	p := newProfile(run, nil)
	if diff := cmp.Diff(map[string]int64{
		"rank 0/compute/gemm":    4000,
		"rank 0/collective/ring": 4000,
		"rank 1/compute/gemm":    4000,
	}, sums(p, valueTime)); diff != "" {
		t.Errorf("time: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"rank 0/collective/ring": 4096}, sums(p, valueBytes)); diff != "" {
		t.Errorf("bytes: -want +got\n%s", diff)
	}
	for _, s := range p.Sample {
		if s.Location[0].Line[0].Function.Name != "ring" {
			continue
		}
		if diff := cmp.Diff(map[string][]string{"kind": {"collective"}, "op": {"all_reduce"}}, s.Label); diff != "" {
			t.Errorf("labels: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(map[string][]int64{"rank": {0}, "stream": {20}, "bytes": {4096}}, s.NumLabel); diff != "" {
			t.Errorf("numeric labels: -want +got\n%s", diff)
		}
	}
}

// go tool pprof prints names as they are.
func TestNamesArePlain(t *testing.T) {
	p := newProfile(draw(t, "0 compute k\x1b[31m\u202e |AA|"), nil)
	if name := p.Function[0].Name + p.Function[1].Name + p.Function[2].Name; !strings.Contains(name, "k·[31m·") || strings.ContainsAny(name, "\x1b\u202e") {
		t.Errorf("%q", name)
	}
}

// Whatever runs when, time adds up to the durations, exposed and idle time to those of the breakdown.
func TestSumsAreExact(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		b := new(trace.Builder)
		ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
		for r := range ranks {
			b.AddRank(trace.Rank{ID: r})
		}
		var want int64
		for i := range rapid.IntRange(0, 30).Draw(t, "kernels") {
			start := rapid.Int64Range(0, 200).Draw(t, "start")
			dur := rapid.Int64Range(1, 97).Draw(t, "dur")
			rank := int32(rapid.IntRange(0, ranks-1).Draw(t, "rank"))
			lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: int64(i % 4), Peer: trace.None})
			b.Add(trace.Span{
				Start: trace.Time(start), End: trace.Time(start + dur), Name: b.Intern("k"),
				Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Compute,
			})
			want += dur
		}
		run := b.Finish(trace.Options{KeepZero: true})
		var time, exposed, idle int64
		for _, s := range newProfile(run, nil).Sample {
			time += s.Value[valueTime]
			exposed += s.Value[valueExposed]
			idle += s.Value[valueIdle]
		}
		m := overlap.Collect(run).Metrics()
		if sum := overlap.Sum(m.Ranks); exposed != int64(sum.Exposed) || idle != int64(sum.Idle) {
			t.Errorf("exposed adds up to %d ns and idle to %d, the breakdown has %d and %d", exposed, idle, sum.Exposed, sum.Idle)
		}
		if time != want {
			t.Errorf("time adds up to %d ns, durations to %d", time, want)
		}
	})
}

func TestGoToolPprof(t *testing.T) {
	base := write(t, "base.pb.gz", draw(t,
		"0 compute    gemm |AAAA......|",
		"0 collective ring |....BBBBBB|"))
	other := write(t, "other.pb.gz", draw(t,
		"0 compute    gemm |AAAAA.....|",
		"0 collective ring |.BBBBBB...|"))
	evil := write(t, "evil.pb.gz", draw(t, "0 compute </script>\x1b[31m%s\"\\ |A|"))

	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"top", []string{"-top", base}, []string{"6us 60.00% 60.00%        6us 60.00%  ring", "4us 40.00%   100%        4us 40.00%  gemm"}},
		{"time of the difference", []string{"-top", "-diff_base", base, other}, []string{"1us 10.00% 10.00%        1us 10.00%  gemm"}},
		{"bytes", []string{"-top", "-sample_index=bytes", base}, []string{"4kB   100%   100%        4kB   100%  ring"}},
		{"one rank", []string{"-top", "-tagfocus=rank=0", base}, []string{"gemm", "ring"}},
		{"large messages", []string{"-top", "-tagfocus=bytes=2kb:", base}, []string{"6us 60.00% 60.00%        6us 60.00%  ring"}},
		{"hostile name", []string{"-top", evil}, []string{"1us   100%"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command("go", append([]string{"tool", "pprof"}, c.args...)...)
			cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
			}
			for _, w := range c.want {
				if !bytes.Contains(out, []byte(w)) {
					t.Errorf("%v: no %q in\n%s", cmd.Args, w, out)
				}
			}
		})
	}
}

func write(t *testing.T, name string, run *trace.Run) string {
	t.Helper()
	var buf, again bytes.Buffer
	must.Do(t, Write(&buf, run, nil))
	if err := Write(&again, run, nil); err != nil || !bytes.Equal(buf.Bytes(), again.Bytes()) {
		t.Fatalf("written twice, %s differs (%v)", name, err)
	}
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, buf.Bytes(), 0o644))
	return path
}

func BenchmarkWrite(b *testing.B) {
	build := new(trace.Builder)
	rank := build.AddRank(trace.Rank{ID: 0})
	lane := build.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
	for i := range 1_000_000 {
		name := build.Intern(fmt.Sprintf("kernel %d", i%100))
		build.Add(trace.Span{Start: trace.Time(i * 10), End: trace.Time(i*10 + 7), Name: name, Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Compute})
	}
	run := build.Finish(trace.Options{})
	b.ResetTimer()
	for range b.N {
		must.Do(b, Write(new(bytes.Buffer), run, nil))
	}
}

// Exposed communication and idle time by cause add up to the breakdown of each rank.
func TestExposedAndIdle(t *testing.T) {
	run := draw(t,
		"0 compute    gemm |AAAA..........|",
		"0 collective ring |..BBBBBB......|",
		"0 collective tree |.....CC.......|",
		"0 compute    last |............AA|",
	)
	reasons := []overlap.Reason{
		{Rank: 0, Queue: 3, Start: 8000, End: 11_000, Cause: "flag"},
		{Rank: 0, Queue: 3, Start: 11_000, End: 12_000, Cause: "launch"},
	}
	p := newProfile(run, reasons)
	if diff := cmp.Diff(map[string]int64{
		"rank 0/collective/ring": 3000, // 2 alone, half of 2 shared
		"rank 0/collective/tree": 1000,
	}, sums(p, valueExposed)); diff != "" {
		t.Errorf("exposed: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"rank 0/idle/flag": 3000, "rank 0/idle/launch": 1000}, sums(p, valueIdle)); diff != "" {
		t.Errorf("idle: -want +got\n%s", diff)
	}
}
