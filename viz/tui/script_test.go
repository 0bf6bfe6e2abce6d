package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
	"github.com/overlapse/overlapse/viz/layout"
)

// Scripts of what is browsed, keys, and what is seen behind them:
//
//	browse both size=100x30 colors=256    runs (see browsed) on a terminal, from now on; "stats": with statistics
//	keys j Enter :: message               keys on a browser that was just started, named as bindings are, and what is asked for
//	press w w                             more keys
//	type &softmax                         letters of a text, and Enter
//	click 3 5                             a click in a column on a line
//
// Behind "::" stand questions, of which a line each is answered (see seen); without any, it is "state".
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		b := &browsing{}
		return func(t testing.TB, c scripttest.Call) string {
			what, questions, asked := strings.Cut(c.Text, "::")
			if !asked {
				questions = "state"
			}
			switch c.Name {
			case "browse":
				b.options(t, c)
				return ""
			case "keys":
				b.start()
				b.last = press(b.m, what)
			case "press":
				b.last = press(b.m, what)
			case "type":
				for _, r := range strings.TrimSpace(what) {
					b.m.Update(tcell.NewEventKey(tcell.KeyRune, r, 0))
				}
				press(b.m, "Enter")
			case "click":
				x, y := must.Have(strconv.Atoi(c.Args[0]))(t), must.Have(strconv.Atoi(c.Args[1]))(t)
				b.screen()
				b.m.Update(tcell.NewEventMouse(x, y, tcell.ButtonPrimary, 0))
				b.m.Update(tcell.NewEventMouse(x, y, tcell.ButtonNone, 0))
			default:
				t.Fatalf("no call %s", c.Name)
			}
			var lines []string
			for q := range strings.SplitSeq(questions, ";") {
				lines = append(lines, b.seen(t, strings.TrimSpace(q)))
			}
			return strings.Join(lines, "\n")
		}
	})
}

type browsing struct {
	what string
	o    Options
	w, h int
	m    *model
	last effect
}

func (b *browsing) options(t testing.TB, c scripttest.Call) {
	b.what, b.o, b.w, b.h = c.Args[0], Options{}, 100, 30
	if size := c.Set["size"]; size != "" {
		if _, err := fmt.Sscanf(size, "%dx%d", &b.w, &b.h); err != nil {
			t.Fatal(err)
		}
	}
	b.o.Colors, _ = strconv.Atoi(c.Set["colors"])
	b.o.ASCII = slices.Contains(c.Args, "ascii")
	if slices.Contains(c.Args, "figure") {
		b.o.Figure = &layout.Figure{}
	}
}

// start browses anew.
func (b *browsing) start() {
	o := b.o
	views := browsed(b.what, &o)
	b.m = newModel(views, o)
	b.m.Update(tcell.NewEventResize(b.w, b.h))
}

// browsed are the runs of a name.
func browsed(what string, o *Options) []layout.View {
	switch what {
	case "both":
		return both()
	case "both-simulated":
		views := both()
		views[1].Run.Simulated = true
		return views
	case "one":
		o.Choices = []Time{{Name: "bulk", Strategy: "bulk"}}
		return both()[:1]
	case "fused":
		return []layout.View{{Run: fused(8)}}
	case "pair":
		return []layout.View{{Run: pairOf("bulk", 5000, 1000)}, {Run: pairOf("fused", 100, 800)}}
	case "crowded":
		return []layout.View{{Run: crowdedRun()}}
	case "two-kinds":
		return []layout.View{{Run: twoKindsRun()}}
	case "nine":
		var views []layout.View
		for _, name := range []string{"captured", "bulk", "ideal", "decompose", "multistream", "fused", "tilesync", "onesided", "trigger"} {
			views = append(views, layout.View{Run: capture(name, 1000), Name: name + " chunks=4:channels=8"})
			o.Times = append(o.Times, Time{Time: "6.481 ms", Change: "-2.1 %"})
		}
		return views
	case "itself": // a run beside itself, one step of each, and the lane of what changes between them
		changes, _ := overlap.ChangesOf(capture("a", 1).Ranks, nil, nil, 1)
		step := Time{Step: 300}
		o.Stats, o.Times, o.At = true, []Time{step, step, {}}, layout.Address{Show: "all", Window: layout.Window{To: 300}}
		return []layout.View{{Run: capture("a", 1)}, {Run: capture("b", 1)}, {Run: changes}}
	case "ranges": // of the name of a kernel
		run := capture("moe", 1000)
		kernel := slices.IndexFunc(run.Spans, func(s trace.Span) bool { return s.Kind == trace.Collective })
		for i := range run.Spans {
			if s := &run.Spans[i]; s.Kind == trace.Marker {
				s.Name = run.Spans[kernel].Name
			}
		}
		return []layout.View{{Run: run}}
	default:
		return []layout.View{{Run: capture("moe", 1000), Name: strings.ReplaceAll(what, "␣", " ")}}
	}
}

func (b *browsing) screen() []string {
	var cells tcell.CellBuffer
	cells.Resize(b.w, b.h)
	b.m.Update(tcell.NewEventResize(b.w, b.h))
	b.m.Draw(&cells)
	return strings.Split(strings.TrimSuffix(textOf(&cells), "\n"), "\n")
}

// seen answers
//
//	state           the row, the selection and the window
//	message, copy   what was said and what was copied last
//	quit            whether the last key ends the browser
//	line 3          a line of the screen; "line 3-5": those that are not empty
//	see TEXT        the lines that have a text, or "-"
//	count TEXT      how often the screen has it
//	rows, tab       how many rows there is room for; the run that is shown
func (b *browsing) seen(t testing.TB, question string) string {
	word, text, _ := strings.Cut(question, " ")
	lines := b.screen()
	switch word {
	case "state":
		return state(b.m)
	case "message":
		return b.m.message
	case "copy":
		return b.last.Copy
	case "quit":
		return strconv.FormatBool(b.last.Quit)
	case "tab":
		return strconv.Itoa(b.m.tab)
	case "rows":
		return strconv.Itoa(b.m.regions().rows.h)
	case "line":
		from, to, several := strings.Cut(text, "-")
		if !several {
			to = from
		}
		drawn := lines[must.Have(strconv.Atoi(from))(t) : must.Have(strconv.Atoi(to))(t)+1]
		return strings.Join(slices.DeleteFunc(drawn, func(line string) bool { return line == "" }), "\n")
	case "see":
		var has []string
		for _, line := range lines {
			if strings.Contains(line, text) {
				has = append(has, strings.TrimSpace(line))
			}
		}
		if has == nil {
			return "-"
		}
		return strings.Join(has, "\n")
	case "count":
		return strconv.Itoa(strings.Count(strings.Join(lines, "\n"), text))
	}
	t.Fatalf("nothing is seen as %q", question)
	return ""
}
