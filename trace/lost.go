package trace

import (
	"cmp"
	"slices"
	"strings"
)

// launches counts the launches of which the run has no kernel, the kernels that begin before their
// launch, and those that share it with another one, as it launches a single kernel. Of a rank whose recording relates no
// kernel to its launch nothing is known.
//
//	host    |l1|l2|l3|  |sync...|l4|        l2 is lost: a later launch has its kernel
//	device     |k1|  |k3|k3|                l4 is not: it may run after the recording; k3 is there twice
func (d *Damage) launches(r *Run) {
	if len(r.Calls) == 0 {
		return
	}
	type call struct {
		row    int
		number int64
	}
	launched := map[call]int32{}            // twice the number of kernels, and 1 if it has a kernel or copy
	until := make([]Time, len(r.Ranks))     // what is launched before has run in the recording
	names := make([]callName, len(r.Names)) // by NameID
	for i, n := range r.Names {
		names[i] = callNameOf(n)
	}
	for _, s := range r.Spans {
		if s.Kind == Launch && s.Attr != None {
			row := r.RankOf(s)
			launched[call{row, r.Calls[s.Attr].Correlation}] |= 1
			until[row] = max(until[row], s.Start)
		}
	}
	for _, s := range r.Spans {
		if k := r.Kernel(s); k != nil && k.Correlation != 0 {
			if c := (call{r.RankOf(s), k.Correlation}); launched[c] > 0 {
				launched[c] += 2
			}
		}
		if row := r.RankOf(s); until[row] > 0 && names[s.Name] == waitsForDevice {
			until[row] = max(until[row], s.Start)
		}
	}
	capturing := map[LaneID]bool{} // threads that record a graph: its kernels run when the graph does
	lost, all, early, again := 0, 0, 0, 0
	for _, s := range r.Spans {
		// copy engines have clocks of their own
		if l := r.launchAt(&s); l != nil && *l != None && r.Lanes[s.Lane].Kind == Queue && s.Start < r.Spans[*l].Start {
			early++
		}
		switch names[s.Name] {
		case beginsCapture:
			capturing[s.Lane] = true
		case endsCapture:
			delete(capturing, s.Lane)
		case launchesKernel:
			if s.Attr == None || s.Kind != HostCall && s.Kind != Launch || r.Calls[s.Attr].Correlation == 0 {
				continue
			}
			c := call{r.RankOf(s), r.Calls[s.Attr].Correlation}
			n := launched[c]
			if n > 3 {
				again += int(n/2) - 1
				launched[c] = n & 1
			}
			if s.Start > until[c.row] || capturing[s.Lane] {
				continue
			}
			if all++; n&1 == 0 {
				lost++
			}
		}
	}
	outlasted, share := r.outlasted(names)
	if lost > d.Skipped {
		d.Missing += lost - d.Skipped
		d.say("%d of %d launches have no kernel: the recording of the device has gaps (a full buffer, or a part that was cut out)", lost, all)
	}
	d.odd(again, 0, "share a launch of one kernel with another: they are in the input twice, or ranks are mixed")
	d.odd(early, 0, "begin before the call that launched them: the clocks of device and host differ")
	d.odd(outlasted, share, "end after a call that waited for them: clocks of device and host differ, or times are wrong")
}

// outlasted counts the kernels and copies that end after a host call has returned that waited for all work launched before it.
// share is by how much they do, relative to the time of the work between two such calls: a clock that is off is off for all of it.
//
//	host    |l1|l2|  |sync.......|
//	device     |k1|      |k2.........|      k2 is late
func (r *Run) outlasted(names []callName) (n int, share float64) {
	type sync struct{ from, until, begin, end Time } // of the call, and of the work that it waited for
	syncs := make([][]sync, len(r.Ranks))            // by start
	for _, s := range r.Spans {
		if s.Kind == HostCall && names[s.Name] == waitsForDevice {
			row := r.RankOf(s)
			syncs[row] = append(syncs[row], sync{s.Start, s.End, Infinity, 0})
		}
	}
	for _, s := range r.Spans {
		l := r.LaunchOf(s)
		if l == None || r.RankOf(r.Spans[l]) != r.RankOf(s) { // a process with several devices: each call waits for one of them
			continue
		}
		of := syncs[r.RankOf(s)]
		next, _ := slices.BinarySearchFunc(of, r.Spans[l].End, func(c sync, end Time) int { return cmp.Compare(c.from, end) })
		if next == len(of) {
			continue
		}
		c := &of[next]
		if c.begin, c.end = min(c.begin, s.Start), max(c.end, s.End); s.End > c.until {
			n++
			share = max(share, float64(c.end-c.until)/float64(c.end-min(c.begin, c.until)))
		}
	}
	return n, share
}

// graphs counts the kernels that the last replay of a captured graph on a rank lacks, behind which its device does nothing: all that
// is recorded of it are the first kernels of the earlier replays, which are all alike. A graph runs as a whole.
//
//	device |ABCDEF|ABCDEF|ABC     the last lacks three
func (d *Damage) graphs(r *Run) {
	type replay struct {
		names []NameID // of kernels, by start
		end   bool     // nothing begins behind it
	}
	type call struct {
		row    int
		number int64
	}
	of, order := map[call]*replay{}, make([][]*replay, len(r.Ranks))
	for _, s := range r.Spans {
		if s.Kind == Launch && s.Attr != None && strings.Contains(r.Names[s.Name], "GraphLaunch") {
			row := r.RankOf(s)
			of[call{row, r.Calls[s.Attr].Correlation}] = &replay{}
		}
	}
	for _, s := range r.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		row := r.RankOf(s)
		if n := len(order[row]); n > 0 {
			order[row][n-1].end = false
		}
		k := r.Kernel(s)
		if k == nil || of[call{row, k.Correlation}] == nil {
			continue
		}
		g := of[call{row, k.Correlation}]
		if g.names = append(g.names, s.Name); len(g.names) == 1 {
			order[row] = append(order[row], g)
		}
		order[row][len(order[row])-1].end = order[row][len(order[row])-1] == g
	}
	lost := 0
	for _, replays := range order {
		n := len(replays) - 1
		if n < 2 || !replays[n].end {
			continue
		}
		// Pieces of a model may be graphs of their own, of which the last one begins as the others do.
		whole, last := replays[0].names, replays[n].names
		other := slices.ContainsFunc(replays[:n], func(g *replay) bool { return !slices.Equal(g.names, whole) })
		if !other && len(last) < len(whole) && slices.Equal(whole[:len(last)], last) {
			lost += len(whole) - len(last)
		}
	}
	if lost > 0 {
		d.Missing += lost
		d.say("%d kernels of captured graphs are missing at the end: earlier replays have them, and a graph runs as a whole", lost)
	}
}

// A callName is what a name says about a host call.
type callName uint8

const (
	otherCall callName = iota
	launchesKernel
	waitsForDevice
	beginsCapture
	endsCapture
)

func callNameOf(name string) callName {
	switch {
	case strings.Contains(name, "LaunchKernel"):
		return launchesKernel
	case strings.Contains(name, "DeviceSynchronize"):
		return waitsForDevice
	case strings.Contains(name, "StreamBeginCapture"), strings.Contains(name, "GraphCreate"): // XLA records into graphs that it creates
		return beginsCapture
	case strings.Contains(name, "StreamEndCapture"), strings.Contains(name, "GraphInstantiate"), strings.Contains(name, "GraphLaunch"):
		return endsCapture
	}
	return otherCall
}

// sizes counts the kernels of sums and gathers to which the ranks give other sizes.
func (d *Damage) sizes(r *Run) {
	type ends struct{ in, out, n int64 }
	first := map[int32]*ends{} // by row of Collectives
	other := map[int32]bool{}
	for _, s := range r.Spans {
		c := r.Comm(s)
		if c == nil || c.Collective == None || c.Op != AllReduce && c.Op != AllGather && c.Op != ReduceScatter && !c.Even {
			continue
		}
		e := first[c.Collective]
		if e == nil {
			first[c.Collective] = &ends{c.In, c.Out, 1}
			continue
		}
		if e.n++; e.in != c.In || e.out != c.Out {
			other[c.Collective] = true
		}
	}
	n := 0
	for row := range other {
		n += int(first[row].n)
	}
	d.odd(n, 0, "belong to a collective that has other sizes on other ranks")
}

// fewestCopied is how many kernels in a row say that ranks are copies: a few may take equal times. Times and distances vary by tens
// of the clock's steps, so that eight of both are equal by chance less than once in 10^16 kernels.
const fewestCopied = 8

// copies counts the kernels of measured ranks that are, with those around them, another rank's: kernels in a row with its names,
// times and distances in time. That is a file under two names, or most of one. Clocks of nanoseconds never give that twice;
// where all times are whole microseconds only ranks that are equal as a whole count. Ranks without start times (Placed) have
// equal ones where their durations are.
func (d *Damage) copies(r *Run) {
	if r.Simulated || r.Estimated != "" {
		return
	}
	type kernel struct {
		name        NameID
		behind, dur Time // since the start of the kernel before, and its own length
	}
	ranks := make([][]kernel, len(r.Ranks))
	begin := make([]Time, len(r.Ranks))
	fine := false // recorded to less than a microsecond, to which others round
	for _, s := range r.Spans {
		if s.Kind != Compute && s.Kind != Collective {
			continue
		}
		row := r.RankOf(s)
		if len(ranks[row]) == 0 {
			begin[row] = s.Start
		}
		ranks[row] = append(ranks[row], kernel{s.Name, s.Start - begin[row], s.Dur()})
		begin[row] = s.Start
		fine = fine || s.Dur()%1000 != 0
	}
	var names []string
	n := 0
	seen := map[[fewestCopied]kernel]int{} // by kernels in a row: the first rank that has them
	for row, all := range ranks {
		copied, of := make([]bool, len(all)), None
		for i := range max(0, len(all)-fewestCopied+1) {
			k := [fewestCopied]kernel(all[i:])
			k[0].behind = 0 // of the kernel before, which may be missing
			first, again := seen[k]
			if !again {
				seen[k] = row
			}
			if !again || r.Ranks[row].Placed || r.Ranks[first].Source == r.Ranks[row].Source || !fine && !slices.Equal(all, ranks[first]) {
				continue
			}
			of = first
			for j := range fewestCopied {
				copied[i+j] = true
			}
		}
		if of != None {
			names = append(names, r.rankName(row)+" of "+r.rankName(of))
		}
		for _, c := range copied {
			if c {
				n++
			}
		}
	}
	d.odd(n, 0, "are the same, to the nanosecond, on another rank (%s): copies of one file", listed(names))
}

// coarse is a step between starts that no profiler's clock has: the coarsest count microseconds.
const coarse = 10 * Time(1000)

// rounded counts the kernels of measured ranks that begin at whole multiples of coarse from each other, though their durations have
// fractions of a microsecond: a tool that wrote the file dropped digits of the starts, so that their order and waits are not known.
// Three distances of a clock of nanoseconds are so by chance once in 10^12 ranks.
func (d *Damage) rounded(r *Run) {
	if r.Simulated || r.Estimated != "" {
		return
	}
	type rank struct {
		n, apart   int // kernels, and those that begin at another time than the one before
		before     Time
		fine, even bool // a duration has a fraction; all distances are multiples
	}
	ranks := make([]rank, len(r.Ranks))
	for _, s := range r.Spans {
		if s.Kind != Compute && s.Kind != Collective {
			continue
		}
		x := &ranks[r.RankOf(s)]
		if x.n == 0 {
			x.before, x.even = s.Start, true
		}
		if behind := s.Start - x.before; behind > 0 {
			x.apart++
			x.even = x.even && behind%coarse == 0
		}
		x.n, x.before, x.fine = x.n+1, s.Start, x.fine || s.Dur()%1000 != 0
	}
	n := 0
	var names []string
	for row, x := range ranks {
		if x.fine && x.even && x.apart >= 3 && !r.Ranks[row].Placed {
			n, names = n+x.n, append(names, r.rankName(row))
		}
	}
	d.odd(n, 0, "begin at whole multiples of 10 µs, though they last fractions of one (%s): their starts were rounded", listed(names))
}
