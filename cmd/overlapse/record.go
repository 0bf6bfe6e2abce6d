package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// iteration is the window that engines choose without one.
const iteration = "iteration"

// between sets the window of what is recorded and explained.
func (o *replayOptions) between(opts *replay.Options) error {
	switch o.window {
	case iteration:
		return nil
	case "all":
		opts.To = trace.Infinity
		return nil
	}
	from, to, ok := strings.Cut(o.window, "-")
	start, err1 := time.ParseDuration(from)
	end, err2 := time.ParseDuration(to)
	if !ok || err1 != nil || err2 != nil || start < 0 || end <= start {
		return usageError{fmt.Errorf("--window %q is neither iteration nor all nor a time like 1.2ms-3ms", o.window)}
	}
	opts.From, opts.To = trace.Time(start), trace.Time(end)
	return nil
}

// checkRanks refuses ranks to record that the job does not have.
func (o *replayOptions) checkRanks(world int) error {
	for _, r := range o.ranks {
		if r < 0 || r >= world {
			return usageError{fmt.Errorf("--rank %d: the job has ranks 0 to %d", r, world-1)}
		}
	}
	return nil
}

// interruptible is a writer that fails once the context is done, so that a
// long file is given up instead of finished.
type interruptible struct {
	io.Writer
	ctx context.Context //nolint:containedctx // a writer's method has no other way to see it
}

func (w interruptible) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}
