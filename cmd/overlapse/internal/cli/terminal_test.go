package cli

import (
	"bytes"
	"testing"

	"github.com/overlapse/overlapse/trace/guard"
)

// The answer is bold on terminals that draw it; nothing of a trace reaches one as an escape sequence.
func TestHead(t *testing.T) {
	for _, c := range []struct {
		term, noColor, want string
	}{
		{"xterm-256color", "", "\x1b[1mless ·[2J\n\x1b[0m"},
		{"xterm-256color", "1", "less ·[2J\n"},
		{"dumb", "", "less ·[2J\n"},
		{"", "", "less ·[2J\n"},
	} {
		var out bytes.Buffer
		con := Console{Out: guard.Writer(&out), Data: &out}
		con.bold = drawsBold(func(name string) string { return map[string]string{"TERM": c.term, "NO_COLOR": c.noColor}[name] })
		con.Head("less \x1b[2J")
		if out.String() != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: %q, want %q", c.term, c.noColor, out.String(), c.want)
		}
	}
}
