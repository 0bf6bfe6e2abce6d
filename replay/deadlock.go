package replay

import (
	"cmp"
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
	d := waitSearch{sim: s, found: map[waiter]flagSet{}}
	var seen []waiter
	var chain []string
	for ok := true; ok; {
		if at := slices.Index(seen, w); at >= 0 {
			return chain[at:]
		}
		seen = append(seen, w)
		var text string
		text, w, ok = d.follow(w)
		chain = append(chain, text)
	}
	return chain
}

type flagSet map[program.Flag]bool

// A waitSearch finds the actors that could still post a flag.
type waitSearch struct {
	*sim
	found map[waiter]flagSet
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
	text := fmt.Sprintf("%s for flag %q (%d of %d)", who, d.program.Flags.Name(f), d.flags[f].value, count)
	for _, w := range d.waiters() {
		switch {
		case !d.posts(w)[f]:
		case w.launch != none:
			l := d.kernels.at(w.launch)
			return fmt.Sprintf("%s that kernel %q of GPU %d would post", text, l.kernel.Name, l.gpu), w, true
		default:
			st := &d.streams[w.stream]
			return fmt.Sprintf("%s that stream %q of GPU %d would post", text, st.Name, st.gpu), w, true
		}
	}
	return text + " that nothing left would post", waiter{}, false
}

// waiters lists who could post: workgroups (unplaced before resident), by launch, then streams.
func (d *waitSearch) waiters() (all []waiter) {
	for i := range d.kernels.all {
		if d.kernels.all[i].kernel != nil {
			all = append(all, waiter{none, int32(i), true})
		}
	}
	slices.SortFunc(all, func(a, b waiter) int { return cmp.Compare(d.kernels.at(a.launch).order, d.kernels.at(b.launch).order) })
	for _, w := range all {
		all = append(all, waiter{none, w.launch, false})
	}
	for i := range d.streams {
		all = append(all, waiter{int32(i), none, false})
	}
	return all
}

// posts are the flags that a waiter could still post: a stream by its later commands.
func (d *waitSearch) posts(w waiter) flagSet {
	if set, ok := d.found[w]; ok {
		return set
	}
	set := flagSet{}
	d.found[w] = set
	if w.launch == none {
		st := &d.streams[w.stream]
		for i := st.next + 1; i < len(st.Commands); i++ {
			switch c := &st.Commands[i]; {
			case c.Op == program.Post && c.Count > 0:
				set[c.Flag] = true
			case c.Op == program.Launch:
				set.unplaced(c.Kernel, 0, 0)
			}
		}
		return set
	}
	l := d.kernels.at(w.launch)
	if w.unplaced {
		set.unplaced(l.kernel, l.placed, l.ticket)
		return set
	}
	for i := range d.wgs.all {
		if x := d.wgs.at(int32(i)); x.launch == w.launch && x.stage != gone {
			set.add(d.phases(int32(i), x, l)[x.next+1:])
			set.tiles(l.kernel, int(x.index), int(x.rounds), l.owned, x.stage != leaving)
		}
	}
	if l.placed == l.kernel.WGs {
		set.tickets(l.kernel, l.ticket)
	}
	return set
}

// unplaced adds the posts of a kernel's workgroups from one on, and of tiles not yet handed out.
func (f flagSet) unplaced(k *program.Kernel, from, ticket int) {
	owned, next := tilesOwned(k)
	for w := from; w < k.WGs; w++ {
		if k.Tiles == 0 {
			f.add(k.Phases(w, nil))
		} else if k.Prologue != nil {
			f.add(k.Prologue(w, nil))
		}
		f.tiles(k, w, 0, owned, true)
	}
	if from < k.WGs {
		f.tickets(k, max(ticket, next))
	}
}

// tiles adds the posts of the tiles that are fixed to a persistent workgroup, from a round on,
// and of its epilogue.
func (f flagSet) tiles(k *program.Kernel, w, round, owned int, epilogue bool) {
	for ; round < owned && w+round*k.WGs < k.Tiles; round++ {
		f.add(k.Phases(w+round*k.WGs, nil))
	}
	if epilogue && k.Tiles > 0 && k.Epilogue != nil {
		f.add(k.Epilogue(w, nil))
	}
}

func (f flagSet) tickets(k *program.Kernel, ticket int) {
	for tile := ticket; tile < k.Tiles; tile++ {
		f.add(k.Phases(tile, nil))
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
