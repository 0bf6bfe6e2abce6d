package rocprof

import (
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// rpd reads a database of rocmProfileData: operations of the device, calls of
// the API, what joins them, and the arguments of calls.
// Grids are in the units of the call: work-items for hipExtModuleLaunchKernel
// and its predecessor, workgroups for all others.
func (d *dbReader) rpd() {
	names := d.Texts("rocpd_string", "id", "string")
	calls := d.rpdCalls(names)
	arguments := d.readArguments()
	d.Kernels("rocpd_op", []string{"start", "end", "id", "gpuid", "queueid", "description_id", "optype_id"}, func(r lex.Row, start, end trace.Time) {
		api := calls.of[r.Int(2)]
		process, known := calls.process[api]
		if !known && len(d.Processes) == 0 { // of a database with several, the first is as good as any
			process = d.Process("", 0, d.Name)
		}
		op := names.Of[r.Int(6)]
		if strings.HasPrefix(op, "Copy") || strings.HasPrefix(op, "Mem") {
			c := arguments[api].copy
			c.Name, c.Dir, c.Correlation, c.Start, c.End = names.Name(r.Int(6)), direction(op), api, start, end
			c.From, c.To = d.Agent(process, "GPU "+r.Text(3)), trace.None
			if c.Dir == trace.HostToDevice {
				c.From, c.To = c.To, c.From
			}
			d.AddCopy(process, &c)
			return
		}
		call := arguments[api]
		k := assemble.Dispatch{
			Agent: d.Agent(process, "GPU "+r.Text(3)), Queue: r.Int(4), Name: names.Name(r.Int(5)), Start: start,
			End: end, Correlation: api, Setup: call.kernel,
		}
		if names.Of[r.Int(5)] == "" {
			k.Name = names.Name(r.Int(6))
		}
		if !calls.workItems[api] {
			for i := range call.grid {
				call.grid[i] *= call.workgroup[i]
			}
		}
		setGrid(&k.Setup, call.grid, call.workgroup)
		d.AddKernel(process, &k)
	})
}

// rpdCalls are the calls of the API.
type rpdCalls struct {
	process   map[int64]int32 // by call
	workItems map[int64]bool  // calls whose grid is in work-items
	of        map[int64]int64 // the call that an operation came from
}

func (d *dbReader) rpdCalls(names lex.Texts) rpdCalls {
	c := rpdCalls{map[int64]int32{}, map[int64]bool{}, map[int64]int64{}}
	d.Timed("rocpd_api", []string{"start", "end", "id", "pid", "tid", "apiname_id", "args_id"}, func(r lex.Row, start, end trace.Time) {
		p := d.Process(r.Text(3), r.Int(3), d.Name)
		c.process[r.Int(2)] = p
		name := names.Of[r.Int(5)]
		if strings.HasPrefix(name, "hipExtModuleLaunch") || strings.HasPrefix(name, "hipHccModuleLaunch") {
			c.workItems[r.Int(2)] = true
		}
		marker := name == "UserMarker" || strings.HasPrefix(name, "roctx")
		call := assemble.Call{
			Name: names.Name(r.Int(5)), Thread: r.Int(4), Correlation: r.Int(2), Start: start, End: end,
			Marker: marker, Collective: strings.HasPrefix(name, "nccl"),
		}
		if message := names.Of[r.Int(6)]; marker && message != "" {
			call.Name = names.Name(r.Int(6))
		}
		d.AddCall(p, &call)
	})
	d.Each("rocpd_api_ops", []string{"api_id", "op_id"}, func(r lex.Row) { c.of[r.Int(1)] = r.Int(0) })
	return c
}

// rpdArguments are the arguments of a call.
type rpdArguments struct {
	kernel          trace.Setup
	grid, workgroup [3]int64 // in the units of the call
	copy            assemble.Copy
}

func (d *dbReader) readArguments() map[int64]rpdArguments {
	arguments := map[int64]rpdArguments{}
	d.Each("rocpd_kernelapi", []string{"api_ptr_id", "stream", "groupsegmentsize", "gridx", "gridy", "gridz", "workgroupx", "workgroupy", "workgroupz"}, func(r lex.Row) {
		a := rpdArguments{kernel: trace.Setup{Stream: stream(r.Text(1)), Shared: assemble.Narrow(r.Int(2))}}
		for i := range a.grid {
			a.grid[i], a.workgroup[i] = r.Int(3+i), r.Int(6+i)
		}
		arguments[r.Int(0)] = a
	})
	d.Each("rocpd_copyapi", []string{"api_ptr_id", "stream", "size"}, func(r lex.Row) {
		arguments[r.Int(0)] = rpdArguments{copy: assemble.Copy{Stream: stream(r.Text(1)), Bytes: r.Int(2)}}
	})
	return arguments
}

// stream reads a handle such as 0x7f40.
func stream(text string) int64 {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0
	}
	return int64(n)
}
