package program

import (
	"reflect"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// sampleProgram has a kernel of each kind and a copy; its flags are behind unused ones.
func sampleProgram(unused int) *Program {
	p := &Program{}
	p.NewFlags(unused, "not used")
	done, ready := p.NewFlag("done"), p.NewFlag("ready")
	tile := func(t int, buf []Phase) []Phase {
		return append(buf, Phase{Op: Work, Time: Time(t)}, Phase{Op: PostTo, Flag: ready, Count: 1})
	}
	p.GPUs = []GPU{{Streams: []Stream{{Name: "compute", Queue: 7, Commands: []Command{
		{Op: Launch, Kernel: &Kernel{Name: "gemm", WGs: 4, Tiles: 8, Recipe: tile, Prologue: tile, Epilogue: tile}},
		{Op: Launch, Kernel: &Kernel{Name: "all_gather", WGs: 2, Each: []Phase{{Op: Store, Bytes: 8, Peer: 1}}, Comm: &trace.Comm{Seq: 1}}},
		{Op: Start, Copy: &Copy{Name: "copy", Bytes: 4}},
		{Op: Post, Flag: done, Count: 1},
		{Op: Wait, Flag: ready, Count: 8},
	}}}}, {}}
	return p
}

func digested(unused int, change func(p *Program)) uint64 {
	p := sampleProgram(unused)
	if change != nil {
		change(p)
	}
	return p.Digest()
}

// alter gives a field another value.
func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.5)
	case reflect.Struct:
		alter(v.Field(0))
	case reflect.Array:
		alter(v.Index(0))
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
}

// The digest of equal programs is equal whatever their flags are called, and every other field counts.
func TestDigest(t *testing.T) {
	same := digested(0, nil)
	if digested(3, nil) != same {
		t.Error("flags of other numbers make another digest")
	}
	if digested(0, func(p *Program) { p.Flags = Flags{} }) != same {
		t.Error("names of flags make another digest")
	}
	command := func(p *Program, i int) *Command { return &p.GPUs[0].Streams[0].Commands[i] }
	apart := map[uint64]string{same: "no change"}
	differs := func(what string, change func(p *Program)) {
		d := digested(0, change)
		if was, ok := apart[d]; ok {
			t.Errorf("%s has the digest of %s", what, was)
		}
		apart[d] = what
	}
	for _, of := range []struct {
		name string
		at   func(p *Program) any
	}{
		{"stream", func(p *Program) any { return &p.GPUs[0].Streams[0] }},
		{"command", func(p *Program) any { return command(p, 3) }},
		{"copy", func(p *Program) any { return command(p, 2).Copy }},
		{"kernel with tiles", func(p *Program) any { return command(p, 0).Kernel }},
		{"kernel", func(p *Program) any { return command(p, 1).Kernel }},
		{"phase", func(p *Program) any { return &command(p, 1).Kernel.Each[0] }},
		{"comm", func(p *Program) any { return command(p, 1).Kernel.Comm }},
	} {
		fields := reflect.TypeOf(of.at(sampleProgram(0))).Elem()
		for i := range fields.NumField() {
			f := fields.Field(i)
			if k := f.Type.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Func || f.Name == "Flag" || of.name == "kernel with tiles" && f.Name == "Alike" {
				continue // changed below; Alike is of kernels without tiles
			}
			differs(of.name+"."+f.Name, func(p *Program) { alter(reflect.ValueOf(of.at(p)).Elem().Field(i)) })
		}
	}
	for what, change := range map[string]func(p *Program){
		"another time of one tile": func(p *Program) {
			command(p, 0).Kernel.Recipe = func(t int, buf []Phase) []Phase {
				if t == 5 {
					t = 6
				}
				return append(buf, Phase{Op: Work, Time: Time(t)}, Phase{Op: PostTo, Flag: 2, Count: 1})
			}
		},
		"another flag of the last workgroup": func(p *Program) {
			command(p, 0).Kernel.Epilogue = func(w int, buf []Phase) []Phase {
				return append(buf, Phase{Op: Work, Time: Time(w)}, Phase{Op: PostTo, Flag: Flag(2 - w/3), Count: 1})
			}
		},
		"a command less": func(p *Program) { p.GPUs[0].Streams[0].Commands = p.GPUs[0].Streams[0].Commands[:4] },
		"a stream more":  func(p *Program) { p.GPUs[1].Streams = make([]Stream, 1) },
		"equal ranks":    func(p *Program) { p.Equal = 1 },
		"an arbiter":     func(p *Program) { p.Arbiter.Policy = RoundRobin },
		"a phase more":   func(p *Program) { k := command(p, 1).Kernel; k.Each = append(k.Each, Phase{}) },
	} {
		differs(what, change)
	}
}
