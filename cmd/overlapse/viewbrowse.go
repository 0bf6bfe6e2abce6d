package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/tui"
)

// browse shows in the browser how far reading is, then the runs. Notes are printed when the
// browser has given the terminal back.
func (a *app) browse(ctx context.Context, o viewOptions, opts tui.Options) error {
	var notes bytes.Buffer
	behind := &app{Reader: a.Reader}
	behind.Console = &console.Console{In: a.In, Out: a.Out, Err: &notes, Quiet: a.Quiet}
	behind.Read = new(format.Progress)
	then := "laying out"
	if o.Strategy != "" {
		then = "replaying under " + text.Shorten(o.Strategy, 30)
	}
	begun := time.Now()
	var cannot error
	loaded := make(chan struct{})
	tick := time.NewTicker(console.Patience / 2)
	defer tick.Stop()
	load := func(opts *tui.Options) (views []layout.View, err error) {
		defer close(loaded)
		if views, cannot, err = behind.views(ctx, o, opts); err == nil {
			defer inputs.CollectOften()()
			opts.First = layout.New(views[:1])
		}
		return views, err
	}
	preview := func() []layout.View { return behind.preview(o.timeline()) }
	status := func() string {
		return fmt.Sprintf("%s: %.1f s", inputs.ReadingLine(behind.Read, then), time.Since(begun).Seconds())
	}
	quit, stop := signal.NotifyContext(ctx, syscall.SIGQUIT) // else the terminal is not restored
	defer stop()
	err := tui.Run(quit, opts, tui.Loader{Load: load, Preview: preview, Status: status, Ticks: tick.C})
	select {
	case <-loaded:
		fmt.Fprint(a.Err, notes.String())
		return cmp.Or(err, ctx.Err(), context.Cause(quit), cannot)
	default: // left before
		return cmp.Or(err, ctx.Err(), context.Cause(quit))
	}
}

// previewBytes of all files together, inflated, take a tenth of a second to read.
const previewBytes = 8 << 20

// preview is the first events of each file, unless most is read within console.Patience. Errors
// are those of reading all.
func (a *app) preview(path string) []layout.View {
	time.Sleep(console.Patience / 2)
	if p := a.Read; inputs.IsYAML(path) || path == "-" || 2*p.Read.Load() >= p.Total.Load() {
		return nil
	}
	o := a.Reading()
	o.Head, o.SkipBad = previewBytes, nil
	run, err := a.OpenAll(path, o)
	if err != nil || len(run.Spans) == 0 || len(trace.Split(run)) > 1 {
		return nil
	}
	return []layout.View{{Run: run}}
}
