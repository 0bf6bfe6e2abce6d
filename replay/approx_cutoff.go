package replay

import "slices"

// Cutoff of timers
//
// A large component is solved again before most of its paths complete, and a
// timer that was set for a later completion is set in vain. So only paths that
// complete before a cutoff have a timer. At the cutoff the others are looked at
// again.
//
//	solves     |              |              |
//	cutoff     |------------------->|
//	                          |---------------->|
//	due          a b  c d     e   f : g    h    i    k     beyond: no timer
//
// A quarter of the paths completes before the cutoff, going by a sample.
type cutoff struct {
	at     Time // lastTime where there is no large component
	alarm  alarm
	beyond []int32 // paths that are due after it, and some that no longer are
}

const sampled = 64 // paths

// setCutoff finds the cutoff from now on. It never moves it to a later time.
func (f *flows) setCutoff(now Time) {
	h, all := &f.approx.cutoff, f.approx.members.paths
	if len(all) == 0 {
		return
	}
	var dues [sampled]Time
	for i := range dues {
		dues[i] = f.paths[all[i*len(all)/sampled]].dueAt(now)
	}
	slices.Sort(dues[:])
	if at := max(dues[sampled/4], now+1); at < h.at {
		h.at = at
		f.events.set(&h.alarm, at, actor{kind: dueCutoff})
	}
}

// postpone notes that a path is due beyond the cutoff.
func (f *flows) postpone(id int32) {
	p := &f.paths[id]
	p.alarm = none
	if !p.beyond {
		p.beyond = true
		f.approx.cutoff.beyond = append(f.approx.cutoff.beyond, id)
	}
}

// passCutoff schedules all paths beyond the cutoff again, up to the next one if
// there still is a large component.
func (f *flows) passCutoff(now Time) {
	h := &f.approx.cutoff
	if h.at = lastTime; f.approx.paths > 0 {
		f.setCutoff(now)
	}
	for _, id := range h.beyond {
		f.paths[id].beyond = false
		f.move(id)
	}
	h.beyond = h.beyond[:0]
}
