package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/files"
	"github.com/overlapse/overlapse/trace"
)

// A Folder holds the batches and the axes of a sweep. The first write makes it.
type Folder struct {
	Files *files.Set
	Path  string
}

// names are those of its files.
func (f Folder) names() ([]string, error) {
	entries, err := os.ReadDir(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (f Folder) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(f.Path, name)) }

// write writes the whole file or nothing.
func (f Folder) write(name string, data []byte) error {
	if err := os.MkdirAll(f.Path, 0o777); err != nil {
		return err
	}
	return f.Files.WriteBytes(filepath.Join(f.Path, name), data)
}

const (
	axesPrefix  = "plan-"
	batchPrefix = "batch-"
	axesSuffix  = ".json"
	batchSuffix = ".jsonl"
	maxTime     = 1 << 53 // ns; above it, sums over seeds overflow
)

// SaveAxes writes the axes, if they are not there.
func SaveAxes(f Folder, a *Axes) error {
	name := axesPrefix + a.Digest() + axesSuffix
	names, err := f.names()
	if err != nil {
		return err
	}
	if slices.Contains(names, name) {
		return nil
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return f.write(name, append(text, '\n'))
}

// SaveBatch writes records as one batch.
func SaveBatch(f Folder, records []Record) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return f.write(batchPrefix+digest(text.Bytes())+batchSuffix, text.Bytes())
}

// Finished reads the records of all batches by id. Two records of one id with other times
// are a conflict, which is an error that names both batches.
func Finished(f Folder, into map[string]Record) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	from := map[string]string{}
	for _, name := range names {
		if !strings.HasPrefix(name, batchPrefix) || !strings.HasSuffix(name, batchSuffix) {
			continue
		}
		text, err := f.read(name)
		if err != nil {
			return err
		}
		at := filepath.Join(f.Path, name)
		if name != batchPrefix+digest(text)+batchSuffix {
			return &trace.SyntaxError{File: at, Msg: "its content is not what was written", Cure: "remove the file: its cells are replayed again"}
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, len(text)+1)
		for n := int64(1); lines.Scan(); n++ {
			var r Record
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				return &trace.SyntaxError{File: at, Pos: n, Unit: "line", Msg: "no record", Err: err}
			}
			if times := []int64{r.Time, r.Fastest, r.Slowest, r.Captured, r.Exposed}; slices.Min(times) < 0 || slices.Max(times) > maxTime {
				return &trace.SyntaxError{File: at, Pos: n, Unit: "line", Msg: fmt.Sprintf("a time of cell %s is not within 0 and %d ns", r.ID, int64(maxTime))}
			}
			if was, ok := into[r.ID]; ok {
				was.Seconds = r.Seconds
				if was != r {
					first := from[r.ID]
					if first == "" {
						first = "another folder"
					}
					return &trace.SyntaxError{
						File: at, Pos: n, Unit: "line", Msg: fmt.Sprintf("conflict: cell %s took %d ns, and %d ns in %s", r.ID, r.Time, into[r.ID].Time, first),
						Cure: "the same input gave two results: look which program wrote them, and remove the wrong batch",
					}
				}
				continue
			}
			into[r.ID], from[r.ID] = r, name
		}
	}
	return nil
}

// readAxes reads the axes of a file, whose name is the hash of what was written.
func readAxes(f Folder, name string) (*Axes, error) {
	text, err := f.read(name)
	if err != nil {
		return nil, err
	}
	a, at := &Axes{}, filepath.Join(f.Path, name)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, &trace.SyntaxError{File: at, Msg: "no plan of a sweep", Err: err}
	}
	cells := product(len(a.Inputs), len(a.Machines), len(a.WhatIf), len(a.Clocks), len(a.Ranks), len(a.Retargets), len(a.Strategies), len(a.Seeds))
	if name != axesPrefix+a.Digest()+axesSuffix || cells == 0 || cells > MaxCells {
		return nil, &trace.SyntaxError{File: at, Msg: "its content is not what was written", Cure: "remove the file, and give the plan: overlapse sweep PLAN.yaml --merge FOLDER..."}
	}
	return a, nil
}

// StoredAxes reads the axes of the sweep that folders hold. Several sweeps are an error: the
// caller names one by its plan.
func StoredAxes(folders []Folder) (*Axes, error) {
	found := map[string]*Axes{}
	var last *Axes
	for _, f := range folders {
		names, err := f.names()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !strings.HasPrefix(name, axesPrefix) || !strings.HasSuffix(name, axesSuffix) {
				continue
			}
			a, err := readAxes(f, name)
			if err != nil {
				return nil, err
			}
			found[name], last = a, a
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s: no sweep (give the folder that overlapse sweep -o wrote)", folders[0].Path)
	case 1:
		return last, nil
	}
	return nil, fmt.Errorf("%s: %d plans (give the plan file too: overlapse sweep PLAN.yaml --merge FOLDER...)", folders[0].Path, len(found))
}
