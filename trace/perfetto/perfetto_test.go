package perfetto

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A message is a protobuf message being written.
type message []byte

func (m message) n(id protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, id, protowire.VarintType), v)
}

func (m message) s(id protowire.Number, v string) message {
	return protowire.AppendString(protowire.AppendTag(m, id, protowire.BytesType), v)
}

func (m message) m(id protowire.Number, v message) message { return m.s(id, string(v)) }

// trackOf describes a track.
func trackOf(uuid, parent uint64, name string, inner protowire.Number, v message) message {
	t := message{}.n(1, uuid).s(2, name).n(5, parent)
	if inner != 0 {
		t = t.m(inner, v)
	}
	return message{}.m(60, t)
}

// note is a debug annotation whose name is not interned.
func note(key string, v uint64) message { return message{}.s(10, key).n(3, v) }

// event is a packet with a track event.
func event(at, kind, track uint64, name, category string, notes ...message) message {
	e := message{}.n(9, kind).n(11, track)
	if name != "" {
		e = e.s(23, name).s(22, category)
	}
	for _, n := range notes {
		e = e.m(4, n)
	}
	return message{}.n(8, at).n(10, 1).m(11, e)
}

func traceOf(packets ...message) []byte {
	var b message
	for _, p := range packets {
		b = b.m(1, p)
	}
	return b
}

func describe(run *trace.Run) string {
	var b strings.Builder
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%s %d %s%s %q %d-%d", l.Kind, l.ID, l.Name, s.Kind, run.NameOf(s), s.Start, s.End)
		if k := run.Kernel(s); k != nil {
			u := run.Setup(k)
			fmt.Fprintf(&b, " grid %v block %v lds %d vgprs %d", u.Grid, u.Block, u.Shared, u.Registers)
		}
		if c := run.Copy(s); c != nil {
			fmt.Fprintf(&b, " %s %d", c.Dir, c.Bytes)
		}
		b.WriteString("\n")
	}
	for _, e := range run.Ledger.Entries {
		fmt.Fprintf(&b, "%s %s ×%d\n", e.Action, e.Reason, e.Count)
	}
	return b.String()
}

// rocprofv3's trace: a thread, a queue, a track of copies.
func rocprofTrace() []byte {
	return traceOf(
		trackOf(1, 0, "", 3, message{}.n(1, 77).s(6, "app")),
		trackOf(2, 1, "THREAD 1 (78)", 4, message{}.n(1, 77).n(2, 78)),
		trackOf(3, 1, "COMPUTE AGENT [2] QUEUE [0] GPU", 0, nil),
		trackOf(4, 1, "COPY to AGENT [2] THREAD [1] (GPU)", 0, nil),
		event(1000, 1, 2, "hipLaunchKernel", "hip_api", note("corr_id", 5)),
		event(1050, 2, 2, "", ""),
		event(1100, 1, 3, "k()", "kernel_dispatch", note("corr_id", 5), note("queue", 0), note("agent", 2), note("LDS_Block_Size", 512),
			note("VGPR_Count", 32), note("Accum_VGPR_Count", 4), note("workgroup_size", 256), note("grid_size", 1000)),
		event(1190, 2, 3, "", ""),
		event(1200, 1, 4, "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", note("copy_bytes", 4096), message{}.s(10, "dst_agent").s(6, "2")),
		event(1250, 2, 4, "", ""),
		event(1300, 3, 2, "here", "marker_api"),
	)
}

func TestReadRocprof(t *testing.T) {
	run := must.Have(Read(bytes.NewReader(rocprofTrace()), "x.pftrace", unbounded))(t)
	want := `thread 78 launch "hipLaunchKernel" 0-50
queue 0 compute "k()" 100-190 grid [4 1 1] block [256 1 1] lds 512 vgprs 36
engine 1 host to devicecopy "MEMORY_COPY_HOST_TO_DEVICE" 200-250 host to device 4096
thread 78 marker "here" 300-300
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if run.Clock != 1000 || len(run.Ranks) != 1 {
		t.Errorf("clock %d, ranks %+v", run.Clock, run.Ranks)
	}
}

// Names by number, times as differences in microseconds, packets in a packet.
func TestReadInterned(t *testing.T) {
	snapshot := message{}.
		m(1, message{}.n(1, 64).n(2, 10).n(3, 1).n(4, 1000)).
		m(1, message{}.n(1, bootTime).n(2, 5_000_000))
	defaults := message{}.n(58, 64).m(11, message{}.n(11, 9))
	intern := message{}.m(2, message{}.n(1, 1).s(2, "tile")).m(1, message{}.n(1, 1).s(2, "kernel"))
	step := func(by, kind uint64) message {
		e := message{}.n(9, kind)
		if kind == begin {
			e = e.n(10, 1).n(3, 1)
		}
		return message{}.n(8, by).n(10, 3).m(11, e)
	}
	inside := traceOf(step(1, begin), step(2, end))
	var squeezed bytes.Buffer
	z := zlib.NewWriter(&squeezed)
	_, _ = z.Write(inside)
	z.Close()
	data := traceOf(
		trackOf(9, 0, "block 3", 0, nil),
		message{}.n(10, 3).n(13, 1).m(6, snapshot).m(59, defaults).m(12, intern),
		step(1, begin), step(3, begin), step(1, end), step(4, end),
		message{}.m(50, squeezed.Bytes()),
		message{}.n(10, 3).n(13, 1), // forgets the names
		step(1, begin),
		step(1, end),
		step(1, end),
		step(5, begin),
		step(1, 4),
	)
	run := must.Have(Read(bytes.NewReader(data), "x.pftrace", unbounded))(t)
	want := `thread 0 block 3marker "tile" 0-8000
thread 0 block 3marker "tile" 3000-4000
thread 0 block 3marker "tile" 9000-11000
thread 0 block 3marker "" 12000-13000
thread 0 block 3marker "" 19000-20000
skipped an end without a beginning ×1
skipped counters and other events that are no slices ×1
repaired a beginning without an end: ends with the trace ×1
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if run.Clock != 5_001_000 { // the first event is one microsecond after the snapshot
		t.Errorf("clock %d", run.Clock)
	}
}

func TestReadErrors(t *testing.T) {
	good := rocprofTrace()
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"cut short", good[:len(good)-3], "t:byte 489: the file ends inside a packet (it may be cut short: copy it again)"},
		{"no packet", []byte("\x08\x01"), "t:byte 0: no packet begins here: field 1 of type 0"},
		{"too large", []byte("\x0a\xff\xff\xff\xff\x7f"), "t:byte 0: a packet of 34359738367 bytes: the most is 268435456"},
		{"no message", traceOf(message("\x0a\x05a")), "t:byte 0: a packet is not a protobuf message (is this a Perfetto trace?)"},
		{"nothing", traceOf(trackOf(1, 0, "x", 0, nil)), "t: nothing to show: no slices (record track events or render stages: with rocprofv3, --kernel-trace or --sys-trace)"},
	} {
		_, err := Read(bytes.NewReader(c.data), "t", unbounded)
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%s: error\n     %v, want\n     %s", c.name, err, c.want)
		}
	}
}

// unbounded takes whatever packets inflate to.
func unbounded(r io.Reader, _ int) io.Reader { return r }

// What packets inflate to is read within the bounds that the caller sets.
func TestReadBoundsCompressedPackets(t *testing.T) {
	var squeezed bytes.Buffer
	z := zlib.NewWriter(&squeezed)
	_, _ = z.Write(traceOf(trackOf(9, 0, "x", 0, nil)))
	z.Close()
	spent := errors.New("too much")
	size := 0
	_, err := Read(bytes.NewReader(traceOf(message{}.m(50, squeezed.Bytes()))), "x", func(_ io.Reader, n int) io.Reader {
		size = n
		return iotest.ErrReader(spent)
	})
	if !errors.Is(err, spent) || size != squeezed.Len() {
		t.Errorf("%d bytes: %v", size, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(rocprofTrace())
	f.Add(stagesTrace())
	f.Add(traceOf(message{}.n(10, 3).m(6, message{}.m(1, message{}.n(1, 64).n(2, 1<<62).n(3, 1).n(4, 1<<40))), event(1<<63, 1, 5, "a", "b")))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := Read(bytes.NewReader(data), "fuzz", unbounded)
		if err != nil {
			var syntax *trace.SyntaxError
			if !errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > int64(len(data)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		for _, s := range run.Spans {
			if s.Start < 0 || s.End < s.Start || s.End > run.End {
				t.Fatalf("span from %d to %d", s.Start, s.End)
			}
			_, _ = run.NameOf(s), run.Ranks[run.RankOf(s)]
		}
	})
}

func BenchmarkRead(b *testing.B) {
	packets := []message{
		trackOf(1, 0, "", 3, message{}.n(1, 77)), trackOf(3, 1, "QUEUE", 0, nil),
		message{}.n(10, 1).m(12, message{}.m(2, message{}.n(1, 1).s(2, "kernel<float>(float*)")).m(1, message{}.n(1, 1).s(2, "kernel_dispatch")).
			m(3, message{}.n(1, 1).s(2, "corr_id")).m(3, message{}.n(1, 2).s(2, "grid_size"))),
	}
	const n = 50000
	for i := range uint64(n) {
		e := message{}.n(9, begin).n(11, 3).n(10, 1).n(3, 1).m(4, message{}.n(1, 1).n(3, i+1)).m(4, message{}.n(1, 2).n(3, 1024))
		packets = append(packets, message{}.n(8, 1000+i*100).n(10, 1).m(11, e), message{}.n(8, 1090+i*100).n(10, 1).m(11, message{}.n(9, end).n(11, 3)))
	}
	data := traceOf(packets...)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if run, err := Read(bytes.NewReader(data), "bench", unbounded); err != nil || len(run.Spans) != n {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e6, "Mslices/s")
}
