package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"go.uber.org/goleak"

	"github.com/overlapse/overlapse/viz/layout"
)

// What is replayed behind the first run appears beside it: at once where nobody did anything, else when asked for; keys work meanwhile.
// An error leaves what is shown.
func TestReplayedBehind(t *testing.T) {
	for _, c := range []struct {
		name    string
		touched bool
		err     error
		sees    string
	}{
		{"untouched", false, nil, "2 − 1"},
		{"touched", true, nil, "replayed: x shows it beside"},
		{"failed", true, errors.New("no machine"), "not replayed: no machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			release := make(chan error, 1)
			screen := &readyScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8"), shown: make(chan struct{}, 100)}
			from := Loader{Replay: func(o *Options, strategy string) ([]layout.View, error) {
				o.Stats, o.At = true, layout.Address{Show: "all"}
				o.Choices = []Time{{Name: "turn the overlap off", Strategy: "bulk", Time: "9 ms"}}
				return both(), <-release
			}}
			quick := loaded{views: both()[:1], o: Options{Colors: 256, Then: "recommended"}}
			done := make(chan error)
			go func() { done <- browse(context.Background(), screen, Options{Colors: 256}, &quick, nil, from) }()
			screen.wait(t)
			if c.touched {
				screen.press(t, 'j')
			}
			release <- c.err
			for screen.wait(t); !strings.Contains(contents(screen), c.sees); screen.wait(t) {
			}
			if c.err == nil {
				screen.press(t, ':')
				if got := contents(screen); !strings.Contains(got, "turn the overlap off") {
					t.Errorf("no list:\n%s", got)
				}
				screen.InjectKey(tcell.KeyEnter, 0, 0)
				screen.wait(t)
				release <- nil
				for screen.wait(t); !strings.Contains(contents(screen), "2 − 1"); screen.wait(t) {
				}
			}
			screen.InjectKey(tcell.KeyRune, 'q', 0)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// While the runs are loaded, the screen shows how far that is and reacts to keys; then it
// shows the runs, or Run returns the error.
func TestLoading(t *testing.T) {
	shows := func(s *readyScreen, want ...string) { // in the next frame, or a later one
		for all := false; !all; {
			s.wait(t)
			got := contents(s)
			all = !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got, w) })
		}
	}
	failed := errors.New("no such trace")
	for _, c := range []struct {
		name string
		end  func(s *readyScreen, load chan error, ticks chan time.Time)
		err  error
	}{
		{"q", func(s *readyScreen, _ chan error, _ chan time.Time) {
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
		{"Ctrl-C", func(s *readyScreen, _ chan error, _ chan time.Time) {
			s.InjectKey(tcell.KeyCtrlC, 0, tcell.ModCtrl)
		}, nil},
		{"error", func(_ *readyScreen, load chan error, _ chan time.Time) { load <- failed }, failed},
		{"loaded", func(s *readyScreen, load chan error, ticks chan time.Time) {
			s.press(t, 'j') // which is ignored
			ticks <- time.Time{}
			s.wait(t)
			load <- nil
			shows(s, "gemm_128x256")
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			load := make(chan error, 1)
			screen := &readyScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8"), shown: make(chan struct{}, 100)}
			ticks := make(chan time.Time, 1)
			from := Loader{Ticks: ticks, Status: func() string { return "reading x.json: 12 %" }}
			from.Load = func(*Options) ([]layout.View, error) { return both(), <-load }
			all := from.start(Options{Colors: 256}, from.Load)
			done := make(chan error)
			go func() { done <- browse(context.Background(), screen, Options{}, nil, all, from) }()
			screen.wait(t)
			if got := contents(screen); !strings.HasPrefix(got, "reading x.json: 12 %") || !strings.Contains(got, "q quit") {
				t.Errorf("while loading:\n%s", got)
			}
			c.end(screen, load, ticks)
			select {
			case err := <-done:
				if !errors.Is(err, c.err) {
					t.Errorf("error %v, want %v", err, c.err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("browsing does not end")
			}
			close(load) // a load that was left ends too
		})
	}
}
