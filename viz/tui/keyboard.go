package tui

import (
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
	sequence
	out   []byte // not read by tcell yet
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
		tty.Close()
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
	k.sequence, k.out = sequence{utf8: isUTF8(k.charset())}, nil
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
			k.out = k.feed(k.out, t.bytes)
		case <-expired:
			k.out = k.end(k.out)
		case <-k.stop:
			return 0, nil
		}
	}
	n := copy(b, k.out)
	k.out = k.out[n:]
	return n, nil
}

// A sequence follows the state that tcell is in after the bytes that it was given.
type sequence struct {
	utf8  bool // the bytes are UTF-8
	state keyState
	held  []byte // the beginning of a character, not passed on
}

type keyState uint8

const (
	ground  keyState = iota
	escaped          // after ESC, which tcell itself ends
	control          // after ESC [
	shift            // after ESC O
	single           // the next byte ends it: after ESC N and ESC [ [
	text             // after ESC ] and what else starts a control string
	textEnd          // after ESC in a control string
)

const esc = 0x1b

func (s *sequence) unfinished() bool { return len(s.held) > 0 || s.state > escaped }

// feed appends input to out, without bytes that are not UTF-8: these end a sequence.
func (s *sequence) feed(out, input []byte) []byte {
	s.held = append(s.held, input...)
	for len(s.held) > 0 && (!s.utf8 || utf8.FullRune(s.held)) {
		r, size := rune(0), 1
		if s.utf8 {
			r, size = utf8.DecodeRune(s.held)
		}
		if r == utf8.RuneError && size == 1 {
			out = s.close(out)
		} else {
			out = append(out, s.held[:size]...)
			s.state = s.state.next(s.held[0])
		}
		s.held = s.held[size:]
	}
	return out
}

// next is the state after a byte, the first one of a character.
func (s keyState) next(b byte) keyState {
	switch {
	case s == text && b == esc:
		return textEnd
	case s == text && b != '\a', s == textEnd && b != '\\' && b != '\a':
		return text
	case b == esc && s != single && s != textEnd:
		return escaped
	case s == control && b == '[':
		return single
	case s == control && b >= 0x20 && b < 0x40:
		return control
	case s != escaped:
		return ground
	}
	switch b {
	case '[':
		return control
	case 'O':
		return shift
	case 'N':
		return single
	case ']', 'P', 'X', '^', '_':
		return text
	}
	return ground
}

// end is feed for the end of the input for now.
func (s *sequence) end(out []byte) []byte {
	s.held = nil
	return s.close(out)
}

// close appends what ends an unfinished sequence: a string terminator, which tcell ignores
// where it has ended the sequence already.
func (s *sequence) close(out []byte) []byte {
	switch s.state {
	case ground, escaped:
		return out
	case single: // takes the first byte
		out = append(out, esc, esc, '\\')
	case textEnd:
		out = append(out, '\\')
	default:
		out = append(out, esc, '\\')
	}
	s.state = ground
	return out
}
