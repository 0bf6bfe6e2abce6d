package html

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A session drives a browser in real time, over the two pipes of its debugging protocol.
type session struct {
	t       testing.TB
	to      io.Writer
	from    *bufio.Reader
	last    int
	session string
}

// browse starts a browser with an empty page of 1400 px by 1000.
func browse(t testing.TB) *session {
	t.Helper()
	read, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser(t), append(quiet(t.TempDir()), "--window-size=1400,1000", "--remote-debugging-pipe")...)
	cmd.ExtraFiles = []*os.File{read, write} // 3 and 4 of the browser
	must.Do(t, cmd.Start())
	read.Close()
	write.Close()
	t.Cleanup(func() {
		to.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		from.Close()
	})
	s := &session{t: t, to: to, from: bufio.NewReader(from)}
	var target struct {
		TargetID string `json:"targetId"`
	}
	s.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	s.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	s.session = attached.SessionID
	return s
}

// call calls a method of the protocol and waits for its result.
func (s *session) call(method string, params, result any) {
	s.t.Helper()
	s.last++
	request := map[string]any{"id": s.last, "method": method, "params": params}
	if s.session != "" {
		request["sessionId"] = s.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.to.Write(append(text, 0)); err != nil {
		s.t.Fatal(err)
	}
	for {
		line, err := s.from.ReadBytes(0)
		if err != nil {
			s.t.Fatal(err)
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  any
		}
		if err := json.Unmarshal(line[:len(line)-1], &answer); err != nil {
			s.t.Fatal(err)
		}
		if answer.ID != s.last {
			continue // an event
		}
		if answer.Error != nil {
			s.t.Fatalf("%s: %v", method, answer.Error)
		}
		if result != nil {
			if err := json.Unmarshal(answer.Result, result); err != nil {
				s.t.Fatal(err)
			}
		}
		return
	}
}

// run runs the body of an async function in the page and decodes what it returns.
func (s *session) run(body string, value any) {
	s.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails any
	}
	s.call("Runtime.evaluate", map[string]any{"expression": "(async () => {" + body + "})()", "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		s.t.Fatalf("%v", out.ExceptionDetails)
	}
	if err := json.Unmarshal(out.Result.Value, value); err != nil {
		s.t.Fatalf("%v in %s", err, out.Result.Value)
	}
}

// A report of a million workgroups: the time from opening it to the first paint and until
// timelines can be zoomed, the longest frame and the median frame of zooming in and out
// over all of them.
func BenchmarkBrowser(b *testing.B) {
	page := render(b, Report{Title: "large", Strategies: sample().Strategies, Runs: []Named{{Name: "run", Run: tiledRun(999_000)}}})
	file := filepath.Join(b.TempDir(), "report.html")
	must.Do(b, os.WriteFile(file, []byte(page), 0o600))
	b.ReportMetric(float64(len(page))/1e6, "MB")
	s := browse(b)
	var paint, ready, frames []float64
	for b.Loop() {
		s.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
		var got struct {
			Paint, Ready float64
			Frames       []float64
		}
		s.run(`
const deadline = performance.now() + 60000;
while (!window.overlapse?.workgroups && performance.now() < deadline) await new Promise((done) => setTimeout(done, 2));
const out = {Ready: performance.now(), Paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, Frames: []};
const t = overlapse.workgroups;
t.scroller.scrollIntoView();
for (let i = 0; i < 40; i++) {
  const began = performance.now();
  t.zoom(i < 20 ? 0.72 : 1 / 0.72, t.end / 3);
  t.chart.getZr().flush();
  out.Frames.push(performance.now() - began);
  await new Promise((done) => requestAnimationFrame(done));
}
return out;`, &got)
		paint, ready, frames = append(paint, got.Paint), append(ready, got.Ready), append(frames, got.Frames...)
	}
	for name, all := range map[string][]float64{"paint-ms": paint, "ready-ms": ready, "zoom-ms": frames} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
		if name == "zoom-ms" {
			b.ReportMetric(all[len(all)-1], "zoom-max-ms")
		}
	}
}
