package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/tui"
)

// mostReplayed is the size of a trace, in spans, up to which it is replayed without being asked: some ten seconds.
const mostReplayed = 1 << 20

// browse shows in the browser how far reading is, then the runs. Notes are printed when the
// browser has given the terminal back.
func (a *app) browse(ctx context.Context, o viewOptions, opts tui.Options) error {
	var notes bytes.Buffer
	behind := &app{Reader: a.Reader}
	behind.Console = &cli.Console{In: a.In, Out: a.Out, Err: &notes, Quiet: a.Quiet}
	behind.Read, behind.Kept = new(format.Progress), map[string]*trace.Run{} // the replay behind the browser reads nothing again
	then := "laying out"
	if o.Strategy != "" {
		then = "replaying under " + cli.Shorten(o.Strategy, 30)
	}
	begun := time.Now()
	var cannot error
	loaded := make(chan struct{})
	tick := time.NewTicker(cli.Patience / 2)
	defer tick.Stop()
	load := func(opts *tui.Options) (views []layout.View, err error) {
		defer close(loaded)
		if views, cannot, err = behind.views(ctx, o, opts); err == nil {
			defer input.CollectOften()()
			opts.First = layout.New(views[:1])
			alone := o.Strategy == "" && o.timeline() == o.Path && opts.Figure == nil
			if alone && len(views) == 1 && len(views[0].Run.Spans) <= mostReplayed {
				opts.Then, opts.Verdict = recommended, "working out what to change; keys work meanwhile"
			}
		}
		return views, err
	}
	var one sync.Mutex // of what reads and replays
	again := func(opts *tui.Options, strategy string) (views []layout.View, err error) {
		one.Lock()
		defer one.Unlock()
		o := o
		o.Strategy, o.beside, opts.Strategy, opts.At = strategy, true, strategy, layout.Address{}
		views, _, err = behind.views(ctx, o, opts)
		return views, err
	}
	status := func() string {
		return fmt.Sprintf("%s: %.1f s", input.ReadingLine(behind.Read, then), time.Since(begun).Seconds())
	}
	quit, stop := signal.NotifyContext(ctx, syscall.SIGQUIT) // else the terminal is not restored
	defer stop()
	err := tui.Run(quit, opts, tui.Loader{Load: load, Replay: again, Status: status, Ticks: tick.C})
	select {
	case <-loaded:
		if one.TryLock() { // else it still replays and writes notes
			fmt.Fprint(a.Err, notes.String())
		}
		return cmp.Or(err, ctx.Err(), context.Cause(quit), cannot)
	default: // left before
		return cmp.Or(err, ctx.Err(), context.Cause(quit))
	}
}
