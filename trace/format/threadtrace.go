package format

import (
	"errors"
	"io"
	"io/fs"
	"os" // opening what the user names is what this package is for
	"path/filepath"
	"regexp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// The files of a thread trace of rocprofv3, in a folder ui_output_*, that say
// which waves were where, and when.
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

func isThreadTracePart(head []byte) bool { return threadTraceKeys.Match(head) }

// readOccupancy reads an occupancyFile alone, in cycles: which clock they count stands in another.
func readOccupancy(r io.Reader, file string, _ Options) (*trace.Run, error) {
	return rocprof.ReadOccupancy(r, nil, file)
}

// openThreadTrace reads a folder with an occupancyFile.
func openThreadTrace(folder string, o Options) (*trace.Run, error) {
	occupancy, err := os.Open(filepath.Join(folder, occupancyFile))
	if err != nil {
		return nil, &trace.SyntaxError{File: folder, Msg: "cannot open", Err: err}
	}
	defer occupancy.Close()
	var realtime io.Reader
	switch f, err := os.Open(filepath.Join(folder, realtimeFile)); {
	case err == nil:
		defer f.Close()
		realtime = o.bounded(f)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, &trace.SyntaxError{File: folder, Msg: "cannot open", Err: err}
	}
	run, err := rocprof.ReadOccupancy(o.bounded(occupancy), realtime, folder)
	if err != nil {
		return nil, err
	}
	return alone(run, folder)
}
