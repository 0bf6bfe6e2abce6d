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
		end  func(s *readyScreen, load chan error, ticks chan time.Time, first chan []layout.View)
		err  error
	}{
		{"q", func(s *readyScreen, _ chan error, _ chan time.Time, _ chan []layout.View) {
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
		{"Ctrl-C", func(s *readyScreen, _ chan error, _ chan time.Time, _ chan []layout.View) {
			s.InjectKey(tcell.KeyCtrlC, 0, tcell.ModCtrl)
		}, nil},
		{"error", func(_ *readyScreen, load chan error, _ chan time.Time, _ chan []layout.View) { load <- failed }, failed},
		{"loaded", func(s *readyScreen, load chan error, ticks chan time.Time, _ chan []layout.View) {
			s.press(t, 'j') // which is ignored
			ticks <- time.Time{}
			s.wait(t)
			load <- nil
			shows(s, "gemm_128x256")
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
		{"a part first", func(s *readyScreen, load chan error, _ chan time.Time, first chan []layout.View) {
			first <- both()[1:]
			shows(s, "reading x.json: 12 % (shown: the first events of each file)", "stream 7")
			s.press(t, '+')
			load <- nil
			shows(s, "overlapse  1 ")
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
		{"a part, too late", func(s *readyScreen, load chan error, _ chan time.Time, first chan []layout.View) {
			load <- nil
			shows(s, "overlapse  1 captured  2 decompose")
			first <- both()[1:]
			s.wait(t)
			if got := contents(s); !strings.HasPrefix(got, "overlapse  1 captured  2 decompose") {
				t.Errorf("after a late preview:\n%s", got)
			}
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
		{"a part, then q", func(s *readyScreen, _ chan error, _ chan time.Time, first chan []layout.View) {
			first <- both()[1:]
			shows(s, "(shown: the first events of each file)")
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			load := make(chan error, 1)
			screen := &readyScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8"), shown: make(chan struct{}, 100)}
			ticks := make(chan time.Time, 1)
			from := Loader{Ticks: ticks, Status: func() string { return "reading x.json: 12 %" }}
			first := make(chan []layout.View, 1)
			from.Load = func(*Options) ([]layout.View, error) { return both(), <-load }
			from.Preview = func() []layout.View { return <-first }
			all := from.start(Options{Colors: 256})
			done := make(chan error)
			go func() { done <- browse(context.Background(), screen, Options{}, nil, all, from) }()
			screen.wait(t)
			if got := contents(screen); !strings.HasPrefix(got, "reading x.json: 12 %") || !strings.Contains(got, "q quit") {
				t.Errorf("while loading:\n%s", got)
			}
			c.end(screen, load, ticks, first)
			select {
			case err := <-done:
				if !errors.Is(err, c.err) {
					t.Errorf("error %v, want %v", err, c.err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("browsing does not end")
			}
			close(load) // a load that was left ends too
			close(first)
		})
	}
}
