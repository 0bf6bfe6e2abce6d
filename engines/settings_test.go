package engines_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
)

func TestReadSettings(t *testing.T) {
	got, err := engines.ReadSettings(strings.NewReader("# rows\npolicy: own\n\nposts: row * cols + col/8 # in groups\n"), "p.yaml")
	if want := "policy=own:posts=row * cols + col/8"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if sel, err := engines.ParseSelection("tilesync:" + got); err != nil || sel[0].Values["posts"] != "row * cols + col/8" {
		t.Errorf("%v, %v", sel, err)
	}
	for _, text := range []string{"policy own", "policy:", "a: b: c", "- a", "a: b=c", ":", "a: b,c"} {
		if _, err := engines.ReadSettings(strings.NewReader("policy: own\n"+text), "p.yaml"); err == nil || !strings.HasPrefix(err.Error(), "p.yaml:line 2: no setting") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
