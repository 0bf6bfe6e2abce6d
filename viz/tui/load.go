package tui

import (
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/viz/layout"
)

// Load returns the views to browse, which must not be empty, and may add to the options what
// it knows of them.
type Load func(o *Options) ([]layout.View, error)

// patience is how long nothing is shown, and how often the status is drawn.
const patience = 100 * time.Millisecond

// A loaded is what a Load returned.
type loaded struct {
	views []layout.View
	o     Options
	err   error
}

// start calls load in a goroutine, which ends when load does.
func start(o Options, load Load) chan loaded {
	done := make(chan loaded, 1)
	go func() {
		l := loaded{o: o}
		l.views, l.err = load(&l.o)
		done <- l
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

// A frame is what the screen shows: a waiting, then a Model.
type frame interface {
	Draw(s Surface)
	Update(ev tcell.Event) Effect
}

// A waiting shows how far loading is, as it says itself.
type waiting func() string

func (status waiting) Draw(s Surface) {
	width, height := s.Size()
	c := canvas{s, theme{}}
	c.text(0, 0, width, status(), tcell.StyleDefault)
	c.text(0, height-1, width, "q quit", tcell.StyleDefault)
}

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
