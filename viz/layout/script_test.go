package layout

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

// Scripts of layouts:
//
//	rows              the rows of twoRanks; "twice": as two runs
//	facts             what is known of each of its spans
//	figure cluster=2  Figure 11 of drawn workgroups (see drawn), in cells=15
//	ticks 0 100 5     of a window from and to, in at most so many, ns
//	time 999          exact and short, of ns
//	parse 12.5 ms     what it is, ns
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string {
			switch c.Name {
			case "rows":
				return rowsOf(c.Text == "twice")
			case "facts":
				return factsOf()
			case "figure":
				tl := must.Have(Figure11(View{Run: drawn(strings.Split(strings.TrimSuffix(c.Input, "\n"), "\n")...)}, Figure{Cluster: number(t, c.Set["cluster"], 0)}))(t)
				return drawRows(tl, number(t, c.Set["cells"], 15))
			case "ticks":
				a := Ticks(Window{trace.Time(number(t, c.Args[0], 0)), trace.Time(number(t, c.Args[1], 0))}, number(t, c.Args[2], 0))
				labels := []string{a.Label + "|"}
				for _, tick := range a.Ticks {
					labels = append(labels, tick.Label)
				}
				return strings.Join(labels, " ")
			case "time":
				at := trace.Time(number(t, c.Text, 0))
				return Exact(at) + " or " + Short(at)
			case "parse":
				at, err := ParseTime(c.Text)
				if err != nil {
					return err.Error()
				}
				return fmt.Sprint(int64(at))
			}
			t.Fatalf("no call %s", c.Name)
			return ""
		}
	})
}

func number(t testing.TB, text string, absent int) int {
	t.Helper()
	if text == "" {
		return absent
	}
	return must.Have(strconv.Atoi(text))(t)
}

func rowsOf(twice bool) string {
	views := []View{{Run: twoRanks(), Name: "a"}}
	if twice {
		views = append(views, View{Run: views[0].Run, Name: "b", Offset: 100})
	}
	var b strings.Builder
	for i, row := range New(views).Rows {
		fmt.Fprintf(&b, "%s%s %d-%d %d\n", strings.Repeat("  ", row.Depth), row.Label, i, row.After, len(row.Spans))
	}
	return b.String()
}

func factsOf() string {
	tl := New([]View{{Run: twoRanks(), Offset: 1000}})
	var b strings.Builder
	for i, row := range tl.Rows {
		if row.Kind < LaneRow {
			continue
		}
		for _, id := range row.Spans {
			fmt.Fprintf(&b, "%s: %s\n", row.Label, tl.Caption(i, id))
			for _, f := range tl.Facts(i, id)[1:] {
				fmt.Fprintf(&b, "  %s: %s\n", f.Name, f.Value)
			}
		}
	}
	return b.String()
}
