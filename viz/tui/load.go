package tui

import (
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/viz/layout"
)

// A Loader gives the views to browse. Load and Preview run side by side.
type Loader struct {
	// Load returns the views, which must not be empty, and may add to the options what it
	// knows of them.
	Load    func(o *Options) ([]layout.View, error)
	Preview func() []layout.View // what to show until Load returns; none: how far it is. nil: none
	Status  func() string        // how far Load is, in one line
	Ticks   <-chan time.Time     // when to draw the status; nothing is drawn before the first
}

// A loaded is what a Load or a Preview returned.
type loaded struct {
	views []layout.View
	first bool // of a Preview
	o     Options
	err   error
}

// start calls Load and Preview in goroutines, which end when these do. Their panics are errors.
func (from *Loader) start(o Options) chan loaded {
	done := make(chan loaded, 2)
	go func() {
		l := loaded{o: o}
		l.err = guard.Call(func() (err error) {
			l.views, err = from.Load(&l.o)
			return err
		})
		done <- l
	}()
	if from.Preview == nil {
		return done
	}
	go func() {
		l := loaded{o: o, first: true}
		l.err = guard.Call(func() error {
			l.views = from.Preview()
			return nil
		})
		if l.err != nil || len(l.views) > 0 {
			done <- l
		}
	}()
	return done
}

// model is the model for a screen.
func (l *loaded) model(screen tcell.Screen) *Model {
	if has := max(0, screen.Colors()); l.o.Colors == 0 || l.o.Colors > has {
		l.o.Colors = has
	}
	l.o.ASCII = l.o.ASCII || !isUTF8(screen.CharacterSet())
	return NewModel(l.views, l.o)
}

// A frame is what the screen shows: a waiting, perhaps a preview, then a Model.
type frame interface {
	Draw(s Surface)
	Update(ev tcell.Event) Effect
	ticks(all <-chan time.Time) <-chan time.Time // at which it is drawn
}

// A waiting shows how far loading is, as it says itself.
type waiting func() string

func (status waiting) Draw(s Surface) {
	width, height := s.Size()
	c := canvas{s, theme{}}
	c.text(0, 0, width, status(), tcell.StyleDefault)
	c.text(0, height-1, width, "q quit", tcell.StyleDefault)
}

func (waiting) ticks(all <-chan time.Time) <-chan time.Time { return all }

func (*Model) ticks(<-chan time.Time) <-chan time.Time { return nil }

func (*preview) ticks(all <-chan time.Time) <-chan time.Time { return all }

// Update has the keys that a Model has for leaving.
func (waiting) Update(ev tcell.Event) Effect {
	switch ev := ev.(type) {
	case *tcell.EventInterrupt:
		return Effect{Quit: true}
	case *tcell.EventKey:
		name := keyName(ev)
		return Effect{Quit: name == "q" || name == "Ctrl-C", Leave: name == "Ctrl-Z"}
	}
	return Effect{}
}

// A preview shows a part of the runs, and how far loading is.
type preview struct {
	*Model
	status func() string
	used   bool // keys were pressed
}

func (p *preview) Draw(s Surface) {
	p.Model.Draw(s)
	width, _ := s.Size()
	line := p.status() + " (shown: the first events of each file)"
	canvas{s, p.theme}.text(0, 0, width, line+strings.Repeat(" ", width), tcell.StyleDefault.Reverse(true))
}

func (p *preview) Update(ev tcell.Event) Effect {
	switch ev.(type) {
	case *tcell.EventKey, *tcell.EventMouse:
		p.used = true
	}
	return p.Model.Update(ev)
}

// next is the frame for what was loaded while another was shown. What the user did in a
// preview is kept.
func (l *loaded) next(shown frame, screen tcell.Screen, status func() string) frame {
	if was, ok := shown.(*preview); ok && was.used {
		l.o.At = was.address()
	}
	m := l.model(screen)
	if l.first {
		return &preview{Model: m, status: status}
	}
	return m
}
