package layout

import (
	"fmt"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A Class is what an interval was spent on, as drawn.
type Class uint8

// The classes, from Idle to what decides a tie last.
const (
	Idle    Class = iota // nothing ran
	Local                // compute whose result stays here, or whose destination is unknown
	remote1              // compute whose result goes to the next rank
	remote2              // likewise, to the one after it
	remote3              // likewise, to one further on
	Comm                 // a communication kernel, or bytes under way on a link
	Copy                 // a copy or fill by an engine
	store                // storing a result, here or at a peer
	Put                  // issuing a non-blocking put
	Wait                 // holding a slot for a flag
	host                 // a call on a host thread
	marker               // a range that a program named
	Overlap              // compute, and communication or a copy at once: on a strip, or in one kernel
	Memory               // limited by memory
	vacant               // nothing ran, for a known reason: a slot without workgroup, a rank without work
	numClasses
)

// An Ink is how a class is drawn. Colour is never the only signal: a drawing
// without colour uses Letter or Shade instead.
type Ink struct {
	Name   string
	RGB    uint32 // 0xRRGGBB; Okabe and Ito's palette, which people without red or green cones can tell apart
	Ansi   uint8  // the nearest of the 256 terminal colours
	Basic  uint8  // one of the 8 terminal colours; with Shade or Letter it is different for every class
	Letter byte   // in ASCII
	Shade  rune   // one cell wide, in Unicode without colour
	Dark   bool   // text on it is light
	Sum    int    // of a workgroup's time: 1 compute, 2 stores and puts, 3 waiting, 0 none
}

var inks = [numClasses]Ink{
	Idle:    {Name: "idle", RGB: 0x000000, Ansi: 16, Letter: ' ', Shade: ' ', Dark: true},
	Local:   {Name: "compute", RGB: 0x56B4E9, Ansi: 74, Basic: 6, Letter: 'C', Shade: '█', Sum: 1},
	remote1: {Name: "compute for rank +1", RGB: 0x9C5A00, Ansi: 130, Basic: 3, Letter: 'R', Shade: '▓', Dark: true, Sum: 1},
	Comm:    {Name: "communication", RGB: 0xCC79A7, Ansi: 175, Basic: 5, Letter: 'X', Shade: '▚'},
	Copy:    {Name: "copies", RGB: 0x0072B2, Ansi: 25, Basic: 4, Letter: 'D', Shade: '▤', Dark: true},
	store:   {Name: "store", RGB: 0xF0E442, Ansi: 221, Basic: 7, Letter: 'S', Shade: '▒', Sum: 2},
	Put:     {Name: "put", RGB: 0xD55E00, Ansi: 166, Basic: 1, Letter: 'P', Shade: '▞', Dark: true, Sum: 2},
	Wait:    {Name: "waiting", RGB: 0x999999, Ansi: 246, Basic: 7, Letter: '.', Shade: '░', Sum: 3},
	host:    {Name: "host", RGB: 0xB08D57, Ansi: 137, Basic: 2, Letter: 'H', Shade: '▥'},
	marker:  {Name: "marker", RGB: 0x4D4D4D, Ansi: 239, Basic: 4, Letter: '=', Shade: '═', Dark: true},

	remote2: {Name: "compute for rank +2", RGB: 0xE69F00, Ansi: 178, Basic: 3, Letter: 'Q', Shade: '▨', Sum: 1},
	remote3: {Name: "compute for rank +3 or more", RGB: 0xFFDDB3, Ansi: 223, Basic: 3, Letter: 'T', Shade: '▧', Sum: 1},
	Overlap: {Name: "overlapped", RGB: 0x009E73, Ansi: 35, Basic: 2, Letter: 'O', Shade: '▦'},
	Memory:  {Name: "memory", RGB: 0x6A51A3, Ansi: 61, Basic: 3, Letter: 'M', Shade: '▩', Dark: true},
	vacant:  {Name: "idle", RGB: 0xBDBDBD, Ansi: 250, Basic: 7, Letter: '-', Shade: '·', Sum: 3},
}

// A ClassSet is some classes; the zero value stands for all.
type ClassSet uint16

// With is the set and a class.
func (s ClassSet) With(c Class) ClassSet { return s | 1<<c }

// has reports whether a class is in the set.
func (s ClassSet) has(c Class) bool { return s == 0 || s&(1<<c) != 0 }

// Classes lists every class but Idle, in the order of a legend.
func Classes() []Class {
	return []Class{Local, remote1, remote2, remote3, store, Put, Wait, Overlap, Comm, Copy, host, Memory, marker, vacant}
}

// remote reports whether the class is compute for a peer.
func (c Class) remote() bool { return c >= remote1 && c <= remote3 }

// Ink returns how to draw the class.
func (c Class) Ink() Ink {
	if c < numClasses {
		return inks[c]
	}
	return inks[Idle]
}

func (c Class) String() string { return c.Ink().Name }

// CSS is the class's colour as a style sheet writes it.
func (c Class) CSS() string { return fmt.Sprintf("#%06x", c.Ink().RGB) }

// Height is the share of a row's height that the class is drawn with. With the letter it
// tells classes apart without colour.
func (c Class) Height() float64 {
	switch c {
	case Wait, vacant:
		return 0.4
	case store, Copy:
		return 0.75
	case marker:
		return 0.6
	}
	return 1
}

// classify finds the class of every span of a run.
func classify(r *trace.Run) []Class {
	classes, fused := make([]Class, len(r.Spans)), sendsInside(r)
	for i, s := range r.Spans {
		classes[i] = classOf(r, s)
		if s.Kind == trace.Compute && fused(s.Name) {
			classes[i] = Overlap
		}
	}
	return classes
}

// sendsInside tells the kernels that compute and communicate at once: by their names (trace.Fused), or those of
// which a recorded workgroup puts or stores to a peer, on whatever rank.
func sendsInside(r *trace.Run) func(kernel trace.NameID) bool {
	sends := map[trace.NameID]bool{}
	for _, s := range r.Spans {
		switch {
		case s.Kind == trace.Transfer && r.Lanes[s.Lane].Kind == trace.Link:
			sends[s.Name] = true
		case s.Kind == trace.PhaseStore && s.Parent != trace.None && destination(r, s).remote():
			sends[r.Spans[s.Parent].Name] = true
		}
	}
	return func(kernel trace.NameID) bool {
		return trace.Memo(sends, kernel, func() bool {
			_, _, says := trace.Fused(r.NameOf(trace.Span{Name: kernel}))
			return says != ""
		})
	}
}

func classOf(r *trace.Run, s trace.Span) Class {
	switch s.Kind {
	case trace.Compute:
		return Local
	case trace.Workgroup:
		if s.Parent != trace.None && r.Spans[s.Parent].Kind == trace.Collective {
			return Comm
		}
		return destination(r, s)
	case trace.PhaseCompute:
		return destination(r, s)
	case trace.Collective:
		return Comm
	case trace.Transfer:
		if r.Lanes[s.Lane].Kind == trace.Engine {
			return Copy
		}
		return Comm
	case trace.Copy:
		return Copy
	case trace.PhaseStore:
		return store
	case trace.PhasePut:
		return Put
	case trace.PhaseWait:
		if s.Vacant() {
			return vacant
		}
		return Wait
	case trace.HostCall, trace.Launch:
		return host
	}
	if l := &r.Lanes[s.Lane]; l.Kind == trace.Annotation && r.Simulated && l.Name == limitName {
		return stateOf(r.Names[s.Name])
	}
	return marker
}

// limitName is the name of the lane on which a simulation records what limited a rank.
const limitName = "limited by"

// stateOf is the class of a state of a rank: on its strip, or what limited it.
func stateOf(name string) Class {
	switch name {
	case "compute", overlap.Computing.String():
		return Local
	case "overlapped":
		return Overlap
	case "communication", "transfer", "egress", "ingress", "nic egress", "nic ingress":
		return Comm
	case "waiting":
		return Wait
	case "copies", "dma":
		return Copy
	case "memory", "cache":
		return Memory
	}
	return vacant
}

// destination is remote1 or one of the others of compute for a peer for work whose result goes to another rank than its own, by how many
// ranks that is further on.
func destination(r *trace.Run, s trace.Span) Class {
	w, row := r.Workgroup(s), r.Lanes[s.Lane].Rank
	if w == nil || w.Peer == trace.None || int(w.Peer) == r.RankID(row) {
		return Local
	}
	further := int(w.Peer) - r.RankID(row)
	if further < 0 {
		further += max(r.Ranks[row].World, len(r.Ranks))
	}
	return remote1 + Class(max(0, min(further-1, 2))) //nolint:gosec // 0 to 2
}
