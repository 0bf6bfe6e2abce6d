// Package tui shows timelines in a terminal: Run lets a person move in
// them, Print writes one as text.
//
//	overlapse  1 captured 2.1 ms  2 bulk 2.4 ms     10.2 ms – 10.9 ms (700 µs)  header: runs, window
//	fused gains 12 %: its tiles are sent as they are ready                verdict
//	 10 ms +            │ 200 µs       │ 400 µs        │ 600 µs            axis
//	▾ rank 0 · H200     ▆▆▆▆▆▆▆▆▆▆▆▁▁▁▁▁▁▁▁▆▆▆▆▆▆▆▆▆                       rows: labels, cells
//	    stream 7        █gemm██████▍       ▐█gemm████
//	    stream 20                  ▐█all_reduce▌
//	  ▸ workgroups (132)▇▇▇▇▇▇▇▇▇▇▇▃       ▇▇▇▇▇▇▇▇▇
//	█ compute  ▒ store  ░ wait  ▲ put issued                               legend
//	gemm_128x256                 duration  93.4 µs      grid  132×1×1      details of the selection
//	/gemm▏                                                                 prompt, message or help line
//
// A model is all of that without a terminal: Update takes an event and says
// what it wants done outside, Draw writes cells on any Surface. Both are pure
// of clock and input, so a test is keys in, cells out. Only Run has a loop.
package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// A surface is cells to draw on: a tcell.Screen or a *tcell.CellBuffer.
type surface interface {
	Size() (width, height int)
	// Put writes the first grapheme of text and returns the rest, and how many cells it took.
	Put(x, y int, text string, style tcell.Style) (rest string, width int)
}

// Options of a model.
type Options struct {
	Colors int            // to use at most; 0: none, classes are told apart by shape (Run: what the screen has)
	ASCII  bool           // nothing but ASCII, for terminals and fonts without block characters
	Figure *layout.Figure // start with this Figure 11; nil: with the lanes
	Parts  []layout.Part  // of the step, whose workgroups are compared; nil: each kernel
	At     layout.Address // what to show first; the zero value: all of the first run
	// Strategy is the selection that was replayed, as the address of a view has it.
	Strategy string
	First    *layout.Timeline // of the first run alone; nil: it is laid out
	Verdict  string           // what the runs show, below the header; "": no line
	Times    []Time           // by view, in its tab; nil: none
	Choices  []Time           // what can be replayed, for the list of ":"
	Stats    bool             // begin with the statistics of what is shown
	Then     string           // a selection to replay while the runs are shown (Loader.Replay); "": none
	// Suspend stops the process until it is continued: what Ctrl-Z does, once the
	// terminal is as it was before. nil: there is no such key.
	Suspend func()
	// After is time.After: it ends key sequences whose rest does not come. nil: they do not end.
	After func(time.Duration) <-chan time.Time
}

// A Time is what the tab of a run says about it, or the list of what can be replayed.
type Time struct {
	Time     string     // such as 2.1 ms
	Change   string     // against the captured schedule, such as -3.2 %
	Step     trace.Time // one step; 0: unknown
	Name     string     // in the list
	Strategy string     // in the list: the selection to replay
}

// An effect is what the caller of Update must do. The zero effect is nothing but a redraw.
type effect struct {
	Quit   bool
	Copy   string // text for the clipboard
	Redraw bool   // all of the screen: something else wrote on it
	Leave  bool   // leave the terminal to others for a while (Options.Suspend)
	Replay string // a selection to replay and show beside the first run
}

// Run browses on the terminal that the process runs in, until the user quits or the context
// ends. While the views are loaded it shows how far that is; it does not wait for that when
// the user quits.
func Run(ctx context.Context, o Options, from Loader) error {
	all := from.start(o, from.Load)
	var quick *loaded
	select {
	case l := <-all:
		if l.err != nil { // no screen is opened for it
			return l.err
		}
		quick = &l
	case <-from.Ticks:
	}
	screen, err := newScreen(o.After)
	if err != nil {
		return fmt.Errorf("the terminal is not supported: %w (set TERM, or print the timeline instead)", err)
	}
	return browse(ctx, screen, o, quick, all, from)
}

// browse is Run on any screen. It initialises the screen and restores the terminal when it
// returns, even by a panic, which is an error if it is one of Load. An EventInterrupt posted to the screen ends it like q does. quick
// is what was loaded already, or nil.
func browse(ctx context.Context, screen tcell.Screen, o Options, quick *loaded, all <-chan loaded, from Loader) error {
	if err := screen.Init(); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer screen.Fini()
	screen.EnableMouse(tcell.MouseButtonEvents | tcell.MouseDragEvents)
	events, quit := make(chan tcell.Event, 64), make(chan struct{})
	go screen.ChannelEvents(events, quit)
	defer func() {
		close(quit)
		for range events { // until the goroutine closes it
		}
	}()
	var shown frame = waiting(from.Status)
	var behind <-chan loaded // what is replayed while something is shown
	asked := false           // by the user
	show := func(l *loaded) {
		m := l.model(screen)
		if shown = m; from.Replay != nil && l.o.Then != "" {
			behind, asked = from.start(o, func(o *Options) ([]layout.View, error) { return from.Replay(o, l.o.Then) }), false
		}
	}
	if quick != nil {
		show(quick)
	}
	for {
		screen.Clear()
		shown.Draw(screen)
		screen.Show()
		for more := true; more; more = len(events) > 0 { // draw once for many
			select {
			case <-ctx.Done():
				return nil
			case l := <-all:
				if l.err != nil {
					return l.err
				}
				show(&l)
			case l := <-behind:
				behind, shown = nil, l.after(shown.(*model), screen, asked)
			case <-shown.ticks(from.Ticks):
			case ev, open := <-events:
				if !open {
					return nil
				}
				over, replay, err := handle(shown, screen, ev, o.Suspend)
				if over || err != nil {
					return err
				}
				if replay != "" && from.Replay != nil {
					behind, asked = from.start(o, func(o *Options) ([]layout.View, error) { return from.Replay(o, replay) }), true
				}
			}
		}
	}
}

// isUTF8 reports whether a locale's character set is UTF-8, in any spelling:
// C.utf8, en_US.UTF-8.
func isUTF8(charset string) bool {
	return strings.EqualFold(strings.ReplaceAll(charset, "-", ""), "utf8")
}

// handle updates what is shown and does outside what it asks for. It reports
// whether browsing is over, and what to replay.
func handle(shown frame, screen tcell.Screen, ev tcell.Event, suspend func()) (over bool, replay string, err error) {
	effect := shown.Update(ev)
	if effect.Leave && suspend != nil {
		if err := screen.Suspend(); err != nil {
			return true, "", fmt.Errorf("terminal: %w", err)
		}
		suspend()
		if err := screen.Resume(); err != nil {
			return true, "", fmt.Errorf("terminal: %w", err)
		}
		effect.Redraw = true
	}
	if _, resized := ev.(*tcell.EventResize); resized || effect.Redraw {
		screen.Sync()
	}
	if effect.Copy != "" {
		screen.SetClipboard([]byte(effect.Copy))
	}
	return effect.Quit, effect.Replay, nil
}
