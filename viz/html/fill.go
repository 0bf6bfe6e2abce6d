package html

import (
	"fmt"
	"html"
	"html/template"
	"io"
	"reflect"
	"strings"
	"text/template/parse"
)

// fill writes a page whose gaps are filled with the fields of v. Texts are escaped, template.CSS,
// HTML and JS are not: gaps stand in text and in quoted attributes only.
//
// The pages are in the language of html/template, as far as they need it. Executing them with
// html/template would let a page call any method by its name, for which the linker keeps the
// methods of all types: 5 MB of the program (TestPages compares the two).
func fill(w io.Writer, name string, v any) error {
	trees, err := parse.Parse(name, pageFile(name), "", "", map[string]any{"or": true, "not": true})
	if err != nil {
		return err
	}
	f := filler{trees: trees, vars: map[string]reflect.Value{"$": reflect.ValueOf(v)}}
	f.list(trees[name].Root, reflect.ValueOf(v))
	_, err = io.WriteString(w, f.b.String())
	return err
}

type filler struct {
	b     strings.Builder
	trees map[string]*parse.Tree
	vars  map[string]reflect.Value
}

func (f *filler) list(l *parse.ListNode, dot reflect.Value) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			f.b.Write(n.Text)
		case *parse.ActionNode:
			v := f.pipe(n.Pipe, dot)
			if len(n.Pipe.Decl) == 0 {
				f.text(v)
			}
		case *parse.IfNode:
			f.list(branch(truth(f.pipe(n.Pipe, dot)), &n.BranchNode), dot)
		case *parse.WithNode:
			if v := f.pipe(n.Pipe, dot); truth(v) {
				f.list(n.List, v)
			} else {
				f.list(n.ElseList, dot)
			}
		case *parse.RangeNode:
			v := f.pipe(n.Pipe, dot)
			for i := range v.Len() {
				for k, d := range n.Pipe.Decl { // the value, or its index and the value
					f.vars[d.Ident[0]] = v.Index(i)
					if k == 0 && len(n.Pipe.Decl) == 2 {
						f.vars[d.Ident[0]] = reflect.ValueOf(i)
					}
				}
				f.list(n.List, v.Index(i))
			}
		case *parse.TemplateNode:
			f.list(f.trees[n.Name].Root, f.pipe(n.Pipe, dot))
		default:
			panic("not implemented: " + n.String()) // embedded at build time
		}
	}
}

func branch(is bool, n *parse.BranchNode) *parse.ListNode {
	if is {
		return n.List
	}
	return n.ElseList
}

func (f *filler) pipe(p *parse.PipeNode, dot reflect.Value) (v reflect.Value) {
	args := p.Cmds[0].Args
	switch name, _ := args[0].(*parse.IdentifierNode); {
	case name == nil:
		v = f.arg(args[0], dot)
	case name.Ident == "not":
		v = reflect.ValueOf(!truth(f.arg(args[1], dot)))
	default: // or
		for i := 1; i < len(args) && !truth(v); i++ {
			v = f.arg(args[i], dot)
		}
	}
	if len(p.Decl) == 1 {
		f.vars[p.Decl[0].Ident[0]] = v
	}
	return v
}

func (f *filler) arg(n parse.Node, dot reflect.Value) reflect.Value {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return field(dot, n.Ident)
	case *parse.VariableNode:
		return field(f.vars[n.Ident[0]], n.Ident[1:])
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	}
	panic("not implemented: " + n.String()) // embedded at build time
}

func field(v reflect.Value, names []string) reflect.Value {
	for _, name := range names {
		if c, ok := v.Interface().(*Chart); ok && name == "Height" {
			return reflect.ValueOf(c.Height())
		}
		v = reflect.Indirect(v).FieldByName(name)
	}
	return v
}

func truth(v reflect.Value) bool {
	switch {
	case !v.IsValid():
		return false
	case v.Kind() == reflect.Slice || v.Kind() == reflect.String:
		return v.Len() > 0
	}
	return v.Kind() == reflect.Struct || !v.IsZero()
}

func (f *filler) text(v reflect.Value) {
	switch x := v.Interface().(type) {
	case template.CSS, template.HTML, template.JS:
		fmt.Fprint(&f.b, x)
	default:
		f.b.WriteString(html.EscapeString(fmt.Sprint(x)))
	}
}
