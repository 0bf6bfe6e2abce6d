package trace

import (
	"strconv"
	"strings"
	"testing"
)

// TestDamage counts damage per kernel: not per event, and not that of host calls.
func TestDamage(t *testing.T) {
	var b Builder
	queue := func(row int32) LaneID { return b.Lane(Lane{Kind: Queue, Rank: row, Peer: None}) }
	host := func(row int32) LaneID { return b.Lane(Lane{Kind: HostThread, Rank: row, Peer: None}) }
	for i := range 3 {
		b.AddRank(Rank{ID: i, Source: string(rune('a' + i))})
	}
	kernel := func(row int32, start Time) SpanID {
		k := b.AddKernel(Kernel{Comm: None, Op: None, Origin: None})
		return b.Add(Span{Kind: Compute, Start: start, End: start + 5 + Time(row), Lane: queue(row), Parent: None, Attr: k, Name: b.Intern("k")})
	}
	for row := range int32(2) {
		for i := range Time(48) {
			kernel(row, 10*i)
		}
	}
	id := kernel(0, 1000)
	b.NoteSpan(id, Repaired, "a", "negative duration", "byte", 7)
	b.NoteSpan(id, Repaired, "a", "another repair of the same kernel", "byte", 7)
	call := b.Add(Span{Kind: HostCall, Start: 1, End: 1, Lane: host(0), Parent: None, Attr: b.AddCall(Call{Op: None})})
	b.NoteSpan(call, Repaired, "a", "negative duration", "byte", 8)
	b.NoteKernel(Skipped, "b", "no time", "byte", 9)
	b.NoteKernel(Skipped, "b", Doubled, "byte", 9)
	b.Note(Skipped, "b", "counter", "byte", 10)
	for row := range int32(3) {
		for i := range 3 - row/2 {
			b.Add(Span{Start: Time(i), End: Time(i + 1), Lane: host(row), Parent: None, Attr: None, Name: b.Intern("step#" + string('0'+i))})
		}
	}
	d := b.Finish(Options{}).Damage()
	want := []string{
		"1 of 97 kernels and copies were repaired: negative duration",
		"1 kernels and copies cannot be read and are left out: no time",
		"1 kernels and copies are in the input twice: each counts once",
		"no kernels of rank 2, while the other ranks have 49 kernels and copies each: record GPU activity there too",
		"the ranks have different iterations (step): 0 to 2 of rank 0, rank 1; 0, 1 of rank 2",
	}
	if got := strings.Join(d.Sentences, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("sentences:\n%s", got)
	}
	if d.Kernels != 97 || d.Repaired != 1 || d.Skipped != 1 || d.Doubled != 1 || d.Missing != 49 {
		t.Errorf("counts: %+v", d)
	}
	if got, want := d.Share(), 52.0/148; got != want {
		t.Errorf("share %v, want %v", got, want)
	}
	var long Builder
	long.AddRank(Rank{})
	for i := range Time(1000) {
		k := long.AddKernel(Kernel{Comm: None, Op: None, Origin: None})
		long.Add(Span{Kind: Compute, Start: i, End: i + 1 + i/999*2*hour, Lane: long.Lane(Lane{Kind: Queue, Peer: None}), Parent: None, Attr: k})
	}
	if d := long.Finish(Options{}).Damage(); d.Odd != 1 || d.Share() < 0.99 || len(d.Sentences) != 1 {
		t.Errorf("a kernel of two hours among 1,000: %+v", d)
	}
	if (Damage{}).Share() != 0 {
		t.Error("a run without kernels has a share of damaged ones")
	}
}

// BenchmarkNotes notes events with ever new reasons: the time of one does not grow with
// their number.
func BenchmarkNotes(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				var l Builder
				for i := range n {
					l.Note(Noted, "file", strconv.Itoa(i), "byte", 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/note")
		})
	}
}
