package machine

import (
	"strings"
	"testing"
)

// TestTwice checks that every key that stands twice in one mapping is an error, at any
// depth, with the errors found later in the order of lines.
func TestTwice(t *testing.T) {
	const text = "a: 1\nb: {c: 2, c: 3}\nlist:\n- {d: 1}\n- {d: 2, d: 3}\na: 4\n"
	body, errs, err := Read(strings.NewReader(text), "x.yaml", 1000, "a test")
	if err != nil {
		t.Fatal(err)
	}
	errs.Fail(Pairs(body)[0].Key, "", "first")
	want := "x.yaml:1:1: first\nx.yaml:2:11: b.c stands twice, first at line 2 (keep one)\n" +
		"x.yaml:5:10: list.d stands twice, first at line 5 (keep one)\nx.yaml:6:1: a stands twice, first at line 1 (keep one)"
	if got := errs.Err(); got == nil || got.Error() != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if n := len(Pairs(body)); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}
