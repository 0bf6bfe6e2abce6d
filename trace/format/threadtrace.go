package format

import (
	"errors"
	"io"
	"io/fs"
	"os" // opening what the user names is what this package is for
	"path/filepath"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/rocprof"
)

// The files of a thread trace of rocprofv3, in a folder ui_output_*, that say
// which waves were where, and when.
const (
	occupancyFile = "occupancy.json"
	realtimeFile  = "realtime.json"
)

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
		realtime = &bounded{r: f, left: o.limit(), limit: o.limit()}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, &trace.SyntaxError{File: folder, Msg: "cannot open", Err: err}
	}
	run, err := rocprof.ReadOccupancy(&bounded{r: occupancy, left: o.limit(), limit: o.limit()}, realtime, folder)
	if err != nil {
		return nil, err
	}
	return trace.Merge([]*trace.Run{run}, folder)
}
