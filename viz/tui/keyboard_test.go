//go:build linux

package tui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"
)

// A line is a pseudoterminal with a program on it.
type line struct {
	t        *testing.T
	ours     *os.File
	program  *exec.Cmd
	was      *unix.Termios
	its      *os.File
	mu       sync.Mutex
	shown    bytes.Buffer
	finished chan error
}

// startLine starts this test binary as a browser.
func startLine(t *testing.T, env ...string) *line {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals here: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	must(err)
	must(unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	its, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	t.Cleanup(func() { its.Close() })
	l := &line{t: t, ours: ours, its: its, finished: make(chan error, 1)}
	l.was, err = unix.IoctlGetTermios(int(its.Fd()), unix.TCGETS)
	must(err)
	l.program = exec.Command(os.Args[0])
	l.program.Env = append(append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8"), env...)
	l.program.Stdin, l.program.Stdout, l.program.Stderr = its, its, its
	l.program.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(l.program.Start())
	go func() { l.finished <- l.program.Wait() }()
	go io.Copy(writerFunc(func(p []byte) (int, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.shown.Write(p)
	}), ours)
	return l
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (l *line) screen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown.String()
}

func (l *line) sees(want string) {
	l.t.Helper()
	for range 400 {
		if strings.Contains(l.screen(), want) {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	l.t.Fatalf("no %q on the terminal: %q", want, l.screen())
}

func (l *line) types(keys string) {
	l.t.Helper()
	if _, err := l.ours.WriteString(keys); err != nil {
		l.t.Fatal(err)
	}
}

// ends checks that the program exits with a code in time, and that the terminal is as it was.
func (l *line) ends(code int) {
	l.t.Helper()
	select {
	case err := <-l.finished:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || l.program.ProcessState.ExitCode() != code {
			l.t.Errorf("ended with %v, want code %d: %q", err, code, l.screen())
		}
	case <-time.After(10 * time.Second):
		l.program.Process.Kill()
		l.t.Fatal("the browser does not end")
	}
	now, err := unix.IoctlGetTermios(int(l.its.Fd()), unix.TCGETS)
	if err != nil || *now != *l.was {
		l.t.Errorf("%v, the terminal is %+v, was %+v", err, now, l.was)
	}
	l.sees("browsed:")
	out := l.screen()
	if in, left := strings.Count(out, "\x1b[?1049h"), strings.Count(out, "\x1b[?1049l"); in != 1 || left != 1 {
		l.t.Errorf("the alternate screen was entered %d times and left %d times", in, left)
	}
}

// After any beginning of a key sequence, and any byte, the next key works.
func TestUnfinishedKeys(t *testing.T) {
	for _, keys := range []string{
		"\x1b", "\x1b\x1b", "\x1b[", "\x1bO", "\x1bN", "\x1b[[", "\x1b]", "\x1bX", "\x1b^", "\x1b_", "\x1bP",
		"\xe9", "\xff", "\xf0\x9f", "\x1b[<0;10", "\x1b[M", "\x1b]0;title", "\x1b]0;title\x1b", "\x1b]11;rgb:0/0/0\x1b\\", "\x1b[1;", "\x00", "é",
	} {
		t.Run(fmt.Sprintf("%q", keys), func(t *testing.T) {
			t.Parallel()
			l := startLine(t, browseHere+"=1")
			l.sees("quit")
			l.types(keys)
			time.Sleep(20 * idle) // on a loaded machine the browser notices late that no more keys come
			l.types("q")
			l.ends(0)
		})
	}
}

// A sequence whose rest comes in time is one key.
func TestKeysInParts(t *testing.T) {
	l := startLine(t, browseHere+"=1")
	l.sees("quit")
	for _, part := range []string{"\x1b[", "B", "\x1b[<0;50;", "3M\x1b[<0;50;3m"} { // Down, then a click
		l.types(part)
		time.Sleep(idle / 10)
	}
	l.sees("duration")
	l.types("q")
	l.ends(0)
}

// A panic of another goroutine is an error, and the terminal is restored.
func TestBrokenLoad(t *testing.T) {
	l := startLine(t, browseHere+"=broken load")
	l.sees("reading")
	l.ends(1)
	l.sees("browsed: broken at viz/tui/")
}

// A panic while rows are drawn is one of the goroutine that draws.
func TestBrokenRow(t *testing.T) {
	m := newModel(both(), Options{})
	defer func() {
		if recover() == nil {
			t.Error("a row that is not there was merged")
		}
	}()
	m.merge(m.page(), []int{0, 1 << 20}, 80, false)
}

// manyRepeats may be a number of repetitions of a key, which tcell sends one by one.
var manyRepeats = regexp.MustCompile("[0-9]{4}")

// UTF-8 is passed on as it is, cut anywhere, and after its end tcell waits for nothing.
func FuzzKeyboard(f *testing.F) {
	for _, s := range []string{"\x1b]0;x\ay\x1b[", "\x1bOP\xe9q", "é\x1b[<0;1;1M", "\x1b[[A\x1bNx", "\x1bP\x1b\\z"} {
		f.Add([]byte(s), uint8(2))
	}
	f.Fuzz(func(t *testing.T, input []byte, cut uint8) {
		one, parts := keys{utf8: true}, keys{utf8: true}
		at := min(int(cut), len(input))
		one.feed(input)
		parts.feed(input[:at])
		parts.feed(input[at:])
		if !bytes.Equal(one.out, parts.out) || one.unfinished() != parts.unfinished() {
			t.Fatalf("cut at %d: %q, whole: %q", at, parts.out, one.out)
		}
		if utf8.Valid(input) && !bytes.Equal(one.out, input) {
			t.Errorf("%q became %q", input, one.out)
		}
		if one.end(); manyRepeats.Match(input) || one.last == esc { // a lone ESC
			return
		}
		events := make(chan tcell.Event, 1000*len(input)+10)
		tcell.NewInputProcessor(events).ScanUTF8(append(one.out, "q"...))
		var last tcell.Event
		for len(events) > 0 {
			last = <-events
		}
		if key, ok := last.(*tcell.EventKey); !ok || key.Rune() != 'q' {
			t.Errorf("after %q the key q is %v", input, last)
		}
	})
}
