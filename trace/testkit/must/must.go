// Package must ends a test at a call that fails although the test is about something else.
package must

// T is a test: *testing.T, *testing.B, *testing.F or *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Have gives what a call returned, if it returned no error:
//
//	run := must.Have(format.Open(path, format.Options{}))(t)
func Have[V any](value V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Do ends the test if a call returned an error:
//
//	must.Do(t, os.WriteFile(path, text, 0o600))
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
