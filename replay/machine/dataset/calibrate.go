package dataset

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// A fit is one number of a profile as calibration found it.
type fit struct {
	Key   string // "fabric.egress"
	Value string // as the profile writes it; "19 rows" for a table
	Rule  string // how it is read off the rows
	Rows  []Row  // that it was read off
	// median of |rule/row - 1| over Rows, 0 where the rule passes through them; of a law its mean error over left-out rows
	Residual float64
	Kept     string // why the base's value stays although there are rows
	Missing  string // the rows that would settle it, where there were none
}

// Calibrated is a calibrated profile.
type Calibrated struct {
	Machine machine.Machine
	Fits    []fit    // of every parameter that calibration can read, in the order of reading
	Choices []choice // how each law was read
	Rows    int      // that anything was read off
}

// A calibration is under way: steps read c.rows, and from c.m what earlier ones found.
type calibration struct {
	rows  []Row // without those that are left out for a trial
	all   []Row
	m     machine.Machine
	found Calibrated // so far

	cool map[gemm]float64 // what GEMMs of duty cycles take at full clock, in seconds

	// Seconds that collectives wait for free compute units, by what runs alongside: of rows
	// without kernel, and of rows with it.
	wait [len(coRunNames)][2]machine.Quantity
}

// A step reads one number or table, or a law, into c.m and c.found.
type step interface{ run(c *calibration) }

// CalibrateMachine reads a profile off rows of micro-benchmarks. What no row settles
// (data-sheet facts, footprints, gaps that only traces show) stays as base has
// it, and so does a law that base predicts better (rule E6). Only isolated measurements are
// read: rows of strategies are for validation, and nothing is fitted to them. Where rows are
// of the base's own machine, what its tables have recorded counts with them. The error is
// for rows of which none can be read.
func CalibrateMachine(rows []Row, base machine.Machine) (Calibrated, error) {
	c := &calibration{rows: slices.Concat(rows, recorded(&base, rows)), m: clone(base)}
	c.all, c.cool = c.rows, coolest(c.rows)
	for _, s := range steps() {
		s.run(c)
	}
	res, read := c.found, map[string]bool{}
	for _, key := range machine.DropIncomplete(&c.m) {
		i := slices.IndexFunc(res.Fits, func(f fit) bool { return f.Key == key })
		if i >= 0 {
			res.Fits[i].Value, res.Fits[i].Kept = find(&c.m, key).String(), "others that belong to it are missing"
		}
	}
	for _, f := range res.Fits {
		for i := range f.Rows {
			if f.Rows[i].ID != recordedID {
				read[f.Rows[i].File+f.Rows[i].ID] = true
			}
		}
	}
	res.Machine, res.Rows = c.m, len(read)
	if len(rows) > 0 && res.Rows == 0 {
		return res, fmt.Errorf("none of %d rows is an isolated benchmark that a profile is read off (samples/capture/README.md lists them)", len(rows))
	}
	return res, nil
}

// clone copies what calibration may write into.
func clone(m machine.Machine) machine.Machine {
	for _, e := range machine.Entries(&m) {
		if e.Table != nil {
			*e.Table = e.Table.Copy()
		}
	}
	return m
}

// find is the entry of a key that the schema has.
func find(m *machine.Machine, key string) machine.Entry {
	for _, e := range machine.Entries(m) {
		if e.Key == key {
			return e
		}
	}
	panic("machine: no key " + key)
}
