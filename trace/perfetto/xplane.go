package perfetto

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

const (
	maxPlane   = 1 << 30 // bytes of a plane
	planeField = 1       // planes of an XSpace
)

// An xplaneReader reads a profile of XLA. Numbers of fields are those of xla/tsl/profiler/protobuf/xplane.proto.
type xplaneReader struct {
	assemble.XLA
	runtime string // of the devices
}

// ReadXPlane reads a profile of XLA (JAX, *.xplane.pb) of one process with its GPUs. Its planes are the devices, the host,
// and the compiled modules.
func ReadXPlane(r io.Reader, file string) (*trace.Run, error) {
	x := &xplaneReader{XLA: assemble.XLA{Session: assemble.New(file), Devices: map[string]trace.Device{}}}
	if err := lex.Messages(r, file, "plane", maxPlane, planeField, x.plane); err != nil {
		return nil, err
	}
	for name, d := range x.Devices {
		d.RuntimeVersion = x.runtime
		x.Devices[name] = d
	}
	run := x.Finish()
	if run == nil {
		const cure = "profile a program on GPUs (jax.profiler.trace): others have no streams"
		return nil, &trace.SyntaxError{File: file, Msg: "no stream of a GPU", Err: noSlices, Cure: cure}
	}
	return run, nil
}

// A stat is a statistic of a plane, an event, or the metadata of one.
type stat struct {
	name    string
	text    string
	number  uint64
	message []byte
}

// plane reads a plane. What names its events and statistics may come behind them.
func (x *xplaneReader) plane(message []byte, at int64) error {
	name, events, names := string(lex.Last(message, 2).Bytes), map[uint64][]byte{}, map[uint64]string{}
	whole := lex.Fields{ // maps
		4: func(f lex.Field) { events[lex.Last(f.Bytes, 1).Number] = lex.Last(f.Bytes, 2).Bytes }, // event_metadata
		5: func(f lex.Field) { // stat_metadata: name
			names[lex.Last(f.Bytes, 1).Number] = string(lex.Last(lex.Last(f.Bytes, 2).Bytes, 2).Bytes)
		},
	}.Read(message)
	if !whole {
		const msg = "a plane is not a protobuf message"
		return &trace.SyntaxError{File: x.Name, Pos: at, Unit: "byte", Msg: msg, Cure: "is this a profile of JAX?"}
	}
	var device trace.Device
	amd := false
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 3: // lines
			x.line(name, f.Bytes, events, names, at)
		case 6: // stats
			s := readStat(f.Bytes, names)
			switch s.name {
			case "process_id":
				x.ID = int64(s.number)
			case "profile_start_time":
				x.Epoch = int64(s.number)
			case "cuda_runtime_version":
				if n, err := strconv.Atoi(s.text); err == nil && n > 0 { // 1000 × major + 10 × minor
					x.runtime = fmt.Sprintf("CUDA %d.%d", n/1000, n%1000/10)
				}
			case "gpu_device_name":
				device.Name = s.text
			case "device_vendor":
				amd = s.text == "AMD"
			case "core_count":
				device.CUs = int(min(s.number, math.MaxInt32))
			case "memory_size":
				device.MemoryBytes = int64(min(s.number, assemble.MaxBytes))
			case "compute_cap_major":
				device.ComputeMajor = int(min(s.number, math.MaxInt8))
			case "compute_cap_minor":
				device.ComputeMinor = int(min(s.number, math.MaxInt8))
			}
		}
	}
	if amd { // its versions are not NVIDIA's compute capabilities
		device.ComputeMajor, device.ComputeMinor, device.WaveSize = 0, 0, 64
	}
	x.Devices[name] = device
	for _, id := range slices.Sorted(maps.Keys(events)) { // modules: stats of their metadata
		entry := events[id]
		program := strconv.FormatInt(int64(id), 10) // programs without the statistic are numbered by it
		var proto []byte
		for f := (lex.Field{Rest: entry}); f.Next(); {
			if f.ID != 5 { // stats
				continue
			}
			switch s := readStat(f.Bytes, names); {
			case s.message != nil && (s.name == "Hlo Proto" || s.name == "hlo_proto"):
				proto = s.message
			case s.name == "program_id":
				program = s.text
			}
		}
		if proto != nil {
			module := lex.Last(lex.Last(proto, 1).Bytes, 1).Bytes // hlo_module: name
			x.Module(string(module), program, proto)
		}
	}
	return nil
}

// readStat reads a statistic: a number, or a text that is its own or the name of another one.
func readStat(message []byte, names map[uint64]string) (s stat) {
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 1: // metadata_id
			s.name = names[f.Number]
		case 2: // double_value
			s.text = strconv.FormatFloat(math.Float64frombits(f.Number), 'g', -1, 64)
		case 3: // uint64_value
			s.number, s.text = f.Number, strconv.FormatUint(f.Number, 10)
		case 4: // int64_value
			s.number, s.text = f.Number, strconv.FormatInt(int64(f.Number), 10)
		case 5: // str_value
			s.text = string(f.Bytes)
			s.number, _ = strconv.ParseUint(s.text, 10, 64)
		case 6: // bytes_value
			s.message = f.Bytes
		case 7: // ref_value
			s.text = names[f.Number]
		}
	}
	return s
}

// line reads the events of a line.
func (x *xplaneReader) line(plane string, message []byte, events map[uint64][]byte, names map[uint64]string, at int64) {
	e := assemble.XLAEvent{Plane: plane, At: at}
	var base uint64                                              // nanoseconds
	lex.Fields{2: &e.Line, 3: &base, 1: &e.Thread}.Read(message) // name, timestamp_ns, id
	e.Thread &= math.MaxInt64
	labels := map[uint64]string{}
	for f := (lex.Field{Rest: message}); f.Next(); {
		if f.ID == 4 { // events
			id := lex.Last(f.Bytes, 1).Number // metadata_id
			e.Name = trace.Memo(labels, id, func() string { return string(lex.Last(events[id], 2).Bytes) })
			e.Stats = x.event(e, f.Bytes, base, names)
		}
	}
}

// event reads an event, and returns the room of its statistics. Times are picoseconds from the start of its line.
func (x *xplaneReader) event(e assemble.XLAEvent, message []byte, base uint64, names map[uint64]string) [][2]string {
	const picoseconds = 1000
	e.Stats = e.Stats[:0]
	var offset, duration uint64
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 2: // offset_ps
			offset = f.Number
		case 3: // duration_ps
			duration = f.Number
		case 4: // stats
			s := readStat(f.Bytes, names)
			e.Stats = append(e.Stats, [2]string{s.name, s.text})
		}
	}
	if most := uint64(trace.MaxTime); base > most || offset > most || duration > most || base+(offset+duration)/picoseconds > most {
		x.Builder.NoteKernel(trace.Skipped, x.Name, "a time out of range", "byte", e.At)
		return e.Stats
	}
	e.Start = trace.Time(base + offset/picoseconds)
	e.End = trace.Time(base + (offset+duration)/picoseconds)
	x.Add(e)
	return e.Stats
}
