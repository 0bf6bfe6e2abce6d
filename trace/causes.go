package trace

import "strings"

const (
	// leastStall is from when a kernel that nothing holds up is late, ns. Launched ones begin within some microseconds of
	// the end of the work before them, on AMD's queues within some tens.
	leastStall = Time(100e3)

	// fewOdd is the share of kernels up to which odd times have a harmless cause: code that is loaded, memory that grows.
	fewOdd = 0.01
)

// stalls counts the kernels and copies that begin late although they were launched and all work before them on their
// rank had ended: what they waited for is missing, or ended later than the run says.
//
//	host    |l1|l2|l3|
//	device     |k1|        |k3|     k2 is lost, or k1 took longer
//
// Loading code and growing memory stall few kernels for long, latencies many shortly: they count by number or by time,
// whichever is less (fewOdd). Nothing stalls a device for an hour: then a time is wrong.
func (d *Damage) stalls(r *Run) {
	type state struct {
		began bool
		end   Time
	}
	ranks := make([]state, len(r.Ranks))
	n, late, busy := 0, Time(0), Time(0)
	far, away := 0, Time(0) // an hour and more behind the work before them
	for i := range r.Spans {
		s := &r.Spans[i]
		if !s.Kind.OnDevice() {
			continue
		}
		rank := &ranks[r.RankOf(*s)]
		if l := r.LaunchOf(*s); rank.began && l != None {
			if wait := s.Start - max(rank.end, r.Spans[l].End); wait >= leastStall {
				n, late = n+1, late+wait
			}
		}
		if rank.began && s.Start-rank.end > hour {
			far, away = far+1, away+s.Start-rank.end
		}
		busy += max(0, s.End-max(rank.end, s.Start))
		rank.began, rank.end = true, max(rank.end, s.End)
	}
	d.odd(far, float64(away)/float64(max(1, away+busy)), "begin more than an hour behind all work before them: their times are wrong")
	kernels := float64(max(1, d.Kernels))
	if odd := min(float64(n)/kernels, float64(late)/float64(max(1, busy))); odd > fewOdd {
		d.Odd, d.oddTime = d.Odd+int(odd*kernels+0.5), max(d.oddTime, odd)
		d.say("%d of %d kernels and copies begin late, by %.1f ms in all, though they were launched and all before them had ended: work before them is missing, or took longer than recorded", n, d.Kernels, float64(late)/1e6)
	}
}

// crowded counts the kernels that run on a queue beside others that must have ended before. A queue runs kernels in order. Only the
// next one may begin early, as with programmatic dependent launch: it waits for the one before, so that it ends later, and that one
// has to say that it is near its end, which NCCL's and RCCL's kernels never do but those of symmetric memory.
//
//	|AAAAAAAA|       C begins before A has ended, the last but one
//	   |BBBBBBBBB|   D ends before B
//	      |C|
//	          |D|
func (d *Damage) crowded(r *Run) {
	type queue struct {
		rank, device int32
		id           int64
	}
	type ends struct {
		last, older Time
		whole       bool // the last kernel lets none begin before its end
	}
	queues, whole := map[queue]*ends{}, map[NameID]bool{}
	n, together, all := 0, Time(0), Time(0)
	for i := range r.Spans {
		s := &r.Spans[i]
		l := &r.Lanes[s.Lane]
		if s.Kind != Compute && s.Kind != Collective || l.Kind != Queue || s.Dur() == 0 { // without a time it is beside nothing
			continue
		}
		e := Memo(queues, queue{l.Rank, l.Device, l.ID}, func() *ends { return &ends{last: -MaxTime, older: -MaxTime} })
		before := e.older
		if e.whole && e.last-s.Start >= coarse || e.last-s.End >= coarse {
			before = max(before, e.last)
		}
		if s.Start < before {
			n, together = n+1, together+min(s.End, before)-s.Start
		}
		all += s.Dur()
		e.last, e.older = s.End, max(e.older, e.last)
		e.whole = s.Kind == Collective && Memo(whole, s.Name, func() bool {
			name := r.NameOf(*s)
			return Communicates(name) && !OfAnotherLibrary(name) && !strings.Contains(name, "Sym")
		})
	}
	byTime := float64(together) / float64(max(1, all))
	if max(float64(n)/float64(max(1, d.Kernels)), byTime) > fewOdd {
		d.odd(n, byTime, "run on a queue beside kernels that must have ended before: times are wrong, as a queue runs kernels in order")
	}
}

// mostAlone is how many queues of a rank may hold one kernel only: PyTorch makes 32 streams of a priority. If no queue of it
// holds two, fewestAlone kernels are enough: one may compute, one communicate and one copy on streams of their own.
const (
	mostAlone   = 32
	fewestAlone = 4
)

// impossible counts the kernels of measured runs that took no time, and those that are alone on their queue on ranks with
// many such queues or no others: queues order kernels, and of these nothing says which had to wait for which.
func (d *Damage) impossible(r *Run) {
	if r.Simulated || r.Estimated != "" {
		return
	}
	type queue struct {
		row    int
		device int32
		id     int64
	}
	held, queues, alone := map[queue]int{}, make([]int, len(r.Ranks)), make([]int, len(r.Ranks))
	instant, fine := 0, false // recorded to less than a microsecond, to which others round
	for _, s := range r.Spans {
		l := &r.Lanes[s.Lane]
		if s.Kind != Compute && s.Kind != Collective || l.Kind != Queue {
			continue
		}
		if s.Dur() == 0 {
			instant++
		}
		fine = fine || s.Dur()%1000 != 0
		held[queue{r.RankOf(s), l.Device, l.ID}]++
	}
	if fine {
		d.odd(instant, 0, "take no time: their ends are lost")
	}
	for q, n := range held {
		if queues[q.row]++; n == 1 {
			alone[q.row]++
		}
	}
	n := 0
	for row, k := range alone {
		if k > mostAlone || k >= fewestAlone && k == queues[row] {
			n += k
		}
	}
	d.odd(n, 0, "are alone on their queue: which of them had to wait for another is lost")
}
