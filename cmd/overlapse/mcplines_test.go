package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
)

// A line that is no message is answered with an error, and the server continues; a long argument is refused and not
// echoed.
func TestMCPLines(t *testing.T) {
	in, client := io.Pipe()
	server, out := io.Pipe()
	go func() {
		run([]string{"mcp", "testdata"}, newApp(&cli.Console{In: in, Out: io.Discard, Data: out, Err: io.Discard}))
		out.Close()
	}()
	defer client.Close()
	answers := make([]byte, 1<<16)
	for _, c := range []struct{ line, want string }{
		{"garbage", "-32700"},
		{strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "-32700"},
		{`{"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}", "-32700"},
		{"5", "-32700"},
		{strings.Repeat("x", 2<<20), "-32700"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"id":1`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{"more garbage", "-32700"},
		{fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"view","arguments":{"path":"script","at":"row=%s"}}}`, strings.Repeat("a", 10_000)), "at: 10004 bytes, at most 1000"},
	} {
		if _, err := io.WriteString(client, c.line+"\n"); err != nil {
			t.Fatalf("%.20s: %v", c.line, err)
		}
		if c.want == "" {
			continue
		}
		n, err := server.Read(answers)
		if err != nil || !bytes.Contains(answers[:n], []byte(c.want)) || n > 4000 {
			t.Fatalf("%.20s: %d bytes, %v: %.300s", c.line, n, err, answers[:n])
		}
	}
}
