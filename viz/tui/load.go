package tui

import (
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/viz/layout"
)

// A Loader gives the views to browse.
type Loader struct {
	// Load returns the views, which must not be empty, and may add to the options what it
	// knows of them.
	Load func(o *Options) ([]layout.View, error)
	// Replay likewise returns the first run and its replay under a selection, while the others are shown; nil: there is none.
	Replay func(o *Options, strategy string) ([]layout.View, error)
	Status func() string    // how far Load is, in one line
	Ticks  <-chan time.Time // when to draw the status; nothing is drawn before the first
}

// A loaded is what a Load returned.
type loaded struct {
	views []layout.View
	o     Options
	err   error
}

// start calls load in a goroutine, which ends when it does. Its panic is an error.
func (from *Loader) start(o Options, load func(*Options) ([]layout.View, error)) chan loaded {
	done := make(chan loaded, 1)
	go func() {
		l := loaded{o: o}
		l.err = guard.Call(func() (err error) {
			l.views, err = load(&l.o)
			return err
		})
		done <- l
	}()
	return done
}

// model is the model for a screen.
func (l *loaded) model(screen tcell.Screen) *model {
	if has := max(0, screen.Colors()); l.o.Colors == 0 || l.o.Colors > has {
		l.o.Colors = has
	}
	l.o.ASCII = l.o.ASCII || !isUTF8(screen.CharacterSet())
	return newModel(l.views, l.o)
}

// after is the model that follows another, of whose runs the first is shown on: what was looked at stays, unless nobody did anything
// yet or asked for the replay. An error leaves the model.
func (l *loaded) after(was *model, screen tcell.Screen, asked bool) *model {
	if l.err != nil {
		was.verdict = "not replayed: " + l.err.Error()
		return was
	}
	m := l.model(screen)
	if was.touched && !asked {
		m.goToAddress(was.address())
		m.stats, m.details, m.hits, m.full = was.stats, was.details, was.hits, was.full
		if len(m.views) > 1 {
			m.message = "replayed: x shows it beside the captured step"
		}
	}
	m.prompt, m.help, m.touched = was.prompt, was.help, was.touched
	if len(m.choices) == 0 {
		m.choices = was.choices
	}
	return m
}

// A frame is what the screen shows: a waiting, then a model.
type frame interface {
	Draw(s surface)
	Update(ev tcell.Event) effect
	ticks(all <-chan time.Time) <-chan time.Time // at which it is drawn
}

// A waiting shows how far loading is, as it says itself.
type waiting func() string

func (status waiting) Draw(s surface) {
	width, height := s.Size()
	c := canvas{s, theme{}}
	c.text(0, 0, width, status(), tcell.StyleDefault)
	c.text(0, height-1, width, "q quit", tcell.StyleDefault)
}

func (waiting) ticks(all <-chan time.Time) <-chan time.Time { return all }

func (*model) ticks(<-chan time.Time) <-chan time.Time { return nil }

// Update has the keys that a model has for leaving.
func (waiting) Update(ev tcell.Event) effect {
	switch ev := ev.(type) {
	case *tcell.EventInterrupt:
		return effect{Quit: true}
	case *tcell.EventKey:
		name := keyName(ev)
		return effect{Quit: name == "q" || name == "Ctrl-C", Leave: name == "Ctrl-Z"}
	}
	return effect{}
}
