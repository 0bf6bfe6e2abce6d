package chrome

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/klauspost/compress/flate"

	"github.com/overlapse/overlapse/trace"
)

// nativeVersion is the version of nativeHeader. A reader of a lower version must reject it.
const nativeVersion = 2

// A nativeHeader is the value of the key "overlapse" in a trace written by this package, before its events: the whole run but for its
// ledger. The events say the same to other tools, and Read does not read them.
type nativeHeader struct {
	Version int
	trace.Run
	Names []string
	Rows  [][]byte // of nativeTables: numbers of fixed size, little-endian, compressed by DEFLATE
}

// nativeTables are the large tables of a run.
func nativeTables(r *trace.Run) []any {
	return []any{&r.Spans, &r.Kernels, &r.Setups, &r.Copies, &r.Workgroups, &r.Calls, &r.Waits}
}

// newNativeHeader is that of a run.
func newNativeHeader(run *trace.Run) (h nativeHeader, err error) {
	h = nativeHeader{Version: nativeVersion, Run: *run, Names: run.Names}
	for _, table := range nativeTables(run) {
		var packed bytes.Buffer
		z, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err == nil {
			err = binary.Write(z, binary.LittleEndian, table)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			return h, err
		}
		h.Rows = append(h.Rows, packed.Bytes())
	}
	return h, nil
}

// mostInflation is more than the rows of a run are compressed.
const mostInflation = 250

// nativeRun is the run that a header has.
func (d *reader) nativeRun(v []byte) (*trace.Run, error) {
	var h nativeHeader
	if err := json.Unmarshal(v, &h); err != nil {
		return nil, err
	}
	run := &h.Run
	tables := nativeTables(run)
	switch {
	case h.Version > nativeVersion:
		return nil, fmt.Errorf("version %d, newer than this program", h.Version)
	case h.Version < nativeVersion || len(h.Rows) != len(tables):
		return nil, fmt.Errorf("version %d with %d tables, older than this program", h.Version, len(h.Rows))
	}
	run.Names = h.Names
	for i, table := range tables {
		most := min(d.o.Limit, mostInflation*int64(len(h.Rows[i])))
		rows, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(h.Rows[i])), most))
		if err != nil {
			return nil, err
		}
		list := reflect.ValueOf(table).Elem()
		n := len(rows) / binary.Size(reflect.Zero(list.Type().Elem()).Interface())
		list.Set(reflect.MakeSlice(list.Type(), n, n))
		if _, err := binary.Decode(rows, binary.LittleEndian, table); err != nil {
			return nil, err
		}
	}
	for i := range run.Comms {
		run.Comms[i].Collective = trace.None
	}
	for _, s := range run.Spans {
		run.End = max(run.End, s.End)
	}
	if err := trace.Validate(run); err != nil {
		return nil, err
	}
	run.MatchCollectives()
	return run, nil
}
