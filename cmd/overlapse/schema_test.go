package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const schemaFile = "testdata/schema.golden"

// The fields of every JSON and CSV output, with their types. A field that goes or changes
// its type without a higher Version breaks what users have written, and fails here.
func TestSchema(t *testing.T) {
	got := append([]string{fmt.Sprintf("schema integer = %d", results.Version)}, schemaLines()...)
	text, err := os.ReadFile(schemaFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	if gone := broken(want, got); len(gone) > 0 {
		t.Fatalf("raise schemaVersion: readers of these fields would fail:\n%s", strings.Join(gone, "\n"))
	}
	if *update {
		must.Do(t, os.WriteFile(schemaFile, []byte(strings.Join(got, "\n")+"\n"), 0o644))
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("new fields (go test ./cmd/overlapse -run Schema -update):\n%s", d)
	}
}

func TestSchemaBreaks(t *testing.T) {
	old := []string{"schema integer = 1", "replay.path string", "replay.ranks integer"}
	for _, c := range []struct {
		name string
		now  []string
		want []string
	}{
		{"the same", old, nil},
		{"added", append(slices.Clone(old), "replay.new string"), nil},
		{"removed", old[:2], []string{"replay.ranks integer"}},
		{"retyped", []string{"schema integer = 1", "replay.path string", "replay.ranks string"}, []string{"replay.ranks integer"}},
		{"retyped in a new version", []string{"schema integer = 2", "replay.path string", "replay.ranks string"}, nil},
	} {
		if got := broken(old, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	type sample struct {
		A int               `json:"a"`
		B []*float64        `json:"b,omitempty"`
		C map[string]string `json:"c"`
		D json.RawMessage   `json:"d"`
		e int
	}
	want := []string{"x.a integer", "x.b[] number, may be absent", "x.c{} string", "x.d any"}
	if got := fieldsOf("x", reflect.TypeFor[sample](), ""); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q (and not %v)", got, want, sample{e: 1}.e)
	}
}

// broken are the old lines that the new ones lack, if the version is the same.
func broken(old, now []string) []string {
	if old[0] != now[0] {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(old), func(line string) bool { return slices.Contains(now, line) })
}

func schemaLines() []string {
	var lines []string
	for _, x := range []struct {
		name string
		of   reflect.Type
	}{
		{"replay", reflect.TypeFor[results.Replayed]()},
		{"tune", reflect.TypeFor[tuning]()},
		{"diff", reflect.TypeFor[results.Difference]()},
		{"inspect", reflect.TypeFor[results.Inspected]()},
		{"validate", reflect.TypeFor[validated]()},
		{"export.spans[]", reflect.TypeFor[results.Span]()},
	} {
		lines = append(lines, fieldsOf(x.name, x.of, "")...)
	}
	full := results.Row{Time: 1, Fastest: 1, Slowest: 1}
	r := &results.Replayed{Rows: []results.Row{full, {}}}
	lines = append(lines, columnsOf("result.csv", slices.Collect(r.CSV()))...)
	return append(lines, columnsOf("sweep.csv", sweepLines(r, make([]sweepCell, 1), "", ""))...)
}

// columnsOf are those of CSV, of a head, a row with every value and one with the fewest.
func columnsOf(path string, csv [][]any) (lines []string) {
	for i, name := range csv[0] {
		note := ""
		if csv[2][i] == nil {
			note = ", may be absent"
		}
		lines = append(lines, fieldsOf(fmt.Sprint(path, ".", name), reflect.TypeOf(csv[1][i]), note)...)
	}
	return lines
}

// fieldsOf are the values that a type has in JSON, a line each.
func fieldsOf(path string, t reflect.Type, note string) []string {
	if t.Kind() == reflect.Pointer {
		return fieldsOf(path, t.Elem(), note)
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return []string{path + " any" + note}
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return []string{path + " string" + note}
	}
	switch t.Kind() {
	case reflect.Struct:
		var lines []string
		for f := range t.Fields() {
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				lines = append(lines, fieldsOf(path, f.Type, note)...)
				continue
			case !f.IsExported() || name == "-":
				continue
			case name == "":
				name = f.Name
			}
			optional := ""
			if strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero") {
				optional = ", may be absent"
			}
			if f.Type.Kind() == reflect.Slice && f.Type.Elem() == t { // a verdict has verdicts
				lines = append(lines, path+"."+name+"[] as "+path+optional)
				continue
			}
			lines = append(lines, fieldsOf(path+"."+name, f.Type, optional)...)
		}
		return lines
	case reflect.Slice, reflect.Array:
		return fieldsOf(path+"[]", t.Elem(), note)
	case reflect.Map:
		return fieldsOf(path+"{}", t.Elem(), note)
	case reflect.String:
		return []string{path + " string" + note}
	case reflect.Bool:
		return []string{path + " boolean" + note}
	case reflect.Float32, reflect.Float64:
		return []string{path + " number" + note}
	case reflect.Interface:
		return []string{path + " any" + note}
	}
	return []string{path + " integer" + note}
}
