package cli

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/overlapse/overlapse/trace/guard"
)

// Patience is the time after which a command shows that it is at work.
const Patience = 200 * time.Millisecond

// A Progress shows on standard error, where that is a terminal, what a command does, how far
// it is, and about how long the rest takes. Its methods may be called from several goroutines;
// those of nil do nothing.
type Progress struct {
	mu          sync.Mutex
	what        func() string
	share       func() float64 // of what is not counted in parts; nil: unknown
	all, done   int
	parts       map[string]*part // at work
	start       time.Time
	stop, ended chan struct{}
}

// A part is one of the parts that are at work. It may be done in several rounds, whose number
// nobody knows: each is taken for half of what is left.
type part struct {
	round int
	share float64 // of the round
}

func (p *part) total() float64 { return 1 - math.Ldexp(1-p.share/2, -p.round) }

// Progress shows how many of n parts are done, until Finish.
func (c *Console) Progress(n int, what string) *Progress {
	return c.progress(&Progress{all: n, what: func() string { return what }})
}

// Waiting shows what the command does and for how long, until done is called. what and share,
// the part that is done, are asked again and again; share may be nil.
func (c *Console) Waiting(what func() string, share func() float64) (done func()) {
	return c.progress(&Progress{what: what, share: share}).Finish
}

func (c *Console) progress(p *Progress) *Progress {
	if !c.tty || c.Quiet {
		return nil
	}
	p.parts, p.start, p.stop, p.ended = map[string]*part{}, time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(Patience)
		defer tick.Stop()
		for shown := false; ; shown = true {
			select {
			case <-p.stop:
				if shown {
					fmt.Fprint(c.Bar, "\r\x1b[K")
				}
				return
			case <-tick.C:
				fmt.Fprintf(c.Bar, "\r\x1b[K%s", p.line(time.Since(p.start)))
			}
		}
	}()
	return p
}

// Before estimates are shown, so much time has passed and so much is done.
const (
	settled = 2 * time.Second
	enough  = 0.02
)

// line is what is shown after a time.
func (p *Progress) line(passed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := guard.Line(p.what())
	if p.all > 0 {
		text += fmt.Sprintf(" %d of %d", p.done, p.all)
	}
	text += fmt.Sprintf(": %.1f s", passed.Seconds())
	done := float64(p.done)
	for _, x := range p.parts {
		done += x.total()
	}
	share := done / float64(max(1, p.all))
	if p.all < 0 { // how many there are is found on the way
		share = 0
	}
	if p.share != nil {
		share = p.share()
	}
	if passed >= settled && share >= enough {
		text += ", about " + seconds(max(0, passed.Seconds()*(1/share-1))) + " left"
	}
	return text
}

// Add counts parts that are done: the furthest of those at work.
func (p *Progress) Add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	furthest := ""
	for name, x := range p.parts {
		if f := p.parts[furthest]; f == nil || x.total() > f.total() || x.total() == f.total() && name < furthest {
			furthest = name
		}
	}
	delete(p.parts, furthest)
}

// Share sets how far a part is, from 0 to 1. One that falls back has begun another round.
func (p *Progress) Share(name string, share float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.parts[name]
	if x == nil {
		x = &part{}
		p.parts[name] = x
	}
	if share < x.share {
		x.round++
	}
	x.share = share
}

// More adds to the number of parts.
func (p *Progress) More(n int) {
	if p != nil {
		p.ChangeMax(p.all + n)
	}
}

// ChangeMax sets the number of parts.
func (p *Progress) ChangeMax(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = n
}

// Finish removes the line.
func (p *Progress) Finish() {
	if p != nil {
		close(p.stop)
		<-p.ended
	}
}
