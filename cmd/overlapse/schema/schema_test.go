package schema

import (
	"slices"
	"strings"
	"testing"
)

// Texts from traces and plans are no formulas; numbers stay numbers.
func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	row := []string{"=1+1", "+x", "-x", "@x", "\tx", "\rx", "-0.5", "+1e3", "", "x=1", "ü="}
	if err := WriteCSV(&b, []string{"a"}, slices.Values([][]string{row})); err != nil {
		t.Fatal(err)
	}
	if want := "a\n'=1+1,'+x,'-x,'@x,'\tx,\"'·x\",-0.5,+1e3,,x=1,ü=\n"; b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}
