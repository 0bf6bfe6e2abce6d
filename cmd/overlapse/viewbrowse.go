package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
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
	load := func(opts *tui.Options, first func([]layout.View)) (views []layout.View, err error) {
		defer close(loaded)
		var once sync.Once
		go behind.preview(o.timeline(), func(views []layout.View) { once.Do(func() { first(views) }) })
		if views, cannot, err = behind.views(ctx, o, opts); err == nil {
			defer inputs.CollectOften()()
			opts.First = layout.New(views[:1])
		}
		once.Do(func() {}) // no preview any more
		return views, err
	}
	status := func() string {
		return fmt.Sprintf("%s: %.1f s", inputs.ReadingLine(behind.Read, then), time.Since(begun).Seconds())
	}
	err := tui.Run(ctx, opts, tui.Loader{Load: load, Status: status, Ticks: tick.C})
	select {
	case <-loaded:
		fmt.Fprint(a.Err, notes.String())
		return cmp.Or(err, ctx.Err(), cannot)
	default: // left before
		return cmp.Or(err, ctx.Err())
	}
}

// previewBytes of all files together, inflated, take a tenth of a second to read.
const previewBytes = 8 << 20

// preview shows the first events of each file, unless most is read within console.Patience. Errors
// are those of reading all.
func (a *app) preview(path string, show func([]layout.View)) {
	time.Sleep(console.Patience / 2)
	if p := a.Read; inputs.IsYAML(path) || path == "-" || 2*p.Read.Load() >= p.Total.Load() {
		return
	}
	o := a.Reading()
	o.Head, o.SkipBad = previewBytes, nil
	if run, err := a.OpenAll(path, o); err == nil && len(run.Spans) > 0 && len(trace.Split(run)) == 1 {
		show([]layout.View{{Run: run}})
	}
}
