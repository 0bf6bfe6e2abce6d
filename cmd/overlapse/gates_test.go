package main_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Gates count what makes this code hard to change. Each stands at what it is now: a change may lower one, never raise it.
// A feature names the mechanism that it extends; if it adds one, an old one goes in the same merge (CONTRIBUTING.md).
var gates = map[string]int{
	"packages that build commands or phases of programs":              1,
	"files outside replay/machine and replay/cost that evaluate laws": 0,
	"value copies of a workload":                                      1,
	"structs of more than 20 fields":                                  0,
	"exported identifiers":                                            1656,
	"packages":                                                        36,
	"lines over 140 characters":                                       327,
}

// laws are the methods of replay/machine that say how long a collective, a GEMM or a pass over memory takes, or at what rate.
var laws = func() map[string]bool {
	of := map[string]string{
		"Library": "Time ChannelsFor Relative CoRun Spread WireShares Carried Expected Clusters Runs",
		"GPU":     "StreamAt GatherAt SumAt LookupAt HitShare VectorRatio",
		"Machine": "Grouped GroupedWithTile LawWithTile WithTile WithSplits LonePipe Pipe Tiling TileTimeFactor Moving",
	}
	all := map[string]bool{}
	for on, names := range of {
		for _, name := range strings.Fields(names) {
			all[on+"."+name] = true
		}
	}
	return all
}()

const mostFields, mostColumns = 20, 140

func TestGates(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks the module")
	}
	found := map[string][]string{}
	for _, p := range productionPackages(t) {
		p.count(func(gate, what string) { found[gate] = append(found[gate], what) })
	}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		list := found[gate]
		slices.Sort(list)
		switch list = slices.Compact(list); {
		case len(list) > gates[gate]:
			t.Errorf("%s: %d, %d allowed:\n\t%s", gate, len(list), gates[gate], strings.Join(list, "\n\t"))
		case len(list) < gates[gate]:
			t.Errorf("%s: %d, fewer than the gate of %d: lower the gate", gate, len(list), gates[gate])
		}
	}
}

// A checked is a package of the module without its tests.
type checked struct {
	path  string // below the module
	files map[string]*ast.File
	lines map[string][]byte
	fset  *token.FileSet
	info  types.Info
	pkg   *types.Package
}

// count says each thing that a gate counts.
func (p *checked) count(say func(gate, what string)) {
	say("packages", p.path)
	for _, name := range p.pkg.Scope().Names() {
		obj := p.pkg.Scope().Lookup(name)
		if obj.Exported() {
			say("exported identifiers", p.path+"."+name)
		}
		if s, ok := obj.Type().Underlying().(*types.Struct); ok && s.NumFields() > mostFields {
			if _, isType := obj.(*types.TypeName); isType {
				say("structs of more than 20 fields", p.path+"."+name)
			}
		}
		if named, ok := obj.Type().(*types.Named); ok && obj.Exported() && named.Obj() == obj {
			for m := range named.Methods() {
				if m.Exported() {
					say("exported identifiers", p.path+"."+name+"."+m.Name())
				}
			}
		}
	}
	for file, f := range p.files {
		for i, line := range bytes.Split(p.lines[file], []byte("\n")) {
			if len(bytes.ReplaceAll(line, []byte("\t"), []byte("    "))) > mostColumns {
				say("lines over 140 characters", p.position(file, i+1))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if of := p.named(n); of == "replay/program.Command" || of == "replay/program.Phase" {
					say("packages that build commands or phases of programs", p.path)
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || strings.HasPrefix(p.path, "replay/machine") || p.path == "replay/cost" {
					break
				}
				if laws[strings.TrimPrefix(p.named(sel.X), "replay/machine.")+"."+sel.Sel.Name] {
					say("files outside replay/machine and replay/cost that evaluate laws", file)
				}
			case *ast.AssignStmt:
				for _, rhs := range n.Rhs {
					if star, ok := rhs.(*ast.StarExpr); ok && p.named(star) == "replay/workload.Workload" {
						say("value copies of a workload", p.position(file, p.fset.Position(star.Pos()).Line))
					}
				}
			}
			return true
		})
	}
}

func (p *checked) position(file string, line int) string { return file + ":" + strconv.Itoa(line) }

// named is the package and name of an expression's type, or of what it points to; "" if it is of another module or has no name.
func (p *checked) named(e ast.Expr) string {
	t := p.info.TypeOf(e)
	if t == nil {
		return ""
	}
	if to, ok := t.Underlying().(*types.Pointer); ok {
		t = to.Elem()
	}
	n, ok := t.(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return ""
	}
	in, ok := strings.CutPrefix(n.Obj().Pkg().Path(), module+"/")
	if !ok {
		return ""
	}
	return in + "." + n.Obj().Name()
}

// productionPackages type-checks the packages of the module that are no tests' helpers.
func productionPackages(t *testing.T) (all []*checked) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var own [][]string
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		exports[fields[0]] = fields[1]
		if strings.HasPrefix(fields[0], module) && !strings.Contains(fields[0], "/testkit") && len(fields) > 3 {
			own = append(own, fields)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, fields := range own {
		p := &checked{
			path: strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/"), fset: fset, files: map[string]*ast.File{}, lines: map[string][]byte{},
			info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}},
		}
		var files []*ast.File
		for _, name := range strings.Fields(fields[3]) {
			body, err := os.ReadFile(filepath.Join(fields[2], name))
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(fset, name, body, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			file := p.path + "/" + name
			p.files[file], p.lines[file], files = f, body, append(files, f)
		}
		if p.pkg, err = (&types.Config{Importer: imports}).Check(fields[0], fset, files, &p.info); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
