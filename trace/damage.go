package trace

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Damage says how much of the device work of a run is not as it was recorded.
type Damage struct {
	Kernels  int // kernels and copies on devices
	Repaired int // of them, with changed times
	Skipped  int // in the input, but unreadable
	Doubled  int // in the input, but the same as another in every value
	// launched, alone or in a graph, but not in the input; of ranks without kernels as many as the median of the other ranks has
	Missing int
	Odd     int // longer than an hour or of no time, beside others on one queue, alone on one of many, before their launch, with that of another, late without a cause, of other bytes than on other ranks, with a rounded start, or the same as on another rank
	Apart   int // in iterations that not all ranks ran, or not at one time; only a lifted run knows them

	// Unmatched is the share of the time of collectives that need all ranks in those that have no part on a rank, or
	// that one rank left before another arrived; only a lifted run knows it.
	Unmatched float64

	oddTime float64 // share of Odd in the time of all kernels and copies

	Sentences []string // what happened, for the user; nil if nothing did
}

// Share is the part of the kernels and copies that was repaired, skipped, doubled, is missing,
// is apart or has odd times, from 0 to 1. Odd ones count by their time if that is more, unmatched collectives by their
// part of communication.
func (d Damage) Share() float64 {
	lost := d.Skipped + d.Doubled + d.Missing
	if d.Kernels+lost == 0 {
		return 0
	}
	return max(float64(d.Repaired+d.Odd+d.Apart+lost)/float64(d.Kernels+lost), d.oddTime, d.Unmatched)
}

// Doubled is the reason of an Entry for an event that is in the input twice.
const Doubled = "the same as another event in every value: ignored"

// No kernel takes that long, and no queue has so many at a time: AMD's have a few.
const (
	hour       = 3600 * 1e9 // ns
	mostBeside = 128
)

// Damage counts what readers changed and left out, and compares the ranks. Repaired host
// calls and workgroups do not count.
func (r *Run) Damage() Damage {
	var d Damage
	var repaired, skipped []string // reasons
	var all, odd Time              // of kernels and copies
	wrong := 0
	work := make([]int, len(r.Ranks))
	kernels := make([]int, len(r.Ranks))
	lost := make([]bool, len(r.Ranks)) // it launched kernels that are not in the run
	launches := make([]bool, len(r.Names))
	for i, n := range r.Names {
		launches[i] = strings.Contains(n, "LaunchKernel")
	}
	for _, s := range r.Spans {
		row := r.RankOf(s)
		if s.Kind.OnDevice() {
			all += s.Dur()
			if l := &r.Lanes[s.Lane]; s.Dur() > hour || l.Kind == Queue && l.Sub >= mostBeside {
				wrong++
				odd += s.Dur()
			}
		}
		switch {
		case s.Kind == Compute || s.Kind == Collective:
			kernels[row]++
			work[row]++
		case s.Kind == Copy:
			work[row]++
		case s.Kind == HostCall && launches[s.Name]:
			lost[row] = true
		}
	}
	for _, n := range work {
		d.Kernels += n
	}
	for _, e := range r.Ledger.Entries {
		switch {
		case e.Kernels == 0:
		case e.Reason == Doubled:
			d.Doubled += e.Kernels
		case e.Action == Repaired:
			d.Repaired += e.Kernels
			repaired = append(repaired, e.Reason)
		case e.Action == Skipped:
			d.Skipped += e.Kernels
			skipped = append(skipped, e.Reason)
		}
	}
	d.odd(wrong, float64(odd)/float64(max(all, 1)), "are longer than an hour, or beside over %d others of their queue: their times are wrong", mostBeside)
	if d.Repaired > 0 {
		d.say("%d of %d kernels and copies were repaired: %s", d.Repaired, d.Kernels, reasons(repaired))
	}
	if d.Skipped > 0 {
		d.say("%d kernels and copies cannot be read and are left out: %s", d.Skipped, reasons(skipped))
	}
	if d.Doubled > 0 {
		d.say("%d kernels and copies are in the input twice: each counts once", d.Doubled)
	}
	d.empty(r, work, kernels, lost)
	d.launches(r)
	d.graphs(r)
	d.stalls(r)
	d.crowded(r)
	d.impossible(r)
	d.sizes(r)
	d.copies(r)
	d.rounded(r)
	d.iterations(r)
	return d
}

// odd says why kernels and copies cannot be as the run has them; share is by how much, relative to the time of all.
func (d *Damage) odd(n int, share float64, why string, args ...any) {
	if n > 0 {
		d.Odd, d.oddTime = d.Odd+n, max(d.oddTime, share)
		d.say("%d of %d kernels and copies %s", n, d.Kernels, fmt.Sprintf(why, args...))
	}
}

func (d *Damage) say(format string, args ...any) {
	d.Sentences = append(d.Sentences, fmt.Sprintf(format, args...))
}

// reasons lists different reasons once.
func reasons(all []string) string {
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

// empty finds the ranks without kernels while others have some. A process that starts the
// others is not one: it launches no kernels, and has no file of its own.
func (d *Damage) empty(r *Run, work, kernels []int, lost []bool) {
	files := map[string]int{} // number of ranks in each
	var full []int            // kernels and copies of each rank that has kernels
	for row := range r.Ranks {
		files[r.Ranks[row].Source]++
		if kernels[row] > 0 {
			full = append(full, work[row])
		}
	}
	if len(full) == 0 || len(full) == len(r.Ranks) {
		return
	}
	slices.Sort(full)
	median := full[len(full)/2]
	var names []string
	for row := range r.Ranks {
		if k := &r.Ranks[row]; kernels[row] == 0 && (lost[row] || k.Source != "" && files[k.Source] == 1) {
			names = append(names, r.rankName(row))
			d.Missing += max(0, median-work[row])
		}
	}
	if len(names) > 0 {
		d.say("no kernels of %s, while the other ranks have %d kernels and copies each: record GPU activity there too",
			listed(names), median)
	}
}

// iterations compares which iterations the ranks mark.
func (d *Damage) iterations(r *Run) {
	bases := make([]string, len(r.Names))
	for i, n := range r.Names {
		if base, number, ok := strings.Cut(n, "#"); ok && number != "" && strings.Trim(number, "0123456789") == "" {
			bases[i] = base
		}
	}
	marked := map[string][]map[NameID]bool{} // by base, then rank row
	for _, s := range r.Spans {
		base := bases[s.Name]
		if s.Kind != Marker || base == "" {
			continue
		}
		m := Memo(marked, base, func() []map[NameID]bool { return make([]map[NameID]bool, len(r.Ranks)) })
		if row := r.RankOf(s); m[row] == nil {
			m[row] = map[NameID]bool{s.Name: true}
		} else {
			m[row][s.Name] = true
		}
	}
	for _, base := range slices.Sorted(maps.Keys(marked)) {
		rows := map[string][]string{} // ranks by what they mark
		for row, m := range marked[base] {
			if len(m) > 0 {
				rows[r.numbersOf(m)] = append(rows[r.numbersOf(m)], r.rankName(row))
			}
		}
		if len(rows) < 2 {
			continue
		}
		var texts []string
		for _, numbers := range slices.Sorted(maps.Keys(rows)) {
			texts = append(texts, fmt.Sprintf("%s of %s", numbers, listed(rows[numbers])))
		}
		d.say("the ranks have different iterations (%s): %s", base, strings.Join(texts[:min(8, len(texts))], "; "))
	}
}

// numbersOf lists the numbers of marks: "3 to 5".
func (r *Run) numbersOf(marks map[NameID]bool) string {
	var list []int
	for id := range marks {
		_, number, _ := strings.Cut(r.Names[id], "#")
		n, _ := strconv.Atoi(number)
		list = append(list, n)
	}
	slices.Sort(list)
	if n := len(list); n > 2 && list[n-1]-list[0] == n-1 {
		return fmt.Sprintf("%d to %d", list[0], list[n-1])
	}
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	return listed(texts)
}

// rankName is a rank for the user: its number, else its file.
func (r *Run) rankName(row int) string {
	k := &r.Ranks[row]
	if k.ID == None {
		return k.Source
	}
	return fmt.Sprintf("rank %d", k.ID)
}

// listed joins the first names and counts the others.
func listed(names []string) string {
	const most = 8
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}
