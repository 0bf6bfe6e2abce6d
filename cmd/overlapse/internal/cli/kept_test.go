package cli

import (
	"io"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A reader that keeps what it reads opens a trace once.
func TestKept(t *testing.T) {
	const path = "../../../../samples/moe-down-fused-wg"
	r := Reader{Console: &Console{Out: io.Discard, Err: io.Discard, Bar: io.Discard, Quiet: true}, Kept: map[string]*trace.Run{}}
	first := must.Have(r.Open(path, ""))(t)
	if again, err := r.Open(path, ""); again != first || err != nil {
		t.Errorf("read again: %v", err)
	}
	r.Kept = nil
	if again, err := r.Open(path, ""); again == first || err != nil {
		t.Errorf("not read again: %v", err)
	}
}
