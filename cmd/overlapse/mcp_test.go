package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// served is a client of `overlapse mcp` on folders, over its standard input and output.
func served(t *testing.T, folders ...string) *mcp.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(append([]string{"mcp"}, folders...), newApp(&cli.Console{In: in, Out: io.Discard, Data: out, Err: io.Discard}))
		out.Close()
	}()
	session := must.Have(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil))(t)
	t.Cleanup(func() {
		session.Close()
		toServer.Close()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("the server does not end with its client")
		}
	})
	return session
}

// ask calls a tool, and checks that the answer is bounded.
func ask(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (text string, isError bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	// Tables have three characters a token or more, with those of padding not counted.
	if n := utf8.RuneCountInString(regexp.MustCompile(`  +`).ReplaceAllString(text, "  ")) / 3; n > 2000 {
		t.Errorf("%s %v: about %d tokens:\n%s", tool, args, n, text)
	}
	return text, r.IsError
}

// Every tool answers about the sample, in time and size, and every address that it gives opens.
func TestMCP(t *testing.T) {
	s := served(t, "../../samples")
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 6 {
		t.Fatalf("%v, %d tools", err, len(tools.Tools))
	}
	for _, tool := range tools.Tools {
		if !tool.Annotations.ReadOnlyHint || tool.InputSchema == nil {
			t.Errorf("%+v", tool)
		}
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		want []string
	}{
		{"inspect", map[string]any{"path": "fsdp-step"}, []string{"bound by  compute 88.9 %", "all_gather", "rank 0"}},
		{"replay", map[string]any{"path": "fsdp-step"}, []string{"set reshard_after_forward=False: ", "strategy: multistream keep_gathered=on", "reshard_after_forward=False", "show=multistream+keep_gathered"}},
		{"explain", map[string]any{"path": "moe-ep4", "strategy": "fused"}, []string{"critical path"}},
		{"tune", map[string]any{"path": "fsdp-step", "strategy": "multistream"}, []string{"one change after the other", "keep_gathered=on"}},
		{"diff", map[string]any{"path": "moe-ep4", "strategy": "bulk,fused"}, []string{" µs per step (2.1 %) faster"}},
		{"diff", map[string]any{"path": "moe-ep4", "other": "moe-ep4"}, []string{"take the same time"}},
		{"view", map[string]any{"path": "moe-ep4", "strategy": "fused", "at": "show=fused"}, []string{"rank 0"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			start := time.Now()
			text, failed := ask(t, s, c.tool, c.args)
			t.Logf("%.1f s, %d characters, about %d tokens", time.Since(start).Seconds(), len(text), tokens(text))
			for _, want := range c.want {
				if failed || !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			_, list, found := strings.Cut(text, "\nopen in the timeline")
			if found == (c.tool == "view") {
				t.Errorf("addresses: %v\n%s", found, text)
			}
			lines := strings.Split(strings.TrimSpace(list), "\n")[1:]
			for _, line := range lines[:min(3, len(lines))] {
				_, at, _ := strings.Cut(line, ": ")
				args := map[string]any{"path": c.args["path"], "at": at}
				if shown, failed := ask(t, s, "view", args); failed || !strings.Contains(shown, "rank 0") || strings.Contains(at, "find=") && !strings.ContainsAny(shown, "#[") {
					t.Errorf("%s: %s", line, shown)
				}
			}
		})
	}
}

// Nothing outside of the folders is read, nothing is written, and an error says what to do.
func TestMCPHostilePaths(t *testing.T) {
	dir := t.TempDir()
	root, outside := filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	const secret = `{"traceEvents":[{"ph":"X","cat":"kernel","name":"SECRET","pid":0,"tid":7,"ts":1,"dur":5,"args":{"stream":7}}]}`
	for _, d := range []string{root + "/links", root + "/archives", outside, root + "-beside"} {
		must.Do(t, os.MkdirAll(d, 0o777))
	}
	write := func(name, text string) {
		must.Do(t, os.WriteFile(name, []byte(text), 0o666))
	}
	write(outside+"/secret.json", secret)
	write(root+"-beside/secret.json", secret)
	write(root+"/plan.yaml", "machine: ../outside/m.yaml\n")
	write(root+"/text.json", "SECRET of another kind")
	for link, to := range map[string]string{"/out.json": outside + "/secret.json", "/links/rank0.json": "../../outside/secret.json", "/folder": outside} {
		must.Do(t, os.Symlink(to, root+link))
	}
	var z bytes.Buffer
	zw := zip.NewWriter(&z)
	f, _ := zw.Create("../../outside/evil.json")
	fmt.Fprint(f, secret)
	zw.Close()
	write(root+"/archives/slip.zip", z.String())
	z.Reset()
	tw := tar.NewWriter(&z)
	_ = tw.WriteHeader(&tar.Header{Name: "rank0.json", Typeflag: tar.TypeSymlink, Linkname: outside + "/secret.json"})
	tw.Close()
	write(root+"/archives/link.tar", z.String())
	before := tree(t, dir)
	s := served(t, root)
	for _, path := range []string{
		"../outside/secret.json", "links/../../outside/secret.json", outside + "/secret.json", root + "-beside/secret.json", "../root-beside/secret.json",
		"out.json", "links", "folder", "folder/secret.json", "out.json\x00.json", "", "-", "/dev/stdin", "/etc/passwd", "../out*/*.json", "*", "plan.yaml", "text.json", "nothing.json",
		"archives/link.tar", "--machine=x", strings.Repeat("../", 500) + "etc/passwd", strings.Repeat("a", 10000),
	} {
		for _, tool := range []string{"inspect", "diff"} {
			args := map[string]any{"path": path}
			if tool == "diff" {
				args = map[string]any{"path": "archives", "other": path}
			}
			text, failed := ask(t, s, tool, args)
			if !failed || text == "" || strings.Contains(text, `"SECRET"`) || strings.Contains(text, "root:") {
				t.Errorf("%s %.60q: %v %.500s", tool, path, failed, text)
			}
		}
	}
	if text, failed := ask(t, s, "inspect", map[string]any{"path": "nothing.json"}); !failed || !strings.Contains(text, "give a path in there") {
		t.Error(text)
	}
	for _, args := range []map[string]any{
		{"path": "archives/slip.zip", "machine": "../outside/m.yaml"},
		{"path": "archives/slip.zip", "strategy": "tilesync:/etc/passwd"},
		{"path": "archives/slip.zip", "strategy": "tilesync:mine.yaml"},
		{"path": "archives/slip.zip", "machine": "h200:2", "output": "x"},
		{"path": "archives/slip.zip", "at": "show=x"},
		{"path": 7},
		{},
	} {
		if text, failed := ask(t, s, "replay", args); !failed {
			t.Errorf("%v: %s", args, text)
		}
	}
	_, _ = ask(t, s, "inspect", map[string]any{"path": "archives/slip.zip"}) // it holds a trace, whatever it is called
	if after := tree(t, dir); after != before {
		t.Errorf("written:\n%s\nbefore:\n%s", after, before)
	}
}

// tree lists the files below a folder, with their sizes.
func tree(t *testing.T, dir string) (list string) {
	t.Helper()
	must.Do(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil {
			list += fmt.Sprintln(name, info.Size())
		}
		return err
	}))
	return list
}

// A trace with many kernels of many names gets a bounded answer, and a question that is
// withdrawn ends.
func TestMCPLarge(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString(`{"traceEvents":[`)
	for i := range 60_000 {
		fmt.Fprintf(&b, `{"ph":"X","cat":"kernel","name":"kernel_%d_%s","pid":0,"tid":7,"ts":%d,"dur":9,"args":{"device":0,"stream":7,"correlation":%d}},`+"\n", i%5000, strings.Repeat("long", 60), 10*i, i)
	}
	b.WriteString(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":9,"ts":5,"dur":9,"args":{"device":0,"stream":9,"Collective name":"allreduce","Group size":8}}]}`)
	must.Do(t, os.WriteFile(dir+"/large.json", []byte(b.String()), 0o666))
	s := served(t, dir)
	for _, tool := range []string{"inspect", "view"} {
		if text, failed := ask(t, s, tool, map[string]any{"path": "large.json"}); failed || len(text) < 200 {
			t.Errorf("%s: %s", tool, text)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "replay", Arguments: map[string]any{"path": "large.json", "machine": "h200:8"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a replay of 480,000 kernels in 0.3 s: %v", err)
	}
	if text, failed := ask(t, s, "inspect", map[string]any{"path": "nothing"}); !failed || !strings.Contains(text, "nothing of this name") {
		t.Errorf("afterwards: %s", text)
	}
}

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
