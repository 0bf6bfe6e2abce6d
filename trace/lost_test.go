package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// launched is a measured run of ranks with n kernels each, 10 ns apart on the device and launched 5 ns before;
// each change of a kernel says whether it is kept.
func launched(n Time, change func(b *Builder, row int32, i Time, s *Span, k *Kernel) bool) *Run {
	var b Builder
	group := b.AddGroup(Group{Name: "0", Size: 2, Ranks: []int{0, 1}})
	for row := range int32(2) {
		b.AddRank(Rank{ID: int(row), World: 2, Source: fmt.Sprint("rank", row)})
		host, queue := b.Lane(Lane{Kind: HostThread, Rank: row, Peer: None}), b.Lane(Lane{Kind: Queue, Rank: row, Peer: None})
		call := func(name string, at Time, number int64) {
			b.Add(Span{Kind: HostCall, Start: at, End: at + 1, Lane: host, Parent: None, Attr: b.AddCall(Call{Correlation: number, Op: None}), Name: b.Intern(name)})
		}
		for i := range n {
			call("cudaLaunchKernel", 10*i, int64(i+1))
			k := Kernel{Correlation: int64(i + 1), Comm: None, Op: None, Origin: None}
			s := Span{Kind: Compute, Start: 10*i + 5, End: 10*i + 9 + Time(row), Lane: queue, Parent: None, Name: b.Intern("k")}
			if i%10 == 9 {
				s.Kind, k.Comm = Collective, b.AddComm(Comm{Op: AllReduce, Group: group, Seq: int64(i), In: 64, Out: 64, Peer: None})
			}
			if change(&b, row, i, &s, &k) {
				s.Attr = b.AddKernel(k)
				b.Add(s)
			}
		}
		call("cudaDeviceSynchronize", 10*n, 0)
		call("cudaLaunchKernel", 10*n+5, 1<<20) // runs after the recording
		call("cudaStreamBeginCapture", 3, 0)    // of a graph, on a thread of its own
		b.Run.Spans[len(b.Run.Spans)-1].Lane = b.Lane(Lane{Kind: HostThread, ID: 1, Rank: row, Peer: None})
		call("cudaLaunchKernel", 4, 1<<21)
		b.Run.Spans[len(b.Run.Spans)-1].Lane = b.Lane(Lane{Kind: HostThread, ID: 1, Rank: row, Peer: None})
		for i, name := range []string{"cuGraphCreate (CudaGraph:7)", "cuLaunchKernel", "cuGraphLaunch (CudaGraph:5)"} { // as XLA records
			call(name, Time(3+i), int64(1<<22+i))
			b.Run.Spans[len(b.Run.Spans)-1].Lane = b.Lane(Lane{Kind: HostThread, ID: 2, Rank: row, Peer: None})
		}
	}
	return b.Finish(Options{})
}

func TestLosses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *Builder, row int32, i Time, s *Span, k *Kernel) bool
		want   string
		share  float64
	}{
		{"nothing", func(*Builder, int32, Time, *Span, *Kernel) bool { return true }, "", 0},
		{
			"every tenth kernel", func(_ *Builder, _ int32, i Time, _ *Span, _ *Kernel) bool { return i%10 != 5 },
			"20 of 200 launches have no kernel: the recording of the device has gaps (a full buffer, or a part that was cut out)", 0.1,
		},
		{
			"the second half", func(_ *Builder, _ int32, i Time, _ *Span, _ *Kernel) bool { return i < 50 },
			"100 of 200 launches have no kernel: the recording of the device has gaps (a full buffer, or a part that was cut out)", 0.5,
		},
		{"the device clock of rank 1", func(_ *Builder, row int32, _ Time, s *Span, _ *Kernel) bool {
			s.Start, s.End = s.Start-6*Time(row), s.End-6*Time(row)
			return true
		}, "100 of 200 kernels and copies begin before the call that launched them: the clocks of device and host differ", 0.5},
		{"the bytes of rank 1", func(b *Builder, row int32, _ Time, _ *Span, k *Kernel) bool {
			if row == 1 && k.Comm != None {
				b.Run.Comms[k.Comm].In *= 2
			}
			return true
		}, "20 of 200 kernels and copies belong to a collective that has other sizes on other ranks", 0.1},
		{"the bytes of even all-to-alls of rank 1", func(b *Builder, row int32, _ Time, _ *Span, k *Kernel) bool {
			if k.Comm != None {
				c := &b.Run.Comms[k.Comm]
				c.Op, c.Even, c.In, c.Out = AllToAll, true, c.In*int64(1+2*row), c.Out*int64(1+2*row)
			}
			return true
		}, "20 of 200 kernels and copies belong to a collective that has other sizes on other ranks", 0.1},
		{"the bytes of all-to-alls that may be uneven", func(b *Builder, row int32, _ Time, _ *Span, k *Kernel) bool {
			if k.Comm != None {
				c := &b.Run.Comms[k.Comm]
				c.Op, c.In, c.Out = AllToAll, c.In*int64(1+2*row), c.Out*int64(1+2*row)
			}
			return true
		}, "", 0},
		{"every tenth kernel twice", func(b *Builder, _ int32, i Time, s *Span, k *Kernel) bool {
			if twin := *s; i%10 == 5 {
				twin.Start, twin.End, twin.Attr = twin.Start+1, twin.End+1, b.AddKernel(*k)
				b.Add(twin)
			}
			return true
		}, "20 of 220 kernels and copies share a launch of one kernel with another: they are in the input twice, or ranks are mixed", 20. / 220},
		{"the ends of every tenth kernel", func(_ *Builder, _ int32, i Time, s *Span, _ *Kernel) bool {
			if i%10 == 5 {
				s.End = s.Start
			}
			return true
		}, "20 of 200 kernels and copies take no time: their ends are lost", 0.1},
		{"a time of rank 1", func(_ *Builder, row int32, i Time, s *Span, _ *Kernel) bool {
			if row == 1 && i == 50 {
				s.Start, s.End = s.Start+2*hour, s.End+2*hour
			}
			return true
		}, "1 of 200 kernels and copies end after a call that waited for them: clocks of device and host differ, or times are wrong\n" +
			"1 of 200 kernels and copies begin more than an hour behind all work before them: their times are wrong", 0.9999},
		{"the rate of rank 1's device clock", func(_ *Builder, row int32, i Time, s *Span, _ *Kernel) bool {
			late := Time(row) * i / 5 // 2 % of the 10 ns between two kernels
			s.Start, s.End = s.Start+late, s.End+late
			return true
		}, "2 of 200 kernels and copies end after a call that waited for them: clocks of device and host differ, or times are wrong", 18. / 1014},
		{"the queues of rank 1", func(b *Builder, row int32, i Time, s *Span, _ *Kernel) bool {
			if row == 1 {
				s.Lane = b.Lane(Lane{Kind: Queue, ID: int64(i) + 1, Rank: row, Peer: None})
			}
			return true
		}, "100 of 200 kernels and copies are alone on their queue: which of them had to wait for another is lost", 0.5},
		{"rank 1", func(_ *Builder, row int32, _ Time, s *Span, _ *Kernel) bool {
			s.End -= Time(row)
			return true
		}, "100 of 200 kernels and copies are the same, to the nanosecond, on another rank (rank 1 of rank 0): copies of one file", 0.5},
		{"rank 1 but for a kernel", func(_ *Builder, row int32, i Time, s *Span, _ *Kernel) bool {
			s.Start, s.End = s.Start+i%3-Time(row), s.End+i%3-2*Time(row)
			return row == 0 || i != 50
		}, "1 of 200 launches have no kernel: the recording of the device has gaps (a full buffer, or a part that was cut out)\n" +
			"99 of 199 kernels and copies are the same, to the nanosecond, on another rank (rank 1 of rank 0): copies of one file", 0.5},
	} {
		d := launched(100, c.change).Damage()
		if got := strings.Join(d.Sentences, "\n"); got != c.want || math.Abs(d.Share()-c.share) > 0.0001 {
			t.Errorf("%s: share %v of %+v\n%s", c.name, d.Share(), d, got)
		}
	}
}

// Starts of which a tool dropped digits do not tell the order of kernels; whole microseconds do, and so do times that are round
// in all, as of a model.
func TestRoundedStarts(t *testing.T) {
	for _, c := range []struct {
		name             string
		every, off, last Time // between starts, what some of them are off, and durations, ns
		want             int  // kernels of rank 1 with rounded starts, of five
	}{
		{"as recorded", 123_457, 1, 70_123, 0},
		{"rounded to 100 us", 200_000, 0, 70_123, 5},
		{"rounded to 10 us, all at one start but two", 0, 10_000, 70_123, 0},
		{"whole microseconds", 123_000, 0, 70_000, 0},
		{"round in all", 200_000, 0, 70_000, 0},
	} {
		var b Builder
		for row := range int32(2) {
			b.AddRank(Rank{ID: int(row), Source: fmt.Sprint("rank", row)})
			lane := b.Lane(Lane{Kind: Queue, ID: 1, Rank: row, Peer: None})
			for i := range Time(5) {
				start := i * (c.every + Time(1-row)*977)
				if i > 2 {
					start += c.off
				}
				b.Add(Span{Start: start, End: start + c.last + i*Time(1-row), Lane: lane, Kind: Compute, Name: b.Intern("k"), Attr: None})
			}
		}
		d := b.Finish(Options{KeepZero: true}).Damage()
		said := slices.ContainsFunc(d.Sentences, func(s string) bool { return strings.HasSuffix(s, "(rank 1): their starts were rounded") })
		if said != (c.want > 0) {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// Ranks whose times are whole microseconds have many kernels in a row alike, and are no copies.
func TestCoarseTimes(t *testing.T) {
	var b Builder
	for row := range int32(2) {
		b.AddRank(Rank{ID: int(row), Source: fmt.Sprint("rank", row)})
		for i := range Time(100) {
			end := 10e3*i + 5e3
			if row == 1 && i == 50 {
				end += 1e3
			}
			b.Add(Span{Kind: Compute, Start: 10e3 * i, End: end, Lane: b.Lane(Lane{Kind: Queue, Rank: row, Peer: None}), Parent: None, Attr: b.AddKernel(Kernel{Comm: None, Op: None, Origin: None})})
		}
	}
	if d := b.Finish(Options{}).Damage(); d.Share() > 0 {
		t.Errorf("%+v", d)
	}
}

// A queue for each kernel says nothing of their order however few they are; one computes and one communicates in intact runs.
func TestFewQueues(t *testing.T) {
	for n, want := range map[Time]int{2: 0, 3: 0, 4: 4, 6: 6} {
		run := launched(n, func(b *Builder, row int32, i Time, s *Span, _ *Kernel) bool {
			s.Lane = b.Lane(Lane{Kind: Queue, ID: int64(i) * int64(row), Rank: row, Peer: None})
			return true
		})
		if d := run.Damage(); d.Odd != want {
			t.Errorf("%d kernels: %+v", n, d)
		}
	}
}

// Kernels are late that were launched and wait for nothing that the run has; a queue runs them in order.
func TestCauses(t *testing.T) {
	const beside = "run on a queue beside kernels that must have ended before: times are wrong, as a queue runs kernels in order"
	names := map[string]string{"N": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "S": "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum"}
	for _, c := range []struct {
		name, text string // a column is 100 us; every kernel is launched at 0 unless its letter is small
		want       string
	}{
		{"one after the other", "ABCDEFGH", ""},
		{"launched late", "A  b", ""},
		{"behind another queue", "A   B\n BBB", ""},
		{"without what was before", "A  B  C", "2 of 3 kernels and copies begin late, by 0.4 ms in all, though they were launched and all before them had ended: work before them is missing, or took longer than recorded"},
		{
			"less late than a kernel takes", strings.Repeat("A", 85) + " " + strings.Repeat("B", 85) + " C",
			"2 of 3 kernels and copies begin late, by 0.2 ms in all, though they were launched and all before them had ended: work before them is missing, or took longer than recorded",
		},
		{"once in many", "A B" + strings.Repeat("C", 200), ""},
		{"the next one early", "AAA|BBB", ""},
		{"beside the last but one", "AAAAAA|B|   C", "2 of 3 kernels and copies " + beside},
		{"ends before the one before", "AAA|B|   C", "1 of 3 kernels and copies " + beside},
		{"a collective begins early", "AAA|NNN", ""},
		{"behind a collective that has not ended", "NNN|BBB", "1 of 2 kernels and copies " + beside},
		{"behind a collective of symmetric memory", "SSS|BBB", ""},
	} {
		var b Builder
		b.AddRank(Rank{Source: "rank0"})
		host := b.Lane(Lane{Kind: HostThread, Peer: None})
		id, number := int64(0), int64(0)
		for _, line := range strings.Split(c.text, "\n") {
			id++
			queue := b.Lane(Lane{Kind: Queue, ID: id, Peer: None})
			for _, row := range strings.Split(line, "|") { // of one queue, each from one column later
				for at := 0; at < len(row); at++ {
					n := len(row[at:]) - len(strings.TrimLeft(row[at:], row[at:at+1]))
					if row[at] == ' ' {
						continue
					}
					number++
					start, launch := 100e3*Time(at), -Time(number)
					if strings.Contains(line, "|") {
						start += 10e3 * Time(number-1)
					}
					if row[at] >= 'a' {
						launch = start - 5e3
					}
					b.Add(Span{Kind: HostCall, Start: launch, End: launch + 1, Lane: host, Parent: None, Attr: b.AddCall(Call{Correlation: number, Op: None}), Name: b.Intern("cudaLaunchKernel")})
					kind, name := Compute, row[at:at+1]
					if names[name] != "" {
						kind, name = Collective, names[name]
					}
					b.Add(Span{Kind: kind, Start: start, End: start + 100e3*Time(n), Lane: queue, Parent: None, Attr: b.AddKernel(Kernel{Correlation: number, Comm: None, Op: None, Origin: None}), Name: b.Intern(name)})
					at += n - 1
				}
			}
		}
		d := b.Finish(Options{}).Damage()
		if got := strings.Join(d.Sentences, "\n"); got != c.want || (d.Share() > fewOdd) != (c.want != "") {
			t.Errorf("%s: %q, a share of %v", c.name, got, d.Share())
		}
	}
}

// A copy that begins before its call says that clocks differ on a stream, and nothing on a copy engine of its own clock.
func TestEarlyCopies(t *testing.T) {
	for _, c := range []struct {
		kind LaneKind
		want int
	}{{Queue, 1}, {Engine, 0}} {
		var b Builder
		b.AddRank(Rank{Source: "rank0"})
		host, device := b.Lane(Lane{Kind: HostThread, Peer: None}), b.Lane(Lane{Kind: c.kind, Peer: None})
		b.Add(Span{Kind: HostCall, Start: 10, End: 20, Lane: host, Parent: None, Attr: b.AddCall(Call{Correlation: 1, Op: None}), Name: b.Intern("hipMemcpy")})
		b.Add(Span{Kind: Copy, Start: 5, End: 15, Lane: device, Parent: None, Attr: b.AddCopy(CopyAttr{Correlation: 1, Peer: None, Op: None, Origin: None}), Name: b.Intern("copy")})
		if d := b.Finish(Options{}).Damage(); d.Odd != c.want {
			t.Errorf("%s: %+v", c.kind, d)
		}
	}
}

// A graph runs as a whole: kernels that its last replay lacks are lost, if earlier ones are all alike. A replay of fewer kernels
// that the device ran other kernels after is of another graph.
func TestCutReplay(t *testing.T) {
	for device, want := range map[string]int{
		"ABCDEF ABCDEF":      0,
		"ABCDEF ABC":         0, // two pieces of a model
		"ABCDEF ABCDEF ABCD": 2,
		"ABCDEF ABC ABC":     0, // two graphs
		"EABC FABC FABC FA":  0, // pieces of a model
		"ABC ABCDEF ABC":     0,
		"ABCDEF ABX":         0,
		"ABCDEF ABC -k":      0, // its sampler runs outside of it
		"ABC":                0,
	} {
		var b Builder
		b.AddRank(Rank{World: 1})
		host, queue := b.Lane(Lane{Kind: HostThread, Peer: None}), b.Lane(Lane{Kind: Queue, Peer: None})
		at := Time(0)
		for i, kernels := range strings.Fields(device) {
			name, number := "cudaGraphLaunch", int64(i+1)
			if strings.HasPrefix(kernels, "-") {
				name = "cudaLaunchKernel"
			}
			b.Add(Span{Kind: HostCall, Start: at, End: at + 1, Lane: host, Parent: None, Attr: b.AddCall(Call{Correlation: number, Op: None}), Name: b.Intern(name)})
			for _, k := range strings.TrimPrefix(kernels, "-") {
				at += 10
				b.Add(Span{Kind: Compute, Start: at, End: at + 7, Lane: queue, Parent: None, Name: b.Intern(string(k)), Attr: b.AddKernel(Kernel{Correlation: number, Comm: None, Op: None, Origin: None})})
			}
			at += 10
		}
		if d := b.Finish(Options{}).Damage(); d.Missing != want {
			t.Errorf("%s: %d missing, want %d: %q", device, d.Missing, want, d.Sentences)
		}
	}
}
