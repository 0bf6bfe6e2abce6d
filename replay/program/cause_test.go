package program

import "testing"

// A cause that is written is read as itself; a name of another version is no known cause.
func TestCauseText(t *testing.T) {
	for c := Unexplained; c < numCauses; c++ {
		text, err := c.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		got := NoWork
		if err := got.UnmarshalText(text); err != nil || got != c {
			t.Errorf("%s is read as %s, %v", text, got, err)
		}
	}
	got := NoWork
	if err := got.UnmarshalText([]byte("power")); err != nil || got != Unexplained {
		t.Errorf("an unknown name is read as %s, %v", got, err)
	}
}
