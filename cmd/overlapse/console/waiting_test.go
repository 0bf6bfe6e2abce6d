package console

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
		a := &Console{tty: true, Bar: &bar}
		done := a.Waiting(func() string { return "reading x\x1b[2J.json" })
		time.Sleep(Patience + time.Millisecond)
		synctest.Wait()
		if got := bar.String(); !strings.HasPrefix(got, "\r\x1b[Kreading x") || !strings.HasSuffix(got, ": 0.2 s") || strings.Count(got, "\x1b") > 1 {
			t.Errorf("after 0.2 s: %q", got)
		}
		done()
		if got := bar.String(); !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("after the end: %q", got)
		}
		bar.Reset()
		a.Waiting(func() string { return "short" })()
		for _, silent := range []*Console{{tty: false, Bar: &bar}, {tty: true, Quiet: true, Bar: &bar}} {
			done := silent.Waiting(func() string { return "long" })
			time.Sleep(time.Second)
			done()
		}
		if bar.Len() > 0 {
			t.Errorf("written: %q", bar.String())
		}
	})
}
