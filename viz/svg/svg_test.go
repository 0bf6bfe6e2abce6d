package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/rapidtest"
	"github.com/overlapse/overlapse/viz/viztest"
)

func file(t testing.TB, d *Drawing) string {
	t.Helper()
	var b bytes.Buffer
	if n, err := d.WriteTo(&b); err != nil || int(n) != b.Len() {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return b.String()
}

func TestRows(t *testing.T) {
	viztest.Golden(t, "rows.svg", file(t, Rows(Graph{
		Title: "Utilisation", To: 100_000, Width: 700,
		Groups: []Group{{"bulk", []Quantity{
			{Name: "SMs", Color: "#56b4e9", Most: 1, Points: []Point{{0, 0}, {1000, 1}, {61_000, 0.25}, {90_000, 0}}},
			{Name: "links", Color: "#cc79a7", Most: 450, Unit: "GB/s", Points: []Point{{62_000, 311}}},
			{Name: "nothing", Color: "#000000", Points: nil},
		}}},
	})))
}

// elements counts the elements of a document, which must be well-formed.
func elements(text string) (map[string]int, error) {
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if e, ok := token.(xml.StartElement); ok {
			found[e.Name.Local]++
		}
	}
}

// Whatever a trace's names hold, they stay text: the document is well-formed and has the
// elements of the same trace with harmless names, and each name twice gives the same bytes.
func TestHostileText(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.Just(`</text><script>alert(1)</script>`), rapid.Just(`"><image href="x"/>`), rapid.Just("\x00\x1b]0;\xff]]>\u202e")).Draw(t, "name")
		draw := func(name string) string {
			return Rows(Graph{Title: name, Desc: name, Groups: []Group{{name, []Quantity{{Name: name, Color: "#000000"}}}}}).Inline()
		}
		got := draw(name)
		found, err := elements("<all>" + got + "</all>")
		if err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		for element := range found {
			if !strings.Contains(" all svg title desc rect text path g ", " "+element+" ") {
				t.Fatalf("name %q became <%s>", name, element)
			}
		}
		if got != draw(name) {
			t.Fatal("two drawings of the same differ")
		}
	})
}
