package chakra

import (
	"errors"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// TestIsTrace tells a Chakra trace from what else begins with small numbers.
func TestIsTrace(t *testing.T) {
	for _, c := range []struct {
		name, head string
		want       bool
	}{
		{"first schema, its attributes in field 1", "\x0c\x0a\x0a\x0a\x06schema\xea\x01", true},
		{"as a published file begins", "\x5e\x12\x10\x0a\x06schema\xea\x01\x05", true},
		{"a version", "\x07\x0a\x050.0.4\x05\x08\x01", true},
		{"Perfetto", "\x0a\x24\x08\x04\x10\x01\x1a", false},
		{"Perfetto, a packet as short as its tag", "\x0a\x0a\x0a\x08\x08\x04\x10\x01", false},
		{"text", "Kind,Agent_Id", false},
		{"a list of events whose indentation could be a length", "[\n  {\"cat\": \"PERF\", \"pid\": 22630, \"tid\": 22630}]", false},
		{"a list with a tab", "[\n\t{\"cat\": \"PERF\"}]", false},
		{"JSON", `{"a":1}`, false},
		{"empty", "", false},
		{"a length alone", "\x0a", false},
	} {
		if got := IsTrace([]byte(c.head)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// FuzzRead: whatever the bytes, there is a trace or an error with its place.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"\x07\x0a\x050.0.4\x05\x08\x01\x12\x01a",
		"\x09\x12\x07\x0a\x03pid\x48\x46",
		"\x00\x0a\x08\x01\x42\x06\x12\x04[[1]",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xff\xff\xff\x1f",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := Read(strings.NewReader(string(b)), "f")
		var syntax *trace.SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > int64(len(b))) {
			t.Errorf("%v", err)
		}
	})
}
