package results

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Texts from traces and plans are no formulas; numbers stay numbers.
func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	row := []any{"=1+1", "+x", "-x", "@x", "\tx", "\rx", "-0.5", "+1e3", "", "x=1", "ü="}
	must.Do(t, WriteCSV(&b, slices.Values([][]any{{"a"}, row})))
	if want := "a\n'=1+1,'+x,'-x,'@x,'\tx,\"'·x\",-0.5,+1e3,,x=1,ü=\n"; b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// The columns of CSV are the fields of JSON; what has no value is empty, formulas are text.
func TestWriteTableCSV(t *testing.T) {
	type row struct {
		Name  string  `json:"name"`
		Share float64 `json:"share"`
		Time  int64   `json:"time_ns,omitempty"`
	}
	var b strings.Builder
	must.Do(t, WriteTableCSV(&b, slices.Values([]row{{"=1+1", 1.0 / 3, 0}, {"a,b", -0.5, 12}})))
	if want := "name,share,time_ns\n'=1+1,0.333333,\n\"a,b\",-0.5,12\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
