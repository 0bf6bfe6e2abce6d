package lex

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields go where they are said to go, whether by a map or often; others are passed over, and a broken message says so.
func TestFields(t *testing.T) {
	m := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	m = protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), "two")
	m = protowire.AppendVarint(protowire.AppendTag(m, 3, protowire.VarintType), 1<<64-1)
	m = protowire.AppendBytes(protowire.AppendTag(m, 4, protowire.BytesType), []byte{1, 2, 3})
	m = protowire.AppendVarint(protowire.AppendTag(m, 4, protowire.VarintType), 4)
	m = protowire.AppendFixed64(protowire.AppendTag(m, 500, protowire.Fixed64Type), 5)
	m = protowire.AppendString(protowire.AppendTag(m, 6, protowire.BytesType), "nobody's")
	var (
		number uint64
		text   string
		signed int64
		list   []int64
		high   uint64
		called string
		set    bool
		raw    []byte
	)
	fields := Fields{1: &number, 2: &text, 3: &signed, 4: &list, 500: &high}
	const want = "7 two -1 [1 2 3 4] 5"
	for _, read := range []func([]byte) bool{fields.Read, fields.Often()} {
		number, text, signed, list, high = 0, "", 0, nil, 0
		if !read(m) {
			t.Error("broken")
		}
		if got := fmt.Sprint(number, " ", text, " ", signed, list, high); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	other := Fields{1: &set, 2: &raw, 6: func(f Field) { called = string(f.Bytes) }}
	if !other.Read(m) || !set || string(raw) != "two" || called != "nobody's" {
		t.Errorf("%v, %q, %q", set, raw, called)
	}
	if other.Read(m[:len(m)-1]) || other.Often()(m[:1]) {
		t.Error("a message that is cut short is whole")
	}
}

func TestMembers(t *testing.T) {
	s := ScanText(`{"a": 1, "skipped": {"a": [2]}, "b": "text", "list": [1, 2], "c": "3"}`)
	var a, c, sum int64
	var b string
	s.Members(map[string]any{"a": &a, "b": &b, "c": &c, "list": func() { s.Each(func() { sum += s.Number() }) }})
	if s.Err != nil || a != 1 || b != "text" || c != 3 || sum != 3 {
		t.Errorf("%d, %q, %d, %d: %v", a, b, c, sum, s.Err)
	}
}
