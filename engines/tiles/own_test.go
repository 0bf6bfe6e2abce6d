package tiles_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/tiles"
)

func TestFormulas(t *testing.T) {
	for formula, want := range map[string]string{
		"row +":                  "expected operand",
		"(row":                   "expected ')'",
		"row col":                "expected 'EOF'",
		"height":                 "position 1: a formula has whole numbers, [row col k rows cols splits], + - * / % and parentheses",
		"1/0 + len(row)":         "position 7: a formula has",
		"":                       "expected operand",
		strings.Repeat("1", 201): "formula of 201 bytes (at most 200)",
		"row*cols+(col%4)/2-k":   "",
	} {
		_, err := tiles.Tilesync.Values(map[string]string{"posts": formula})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", formula, err, want)
		}
	}
}
