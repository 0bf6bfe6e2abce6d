package replay

// Lines
//
// The classes that a path holds back stand in its line, by the clock of the
// path when their first members are done: one alarm, for the path, is enough.
// The line is a 4-ary heap, and every class knows its place in it.

// A held is a class that is held back.
type held struct {
	due   float64 // the path's clock when its first member is done
	class int32
}

// schedulePath sees to it that the path is due when the first of its held classes is.
func (f *flows) schedulePath(id int32, now Time) {
	p := &f.paths[id]
	p.moved = false
	due := p.dueAt(now)
	f.noteStarved(p, now)
	switch {
	case len(p.line) == 0:
		p.clock, p.at, p.alarm = 0, now, none
	case p.level == 0: // it waits for the next solve of its large component
		p.alarm = none
	case due != p.alarm:
		f.events.set(&p.alarm, due, actor{duePath, id})
	}
}

// dueAt is when the first of the path's held classes is due: lastTime where there
// is none, or where the path is given nothing.
func (p *path) dueAt(now Time) Time {
	if len(p.line) == 0 || p.level == 0 {
		return lastTime
	}
	return dueAt(p.at, (p.line[0].due-p.clock)/p.level, now)
}

// takeHeld removes a member of a held class that is done at now; see take.
func (f *flows) takeHeld(id int32, now Time, sure bool) (who actor, ok bool) {
	p := &f.paths[id]
	if len(p.line) == 0 || !sure && p.line[0].due > p.read(now)+slack*p.level {
		return actor{}, false
	}
	class := p.line[0].class
	who, ok = f.take(class, now, true)
	c := &f.classes[class]
	if e := f.first(c); e != nil {
		f.lineUp(class, c.base+(e.key-c.clock)/c.key.favor)
	} else {
		f.lineOut(class)
	}
	return who, ok
}

// lineUp puts the class into its path's line, or where it belongs after a change.
func (f *flows) lineUp(id int32, due float64) {
	c := &f.classes[id]
	p := &f.paths[c.path]
	if c.line == none {
		c.line = int32(len(p.line))
		p.line = append(p.line, held{})
	}
	f.move(c.path)
	f.linePut(p, int(c.line), held{due, id})
}

// lineOut takes the class out of it.
func (f *flows) lineOut(id int32) {
	c := &f.classes[id]
	if c.line == none {
		return
	}
	p := &f.paths[c.path]
	at, last := int(c.line), len(p.line)-1
	c.line = none
	f.move(c.path)
	moved := p.line[last]
	p.line = p.line[:last]
	if at < last {
		f.linePut(p, at, moved)
	}
}

// linePut puts an entry where it belongs, counted from a place that is free for it.
func (f *flows) linePut(p *path, at int, h held) {
	line := p.line
	for at > 0 {
		parent := (at - 1) / 4
		if line[parent].due <= h.due {
			break
		}
		line[at] = line[parent]
		f.classes[line[at].class].line = int32(at)
		at = parent
	}
	for {
		least, due := at, h.due
		for c := 4*at + 1; c <= 4*at+4 && c < len(line); c++ {
			if line[c].due < due {
				least, due = c, line[c].due
			}
		}
		if least == at {
			break
		}
		line[at] = line[least]
		f.classes[line[at].class].line = int32(at)
		at = least
	}
	line[at] = h
	f.classes[h.class].line = int32(at)
}
