package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// The times of a column have the unit of the largest, and none but zero reads as zero.
func TestUnitOfColumn(t *testing.T) {
	for _, c := range []struct {
		times []trace.Time
		unit  string
		want  []string
	}{
		{[]trace.Time{4_256_300, 19_340_000, 880, 0}, "ms", []string{"4.26", "19.34", "<0.01", "0.00"}},
		{[]trace.Time{880, 9_999_900}, "µs", []string{"0.9", "9999.9"}},
		{[]trace.Time{-2_000_000_000, 5_000_000}, "s", []string{"-2.000", "0.005"}},
		{nil, "µs", nil},
	} {
		u := UnitOf(c.times...)
		if u.Name != c.unit {
			t.Errorf("%v: unit %s, want %s", c.times, u.Name, c.unit)
		}
		for i, want := range c.want {
			if got := u.Number(c.times[i]); got != want {
				t.Errorf("%v: %q, want %q", c.times, got, want)
			}
		}
	}
	if u := UnitOf(20_000_000); u.Signed(-3_300_000) != "-3.30" || u.Signed(0) != "0" || u.Signed(5_200_000) != "+5.20" {
		t.Errorf("signed: %s %s %s", u.Signed(-3_300_000), u.Signed(0), u.Signed(5_200_000))
	}
}

// Sentences are wrapped between words, a number stays with its unit, and long words stay whole.
func TestWrapped(t *testing.T) {
	long := strings.Repeat("x", 120)
	for in, want := range map[string]string{
		"short line": "short line",
		strings.Repeat("a", 93) + " 12.5 %, rest":               strings.Repeat("a", 93) + "\n  12.5 %, rest",
		strings.Repeat("a", 60) + " " + long + " b":             strings.Repeat("a", 60) + "\n  " + long + "\n  b",
		strings.Repeat("µ", 50) + " " + strings.Repeat("b", 47): strings.Repeat("µ", 50) + " " + strings.Repeat("b", 47),
	} {
		if got := wrapped(in, 2, 100); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	if got, want := ShellWords([]string{"replay", "a b/x", "it's", "--machine=h200:4", ""}), `replay 'a b/x' 'it'\''s' --machine=h200:4 ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Tables are no wider than the terminal, and --wide prints everything.
func TestTablesFit(t *testing.T) {
	headers := []string{"strategy", "parameters", "time", "change", "exposed comm.", "confidence", "time breakdown"}
	row := []any{
		"decompose", "chunks=8 channels=16 priority=on", "22.57 ms", "-1.0 %", "2524.5 µs", "medium ±8 %",
		"compute 88 %, exposed communication 11 %; streams wait for free compute units",
	}
	printed := func(width int, wide bool) string {
		var out bytes.Buffer
		a := &Console{Out: &out, Width: width, Wide: wide}
		tab := Table{Columns: headers}
		tab.Add(row...)
		tab.Add("bulk", "", "1 ms", "", 7, "", "名前 "+strings.Repeat("x", 300))
		a.Show(&tab)
		return out.String()
	}
	for width := 30; width <= 240; width += 7 {
		for _, line := range strings.Split(printed(width, false), "\n") {
			if strings.Contains(line, "--wide adds") {
				continue
			}
			if n := text.LongestLineLen(line); n > width {
				t.Errorf("a line of %d columns in %d: %q", n, width, line)
			}
		}
	}
	for width, want := range map[int][]string{
		30:  {"--wide adds: ", "decompose", "compute 88"},
		80:  {"22.57 ms", "-1.0 %", "exposed"},
		120: {"2524.5 µs", "medium ±8 %", "chunks=8"},
	} {
		got := printed(width, false)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("at %d no %q in\n%s", width, w, got)
			}
		}
	}
	for _, cell := range row {
		if got := printed(80, true); !strings.Contains(got, fmt.Sprint(cell)) {
			t.Errorf("--wide lacks %q:\n%s", cell, got)
		}
	}
}

// A column has one unit; columns of which every cell is empty or zero are left out.
func TestColumns(t *testing.T) {
	var out bytes.Buffer
	tab := Table{Title: "kernels", Columns: []string{"kernel", "total", "exposed", "tiles", "note", "share"}}
	tab.Add("gemm", trace.Time(19_340_000), trace.Time(0), 0, "", "99.0 %")
	tab.Add("copy", trace.Time(880_000), trace.Time(0), 0, "", "1.0 %", "beyond the columns")
	(&Console{Out: &out}).Show(&tab)
	want := "\nkernels\n kernel  total, ms   share \n gemm        19.34  99.0 % \n copy         0.88   1.0 % \n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	page := tab.HTML()
	if page.Title != "Kernels" || len(page.Columns) != 3 || page.Columns[0].Number || !page.Columns[1].Number || page.Columns[1].Name != "total, ms" || page.Rows[1][1] != "0.88" {
		t.Errorf("page %+v", page)
	}
	if got, want := tab.Markdown(), "| kernel | total, ms | share |\n| --- | ---:| ---:|\n| gemm | 19.34 | 99.0 % |\n| copy | 0.88 | 1.0 % |"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The answer is bold on terminals that draw it; nothing of a trace reaches one as an escape sequence.
func TestHead(t *testing.T) {
	for _, c := range []struct {
		term, noColor, want string
	}{
		{"xterm-256color", "", "\x1b[1mless ·[2J\n\x1b[0m"},
		{"xterm-256color", "1", "less ·[2J\n"},
		{"dumb", "", "less ·[2J\n"},
		{"", "", "less ·[2J\n"},
	} {
		var out bytes.Buffer
		con := Console{Out: guard.Writer(&out), Data: &out}
		con.bold = drawsBold(func(name string) string { return map[string]string{"TERM": c.term, "NO_COLOR": c.noColor}[name] })
		con.Head("less \x1b[2J")
		if out.String() != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: %q, want %q", c.term, c.noColor, out.String(), c.want)
		}
	}
}
