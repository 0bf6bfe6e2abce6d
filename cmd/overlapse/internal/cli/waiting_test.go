package cli

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
		done := a.Waiting(func() string { return "reading x\x1b[2J.json" }, nil)
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
		done = a.Waiting(func() string { return "reading" }, func() float64 { return 0.25 })
		time.Sleep(4*time.Second + time.Millisecond)
		synctest.Wait()
		if got := bar.String(); !strings.HasSuffix(got, "reading: 4.0 s, about 12 s left") {
			t.Errorf("after 4 s: %q", got)
		}
		done()
		bar.Reset()
		a.Waiting(func() string { return "short" }, nil)()
		for _, silent := range []*Console{{tty: false, Bar: &bar}, {tty: true, Quiet: true, Bar: &bar}} {
			done := silent.Waiting(func() string { return "long" }, nil)
			time.Sleep(time.Second)
			done()
		}
		if bar.Len() > 0 {
			t.Errorf("written: %q", bar.String())
		}
	})
}

// Progress says how much is done, also of parts at work, and after two seconds about how long
// the rest takes.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bar bytes.Buffer
		a := &Console{tty: true, Bar: &bar}
		p := a.Progress(4, "replaying")
		last := func() string { return bar.String()[strings.LastIndex(bar.String(), "\x1b[K")+3:] }
		time.Sleep(time.Second + time.Millisecond)
		p.Add(1)
		p.Share("bulk", 0.5)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		// 1.25 of 4 in 4 s; the first round of a part counts for half of it.
		if got, want := last(), "replaying 1 of 4: 4.0 s, about 9 s left"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Share("bulk", 0) // its second round
		p.Share("fused", 0.2)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got, want := last(), "replaying 1 of 4: 8.0 s, about 12 s left"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Add(1) // bulk is done, not counted twice
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := last(), "replaying 2 of 4: 9.0 s, about 8 s left"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Finish()
		if !strings.HasSuffix(bar.String(), "\r\x1b[K") {
			t.Errorf("after the end: %q", last())
		}
		var none *Progress
		none.Add(1)
		none.Share("x", 1)
		none.ChangeMax(2)
		none.Finish()
	})
}

// What is known early is said on a terminal only, and hides no progress.
func TestEarly(t *testing.T) {
	for _, c := range []struct {
		tty, quiet bool
		want       string
	}{{true, false, "so far: keep\n"}, {false, false, ""}, {true, true, ""}} {
		var bar, stderr bytes.Buffer
		(&Console{tty: c.tty, Quiet: c.quiet, Bar: &bar, Err: &stderr}).Early("so far: keep")
		if got := stderr.String(); got != c.want || (bar.String() == "\r\x1b[K") != (c.want != "") {
			t.Errorf("%+v: %q, bar %q", c, got, bar.String())
		}
	}
}
