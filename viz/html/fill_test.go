package html

import (
	"bytes"
	"html"
	"html/template"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Pages are filled as html/template fills them, up to how a character is escaped, also with
// hostile texts.
func TestPages(t *testing.T) {
	const evil = `</script><script>alert(1)</script>" onload='x' {{.}} & + é`
	rows := []cells{
		{Title: evil, Note: evil, Columns: []Column{{Name: evil, Number: true}, {Name: "b"}}, Cells: [][]cell{{{Text: evil, Class: "number"}, {Text: ""}}}, Folded: true},
		{Title: "b", Columns: []Column{{Name: "c"}}, Cells: [][]cell{{{Text: "1"}}, {{Text: "2"}}}, Chart: &Chart{Bars: []Line{{Name: "x"}}}, Nth: 3},
	}
	for _, c := range []struct {
		page string
		v    any
	}{
		{"page.html", view{Report: Report{Title: evil}}},
		{"page.html", view{
			Report: Report{Title: evil, Verdict: []string{evil, "b", "c"}, Strategies: []Bar{{Name: "x"}}, Facts: []Fact{{evil, evil}}, About: evil, HowTitle: evil, How: []Step{{Text: evil, Code: evil}, {Text: "b"}}},
			Style:  "a > b {}", Data: `{"a":"\u003c"}`, Script: "a && b", Bars: &rows[0], Chart: &Chart{Bars: []Line{{Name: "x"}}}, Lanes: "<svg/>", Workgroups: "<svg a='b'/>",
			Use: &figures{List: []figure{{evil, "<svg/>"}, {"b", "<svg/>"}}, Left: evil}, Tables: rows,
		}},
		{"page.html", view{Report: Report{Title: "a", Heading: evil, Strategies: []Bar{{Name: "x"}}}, Workgroups: "<svg/>", Bars: &rows[1], Use: &figures{}}},
	} {
		var got, want bytes.Buffer
		if err := fill(&got, c.page, c.v); err != nil {
			t.Fatal(err)
		}
		if err := template.Must(template.ParseFS(page, "page/"+c.page)).Execute(&want, c.v); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(html.UnescapeString(want.String()), html.UnescapeString(got.String())); d != "" {
			t.Errorf("%s: %s", c.page, d)
		}
		for _, bad := range []string{"<script>alert", `" onload`, "' onload"} {
			if bytes.Contains(got.Bytes(), []byte(bad)) {
				t.Errorf("%s holds %q", c.page, bad)
			}
		}
	}
}
