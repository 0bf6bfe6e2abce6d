package main_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

const (
	module = "github.com/overlapse/overlapse"
	root   = "../.."
)

// folder has the rules for the Go files of one folder. Tests are exempt.
type folder struct {
	height   int      // an import inside the module points to a lower height
	siblings []string // folders of the same height that it may import
	uses     []string // what it may import from other modules, with everything below
	opens    bool     // it may open files
	spawns   bool     // it may start goroutines, with the help of sync
}

const command = 9 // from this height on: the command and its packages, the only ones with files, flags, signals, clock and randomness

var folders = map[string]folder{
	"trace":       {height: 0, uses: []string{"github.com/ianlancetaylor/demangle"}},
	"trace/guard": {height: 0, opens: true, spawns: true},

	"trace/lex":              {height: 1, uses: []string{protowire, sqlite}},
	"trace/assemble":         {height: 1, siblings: []string{"trace/lex"}, uses: []string{protowire}},
	"trace/overlap":          {height: 1},
	"trace/chakra":           reader(protowire),
	"trace/perfetto":         reader(protowire),
	"trace/rocprof":          reader("github.com/pierrec/lz4/v4"),
	"replay/fluid":           {height: 0},
	"replay/machine/dataset": {height: 3, uses: append([]string{"github.com/goccy/go-yaml"}, json...), opens: true},
	"replay/machine":         {height: 1, uses: []string{"github.com/goccy/go-yaml"}},
	"viz/layout":             {height: 2, spawns: true},

	"trace/format":    {height: 2, uses: gzip, opens: true, spawns: true},
	"replay/program":  {height: 2},
	"replay":          {height: 3},
	"replay/workload": {height: 3},
	"replay/edit":     {height: 4, siblings: []string{"replay/cost", "replay/lift"}},
	"replay/cost":     {height: 4},
	"replay/operator": {height: 5, uses: []string{"github.com/goccy/go-yaml"}},
	"viz/tui":         {height: 3, uses: []string{"github.com/gdamore/tcell/v2"}, spawns: true},
	"viz/html":        {height: 4, uses: []string{"github.com/go-echarts/go-echarts/v2"}},
	"viz/pprof":       {height: 3, uses: []string{"github.com/google/pprof"}},

	"replay/lift": {height: 4, uses: []string{"github.com/goccy/go-yaml"}, siblings: []string{"replay/cost"}},

	"engines/plan":    {height: 4, siblings: []string{"replay/cost", "replay/edit", "replay/lift"}},
	"engines":         {height: 6},
	"engines/verdict": {height: 7},
	"engines/score":   {height: 8, uses: []string{"github.com/goccy/go-yaml"}},

	"samples":              {height: 0},
	"samples/own-strategy": {height: command},
	"samples/figure11":     {height: command},

	"cmd/overlapse/internal/cli": {height: command + 1, spawns: true, uses: []string{
		"github.com/jedib0t/go-pretty/v6", "golang.org/x/term", "github.com/spf13/cobra", "github.com/spf13/pflag",
	}},
	"cmd/overlapse/internal/results": {height: command + 2},
	"cmd/overlapse": {height: command + 3, spawns: true, uses: []string{
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/jedib0t/go-pretty/v6/text", "github.com/modelcontextprotocol/go-sdk",
		"github.com/goccy/go-yaml",
	}},
}

// reader is the rule for a folder below trace that reads a format family. One
// that uses no other module needs no row above.
func reader(uses ...string) folder {
	return folder{height: 1, uses: uses, siblings: []string{"trace/assemble", "trace/lex"}}
}

// helpers has the packages that only tests may import. They may import what they test with.
const helpers = "trace/testkit/"

// ruleOf is the rule of a folder. A folder of trace or engines that the table does
// not name is a reader or a strategy.
func ruleOf(dir string) (rule folder, known bool) {
	if rule, known = folders[dir]; known {
		return rule, true
	}
	switch {
	case strings.HasPrefix(dir, helpers):
		return folder{height: 8}, true
	case path.Dir(dir) == "trace":
		return reader(), true
	case path.Dir(dir) == "engines":
		return folder{height: 5}, true
	}
	return folder{}, false
}

var (
	json = []string{"github.com/go-json-experiment/json"}
	gzip = []string{"github.com/klauspost/compress", "github.com/klauspost/pgzip"}
)

const (
	sync      = "golang.org/x/sync"
	sqlite    = "zombiezen.com/go/sqlite"
	protowire = "google.golang.org/protobuf/encoding/protowire"
)

// The standard library's ways to a result that differs from run to run.
var (
	impure = []string{"os", "math/rand", "crypto/rand", "syscall"}
	clock  = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
)

// TestHeights holds every Go file of the module to the rules of its folder.
func TestHeights(t *testing.T) {
	seen := 0
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		seen++
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, problem := range check(filepath.ToSlash(rel), src) {
			t.Error(problem)
		}
		return nil
	}))
	if seen < 10 {
		t.Errorf("saw %d Go files: is %s the root of the module?", seen, root)
	}
}

// TestHeightRules breaks each rule once.
func TestHeightRules(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"trace/a.go", `import "fmt"`, ""},
		{"engines/a.go", `import "` + module + `/replay/workload"`, ""},
		{"replay/workload/a.go", `import "` + module + `/replay/program"`, ""},
		{"trace/format/a.go", `import "github.com/klauspost/compress/gzip"`, ""},
		{"trace/format/a.go", `import ("os"; "golang.org/x/sync/errgroup")`, ""},
		{"cmd/overlapse/a.go", `import ("os"; "time"); var _, _ = os.Args, time.Now()`, ""},
		{"trace/format/a.go", `func f() { go f() }`, ""},
		{"engines/mine/a.go", `import "` + module + `/engines/plan"`, ""},
		{"replay/a.go", `import "time"; const tick = time.Second`, ""},
		{"trace/a_test.go", `import "os"`, ""},
		{"replay/tool.go", "//go:build ignore\n\npackage main\n\nimport \"os\"", ""},

		{"trace/a.go", `import "` + module + `/trace/chrome"`, "trace/a.go:1: imports trace/chrome: height 1 from height 0"},
		{"replay/a.go", `import "` + module + `/replay/workload"`, "replay/a.go:1: imports replay/workload: height 3 from height 3"},
		{"viz/tui/a.go", `import "` + module + `/replay/machine"`, "viz/tui/a.go:1: imports replay/machine: views know runs only"},
		{"engines/a.go", `import "` + module + `/viz/layout"`, "engines/a.go:1: imports viz/layout: only views and the command draw"},
		{"engines/a.go", `import "` + module + `/cmd/overlapse"`, "engines/a.go:1: imports cmd/overlapse: height 12 from height 6"},
		{"trace/a.go", `import "` + module + `/internal/util"`, "trace/a.go:1: imports internal/util: a folder without a height"},
		{"internal/util/a.go", ``, "internal/util/a.go: a folder without a height"},
		{"samples/other/a.go", ``, "samples/other/a.go: a folder without a height"},
		{"trace/a.go", `import "github.com/google/go-cmp/cmp"`, "trace/a.go:1: imports github.com/google/go-cmp/cmp: not a library of trace"},
		{"viz/html/a.go", `import "github.com/gdamore/tcell/v2"`, "viz/html/a.go:1: imports github.com/gdamore/tcell/v2: not a library of viz/html"},
		{"trace/rocprof/a.go", `import "zombiezen.com/go/sqliteX"`, "trace/rocprof/a.go:1: imports zombiezen.com/go/sqliteX: not a library of trace/rocprof"},
		{"cmd/overlapse/a.go", `import "` + module + `/trace/testkit/plantest"`, "cmd/overlapse/a.go:1: imports trace/testkit/plantest: only tests may"},
		{"trace/testkit/plantest/a.go", `import "` + module + `/replay/lift"`, ""},
		{"engines/a.go", `import "os/exec"`, "engines/a.go:1: imports os/exec: only the command may"},
		{"trace/format/a.go", `import "os/exec"`, "trace/format/a.go:1: imports os/exec: only the command may"},
		{"replay/a.go", `import "golang.org/x/sync/errgroup"`, "replay/a.go:1: imports golang.org/x/sync/errgroup: not a library of replay"},
		{"cmd/overlapse/a.go", `import "encoding/csv"`, "cmd/overlapse/a.go:1: imports encoding/csv: results.WriteCSV marks what a spreadsheet would execute"},
		{"replay/a.go", `import "math/rand/v2"`, "replay/a.go:1: imports math/rand/v2: only the command may"},
		{"replay/a.go", `import "time"; var t = time.Now`, "replay/a.go:1: reads the clock: time.Now"},
		{"replay/a.go", `import t "time"; var d = t.Since`, "replay/a.go:1: reads the clock: time.Since"},
		{"replay/a.go", `import . "time"`, "replay/a.go:1: imports time by a dot"},
		{"replay/a.go", "func f() {\ngo f()\n}", "replay/a.go:2: starts a goroutine"},
		{"replay/a.go", `import "sync"; func f(g *sync.WaitGroup) { g.Go(func() {}) }`, "replay/a.go:1: starts a goroutine"},
	} {
		src := c.src
		if !strings.Contains(src, "package") {
			src = "package p; " + src
		}
		if got := strings.Join(check(c.name, []byte(src)), "\n"); got != c.want {
			t.Errorf("%s\n%s\ngot  %q\nwant %q", c.name, c.src, got, c.want)
		}
	}
}

// check lists what the file, named relative to the module's root, does against the rules.
func check(name string, src []byte) []string {
	dir := path.Dir(name)
	own, known := ruleOf(dir)
	if !known {
		return []string{name + ": a folder without a height"}
	}
	if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(dir, helpers) {
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	if isTool(file) {
		return nil
	}
	var problems []string
	complain := func(at token.Pos, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", name, fset.Position(at).Line, fmt.Sprintf(format, args...)))
	}
	timeName := ""
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if why := forbidden(dir, own, imported); why != "" {
			complain(spec.Pos(), "imports %s: %s", strings.TrimPrefix(imported, module+"/"), why)
		}
		if imported == "time" {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
			if timeName == "." {
				complain(spec.Pos(), "imports time by a dot")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !own.spawns {
				complain(n.Pos(), "starts a goroutine")
			}
		case *ast.CallExpr: // sync.WaitGroup and errgroup.Group start theirs in a method
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Go" && !own.spawns {
				complain(n.Pos(), "starts a goroutine")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName && own.height < command && slices.Contains(clock, n.Sel.Name) {
				complain(n.Pos(), "reads the clock: time.%s", n.Sel.Name)
			}
		}
		return true
	})
	return problems
}

// forbidden says why the folder may not import the package, or "".
func forbidden(dir string, own folder, imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	within := func(parent string) bool { return imported == parent || strings.HasPrefix(imported, parent+"/") }
	switch to, inside := strings.CutPrefix(imported, module+"/"); {
	case inside:
		return uphill(dir, own, to)
	case strings.Contains(first, "."):
		if !slices.ContainsFunc(own.uses, within) && !(own.spawns && within(sync)) {
			return "not a library of " + dir
		}
	case imported == "encoding/csv" && strings.HasPrefix(dir, "cmd/") && dir != "cmd/overlapse/internal/results":
		return "results.WriteCSV marks what a spreadsheet would execute"
	case own.opens && imported == "os":
	case own.height < command && slices.ContainsFunc(impure, within):
		return "only the command may"
	}
	return ""
}

func uphill(dir string, own folder, to string) string {
	other, known := ruleOf(to)
	draws := func(dir string) bool { return strings.HasPrefix(dir, "viz/") }
	switch {
	case !known:
		return "a folder without a height"
	case strings.HasPrefix(to, helpers):
		return "only tests may"
	case draws(dir) && !draws(to) && !strings.HasPrefix(to, "trace"):
		return "views know runs only"
	case draws(to) && !draws(dir) && own.height < command:
		return "only views and the command draw"
	case other.height >= own.height && !slices.Contains(own.siblings, to):
		return fmt.Sprintf("height %d from height %d", other.height, own.height)
	}
	return ""
}

// isTool reports whether the file is a program run by go generate, no part of the module's packages.
func isTool(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && c.Text == "//go:build ignore" {
				return true
			}
		}
	}
	return false
}

// TestTopLevel lists the module's root. What .gitignore names there may lie about.
func TestTopLevel(t *testing.T) {
	want := map[string]bool{ // whether it must be there
		"cmd": true, "trace": true, "replay": true, "engines": true, "viz": true, "samples": true,
		"go.mod": true, "go.sum": true, "CHANGELOG.md": true, "CONTRIBUTING.md": true, "README.md": true, "LICENSE": true,
		".ci": true, ".github": true, ".golangci.yml": true, ".gitignore": true, ".git": false,
	}
	ignored := must.Have(os.Open(filepath.Join(root, ".gitignore")))(t)
	defer ignored.Close()
	for s := bufio.NewScanner(ignored); s.Scan(); {
		if name, ok := strings.CutPrefix(s.Text(), "/"); ok {
			want[strings.TrimSuffix(name, "/")] = false
		}
	}
	entries := must.Have(os.ReadDir(root))(t)
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Name()] = true
		if _, ok := want[e.Name()]; !ok {
			t.Errorf("%s does not belong at the top of the module", e.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if want[name] && !have[name] {
			t.Errorf("%s is missing at the top of the module", name)
		}
	}
}
