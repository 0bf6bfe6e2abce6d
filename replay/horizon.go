package replay

import "slices"

// The horizon of a crowd
//
// Before many paths of a crowd have ended, it is solved anew, and when the
// others would have ended was found for nothing. So only those have an alarm
// that are due before a horizon; when time has come there, the others are
// looked at again.
//
//	solves     |              |              |
//	horizon    |------------------->|
//	                          |---------------->|
//	due          a b  c d     e   f : g    h    i    k     beyond have no alarm
//
// It is when twice as many as a crowd waits for are due, going by a sample.
type horizon struct {
	at     Time // lastTime where there is no crowd
	alarm  alarm
	beyond []int32 // paths that are due after it, and some that no longer are
}

const sampled = 64 // paths

// setHorizon looks ahead from now on, not as far as before if that was further.
func (f *flows) setHorizon(now Time) {
	h, all := &f.crowd.horizon, f.crowd.roll.paths
	if len(all) == 0 {
		return
	}
	var dues [sampled]Time
	for i := range dues {
		dues[i] = f.paths[all[i*len(all)/sampled]].dueAt(now)
	}
	slices.Sort(dues[:])
	if at := max(dues[2*sampled/crowdPart], now+1); at < h.at {
		h.at = at
		f.events.set(&h.alarm, at, actor{kind: dueHorizon})
	}
}

// putOff notes that a path is due beyond the horizon.
func (f *flows) putOff(id int32) {
	p := &f.paths[id]
	p.alarm = none
	if !p.beyond {
		p.beyond = true
		f.crowd.horizon.beyond = append(f.crowd.horizon.beyond, id)
	}
}

// reachHorizon lets all paths beyond it be scheduled again, up to the next one if
// there still is a crowd.
func (f *flows) reachHorizon(now Time) {
	h := &f.crowd.horizon
	if h.at = lastTime; f.crowd.paths > 0 {
		f.setHorizon(now)
	}
	for _, id := range h.beyond {
		f.paths[id].beyond = false
		f.move(id)
	}
	h.beyond = h.beyond[:0]
}
