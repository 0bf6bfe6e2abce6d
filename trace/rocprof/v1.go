package rocprof

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// v1 reads results.db of rocprof v1. Kernels are in KERN if grids and counters
// were recorded, else in OPS, which knows neither.
func (d *dbReader) v1() {
	kernels := false
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
			Agent: d.Agent(p, "GPU "+r.Text(3)), Queue: r.Int(4), Name: d.Builder.Intern(r.Text(5)), Start: start, End: end,
			Correlation: r.Int(7), Setup: trace.Setup{Stream: r.Int(6)},
		})
	})
	d.Kernels("COPY", operation, func(r lex.Row, start, end trace.Time) {
		p := d.Process(r.Text(2), r.Int(2), d.Name)
		c := assemble.Copy{
			Name: d.Builder.Intern(r.Text(5)), Dir: direction(r.Text(5)), From: d.Agent(p, "GPU "+r.Text(3)), To: trace.None,
			Stream: r.Int(6), Correlation: r.Int(7), Start: start, End: end,
		}
		if c.Dir == trace.HostToDevice {
			c.From, c.To = c.To, c.From
		}
		d.AddCopy(p, &c)
	})
	for _, table := range [...]string{"HIP", "HSA", "rocTX"} {
		d.Timed(table, []string{"beginns", "endns", "pid", "tid", "name", "index"}, func(r lex.Row, start, end trace.Time) {
			d.AddCall(d.Process(r.Text(2), r.Int(2), d.Name), &assemble.Call{
				Name: d.Builder.Intern(r.Text(4)), Thread: r.Int(3), Correlation: r.Int(5), Start: start, End: end, Marker: table == "rocTX",
				Collective: strings.HasPrefix(r.Text(4), "nccl"),
			})
		})
	}
}
