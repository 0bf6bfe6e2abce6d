package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A claim is the published gain of one strategy over another, with the workload
// file that reproduces it. Nothing in overlapse is fitted to a claim.
type claim struct {
	ID       string             `json:"id"`
	From     string             `json:"from"`
	Says     string             `json:"says"`
	File     string             `json:"file"`              // in the folder of the claims
	Machine  string             `json:"machine,omitempty"` // other than the file's
	Vary     map[string][]int64 `json:"vary,omitempty"`    // sizes: every combination
	Cases    []claimCase        `json:"cases,omitempty"`   // or these
	Strategy string             `json:"strategy"`
	Against  string             `json:"against"`
	As       string             `json:"as"`             // reduction: 1-t/t'; speedup: t'/t-1
	Typical  float64            `json:"typical"`        // mean of reductions, geometric mean of speedups
	Most     float64            `json:"most,omitempty"` // the largest; 0: not published
}

// A claimCase is one point: sizes, and the machine if it is another one.
type claimCase struct {
	machine string
	sizes   map[string]int64
}

func (c *claimCase) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	c.sizes = map[string]int64{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "machine" {
			if err := json.Unmarshal(fields[key], &c.machine); err != nil {
				return err
			}
			continue
		}
		var n int64
		if err := json.Unmarshal(fields[key], &n); err != nil {
			return err
		}
		c.sizes[key] = n
	}
	return nil
}

func readClaims(path string, only []string) ([]claim, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (give a file of claims, one JSON object per line, such as samples/workloads/claims.jsonl)", path, withoutPath(err))
	}
	var claims []claim
	var ids []string
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, len(data)+1)
	for line := int64(1); s.Scan(); line++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		c := claim{}
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		err := d.Decode(&c)
		if err == nil && c.As != "reduction" && c.As != "speedup" {
			err = fmt.Errorf("as %q is neither reduction nor speedup", c.As)
		}
		if err != nil {
			return nil, &trace.SyntaxError{File: path, Pos: line, Unit: "line", Msg: "not a claim", Err: err, Cure: "see samples/workloads/claims.jsonl"}
		}
		ids = append(ids, c.ID)
		if len(only) == 0 || slices.Contains(only, c.ID) {
			claims = append(claims, c)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: no claims in the file (see samples/workloads/claims.jsonl)", path)
	}
	for _, id := range only {
		if !slices.Contains(ids, id) {
			return nil, usageError{&unknownError{fmt.Sprintf("%s: no claim %q (available: %s)", path, id, strings.Join(ids, ", ")), id, ids}}
		}
	}
	return claims, nil
}

// points are the combinations of the sizes that vary, or the cases.
func (c *claim) points() []claimCase {
	if c.Cases != nil {
		return c.Cases
	}
	list := []claimCase{{sizes: map[string]int64{}}}
	for _, key := range slices.Sorted(maps.Keys(c.Vary)) {
		var next []claimCase
		for _, p := range list {
			for _, n := range c.Vary[key] {
				sizes := maps.Clone(p.sizes)
				sizes[key] = n
				next = append(next, claimCase{sizes: sizes})
			}
		}
		list = next
	}
	return list
}
