// Package rocprof reads what AMD's profilers write, and the per-workgroup CSV
// files that share their conventions. Columns are found by name, whatever
// their case or order, so that every generation of a file reads the same.
//
//	table.go       tables of CSV; csv.go, what each is; csvrows.go, their rows
//	results.go     JSON of rocprofv3
//	db.go          databases: of rocprof v1; rpd.go, of rocmProfileData; schema.go and rocpd.go, of rocprofv3
//	agent.go       GPUs, as all of them describe them
//	wg.go, att.go  workgroups, and waves of thread traces
package rocprof

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// HasTables reports whether ReadDB reads a database with these tables.
func HasTables(tables []string) bool { return dbKind(tables) != nil }

// ReadDB reads a database: rocpd, which rocprofv3 writes by default, RPD of
// rocmProfileData, or results.db of rocprof v1. Times are nanoseconds.
func ReadDB(db *lex.DB) (*trace.Run, error) {
	read := dbKind(db.Tables())
	if read == nil {
		return nil, &trace.SyntaxError{
			File: db.File, Msg: fmt.Sprintf("not a rocprof database; its tables are %.200s", strings.Join(db.Tables(), ", ")),
			Cure: "give one of rocprofv3, rocmProfileData or rocprof",
		}
	}
	s := newSession(db.File)
	d := &dbReader{s, lex.Scan{DB: db, To: &s.Builder}}
	read(d)
	if d.Err != nil {
		return nil, d.Err
	}
	if d.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{
			File: db.File, Msg: "no kernel, copy or call in the database", Err: noTimes,
			Cure: "profile with rocprofv3 --kernel-trace, or --sys-trace",
		}
	}
	return d.Finish(0), nil
}

// A dbReader reads a database.
type dbReader struct {
	*assemble.Session
	lex.Scan
}

// dbKind returns the reader of a database with these tables, or nil.
func dbKind(tables []string) func(*dbReader) {
	has := map[string]bool{}
	for _, t := range tables {
		has[t] = true
		if strings.HasPrefix(t, dispatchTable) {
			return (*dbReader).rocpd
		}
	}
	switch {
	case has["rocpd_op"]:
		return (*dbReader).rpd
	case has["OPS"] || has["KERN"]:
		return (*dbReader).v1
	}
	return nil
}

// v1 reads results.db of rocprof v1. Kernels are in KERN if grids and counters
// were recorded, else in OPS, which knows neither. hipprof writes the same tables, with numbers in place of names: those
// of kernels are in STR_TABLE, those of calls stand in front of their arguments.
func (d *dbReader) v1() {
	kernels := false
	texts := d.Texts("STR_TABLE", "str_id", "str_name")
	named := func(text string) trace.NameID {
		if id, ok := lex.Integer([]byte(text)); ok && texts.Of[id] != "" {
			return texts.Name(id)
		}
		return d.Builder.Intern(text)
	}
	d.Kernels("KERN", []string{"beginns", "endns", "pid", "gpu-id", "queue-id", "kernelname", "grd", "wgr", "lds", "arch_vgpr", "accum_vgpr"}, func(r lex.Row, start, end trace.Time) {
		kernels = true
		p := d.Process(r.Text(2), r.Int(2), d.Name)
		k := assemble.Dispatch{
			Agent: d.Agent(p, "GPU "+r.Text(3)), Queue: r.Int(4), Name: d.Builder.Intern(r.Text(5)), Start: start, End: end,
			Setup: trace.Setup{Shared: assemble.Narrow(r.Int(8)), Registers: assemble.Narrow(r.Int(9) + r.Int(10))},
		}
		setGrid(&k.Setup, [3]int64{r.Int(6), 1, 1}, [3]int64{r.Int(7), 1, 1})
		d.AddKernel(p, &k)
	})
	operation := []string{"beginns", "endns", "pid", "dev-id", "queue-id", "name", "stream-id", "index"}
	operations := d.Kernels
	if kernels {
		operations = d.Timed
	}
	operations("OPS", operation, func(r lex.Row, start, end trace.Time) {
		if kernels {
			d.Builder.Note(trace.Skipped, d.Name, "OPS: kernels that KERN has in more detail", "row", r.Number)
			return
		}
		p := d.Process(r.Text(2), r.Int(2), d.Name)
		d.AddKernel(p, &assemble.Dispatch{
			Agent: d.Agent(p, "GPU "+r.Text(3)), Queue: r.Int(4), Name: named(r.Text(5)), Start: start, End: end,
			Correlation: r.Int(7), Setup: trace.Setup{Stream: r.Int(6)},
		})
	})
	d.Kernels("COPY", operation, func(r lex.Row, start, end trace.Time) {
		p := d.Process(r.Text(2), r.Int(2), d.Name)
		c := assemble.Copy{
			Name: d.Builder.Intern(cmp.Or(r.Text(5), "Copy")), Dir: direction(r.Text(5)),
			From: d.Agent(p, "GPU "+r.Text(3)), To: trace.None,
			Stream: r.Int(6), Correlation: r.Int(7), Start: start, End: end,
		}
		if c.Dir == trace.HostToDevice {
			c.From, c.To = c.To, c.From
		}
		d.AddCopy(p, &c)
	})
	for _, table := range [...]string{"HIP", "HSA", "rocTX"} {
		d.Timed(table, []string{"beginns", "endns", "pid", "tid", "name", "index", "args"}, func(r lex.Row, start, end trace.Time) {
			name := r.Text(4)
			if call, _, ok := strings.Cut(r.Text(6), "("); ok && len(texts.Of) > 0 {
				name = call
			}
			d.AddCall(d.Process(r.Text(2), r.Int(2), d.Name), &assemble.Call{
				Name: d.Builder.Intern(name), Thread: r.Int(3), Correlation: r.Int(5), Start: start, End: end, Marker: table == "rocTX",
				Collective: strings.HasPrefix(name, "nccl"),
			})
		})
	}
}

// noTimes is the cause of an error about files that hold nothing with a time.
const noTimes = trace.NoTrace("nothing with a time")

// earliestUnix tells clocks apart: a count of nanoseconds from here on (the
// year 2001) is since 1970; a clock that counts from the start of the machine
// would have to run for 31 years to reach it.
const earliestUnix = 1e18

// setEpoch says when a run began that began at this reading of its clock.
func setEpoch(run *trace.Run, first int64) {
	if first >= earliestUnix {
		run.Epoch = first
	}
}
