package tui

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// capture is a run of two ranks with one of everything: an annotation, nested
// host calls that launch kernels, two streams, an all_reduce that rank 0 waits
// in, a copy, and a link.
func capture(name string, stretch trace.Time) *trace.Run {
	var b trace.Builder
	group := b.AddGroup(trace.Group{Name: "tp", Ranks: []int{0, 1}, Size: 2})
	for rank := range int32(2) {
		b.AddRank(trace.Rank{ID: int(rank), World: 2, Device: trace.Device{Name: "H200"}})
		lane := func(k trace.LaneKind, id int64) trace.LaneID {
			return b.Lane(trace.Lane{Kind: k, Rank: rank, ID: id, Peer: trace.None})
		}
		add := func(k trace.Kind, lane trace.LaneID, from, to trace.Time, name string, attr int32) trace.SpanID {
			return b.Add(trace.Span{Kind: k, Lane: lane, Start: from * stretch, End: to * stretch, Name: b.Intern(name), Parent: trace.None, Attr: attr})
		}
		call := func(correlation int64) int32 { return b.AddCall(trace.Call{Correlation: correlation, Op: trace.None}) }
		late := trace.Time(15 * rank)
		host := lane(trace.HostThread, 100)
		add(trace.HostCall, host, 0, 60, "aten::mm", call(0))
		add(trace.Launch, host, 20, 40, "cudaLaunchKernel", call(7))
		add(trace.Marker, lane(trace.Annotation, 0), 50, 480, "step 1", trace.None)
		gemm := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Grid: [3]int32{132, 1, 1}, Block: [3]int32{384, 1, 1}, Shared: 212992, Registers: 168, Stream: 7}), Correlation: 7, Comm: trace.None, Op: b.AddOperator(trace.Operator{Name: "aten::mm", Dims: [][]int64{{8192, 4096}, {4096, 1024}}})})
		add(trace.Compute, lane(trace.Queue, 7), 100, 200+late, "void cutlass::gemm_128x256<float>(Params)", gemm)
		add(trace.Compute, lane(trace.Queue, 7), 205+late, 210+late, "add", trace.None)
		add(trace.Compute, lane(trace.Queue, 7), 420, 470, "softmax", trace.None)
		comm := b.AddComm(trace.Comm{Op: trace.AllReduce, Group: group, In: 64 << 20, Out: 64 << 20, DType: "bf16", Peer: trace.None})
		add(trace.Collective, lane(trace.Queue, 20), 220+late, 400, "ncclDevKernel_AllReduce", b.AddKernel(trace.Kernel{Comm: comm, Op: trace.None}))
		add(trace.Transfer, b.Lane(trace.Lane{Kind: trace.Link, Rank: rank, Peer: 1 - rank}), 240, 390, "all_reduce",
			b.AddCopy(trace.CopyAttr{Bytes: 64 << 20, Peer: 1 - rank, Op: trace.None}))
		add(trace.Copy, lane(trace.Engine, 0), 410, 419, "Memcpy HtoD",
			b.AddCopy(trace.CopyAttr{Bytes: 1 << 20, Dir: trace.HostToDevice, Peer: trace.None, Op: trace.None}))
	}
	return b.Finish(trace.Options{Name: name})
}

// fused is a run of one fused kernel as a simulation records it: workgroups
// compute two tiles for a peer and then two that stay, the slowest of a cluster
// puts; then all wait.
func fused(workgroups int) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None})
	end := trace.Time(4200)
	kernel := b.Add(trace.Span{Kind: trace.Compute, Lane: queue, End: end, Name: b.Intern("fused"), Parent: trace.None, Attr: trace.None})
	for wg := range workgroups {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		at, each := trace.Time(0), trace.Time(900+7*(wg*5%16))
		for tile := range 4 {
			peer := int32(1 - tile/2)
			attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(tile*workgroups + wg), Persistent: int32(wg), CU: int32(wg), Peer: peer, Row: trace.None, Col: trace.None})
			s := trace.Span{Kind: trace.Workgroup, Lane: lane, Start: at, End: at + each, Name: b.Intern("fused"), Parent: kernel, Attr: attr}
			s.Parent = b.Add(s)
			s.Kind, s.Name = trace.PhaseCompute, b.Intern("compute")
			b.Add(s)
			if s.Start = s.End; wg%16 == 3 { // the slowest: 3·5 % 16 = 15
				s.Kind, s.Name = trace.PhasePut, b.Intern("put")
				if peer == 0 {
					s.Name = b.Intern("slice ready")
				}
				b.Add(s)
			}
			at += each
		}
		s := trace.Span{Kind: trace.Workgroup, Lane: lane, Start: at, End: end, Name: b.Intern("fused"), Parent: kernel, Attr: trace.None}
		s.Parent = b.Add(s)
		s.Kind, s.Name = trace.PhaseWait, b.Intern("sliceRdy 3")
		b.Add(s)
	}
	return b.Finish(trace.Options{Name: "fused", Simulated: true})
}

// both is what the tests browse: a capture and a simulation of it that is quicker.
func both() []layout.View {
	return []layout.View{
		{Run: capture("moe", 1000), Name: "captured"},
		{Run: capture("moe", 800), Name: "decompose", Gaps: []overlap.Reason{
			{Rank: 0, Queue: 7, Start: 168_000, End: 336_000, Cause: "flag", Note: "all_reduce of rank 1"},
		}},
	}
}

// hostile is a run whose every name attacks the terminal.
func hostile() *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: trace.None, Source: "\x1b]0;title\a/\x1b[2Jfile", Device: trace.Device{Name: "GPU\u202e\u0085"}})
	for i, name := range hostileNames() {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: int64(i), Peer: trace.None, Name: name})
		b.Add(trace.Span{Kind: trace.Compute, Lane: lane, Start: 0, End: 1000, Name: b.Intern(name), Parent: trace.None, Attr: trace.None})
	}
	return b.Finish(trace.Options{Name: "\x1b[31mred\n\r\t"})
}

// extreme is a run with times that no trace should have.
func extreme() *trace.Run {
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
	for _, s := range []trace.Span{{Start: -1 << 60, End: -1 << 59}, {Start: 0, End: 0}, {Start: 1, End: 2}, {Start: 3, End: 1 << 61}} {
		s.Kind, s.Lane, s.Parent, s.Attr = trace.Compute, lane, trace.None, trace.None
		b.Add(s)
	}
	return b.Finish(trace.Options{KeepZero: true})
}

func hostileNames() []string {
	return []string{
		"\x1b[2J\x1b[H\x1b]52;c;aGk=\a",
		"\u009b31m\u0090q",
		"\u202eevil\u2066 \u200f",
		strings.Repeat("long ", 1<<18),
		"a" + strings.Repeat("\u0301", 1<<16),
		"\u0301\u0301start",
		"漢字カーネル名前とても長い名前",
		"👩‍👩‍👧‍👦 family 🏳️‍🌈",
		"שלום עולם קרנל",
		"\xff\xfe\x80 not UTF-8",
		"\x00\x7f\t\r\n",
		strings.Repeat("\u200b", 5000),
		"",
	}
}

// screen is a surface that model.Draw was called on, as text, without the
// blanks at the ends of lines.
func screen(m *model, width, height int) string {
	return textOf(drawn(m, width, height))
}

func drawn(m *model, width, height int) *tcell.CellBuffer {
	var cells tcell.CellBuffer
	cells.Resize(width, height)
	m.Draw(&cells)
	return &cells
}

func textOf(cells *tcell.CellBuffer) string {
	var b strings.Builder
	w, h := cells.Size()
	for y := range h {
		var line strings.Builder
		for x := 0; x < w; {
			s, _, wide := cells.Get(x, y)
			line.WriteString(s)
			x += max(1, wide)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// colorsOf shows each cell's colours: a class's letter for its background, a
// small one for the foreground, r for reversed, b bold, a comma for dim.
func colorsOf(cells *tcell.CellBuffer) string {
	class := map[tcell.Color]byte{}
	for _, c := range layout.Classes() {
		class[tcell.PaletteColor(int(c.Ink().Ansi))] = c.Ink().Letter
	}
	var b strings.Builder
	w, h := cells.Size()
	for y := range h {
		var line strings.Builder
		for x := range w {
			_, style, _ := cells.Get(x, y)
			line.WriteByte(colorOf(style, class))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func colorOf(style tcell.Style, class map[tcell.Color]byte) byte {
	fg, bg, attrs := style.Decompose()
	switch {
	case class[bg] != 0:
		return class[bg]
	case class[fg] != 0:
		return class[fg] | 0x20
	case attrs&tcell.AttrReverse != 0:
		return 'r'
	case attrs&tcell.AttrBold != 0:
		return 'b'
	case attrs&tcell.AttrDim != 0:
		return ','
	}
	return ' '
}

// press sends keys by the names of bindings, separated by blanks.
func press(m *model, keys string) effect {
	var last effect
	for _, k := range strings.Fields(keys) {
		last = m.Update(keyNamed(k))
	}
	return last
}

func keyNamed(name string) *tcell.EventKey {
	if name == "Space" {
		return tcell.NewEventKey(tcell.KeyRune, ' ', 0)
	}
	if r := []rune(name); len(r) == 1 {
		return tcell.NewEventKey(tcell.KeyRune, r[0], 0)
	}
	for k, n := range tcell.KeyNames {
		if n == name {
			return tcell.NewEventKey(k, 0, 0)
		}
	}
	panic(fmt.Sprintf("no key %q", name))
}

// crowdedRun is a run of a fused kernel of four workgroups, the last of which puts often.
func crowdedRun() *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	for wg := range 4 {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Persistent: int32(wg), CU: 0, Peer: 1, Row: trace.None, Col: trace.None})
		s := trace.Span{Kind: trace.Workgroup, Lane: lane, End: 100_000, Name: b.Intern("k"), Parent: trace.None, Attr: attr}
		s.Parent = b.Add(s)
		for i := range 1 + 60*(wg/3) { // the last has many
			at := trace.Time(i) * 1500
			b.Add(trace.Span{Kind: trace.PhasePut, Lane: lane, Start: at, End: at, Name: b.Intern("put"), Parent: s.Parent, Attr: attr})
		}
	}
	return b.Finish(trace.Options{KeepZero: true})
}

// twoKindsRun is a run of a workgroup that puts often and is told as often that a slice is ready.
func twoKindsRun() *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, Peer: trace.None})
	attr := b.AddWorkgroup(trace.WorkgroupAttr{CU: 0, Peer: 1, Row: trace.None, Col: trace.None})
	own := b.AddWorkgroup(trace.WorkgroupAttr{CU: 0, Peer: trace.None, Row: trace.None, Col: trace.None})
	s := trace.Span{Kind: trace.Workgroup, Lane: lane, End: 100_000, Name: b.Intern("k"), Parent: trace.None, Attr: attr}
	s.Parent = b.Add(s)
	for i := range 120 {
		mark := trace.Span{Kind: trace.PhasePut, Lane: lane, Start: trace.Time(i) * 800, End: trace.Time(i) * 800, Name: b.Intern("put"), Parent: s.Parent, Attr: attr}
		if i >= 60 {
			mark.Kind, mark.Name, mark.Attr = trace.Marker, b.Intern("slice ready"), own
		}
		b.Add(mark)
	}
	return b.Finish(trace.Options{KeepZero: true})
}
