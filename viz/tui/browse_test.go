package tui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"go.uber.org/goleak"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/viz/layout"
)

// browseHere makes the test binary the program that TestTmux looks at.
const browseHere = "OVERLAPSE_TEST_BROWSE"

func TestMain(m *testing.M) {
	from, ticks := Loader{Load: loadBoth}, make(chan time.Time, 1)
	switch os.Getenv(browseHere) {
	case "":
		os.Exit(m.Run())
	case "broken load":
		from.Load = func(*Options) ([]layout.View, error) { time.Sleep(200 * time.Millisecond); panic("broken") }
	}
	from.Ticks, from.Status = ticks, func() string { return "reading" }
	ticks <- time.Time{}
	err := Run(context.Background(), Options{Colors: 256, After: time.After}, from)
	fmt.Println("browsed:", err)
	if err != nil {
		os.Exit(1)
	}
}

// browseFor browses on a simulated screen until do, called after the first
// frame, has ended it.
func browseFor(ctx context.Context, t *testing.T, do func(*readyScreen)) error {
	t.Helper()
	defer goleak.VerifyNone(t)
	screen := tcell.NewSimulationScreen("UTF-8")
	done := make(chan error)
	ready := &readyScreen{SimulationScreen: screen, shown: make(chan struct{}, 100)}
	from := Loader{Load: loadBoth}
	quick := <-from.start(Options{Colors: 256}, from.Load)
	go func() { done <- browse(ctx, ready, Options{}, &quick, nil, from) }()
	ready.wait(t)
	do(ready)
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("browsing does not end")
		return nil
	}
}

func loadBoth(*Options) ([]layout.View, error) { return both(), nil }

// readyScreen tells when a frame was shown.
type readyScreen struct {
	tcell.SimulationScreen
	shown chan struct{}
}

func (s *readyScreen) Show() {
	s.SimulationScreen.Show()
	s.shown <- struct{}{}
}

func (s *readyScreen) wait(t *testing.T) {
	t.Helper()
	select {
	case <-s.shown:
	case <-time.After(10 * time.Second):
		t.Fatal("no frame is shown")
	}
}

// press sends a key and waits for the frame that it causes.
func (s *readyScreen) press(t *testing.T, key rune) {
	t.Helper()
	s.InjectKey(tcell.KeyRune, key, 0)
	s.wait(t)
}

// contents is what the screen shows, cell by cell.
func contents(s tcell.SimulationScreen) string {
	cells, w, _ := s.GetContents()
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(string(c.Runes))
		if i%w == w-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestBrowse(t *testing.T) {
	must.Do(t, browseFor(context.Background(), t, func(s *readyScreen) {
		shows := func(want string) {
			t.Helper()
			if got := contents(s); !strings.Contains(got, want) {
				t.Errorf("no %q on the screen:\n%s", want, got)
			}
		}
		shows("gemm_128x256")
		s.press(t, 'j')
		s.SetSize(40, 10)
		s.PostEvent(tcell.NewEventResize(40, 10))
		s.wait(t)
		shows("row 2 of 14")
		s.press(t, 'c')
		shows("copied")
		if got := string(s.GetClipboardData()); !strings.HasPrefix(got, "stream 7\n") {
			t.Errorf("the clipboard holds %q", got)
		}
		s.InjectKey(tcell.KeyRune, 'q', 0)
	}))
}

func TestBrowseEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	for _, c := range []struct {
		name string
		end  func(*readyScreen)
	}{
		{"Ctrl-C", func(s *readyScreen) { s.InjectKey(tcell.KeyCtrlC, 0, tcell.ModCtrl) }},
		{"interrupt", func(s *readyScreen) { s.PostEvent(tcell.NewEventInterrupt(nil)) }},
		{"Fini", func(s *readyScreen) { s.Fini() }},
		{"cancelled", func(*readyScreen) { cancel() }},
		{"cancelled before", func(*readyScreen) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Do(t, browseFor(ctx, t, c.end))
		})
	}
}

// TestTmux browses in a real terminal: as it is drawn, resized, without colour, and left.
func TestTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux here (apt-get install tmux)")
	}
	var socket string
	tmux := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("tmux", append([]string{"-L", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	for _, c := range []struct{ name, env, color string }{
		{"256", "TERM=xterm-256color", "48;5;74m"},
		{"NO_COLOR", "TERM=xterm-256color NO_COLOR=1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket = fmt.Sprintf("overlapse-test-%d-%s", os.Getpid(), c.name)
			command := fmt.Sprintf("%s LC_ALL=C.UTF-8 %s=1 %s; sleep 60", c.env, browseHere, os.Args[0])
			tmux("new-session", "-d", "-x", "100", "-y", "30", command)
			defer exec.Command("tmux", "-L", socket, "kill-server").Run()
			sees := func(want string, args ...string) {
				t.Helper()
				var got string
				for range 200 {
					got = tmux(append([]string{"capture-pane", "-p"}, args...)...)
					if strings.Contains(got, want) {
						return
					}
					time.Sleep(25 * time.Millisecond)
				}
				t.Fatalf("no %q on the screen:\n%s", want, got)
			}
			sees("gemm_128x256")
			sees(c.color, "-e")
			if colored := strings.Contains(tmux("capture-pane", "-p", "-e"), "[48;"); colored != (c.color != "") {
				t.Errorf("colours on the screen: %v", colored)
			}
			tmux("send-keys", "j", "Enter", ",")
			sees("132×1×1 = 132 workgroups")
			tmux("resize-window", "-x", "30", "-y", "8")
			sees("row 2 of 14")
			tmux("send-keys", "q")
			sees("browsed: <nil>")
		})
	}
}
