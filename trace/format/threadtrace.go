package format

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/regular"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// The files of a thread trace of rocprofv3 (folder ui_output_*) with the
// residency of waves and its clock.
const (
	occupancyFile = "occupancy.json"
	realtimeFile  = "realtime.json"
)

var (
	// occupancyList is how occupancyFile begins: a shader engine's list of waves.
	occupancyList = regexp.MustCompile(`^\s*\{\s*"\d+"\s*:\s*\[\s*(\[|\])`)
	// threadTraceKeys are the first keys of the other files in the folder.
	threadTraceKeys = regexp.MustCompile(`^\s*\{\s*("(code|wave_filenames|counter_names)"\s*:|"SE\d+"\s*:\s*\[|"name"\s*:\s*"[^"]*",\s*"state"\s*:|"duration"\s*:\s*\d+,\s*"name")`)
)

// readOccupancy reads an occupancyFile. The realtimeFile
// in the same folder converts its cycles to time; without it times are cycles.
func readOccupancy(in *input) (*trace.Run, error) {
	var realtime io.Reader
	if in.disk != nil {
		switch f, err := regular.Open(filepath.Join(filepath.Dir(in.disk.Name()), realtimeFile)); {
		case err == nil:
			defer f.Close()
			realtime = in.bounded(f)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, &trace.SyntaxError{File: in.name, Msg: "cannot open", Err: err}
		}
	}
	return rocprof.ReadOccupancy(in.text(), realtime, in.name)
}

// openThreadTrace reads a folder with an occupancyFile.
func (o Options) openThreadTrace(folder string) (*trace.Run, error) {
	run, err := o.openFile(filepath.Join(folder, occupancyFile), folder)
	if err != nil {
		return nil, err
	}
	return alone(run, folder)
}
