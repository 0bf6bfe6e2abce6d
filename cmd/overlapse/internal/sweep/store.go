package sweep

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A Store holds the batches and the axes of a sweep: a folder, or objects of one prefix.
type Store interface {
	Names(ctx context.Context) ([]string, error)               // of what was written, without folders
	Read(ctx context.Context, name string) ([]byte, error)     // the whole
	Write(ctx context.Context, name string, data []byte) error // the whole or nothing
	String() string                                            // for messages
}

const (
	axesPrefix  = "plan-"
	batchPrefix = "batch-"
	axesSuffix  = ".json"
	batchSuffix = ".jsonl"
	maxTime     = 1 << 53 // ns; above it, sums over seeds overflow
)

// SaveAxes writes the axes, if they are not there.
func SaveAxes(ctx context.Context, s Store, a *Axes) error {
	name := axesPrefix + a.Digest() + axesSuffix
	names, err := s.Names(ctx)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == name {
			return nil
		}
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return s.Write(ctx, name, append(text, '\n'))
}

// SaveBatch writes records as one batch.
func SaveBatch(ctx context.Context, s Store, records []Record) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return s.Write(ctx, batchPrefix+digest(text.Bytes())+batchSuffix, text.Bytes())
}

// Finished reads the records of all batches by id. Two records of one id with other times
// are a conflict, which is an error that names both batches.
func Finished(ctx context.Context, s Store, into map[string]Record) error {
	names, err := s.Names(ctx)
	if err != nil {
		return err
	}
	from := map[string]string{}
	for _, name := range names {
		if !strings.HasPrefix(name, batchPrefix) || !strings.HasSuffix(name, batchSuffix) {
			continue
		}
		text, err := s.Read(ctx, name)
		if err != nil {
			return err
		}
		at := path.Join(s.String(), name)
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
func readAxes(ctx context.Context, s Store, name string) (*Axes, error) {
	text, err := s.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	a, at := &Axes{}, path.Join(s.String(), name)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, &trace.SyntaxError{File: at, Msg: "no plan of a sweep", Err: err}
	}
	cells := product(len(a.Inputs), len(a.Machines), len(a.WhatIf), len(a.Clocks), len(a.Ranks), len(a.Retargets), len(a.Strategies), len(a.Seeds))
	if name != axesPrefix+a.Digest()+axesSuffix || cells == 0 || cells > MaxCells {
		return nil, &trace.SyntaxError{File: at, Msg: "its content is not what was written", Cure: "remove the file, and give the plan: overlapse sweep PLAN.yaml --merge FOLDER..."}
	}
	return a, nil
}

// StoredAxes reads the axes of the sweep that a store holds. Several sweeps are an error: the
// caller names one by its plan.
func StoredAxes(ctx context.Context, stores []Store) (*Axes, error) {
	found := map[string]*Axes{}
	var last *Axes
	for _, s := range stores {
		names, err := s.Names(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !strings.HasPrefix(name, axesPrefix) || !strings.HasSuffix(name, axesSuffix) {
				continue
			}
			a, err := readAxes(ctx, s, name)
			if err != nil {
				return nil, err
			}
			found[name], last = a, a
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%v: no sweep (give the folder that overlapse sweep -o wrote)", stores[0])
	case 1:
		return last, nil
	}
	return nil, fmt.Errorf("%v: %d plans (give the plan file too: overlapse sweep PLAN.yaml --merge FOLDER...)", stores[0], len(found))
}
