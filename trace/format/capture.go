package format

import (
	"path/filepath"
	"regexp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// captureFolders are where engines leave what they profiled while they captured graphs: vLLM in files
// graph_capture_rank_0.*, SGLang in files DecodeCudaGraphRunner_bs_32_lora_rank0.*, bs_32_rank0.* before it, or
// cuda_graph_capture-DecodeCudaGraphRunner-TP-0.*. Beside them are the profiles of the replays. A
// profile of the same step without a graph may be put there too.
var captureFolders = []string{"capture_traces", "graph_capture_profile"}

var captureFile = regexp.MustCompile(`^(?:cuda_)?graph_capture|(?:^|Runner_)bs_\d+_(?:\w+_)?rank\d+`)

// splitCaptures separates profiles of the capture of graphs by their names, if there are others.
func splitCaptures(paths []string) (rest, captures []string) {
	for _, p := range paths {
		if captureFile.MatchString(filepath.Base(p)) || slices.Contains(captureFolders, filepath.Base(filepath.Dir(p))) {
			captures = append(captures, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 {
		return paths, nil
	}
	return rest, captures
}

// capturesBelow lists the files of the folder of captures below.
func (o Options) capturesBelow(dir string) (files []string) {
	for _, folder := range captureFolders {
		if l, err := o.listFolder(filepath.Join(dir, folder)); err == nil && !slices.Contains(captureFolders, filepath.Base(dir)) {
			files = append(files, l.traces...)
		}
	}
	return files
}

// capturesAmong separates runs that recorded the capture of graphs from those of the same rank
// that replay them.
func capturesAmong(runs []*trace.Run) (rest, captures []*trace.Run) {
	for i, r := range runs {
		replayed := len(r.Captured) > 0 && slices.ContainsFunc(runs, func(q *trace.Run) bool {
			return q != runs[i] && len(q.Captured) == 0 && len(r.Ranks) > 0 && len(q.Ranks) > 0 && q.Ranks[0].ID == r.Ranks[0].ID
		})
		if replayed {
			captures = append(captures, r)
		} else {
			rest = append(rest, r)
		}
	}
	return rest, captures
}

// withCaptures gives the kernels of graphs what captures say of them. A capture that cannot be read is noted.
func (o Options) withCaptures(run *trace.Run, captures []*trace.Run, files []string) *trace.Run {
	o.companions = nil
	all := make([]part, len(files))
	for i, file := range files {
		all[i].paths = []string{file}
	}
	read, failed := o.readAll(all)
	for i, r := range read {
		switch {
		case failed[i] == nil:
			captures = append(captures, r)
		case !o.isNoTrace(failed[i]): // a list of the captures lies beside them
			run.Ledger.Add(trace.Noted, files[i], "capture of graphs ignored: "+failed[i].Error(), "", 0)
		}
	}
	if len(captures) == 0 {
		return run
	}
	return assemble.NameGraphs(run, captures)
}
