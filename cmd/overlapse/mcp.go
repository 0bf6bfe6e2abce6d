package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp FOLDER...",
		Short: "Serve inspect, replay, explain, tune, diff and view to an assistant, over the Model Context Protocol",
		Long: `Serves the Model Context Protocol on standard input and output, for assistants that read
traces. The tools are commands: inspect, replay, explain (replay --explain), tune, diff and
view, on traces below the folders, of which links must not lead out. Nothing is written.
An answer has less than 2,000 tokens, and ends with the commands that show its numbers in
the timeline. samples/capture/SKILL.md teaches an assistant the loop.`,
		Example: `  overlapse mcp traces
  {"mcpServers": {"overlapse": {"command": "overlapse", "args": ["mcp", "/data/traces"]}}}`,
		Args: needs("the folders whose traces may be read"),
		RunE: func(c *cobra.Command, args []string) error {
			roots, err := cli.NewRoots(args)
			if err != nil {
				return err
			}
			out := &unclosed{Writer: a.Data}
			return a.serve(roots).Run(c.Context(), &mcp.IOTransport{Reader: &messages{in: bufio.NewReader(a.In), out: out}, Writer: out})
		},
	}
}

// An unclosed writer is used by the server and by the check of its messages.
type unclosed struct {
	io.Writer
	mu sync.Mutex
}

// Write implements io.Writer.
func (u *unclosed) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Writer.Write(p)
}

// Close implements io.Closer.
func (*unclosed) Close() error { return nil }

// mostMessage bounds a message, mostArgument an argument of a tool; bytes.
const mostMessage, mostArgument = 1 << 20, 1000

// messages are the lines of a client that are messages of JSON-RPC. Others are answered with an error code of JSON-RPC, and the server continues.
type messages struct {
	in   *bufio.Reader
	out  io.Writer
	line []byte // what is left of one
}

// Read implements io.Reader.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.line) == 0 {
		var line []byte
		part, err := m.in.ReadSlice('\n')
		for ; ; part, err = m.in.ReadSlice('\n') {
			if len(line) <= mostMessage {
				line = append(line, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		_, bad := jsonrpc.DecodeMessage(line)
		switch blank := len(bytes.TrimSpace(line)) == 0; {
		case blank && err != nil:
			return 0, err
		case blank:
		case len(line) > mostMessage || bad != nil:
			if _, err := io.WriteString(m.out, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a line that is no message of JSON-RPC, or of more than 1 MiB"}}`+"\n"); err != nil {
				return 0, err
			}
		default:
			m.line = append(bytes.TrimSpace(line), '\n')
		}
	}
	n := copy(p, m.line)
	m.line = m.line[n:]
	return n, nil
}

// Close implements io.Closer.
func (*messages) Close() error { return nil }

// A question is the arguments of a tool. What a tool has no use for is refused.
type question struct {
	Path     string `json:"path" jsonschema:"trace: a file, a folder with a file for each rank, or a folder written by replay -o; relative to a folder that is served"`
	Other    string `json:"other,omitempty" jsonschema:"diff: the trace to compare path with; without it strategy names two strategies of path"`
	Strategy string `json:"strategy,omitempty" jsonschema:"strategies with settings, as multistream:channels=8,bulk; all if empty"`
	Machine  string `json:"machine,omitempty" jsonschema:"machine to replay on, as h200:8; that of the trace if empty"`
	At       string `json:"at,omitempty" jsonschema:"view: the address to show, as answers give them"`
}

// tools are the commands that are served, and their flags beside those of the question.
var tools = []struct {
	name, note string
	command    []string
	takes      string // of the question, beside path
}{
	{"inspect", "What a trace holds: what bounds a step, who waits for whom, collectives, kernels, pairs, and what would make predictions better. First.", []string{"inspect", "--top", "6"}, "machine"},
	{"replay", "Predicted time of a trace under the strategies of overlapping communication with computation, with probabilities, and how to get the best.", []string{"replay"}, "strategy machine"},
	{"explain", "Why: the critical path of one or two strategies, gains and losses against the captured schedule, what faster links or memory would change of the captured schedule.", []string{"replay", "--explain"}, "strategy machine"},
	{"tune", "Searches settings, one likely change after the other, with the memory of each. Takes longest.", []string{"tune"}, "strategy machine"},
	{"diff", "What makes the time of two traces, or of two strategies of one trace, differ.", []string{"diff", "--top", "5"}, "other strategy machine"},
	{"view", "The timeline at an address, as text.", []string{"view", "--print", "--ascii", "--width", "100"}, "strategy machine at"},
}

// serve is the server. One question is answered at a time.
func (a *app) serve(roots cli.Roots) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "overlapse", Version: version()}, &mcp.ServerOptions{
		Instructions: "Ask inspect about a trace, then replay; tune for settings, explain for reasons. After a change: diff of the old and the new trace. Cite the address beside a number.",
	})
	turn := make(chan struct{}, 1)
	closed := false
	for _, tool := range tools {
		mcp.AddTool(s, &mcp.Tool{Name: tool.name, Description: tool.note, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}},
			func(ctx context.Context, _ *mcp.CallToolRequest, q question) (*mcp.CallToolResult, any, error) {
				select {
				case turn <- struct{}{}:
					defer func() { <-turn }()
				case <-ctx.Done():
					return nil, nil, ctx.Err()
				}
				text, err := a.answer(ctx, roots, tool.command, tool.takes, q)
				debug.FreeOSMemory() // the trace
				if err != nil {
					return nil, nil, errors.New(cli.Shorten(err.Error(), 1000))
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
			})
	}
	return s
}

// answer runs a command on a question.
func (a *app) answer(ctx context.Context, roots cli.Roots, command []string, takes string, q question) (string, error) {
	for _, x := range []struct{ name, value string }{{"other", q.Other}, {"strategy", q.Strategy}, {"machine", q.Machine}, {"at", q.At}} {
		switch {
		case x.value == "":
		case len(x.value) > mostArgument:
			return "", fmt.Errorf("%s: %d bytes, at most %d", x.name, len(x.value), mostArgument)
		case !slices.Contains(strings.Fields(takes), x.name):
			return "", fmt.Errorf("%s: %s does not take it (leave it out)", x.name, command[0])
		case x.name != "other" && x.name != "at" && strings.ContainsAny(x.value, `/\`), strings.Contains(x.value, ".y"):
			return "", fmt.Errorf("%s: files are not read from there (give the names of strategies or machines; overlapse strategies and overlapse machines list them)", x.name)
		}
		if x.value != "" && x.name != "other" {
			command = append(slices.Clone(command), "--"+x.name+"="+x.value)
		}
	}
	command = append(slices.Clone(command), "-q", "--")
	for i, path := range []string{q.Path, q.Other} {
		if i > 0 && path == "" {
			continue
		}
		full, err := roots.Resolve(path)
		if err != nil {
			return "", err
		}
		if cli.IsYAML(full) {
			return "", fmt.Errorf("%q: a workload file names other files (give a trace)", path)
		}
		beside, err := format.Files(full, format.Options{})
		if err != nil && !results.IsResult(full) {
			return "", err
		}
		for _, file := range beside {
			if err := roots.Hold(file); err != nil {
				return "", err
			}
		}
		command = append(command, full)
	}
	var out, stderr bytes.Buffer
	b := newApp(&cli.Console{In: strings.NewReader(""), Out: guard.Writer(&out), Data: io.Discard, Err: guard.Writer(&stderr), Width: 100})
	b.Limit = a.Limit
	if code := b.run(ctx, command); code != cli.OK {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", errors.New(lines[len(lines)-1])
	}
	return bounded(out.String(), b.addresses(q.Strategy), "overlapse "+cli.ShellWords(command)), nil
}

// mostTokens bounds an answer, by tokens's estimate.
const mostTokens = 1800

// tokens estimates the tokens of a text, rather too many: four letters are one, so are two
// digits, and any other character but spaces.
func tokens(text string) int {
	quarters := 0
	for _, r := range text {
		switch {
		case r == ' ':
		case r < unicode.MaxASCII && unicode.IsLetter(r):
			quarters++
		case unicode.IsDigit(r):
			quarters += 2
		default:
			quarters += 4
		}
	}
	return quarters/4 + strings.Count(text, "  ")/2 + 1
}

// bounded is an answer with its addresses, cut to what is allowed, by whole lines.
func bounded(text string, addresses []string, command string) string {
	tail := ""
	if len(addresses) > 0 {
		tail = "\nopen in the timeline (each is an address for the tool view):\n" + strings.Join(addresses, "\n") + "\n"
	}
	left := mostTokens - tokens(tail) - tokens(command) - 20
	var b strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if left -= tokens(line); left < 0 {
			fmt.Fprintf(&b, "... %d more lines: %s\n", len(lines)-i, command)
			break
		}
		b.WriteString(line)
	}
	return b.String() + tail
}

// mostAddresses bounds the addresses below an answer.
const mostAddresses = 10

// addresses are where the numbers of the last result can be seen, by row; strategies are those
// that the question named.
func (a *app) addresses(strategies string) (list []string) {
	add := func(what string, at layout.Address) {
		if line := fmt.Sprintf("%s: %s", what, at); len(list) < mostAddresses && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	strategy := func(name, settings string) {
		text := strings.TrimSpace(name + " " + settings)
		add(text, layout.Address{Strategy: strings.ReplaceAll(text, " ", ":"), Show: text})
	}
	kernel := func(name string, at layout.Address) {
		name = trace.Short(name)
		sought, _, _ := strings.Cut(name, " and ") // a fused kernel and what it replaces
		at.Find = regexp.QuoteMeta(string([]rune(sought)[:min(48, len([]rune(sought)))]))
		add(cli.Middle(name, 40), at)
	}
	switch r := a.shown.(type) {
	case *results.Replayed:
		for _, row := range r.Rows {
			if row.Applies {
				strategy(row.Strategy, row.Settings)
			}
		}
	case *tuning:
		for _, t := range append(slices.Clone(r.Ladder), r.Tried...) {
			strategy(t.Strategy, t.Settings)
		}
	case *results.Inspection:
		j := r.JSON()
		for _, k := range j.Workload.Kernels[:min(4, len(j.Workload.Kernels))] {
			kernel(k.Name, layout.Address{})
		}
		for _, c := range j.Workload.Collectives[:min(3, len(j.Workload.Collectives))] {
			add(c.Op, layout.Address{Find: strings.ReplaceAll(c.Op, "_", "_?")})
		}
		for _, rank := range r.RankLabels()[:min(3, len(r.RankLabels()))] {
			add(rank, layout.Address{Row: rank})
		}
	case *results.Difference:
		for _, p := range r.Each() {
			for _, c := range p.Rows {
				at := layout.Address{Strategy: strategies}
				if strategies != "" {
					at.Show = r.B.Name
					if c.CountB == 0 {
						at.Show = r.A.Name
					}
				}
				if c.Group == overlap.ByKernel {
					kernel(c.Name, at)
				}
			}
		}
	}
	return list
}
