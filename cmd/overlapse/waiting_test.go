package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Defect 20: long reading shows within 0.2 s that something happens, and leaves nothing behind.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bar bytes.Buffer
		a := &console{tty: true, bar: &bar}
		done := a.waiting("reading x\x1b[2J.json")
		time.Sleep(patience + time.Millisecond)
		synctest.Wait()
		if got := bar.String(); !strings.HasPrefix(got, "\rreading x") || !strings.HasSuffix(got, ": 0.2 s") || strings.Contains(got, "\x1b") {
			t.Errorf("after 0.2 s: %q", got)
		}
		done()
		if got := bar.String(); !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("after the end: %q", got)
		}
		bar.Reset()
		a.waiting("short")()
		for _, silent := range []*console{{tty: false, bar: &bar}, {tty: true, quiet: true, bar: &bar}} {
			done := silent.waiting("long")
			time.Sleep(time.Second)
			done()
		}
		if bar.Len() > 0 {
			t.Errorf("written: %q", bar.String())
		}
	})
}
