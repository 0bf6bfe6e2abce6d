package chakra

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

type message []byte

func (m message) n(id protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, id, protowire.VarintType), v)
}

func (m message) s(id protowire.Number, v string) message {
	return protowire.AppendString(protowire.AppendTag(m, id, protowire.BytesType), v)
}

// step is a step of one rank as et_def.proto of Chakra 1.0 has it: a call of the host, two products, an
// all-reduce of the first one's result beside the second, and a product that reads both.
func step(times bool) []byte {
	node := func(id uint64, name string, kind, start, took uint64, after ...uint64) message {
		m := message{}.n(1, id).s(2, name).n(3, kind)
		if times {
			m = m.n(6, start)
		}
		var packed []byte
		for _, a := range after {
			packed = protowire.AppendVarint(packed, a)
		}
		return m.n(7, took).s(5, string(packed))
	}
	host := func(m message, is uint64) message { return m.s(10, string(message{}.s(1, "is_cpu_op").n(27, is))) }
	reduce := host(node(4, "nccl:all_reduce", 7, 130, 80, 3), 0).
		s(10, string(message{}.s(1, "comm_type").n(9, 0))).s(10, string(message{}.s(1, "comm_size").n(9, 1<<20))).
		s(10, string(message{}.s(1, "pg_name").s(29, "tp"))).s(10, string(message{}.s(1, "ranks").s(10, "\x0a\x02\x00\x01")))
	var b []byte
	for _, m := range []message{
		message{}.s(1, "1.0.0"),
		host(node(1, "aten::mm", 4, 5, 10), 1),
		host(node(3, "gemm_a", 4, 20, 100, 1), 0), host(node(5, "gemm_b", 4, 120, 100, 1), 0), reduce,
		host(node(6, "wait", 4, 215, 0, 4), 1), // of the host: what depends on it depends on the all-reduce
		host(node(7, "gemm_c", 4, 230, 50, 5, 6), 0),
	} {
		b = append(protowire.AppendVarint(b, uint64(len(m))), m...)
	}
	return b
}

func TestReadRun(t *testing.T) {
	for _, c := range []struct {
		times bool
		want  []string
	}{
		{true, []string{"compute gemm_a 0-100", "compute gemm_b 100-200", "collective nccl:all_reduce 110-190", "compute gemm_c 210-260"}},
		{false, []string{"compute gemm_a 0-100", "compute gemm_b 100-200", "collective nccl:all_reduce 100-180", "compute gemm_c 200-250"}},
	} {
		run := must.Have(ReadRun(strings.NewReader(string(step(c.times))), "model.1.et"))(t)
		must.Do(t, trace.Validate(run))
		var got, depends []string
		for _, s := range run.Spans {
			got = append(got, fmt.Sprintf("%s %s %d-%d", s.Kind, run.NameOf(s), s.Start/1000, s.End/1000))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("times %v: -want +got\n%s", c.times, diff)
		}
		for _, d := range run.Depends {
			depends = append(depends, run.NameOf(run.Spans[d.To])+" "+run.NameOf(run.Spans[d.From]))
		}
		if diff := cmp.Diff([]string{"nccl:all_reduce gemm_a", "gemm_c gemm_b", "gemm_c nccl:all_reduce"}, depends); diff != "" {
			t.Errorf("dependencies -want +got\n%s", diff)
		}
		m := run.Comms[0]
		if m.Op != trace.AllReduce || m.Bytes() != 1<<20 || run.Groups[m.Group].Size != 2 || run.Ranks[0].ID != 1 {
			t.Errorf("%+v of rank %d", m, run.Ranks[0].ID)
		}
	}
	if dir := os.Getenv("CHAKRA_OUT"); dir != "" {
		for rank := range 2 {
			os.WriteFile(filepath.Join(dir, fmt.Sprintf("model.%d.et", rank)), step(false), 0o644)
		}
	}
}

// Of a trace without start times, nodes of the same name that are placed at the same time are no doubled events, and ranks with the
// same durations no copies of one file.
func TestPlacedIsNotDamaged(t *testing.T) {
	var runs []*trace.Run
	for rank := range 2 {
		var b []byte
		b = append(b, "\x02\x0a\x00"...)
		for id := range uint64(12) {
			m := message{}.n(1, id+1).s(2, "k").n(3, 4)
			if id%2 == 0 {
				m = m.n(7, 9)
			} else { // a node without a duration, beside others of its name
				m = message{}.n(1, id+1).s(2, "zero").n(3, 4)
			}
			b = append(protowire.AppendVarint(b, uint64(len(m))), m...)
		}
		run := must.Have(ReadRun(bytes.NewReader(b), fmt.Sprintf("a.%d.et", rank)))(t)
		runs = append(runs, run)
	}
	run := must.Have(assemble.Join(runs, "a"))(t)
	if d := run.Damage(); len(run.Spans) != 24 || d.Odd+d.Doubled > 0 {
		t.Errorf("%d spans, %+v", len(run.Spans), d)
	}
}

// Without durations there is nothing to replay, and nodes in a circle end.
func TestReadRunRefuses(t *testing.T) {
	untimed := strings.ReplaceAll(string(step(false)), "\x38\x64", "\x38\x00")
	untimed = strings.ReplaceAll(strings.ReplaceAll(untimed, "\x38\x50", "\x38\x00"), "\x38\x32", "\x38\x00")
	if _, err := ReadRun(strings.NewReader(untimed), "a.et"); !errors.As(err, new(trace.NoTrace)) {
		t.Errorf("error %v", err)
	}
	circle := message{}.n(1, 1).s(2, "k").n(3, 4).n(7, 9).n(5, 2)
	other := message{}.n(1, 2).s(2, "l").n(3, 4).n(7, 9).n(5, 1)
	text := "\x02\x0a\x00" + string(rune(len(circle))) + string(circle) + string(rune(len(other))) + string(other)
	run, err := ReadRun(strings.NewReader(text), "a.et")
	if err != nil || len(run.Spans) != 2 || trace.Validate(run) != nil || run.Spans[1].Start != run.Spans[0].End { // one queue
		t.Errorf("%v, %v", run, err)
	}
}

func FuzzReadRun(f *testing.F) {
	f.Add(string(step(true)))
	f.Add(string(step(false)))
	f.Fuzz(func(t *testing.T, text string) {
		run, err := ReadRun(strings.NewReader(text), "f")
		var syntax *trace.SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > int64(len(text))) {
			t.Errorf("%v", err)
		}
		if err == nil {
			if err := trace.Validate(run); err != nil {
				t.Error(err)
			}
		}
	})
}
