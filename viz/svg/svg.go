// Package svg draws charts as SVG: what a report shows without scripts, and files for
// papers and pull requests. The same input gives the same bytes.
//
//	layout.Timeline ──Timeline────┐
//	quantities      ──Rows────────┼─▶ Drawing ──Inline──▶ part of a page, in the page's colours
//	differences     ──Differences─┘           ──WriteTo─▶ a file, with colours of its own
//
// Text comes from traces and is untrusted: it is escaped, and appears as text only.
package svg

import (
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/viz/plain"
)

// A Drawing is one picture. Elements are drawn in the order in which they are added.
// Lengths are in px.
type Drawing struct {
	title, desc string
	width       float64
	Height      float64
	body        strings.Builder
}

// New starts a drawing. A screen reader reads the title and the description.
func New(title, desc string, width float64) *Drawing {
	return &Drawing{title: title, desc: desc, width: width}
}

// Style has the colours and fonts of a file: those of a light page, or a dark one.
const Style = `text{font:12px system-ui,"Segoe UI",Roboto,"DejaVu Sans",Arial,sans-serif;fill:#1b1b1a}
.small{font-size:10.5px}.bold{font-weight:600}.end{text-anchor:end}.mid{text-anchor:middle}
text.soft{fill:#5c5c58}text.dark{fill:#000}text.light{fill:#fff}
.ink{fill:#1b1b1a}.panel{fill:#f7f7f5}.grid{fill:#ececea}.line{fill:#dededa}.faint{fill:#8b8b86}.paper{fill:#fff}.path{fill:#b04a00}
@media (prefers-color-scheme:dark){text,.ink{fill:#e8e8e4}text.soft{fill:#a9aaa6}.panel{fill:#1e2024}.grid{fill:#26292d}.line{fill:#33363b}.faint{fill:#7d7e7b}.paper{fill:#16171a}.path{fill:#f0a35e}}`

// WriteTo writes the drawing as a file.
func (d *Drawing) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+d.text(` xmlns="http://www.w3.org/2000/svg"`, "<style>"+Style+"</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n")+"\n")
	return int64(n), err
}

// Inline is the drawing as an element of an HTML page, whose style sheet has the classes of Style.
func (d *Drawing) Inline() string { return d.text("", "") }

func (d *Drawing) text(attributes, first string) string {
	var b strings.Builder
	size := Num(d.width) + " " + Num(d.Height)
	fmt.Fprintf(&b, "<svg%s viewBox=\"0 0 %s\" width=\"%s\" height=\"%s\" role=\"img\">\n<title>%s</title>\n", attributes, size, Num(d.width), Num(d.Height), escape(d.title))
	if d.desc != "" {
		fmt.Fprintf(&b, "<desc>%s</desc>\n", escape(d.desc))
	}
	b.WriteString(first)
	b.WriteString(d.body.String())
	b.WriteString("</svg>")
	return b.String()
}

// escape makes a text safe between tags and in attributes. Every character is one that XML allows.
func escape(s string) string { return html.EscapeString(plain.Line(s)) }

// Num writes a length with at most one decimal.
func Num(x float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// paint is the attribute for a class of Style or, of "#rrggbb", the colour.
func paint(fill string) string {
	if strings.HasPrefix(fill, "#") {
		return `fill="` + fill + `"`
	}
	return `class="` + fill + `"`
}

// Rect adds a filled rectangle, with a tip that a pointer shows unless it is "".
func (d *Drawing) Rect(x, y, width, height float64, fill, tip string) {
	fmt.Fprintf(&d.body, `<rect x="%s" y="%s" width="%s" height="%s" %s`, Num(x), Num(y), Num(width), Num(height), paint(fill))
	if tip == "" {
		d.body.WriteString("/>\n")
		return
	}
	fmt.Fprintf(&d.body, "><title>%s</title></rect>\n", escape(tip))
}

// Text adds a line of text with its baseline at y. It is cut to fit the room; room 0: it is not.
func (d *Drawing) Text(x, y float64, class, text string, room float64) {
	cut := fit(plain.Line(text), class, room)
	if cut == "" {
		return
	}
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(&d.body, `<text x="%s" y="%s"%s>`, Num(x), Num(y), class)
	if cut != text {
		fmt.Fprintf(&d.body, "<title>%s</title>", escape(text))
	}
	d.body.WriteString(escape(cut) + "</text>\n")
}

// Path adds a filled path.
func (d *Drawing) Path(fill, data string) {
	if data != "" {
		fmt.Fprintf(&d.body, "<path %s d=\"%s\"/>\n", paint(fill), data)
	}
}

// charWidth is about the mean width of a character, in px.
func charWidth(class string) float64 {
	width := 7.2
	if strings.Contains(class, "small") {
		width = 6.3
	}
	if strings.Contains(class, "bold") {
		width *= 1.08
	}
	return width
}

// TextWidth is about the width of a text.
func TextWidth(text, class string) float64 {
	return charWidth(class) * float64(len([]rune(text)))
}

// fit cuts a text to a width; it is "" if not even three characters fit.
func fit(text, class string, room float64) string {
	if room <= 0 {
		return text
	}
	runes := []rune(text)
	most := int(room / charWidth(class))
	switch {
	case len(runes) <= most:
		return text
	case most < 3:
		return ""
	}
	return string(runes[:most-1]) + "…"
}

// Box adds a rectangle of a path.
func Box(b *strings.Builder, x, y, width, height float64) {
	b.WriteString("M" + Num(x) + " " + Num(y) + "h" + Num(width) + "v" + Num(height) + "h" + Num(-width) + "z")
}
