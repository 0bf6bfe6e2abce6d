package guard

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"ASCII", "void gemm<128, 256>(float*)", "void gemm<128, 256>(float*)"},
		{"letters of the world", "größe 矩阵 µs → −2.6 %", "größe 矩阵 µs → −2.6 %"},
		{"colour", "\x1b[31mred", "·[31mred"},
		{"title of the window", "\x1b]0;owned\x07", "·]0;owned·"},
		{"C1 as a character", "a\u009b31mb\u0085c", "a·31mb·c"},
		{"C1 as a byte", "a\x9b31mb", "a·31mb"},
		{"line breaks", "a\r\nb\tc\vd", "a  b c d"},
		{"delete", "a\x7fb", "a·b"},
		{"bidirectional", "a\u202eb\u202ac\u2066d\u2069e\u200ef\u200fg\u061ch", "a·b·c·d·e·f·g·h"},
		{"separators", "a\u2028b\u2029c", "a b c"},
		{"spaces", "c\u00a0d\u3000e", "c d e"},
		{"a mark without a letter", "\u0301first", "first"},
		{"right to left, as written", "שלום", "שלום"},
		{"invisible", "a\u200db\ufeff\U000e0041", "a·b··"},
		{"marks on marks", "a\u0301\u0302\u0303\u0304b", "a\u0301\u0302b"},
		{"private and unassigned", "\ue000\U000f0000", "··"},
		{"broken UTF-8", "a\xffb\xe2\x82", "a·b··"},
	} {
		if got := Line(c.in); got != c.want {
			t.Errorf("%s: Line(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// Whatever goes in, however it is cut into writes, nothing unsafe comes out,
// and safe text is not changed.
func TestNothingUnsafe(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		var whole, cut bytes.Buffer
		_, _ = io.WriteString(Writer(&whole), s)
		_, _ = io.Copy(Writer(&cut), iotest.OneByteReader(strings.NewReader(s)))
		if whole.String() != cut.String() {
			t.Fatalf("in one write %q, byte by byte %q", whole.String(), cut.String())
		}
		for _, out := range []string{whole.String(), Line(s)} {
			for _, r := range out {
				if !safe(r) && r != '\n' && r != '\t' {
					t.Fatalf("%q comes out as %q", s, out)
				}
			}
		}
		if strings.ContainsAny(Line(s), "\n\t") {
			t.Fatalf("Line(%q) has several lines: %q", s, Line(s))
		}
		if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) && whole.String() != s {
			t.Fatalf("safe text %q is changed to %q", s, whole.String())
		}
	})
}

// JSON that went through the writer is safe, and means the same.
func TestJSON(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		want := map[string]string{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value") + "\u202e\u009b\x7f\U000e0001"}
		var out bytes.Buffer
		must.Do(t, json.NewEncoder(JSON(&out)).Encode(want))
		if bad := strings.IndexFunc(strings.TrimSuffix(out.String(), "\n"), func(r rune) bool { return !safe(r) }); bad >= 0 {
			t.Fatalf("unsafe at %d of %q", bad, out.String())
		}
		var got map[string]string
		must.Do(t, json.Unmarshal(out.Bytes(), &got))
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("%q: %q became %q", k, v, got[k])
			}
		}
	})
}
