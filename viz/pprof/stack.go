package pprof

import (
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// A stack is what samples are summed over.
type stack struct {
	rank   int32
	kind   trace.Kind
	name   trace.NameID
	op     int32 // row of Operators + 1, or -1 - CollectiveOp; 0 where unknown
	stream int64
	bytes  int64
	idle   string // cause; "": not idle
}

// A builder sums spans into samples. Samples and frames are in the order in
// which they are first needed, which is the order of the run's spans.
type builder struct {
	run     *trace.Run
	profile *profile.Profile
	samples map[stack]*profile.Sample
	frames  map[string]*profile.Location
}

func (b *builder) stackOf(s trace.Span) stack {
	at := stack{rank: b.run.Lanes[s.Lane].Rank, kind: s.Kind, name: s.Name, stream: b.run.Lanes[s.Lane].ID}
	if c := b.run.Copy(s); c != nil {
		at.stream, at.bytes = c.Stream, c.Bytes
		at.op = c.Op + 1
		return at
	}
	k := b.run.Kernel(s)
	if k == nil {
		return at
	}
	at.stream = b.run.Setup(k).Stream
	at.op = k.Op + 1
	if c := b.run.Comm(s); c != nil {
		at.bytes = c.Bytes()
		at.op = -1 - int32(c.Op)
	}
	return at
}

func (b *builder) opName(key int32) string {
	if key < 0 {
		return trace.CollectiveOp(-1 - key).String()
	}
	return b.run.Operators[key-1].Name
}

// sample returns the values of the stack's sample, adding it if it is new.
func (b *builder) sample(at stack) []int64 {
	if s, ok := b.samples[at]; ok {
		return s.Value
	}
	s := sample{&profile.Sample{
		Value:    make([]int64, numValues),
		Label:    map[string][]string{},
		NumLabel: map[string][]int64{},
		NumUnit:  map[string][]string{},
	}}
	rank := int64(b.run.RankID(at.rank))
	root := b.frame(fmt.Sprintf("rank %d", rank))
	s.number("rank", rank, "rank")
	switch {
	case at.idle != "":
		s.Location = []*profile.Location{b.frame(at.idle), b.frame("idle"), root}
	default:
		s.Location = []*profile.Location{b.frame(b.run.Names[at.name]), b.frame(at.kind.String()), root}
		s.Label["kind"] = []string{at.kind.String()}
	}
	if at.kind.OnDevice() && at.idle == "" {
		s.number("stream", at.stream, "stream")
	}
	if at.op != 0 {
		s.Label["op"] = []string{guard.Line(b.opName(at.op))}
	}
	if at.bytes > 0 {
		s.number("bytes", at.bytes, "bytes")
	}
	b.samples[at] = s.Sample
	b.profile.Sample = append(b.profile.Sample, s.Sample)
	return s.Value
}

type sample struct{ *profile.Sample }

// number adds a numeric label. pprof takes the 0 in `-tagfocus=rank=0` for a
// number, so ranks must be some, and loses a 0 that has no unit.
func (s sample) number(key string, v int64, unit string) {
	s.NumLabel[key] = []int64{v}
	s.NumUnit[key] = []string{unit}
}

func (b *builder) frame(name string) *profile.Location {
	if name == "" {
		name = "(no name)"
	}
	if l, ok := b.frames[name]; ok {
		return l
	}
	id := uint64(len(b.frames) + 1)
	shown := guard.Line(name) // go tool pprof prints it as it is
	f := &profile.Function{ID: id, Name: shown, SystemName: shown}
	l := &profile.Location{ID: id, Mapping: b.profile.Mapping[0], Line: []profile.Line{{Function: f}}}
	b.profile.Function = append(b.profile.Function, f)
	b.profile.Location = append(b.profile.Location, l)
	b.frames[name] = l
	return l
}
