package tui

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
)

// idle is after which time without input an unfinished key sequence ends.
const idle = 50 * time.Millisecond

// A keyboard is a terminal on which every key sequence ends. tcell v2.13 waits forever for the
// end of what starts like a control string, such as Alt+], and for a byte that is not UTF-8.
type keyboard struct {
	tcell.Tty
	after   func(time.Duration) <-chan time.Time // nil: unfinished sequences do not end
	charset func() string
	keys
	input chan typed
	stop  chan struct{}
	done  chan struct{} // the goroutine that reads has ended
}

// typed is what a Read of the terminal returned.
type typed struct {
	bytes []byte
	err   error
}

// newScreen is the screen of the process's terminal.
func newScreen(after func(time.Duration) <-chan time.Time) (tcell.Screen, error) {
	tty, err := tcell.NewDevTty()
	if err != nil {
		return nil, err
	}
	k := &keyboard{Tty: tty, after: after}
	screen, err := tcell.NewTerminfoScreenFromTty(k)
	if err != nil {
		_ = tty.Close()
		return nil, err
	}
	k.charset = screen.CharacterSet
	return screen, nil
}

// Start implements tcell.Tty.
func (k *keyboard) Start() error {
	if err := k.Tty.Start(); err != nil {
		return err
	}
	k.keys = keys{utf8: isUTF8(k.charset())}
	input, stop, done := make(chan typed), make(chan struct{}), make(chan struct{})
	k.input, k.stop, k.done = input, stop, done
	go func() {
		defer close(done)
		for {
			b := make([]byte, 128)
			n, err := k.Tty.Read(b)
			select {
			case input <- typed{b[:n], err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// Drain implements tcell.Tty: Read returns.
func (k *keyboard) Drain() error {
	close(k.stop)
	return k.Tty.Drain()
}

// Stop implements tcell.Tty.
func (k *keyboard) Stop() error {
	<-k.done
	return k.Tty.Stop()
}

// Read implements io.Reader.
func (k *keyboard) Read(b []byte) (int, error) {
	for len(k.out) == 0 {
		var expired <-chan time.Time
		if k.after != nil && k.unfinished() {
			expired = k.after(idle)
		}
		select {
		case t := <-k.input:
			if t.err != nil || len(t.bytes) == 0 {
				return 0, t.err
			}
			k.feed(t.bytes)
		case <-expired:
			k.end()
		case <-k.stop:
			return 0, nil
		}
	}
	n := copy(b, k.out)
	k.out = k.out[n:]
	return n, nil
}

// keys are bytes on their way to tcell.
type keys struct {
	utf8 bool   // they are UTF-8
	held []byte // the beginning of a character
	out  []byte // not read by tcell yet
	open bool   // tcell may wait for the end of a sequence,
	text bool   // of a control string
	last byte   // passed on
}

const esc = 0x1b

// unfinished reports whether end would do something. tcell ends a lone ESC itself.
func (k *keys) unfinished() bool { return len(k.held) > 0 || k.open && (k.last != esc || k.text) }

// feed passes input on, without bytes that are not UTF-8.
func (k *keys) feed(input []byte) {
	k.held = append(k.held, input...)
	for len(k.held) > 0 && (!k.utf8 || utf8.FullRune(k.held)) {
		r, size := rune(0), 1
		if k.utf8 {
			r, size = utf8.DecodeRune(k.held)
		}
		if b := k.held[0]; r != utf8.RuneError || size > 1 {
			k.out = append(k.out, k.held[:size]...)
			k.open, k.text = k.open || b == esc, k.text || k.last == esc && strings.IndexByte("]X^_P", b) >= 0
			k.last = b
		}
		k.held = k.held[size:]
	}
}

// end ends what is unfinished, with a string terminator: tcell ignores it where it waits for
// nothing.
func (k *keys) end() {
	k.held = nil
	if !k.unfinished() {
		return
	}
	if k.last == esc {
		k.out = append(k.out, '\\') // which ends a control string, or is in it
	}
	k.out, k.last, k.open, k.text = append(k.out, esc, '\\'), '\\', false, false
}
