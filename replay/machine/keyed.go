package machine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/overlapse/overlapse/trace"
)

// Files of keys and values
//
// keyed.go reads YAML files of keys and values, and notes where in the file
// each error is.

// Read is the document of a YAML file of at most so many bytes, or nil where it is empty.
// A key that stands twice is in errs, and its first value in the document. what names the
// kind of file in errors, which are *trace.SyntaxError.
func Read(r io.Reader, file string, most int64, what string) (body ast.Node, errs Errors, err error) {
	errs.File = file
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, errs, fmt.Errorf("%s: %w", file, err)
	}
	if int64(len(data)) > most {
		return nil, errs, &trace.SyntaxError{File: file, Msg: fmt.Sprintf("larger than %d KiB", most>>10), Cure: "is it " + what + "?"}
	}
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	var ye yaml.Error
	switch {
	case errors.As(err, &ye) && ye.GetToken() != nil:
		at := ye.GetToken().Position
		return nil, errs, &trace.SyntaxError{File: file, Pos: int64(at.Line), Unit: "line", Col: int64(at.Column), Msg: ye.GetMessage()}
	case err != nil:
		return nil, errs, &trace.SyntaxError{File: file, Msg: "no YAML", Err: err}
	}
	for _, doc := range tree.Docs {
		if _, comment := doc.Body.(*ast.CommentGroupNode); doc.Body == nil || comment {
			continue
		}
		if body != nil {
			errs.Fail(doc.Body, "write two files", "a second document")
			break
		}
		body = doc.Body
	}
	errs.unique("", body, map[string]int{})
	return body, errs, nil
}

// unique notes keys that stand twice, and keeps the first. first is the line of each
// dotted key so far.
func (e *Errors) unique(prefix string, n ast.Node, first map[string]int) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		for _, v := range n.Values {
			e.unique(prefix, v, map[string]int{})
		}
	case *ast.MappingValueNode:
		e.unique(prefix+Key(n)+".", n.Value, first)
	case *ast.MappingNode:
		n.Values = slices.DeleteFunc(n.Values, func(v *ast.MappingValueNode) bool {
			key := prefix + Key(v)
			line, twice := first[key]
			if twice {
				e.Fail(v.Key, "keep one", "%s stands twice, first at line %d", key, line)
			} else {
				first[key] = v.Key.GetToken().Position.Line
				e.unique(key+".", v.Value, first)
			}
			return twice
		})
	}
}

// Pairs is the mapping's entries, or nil where n is none.
func Pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// Key is the text of an entry's key.
func Key(v *ast.MappingValueNode) string { return v.Key.GetToken().Value }

// Word is the text of a single value; ok is false where n is none.
func Word(n ast.Node) (text string, ok bool) {
	s, ok := n.(ast.ScalarNode)
	if !ok {
		return "", false
	}
	return s.GetToken().Value, true
}

// Errors are what is wrong in a file.
type Errors struct {
	File string
	list []*trace.SyntaxError
}

// Fail notes an error at a node; nil is the whole file.
func (e *Errors) Fail(n ast.Node, cure, format string, args ...any) {
	line, column := 0, 0
	if n != nil {
		at := n.GetToken().Position
		line, column = at.Line, at.Column
	}
	e.FailLine(line, cure, format, args...)
	e.list[len(e.list)-1].Col = int64(column)
}

// FailLine notes an error in a line; 0 is the whole file.
func (e *Errors) FailLine(line int, cure, format string, args ...any) {
	err := &trace.SyntaxError{File: e.File, Pos: int64(line), Msg: fmt.Sprintf(format, args...), Cure: cure}
	if line > 0 {
		err.Unit = "line"
	}
	e.list = append(e.list, err)
}

// Len is the number of errors so far.
func (e *Errors) Len() int { return len(e.list) }

// Err is all errors by line and column, joined, or nil.
func (e *Errors) Err() error {
	slices.SortStableFunc(e.list, func(a, b *trace.SyntaxError) int { return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Col, b.Col)) })
	var list []error
	for _, err := range e.list {
		list = append(list, err)
	}
	return errors.Join(list...)
}
