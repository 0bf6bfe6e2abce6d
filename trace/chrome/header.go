package chrome

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// maxRanks is larger than any job.
const maxRanks = assemble.MaxRanks

// A header has the top-level values of a Kineto file.
type header struct {
	base      int64 // nanoseconds to add to every time; 0 where absent
	host      string
	devices   []deviceProperties
	rank      int // or None
	world     int // or 0
	groups    []trace.Group
	runtime   string
	amd       bool
	sdk1      bool // rocprofiler-sdk 1.0, which swaps grid and block
	roctracer bool // counts CPUs in its device numbers
	annotated bool // kernels of captured graphs have what the program recorded during the capture
}

type deviceProperties struct {
	ID                int    `json:"id"`
	Name              string `json:"name"`
	TotalGlobalMem    int64  `json:"totalGlobalMem"`
	ComputeMajor      int    `json:"computeMajor"`
	ComputeMinor      int    `json:"computeMinor"`
	ThreadsPerCU      int    `json:"maxThreadsPerMultiprocessor"`
	RegsPerBlock      int    `json:"regsPerBlock"`
	RegsPerCU         int    `json:"regsPerMultiprocessor"`
	WarpSize          int    `json:"warpSize"`
	SharedMemPerBlock int    `json:"sharedMemPerBlock"`
	SharedPerWG       int    `json:"sharedMemPerBlockOptin"`
	SharedPerCU       int    `json:"sharedMemPerMultiprocessor"`
	SharedPerCUOfAMD  int    `json:"maxSharedMemoryPerMultiProcessor,omitempty"`
	NumSms            int    `json:"numSms"`
}

// members are the functions that store the top-level values of a file, by key. They report false for an unexpected value.
func (h *header) members() map[string]func(v []byte) bool {
	into := func(to any) func([]byte) bool { return func(v []byte) bool { return json.Unmarshal(v, to) == nil } }
	return map[string]func(v []byte) bool{
		"deviceProperties": into(&h.devices), "computeProperties": into(&h.devices), "host_name": into(&h.host),
		"cudaGraphInlineAnnotated": into(&h.annotated), "distributedInfo": h.setDistributed,
		"baseTimeNanoseconds": func(v []byte) bool {
			n, ok := lex.Integer(v)
			if ok = ok && n >= 0 && trace.ValidTime(n); ok {
				h.base = n
			}
			return ok
		},
		"cuda_runtime_version": func(v []byte) bool {
			n, ok := lex.Integer(v)
			h.runtime = fmt.Sprintf("CUDA %d.%d", n/1000, n%1000/10)
			return ok
		},
		"hip_runtime_version": func(v []byte) bool {
			n, ok := lex.Integer(v)
			h.amd, h.runtime = true, fmt.Sprintf("ROCm %d.%d", n/1e7, n/1e5%100)
			return ok
		},
		"roctracer_version": func([]byte) bool {
			h.amd, h.roctracer = true, true
			return true
		},
		"rocprofiler-sdk_version": func(v []byte) bool {
			h.amd, h.sdk1 = true, string(lex.Unquote(v)) == "1.0"
			return true
		},
	}
}

func (h *header) setDistributed(v []byte) (ok bool) {
	var info struct {
		Rank      json.RawMessage
		WorldSize json.RawMessage `json:"world_size"`
		Groups    []struct {
			Name  string          `json:"pg_name"`
			Doc   json.RawMessage `json:"pg_desc"`
			Size  json.RawMessage `json:"pg_size"`
			Ranks json.RawMessage `json:"ranks"`
		} `json:"pg_config"`
	}
	if json.Unmarshal(v, &info) != nil {
		return false
	}
	if n, ok := lex.Integer(info.Rank); ok && n >= 0 && n < maxRanks {
		h.rank = int(n)
	}
	if n, ok := lex.Integer(info.WorldSize); ok && n > 0 && n < maxRanks {
		h.world = int(n)
	}
	for _, g := range info.Groups {
		ranks := assemble.RankList(g.Ranks)
		size, _ := lex.Integer(g.Size)
		h.groups = append(h.groups, trace.Group{
			Name:  g.Name,
			Doc:   assemble.GroupDoc(string(lex.Unquote(g.Doc))),
			Ranks: ranks,
			Size:  max(int(size), len(ranks)),
		})
	}
	return true
}

// device returns the properties of the device with this number in GPU rows.
func (h *header) device(number int32) trace.Device {
	d := trace.Device{RuntimeVersion: h.runtime}
	p, ok := h.properties(number)
	if !ok {
		return d
	}
	d.Name, d.MemoryBytes = p.Name, p.TotalGlobalMem
	d.CUs, d.WaveSize, d.ThreadsPerCU = p.NumSms, p.WarpSize, p.ThreadsPerCU
	d.RegistersPerCU = cmp.Or(p.RegsPerCU, p.RegsPerBlock)
	d.SharedPerCU = max(p.SharedPerCU, p.SharedPerCUOfAMD)
	d.SharedPerWG = max(p.SharedPerWG, p.SharedMemPerBlock)
	for _, n := range []*int{&d.CUs, &d.WaveSize, &d.ThreadsPerCU, &d.RegistersPerCU, &d.SharedPerCU, &d.SharedPerWG} {
		*n = max(0, *n)
	}
	d.MemoryBytes = max(0, d.MemoryBytes)
	if !h.amd && p.WarpSize != 64 {
		d.ComputeMajor, d.ComputeMinor = p.ComputeMajor, p.ComputeMinor
	}
	return d
}

// properties finds the entry of deviceProperties. roctracer counts CPUs among the
// devices, so its number is not an index; the GPUs of a node are identical.
func (h *header) properties(number int32) (p deviceProperties, ok bool) {
	if !h.roctracer {
		for _, p := range h.devices {
			if p.ID == int(number) {
				return p, true
			}
		}
	}
	if len(h.devices) == 0 {
		return p, false
	}
	first := h.devices[0]
	for _, p := range h.devices[1:] {
		p.ID = first.ID
		if p != first {
			return deviceProperties{}, false
		}
	}
	return first, true
}
