package replay

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
)

// If no timer is left but an actor waits, the program cannot continue. The explanation
// follows a wait to the actor that could end it, then that actor's wait, until a wait
// repeats (a cycle) or no actor posts the flag:
//
//	stream "b" ─waits for─▶ flag 7 ◀─would post─ unplaced workgroups of "producer"
//	   ▲                                            │ no slot: held by
//	   └── flag 9 ◀── ... ◀─waits for── resident workgroups of "consumer"

// A waiter is a node of the wait-for graph: a stream, or the resident or unplaced
// workgroups of a launch.
type waiter struct {
	stream   int32 // a stream's own command; else none
	launch   int32
	unplaced bool
}

// deadlock is nil if every stream has ended (rule Z4).
func (s *sim) deadlock() error {
	for i := range s.streams {
		if st := &s.streams[i]; st.next < len(st.Commands) {
			return &DeadlockError{At: s.now, Chain: s.chain(waiter{stream: int32(i), launch: none})}
		}
	}
	return nil
}

func (s *sim) chain(w waiter) []string {
	d := waitSearch{sim: s, found: map[launchPart]flagSet{}}
	var seen []waiter
	var chain []string
	for {
		if at := slices.Index(seen, w); at >= 0 {
			return chain[at:]
		}
		seen = append(seen, w)
		text, next, ok := d.follow(w)
		chain = append(chain, text)
		if !ok {
			return chain
		}
		w = next
	}
}

type flagSet map[program.Flag]bool

// A launchPart is the resident or the unplaced workgroups of a launch.
type launchPart struct {
	launch   int32
	unplaced bool
}

// A waitSearch finds the actors that could still post a flag.
type waitSearch struct {
	*sim
	found map[launchPart]flagSet
}

// follow describes a wait and finds the waiter that could end it; ok is false if there is
// none.
func (d *waitSearch) follow(w waiter) (text string, next waiter, ok bool) {
	if w.launch != none {
		l := d.kernels.at(w.launch)
		who := fmt.Sprintf("GPU %d: kernel %q", l.gpu, l.kernel.Name)
		if !w.unplaced {
			return d.resident(w.launch, l, who)
		}
		holder := d.holder(l.gpu)
		text = fmt.Sprintf("%s: %d of %d workgroups find no slot", who, l.kernel.WGs-l.placed, l.kernel.WGs)
		if holder == none {
			return text, waiter{}, false
		}
		return fmt.Sprintf("%s: held by %q", text, d.kernels.at(holder).kernel.Name), waiter{stream: none, launch: holder}, true
	}
	st := &d.streams[w.stream]
	c := &st.Commands[st.next]
	who := fmt.Sprintf("GPU %d: stream %q", st.gpu, st.Name)
	if c.Op == program.Wait {
		return d.awaiting(who+" waits", c.Flag, c.Count)
	}
	l := d.kernels.at(st.launch)
	next = waiter{stream: none, launch: st.launch, unplaced: l.placed == l.gone}
	return fmt.Sprintf("%s waits for the end of kernel %q", who, l.kernel.Name), next, true
}

// resident follows the first waiting resident workgroup of a launch.
func (d *waitSearch) resident(id int32, l *launch, who string) (string, waiter, bool) {
	first, waits := none, 0
	for i := range d.wgs.all {
		w := d.wgs.at(int32(i))
		if w.launch == id && w.stage != gone && w.phase == waiting {
			waits++
			if first == none || w.index < d.wgs.at(int32(first)).index {
				first = i
			}
		}
	}
	if first == none { // only unplaced workgroups are left
		return d.follow(waiter{stream: none, launch: id, unplaced: true})
	}
	p := d.current(int32(first))
	held := ""
	if !l.kernel.Free {
		held = " hold their slots and"
	}
	return d.awaiting(fmt.Sprintf("%s: %d workgroups%s wait, the first", who, waits, held), p.Flag, p.Count)
}

// awaiting follows a flag to a waiter that could post it.
func (d *waitSearch) awaiting(who string, f program.Flag, count int64) (string, waiter, bool) {
	text := fmt.Sprintf("%s for flag %q (%d of %d)", who, d.program.Flags[f], d.flags[f].value, count)
	if next, whose, ok := d.poster(f); ok {
		return fmt.Sprintf("%s that %s would post", text, whose), next, true
	}
	return text + " that nothing left would post", waiter{}, false
}

// poster finds a waiter that could post the flag: workgroups first (unplaced before
// resident), by launch, then streams.
func (d *waitSearch) poster(f program.Flag) (w waiter, whose string, ok bool) {
	for _, unplaced := range []bool{true, false} {
		best := int32(none)
		for i := range d.kernels.all {
			id := int32(i)
			l := d.kernels.at(id)
			if l.kernel != nil && d.posts(launchPart{id, unplaced})[f] && (best == none || l.order < d.kernels.at(best).order) {
				best = id
			}
		}
		if best != none {
			l := d.kernels.at(best)
			return waiter{stream: none, launch: best, unplaced: unplaced}, fmt.Sprintf("kernel %q of GPU %d", l.kernel.Name, l.gpu), true
		}
	}
	for i := range d.streams {
		if st := &d.streams[i]; d.streamPosts(st, f) {
			return waiter{stream: int32(i), launch: none}, fmt.Sprintf("stream %q of GPU %d", st.Name, st.gpu), true
		}
	}
	return waiter{}, "", false
}

// streamPosts reports whether a later command of the stream could post the flag.
func (d *waitSearch) streamPosts(st *stream, f program.Flag) bool {
	for i := st.next + 1; i < len(st.Commands); i++ {
		c := &st.Commands[i]
		if c.Op == program.Post && c.Flag == f && c.Count > 0 {
			return true
		}
		if c.Op == program.Launch && postsOf(c.Kernel, 0, c.Kernel.WGs, 0)[f] {
			return true
		}
	}
	return false
}

// posts are the flags that the workgroups of a launch could still post.
func (d *waitSearch) posts(a launchPart) flagSet {
	if set, ok := d.found[a]; ok {
		return set
	}
	l := d.kernels.at(a.launch)
	set := flagSet{}
	if a.unplaced {
		if l.placed < l.kernel.WGs {
			set = postsOf(l.kernel, l.placed, l.kernel.WGs, l.ticket)
		}
	} else {
		d.residentPosts(a.launch, l, set)
	}
	d.found[a] = set
	return set
}

func (d *waitSearch) residentPosts(id int32, l *launch, set flagSet) {
	k := l.kernel
	for i := range d.wgs.all {
		w := d.wgs.at(int32(i))
		if w.launch != id || w.stage == gone {
			continue
		}
		set.add(d.phases(int32(i), w, l)[w.next+1:])
		if k.Tiles == 0 {
			continue
		}
		for round := int(w.rounds); round < l.owned; round++ {
			tile := int(w.index) + round*k.WGs
			if tile >= k.Tiles {
				break
			}
			set.add(k.Recipe(tile, nil))
		}
		if k.Epilogue != nil && w.stage != leaving {
			set.add(k.Epilogue(int(w.index), nil))
		}
	}
	if l.placed == k.WGs {
		set.tickets(k, l.ticket)
	}
}

// postsOf are the flags that workgroups from..to of a kernel, and tiles not yet handed
// out, could post.
func postsOf(k *program.Kernel, from, to, ticket int) flagSet {
	set := flagSet{}
	for w := from; w < to; w++ {
		if k.Tiles == 0 {
			set.add(k.Recipe(w, nil))
			continue
		}
		if k.Prologue != nil {
			set.add(k.Prologue(w, nil))
		}
		owned, next := k.TilesOwned()
		ticket = max(ticket, next)
		for round := 0; round < owned && w+round*k.WGs < k.Tiles; round++ {
			set.add(k.Recipe(w+round*k.WGs, nil))
		}
		if k.Epilogue != nil {
			set.add(k.Epilogue(w, nil))
		}
	}
	if from < to {
		set.tickets(k, ticket)
	}
	return set
}

func (f flagSet) tickets(k *program.Kernel, ticket int) {
	if k.Tiles == 0 {
		return
	}
	for tile := ticket; tile < k.Tiles; tile++ {
		f.add(k.Recipe(tile, nil))
	}
}

func (f flagSet) add(phases []program.Phase) {
	for i := range phases {
		if p := &phases[i]; (p.Op == program.PostTo || p.Op == program.Put) && p.Count > 0 {
			f[p.Flag] = true
		}
	}
}

// holder is the launch with the most workgroups resident on the GPU, or none.
func (s *sim) holder(gpu int32) int32 {
	count := map[int32]int{}
	for i := range s.gpus[gpu].cus {
		for _, w := range s.gpus[gpu].cus[i].wgs {
			count[s.wgs.at(w).launch]++
		}
	}
	most := int32(none)
	for id, n := range count {
		if most == none || n > count[most] || n == count[most] && s.kernels.at(id).order < s.kernels.at(most).order {
			most = id
		}
	}
	return most
}
