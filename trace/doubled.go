package trace

import (
	"cmp"
	"slices"
)

// dropped is the kind of a span that Finish removes.
const dropped = NumKinds

// DropDoubled removes spans that are in a file twice: same lane, name, kind, start, end and
// correlation. Readers call it once all spans are added and before they look for what
// belongs together. Host spans may be alike because one calls the other: they are compared
// only if a kernel or copy is doubled.
func (b *Builder) DropDoubled(file string) {
	if b.dropDoubled(file, Kind.OnDevice) {
		b.dropDoubled(file, onHost)
	}
}

func (b *Builder) dropDoubled(file string, of func(Kind) bool) (found bool) {
	b.eachStart(of, func(same []SpanID) {
		if len(same) > 1 {
			slices.SortStableFunc(same, b.compareValues)
		}
		first := same[0] // of those that are alike
		for _, id := range same[1:] {
			if b.compareValues(first, id) != 0 {
				first = id
				continue
			}
			s := b.Span(id)
			note := b.Note
			if s.Kind.OnDevice() {
				note = b.NoteKernel
				if s.Dur() == 0 && b.Run.correlation(s) == 0 { // nothing tells two of them apart
					continue
				}
			}
			note(Skipped, file, Doubled, "span", int64(id))
			s.Kind = dropped
			found, b.drops = true, true
		}
	})
	return found
}

// compareValues orders spans with the same start so that equal ones are neighbours.
func (b *Builder) compareValues(a, c SpanID) int {
	x, y := b.Span(a), b.Span(c)
	if c := cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name),
		cmp.Compare(x.End, y.End)); c != 0 {
		return c
	}
	switch {
	case x.Kind.OnDevice():
		return cmp.Compare(b.Run.correlation(x), b.Run.correlation(y))
	case x.Attr == None || y.Attr == None:
		return cmp.Compare(x.Attr, y.Attr)
	}
	p, q := &b.Run.Calls[x.Attr], &b.Run.Calls[y.Attr]
	return cmp.Or(cmp.Compare(p.Correlation, q.Correlation), cmp.Compare(p.External, q.External))
}

// removeDropped removes the spans of kind dropped. No span refers to one.
func (b *Builder) removeDropped() {
	r := &b.Run
	at := make([]SpanID, len(r.Spans))
	kept := r.Spans[:0]
	for i, s := range r.Spans {
		at[i] = None
		if s.Kind != dropped {
			at[i] = SpanID(len(kept))
			kept = append(kept, s)
		}
	}
	for i := range kept {
		if p := kept[i].Parent; p != None {
			kept[i].Parent = at[p]
		}
	}
	r.Move(at)
	r.Spans, b.order = kept, nil
}

// Dropped reports whether the span was removed by DropDoubled.
func (s Span) Dropped() bool { return s.Kind == dropped }
