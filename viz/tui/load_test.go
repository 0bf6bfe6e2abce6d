package tui

import (
	"context"
	"errors"
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
	failed := errors.New("no such trace")
	for _, c := range []struct {
		name string
		end  func(s *readyScreen, load chan error)
		err  error
	}{
		{"q", func(s *readyScreen, _ chan error) { s.InjectKey(tcell.KeyRune, 'q', 0) }, nil},
		{"Ctrl-C", func(s *readyScreen, _ chan error) { s.InjectKey(tcell.KeyCtrlC, 0, tcell.ModCtrl) }, nil},
		{"error", func(_ *readyScreen, load chan error) { load <- failed }, failed},
		{"loaded", func(s *readyScreen, load chan error) {
			s.press(t, 'j') // which is ignored
			load <- nil
			for !strings.Contains(contents(s), "gemm_128x256") {
				s.wait(t)
			}
			s.InjectKey(tcell.KeyRune, 'q', 0)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			load := make(chan error, 1)
			screen := &readyScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8"), shown: make(chan struct{}, 100)}
			all := start(Options{Colors: 256}, func(*Options) ([]layout.View, error) { return both(), <-load })
			done := make(chan error)
			go func() {
				done <- browse(context.Background(), screen, Options{}, all, func() string { return "reading x.json: 12 %" })
			}()
			screen.wait(t)
			if got := contents(screen); !strings.HasPrefix(got, "reading x.json: 12 %") || !strings.Contains(got, "q quit") {
				t.Errorf("while loading:\n%s", got)
			}
			c.end(screen, load)
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
