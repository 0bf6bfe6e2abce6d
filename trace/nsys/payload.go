package nsys

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// A payload is that of a range of NCCL, with the names of nvtx_payload_schemas.h: a JSON
// object, or binary. Versions write numbers or strings.
type payload struct {
	Communicator json.Number `json:"NCCL communicator ID"`
	Bytes        json.Number `json:"Message size [bytes]"`
	Ranks        json.Number `json:"No. of ranks"`
	Root         json.Number `json:"Root"`
	Peer         json.Number `json:"Peer rank"`
}

// field is the field with a name, or nil.
func (p *payload) field(name string) *json.Number {
	return map[string]*json.Number{
		"NCCL communicator ID": &p.Communicator, "Message size [bytes]": &p.Bytes, "No. of ranks": &p.Ranks,
		"Root": &p.Root, "Peer rank": &p.Peer,
	}[name]
}

func (p *payload) arguments() *assemble.Arguments {
	a := &assemble.Arguments{Peer: trace.None}
	a.Bytes, _ = p.Bytes.Int64()
	if n, err := p.Ranks.Int64(); err == nil {
		a.Ranks = int(assemble.Narrow(n))
	}
	if p.Communicator != "" {
		a.Communicator = "NCCL " + p.Communicator.String()
	}
	for _, peer := range [...]json.Number{p.Root, p.Peer} {
		if n, err := peer.Int64(); err == nil && n >= 0 {
			a.Peer = assemble.Narrow(n)
		}
	}
	return a
}

// An entry is a field of binary payloads.
type entry struct {
	name   string
	offset int64
	int    bool // of 4 bytes, else of 8
}

// schemas are the fields of binary payloads, by schema.
type schemas map[int64][]entry

// Types of fields, of NVTX: those of 4 bytes.
var intTypes = map[int64]bool{5: true, 6: true, 15: true, 16: true}

func (d *reader) readSchemas() schemas {
	s := schemas{}
	d.Each("NVTX_PAYLOAD_SCHEMA_ENTRIES", []string{"schemaid", "name", "offset", "type"}, func(r lex.Row) {
		if name := r.Text(1); new(payload).field(name) != nil {
			s[r.Int(0)] = append(s[r.Int(0)], entry{name, r.Int(2), intTypes[r.Int(3)]})
		}
	})
	return s
}

// decode reads a binary payload: a header of 32 bytes, with the schema at byte 8, then the
// fields. It returns false if it is none of NCCL's.
func (s schemas) decode(data string) (p payload, ok bool) {
	const header, schema = 32, 8
	b := []byte(data)
	if len(b) < header {
		return p, false
	}
	for _, e := range s[int64(binary.LittleEndian.Uint32(b[schema:]))] {
		fields := b[header:]
		switch {
		case e.offset < 0 || e.offset > int64(len(fields)):
		case e.int && e.offset+4 <= int64(len(fields)):
			*p.field(e.name), ok = json.Number(strconv.Itoa(int(int32(binary.LittleEndian.Uint32(fields[e.offset:]))))), true
		case !e.int && e.offset+8 <= int64(len(fields)):
			*p.field(e.name), ok = json.Number(strconv.FormatUint(binary.LittleEndian.Uint64(fields[e.offset:]), 10)), true
		}
	}
	return p, ok
}
