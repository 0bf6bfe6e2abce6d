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
			all := from.start(Options{Colors: 256})
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
