package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/overlapse/overlapse/trace"
)

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
