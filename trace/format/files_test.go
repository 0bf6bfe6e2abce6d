package format

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestFiles: the listed files are all that Open reads. Alone in another folder, they give
// the same run.
func TestFiles(t *testing.T) {
	execution := `{"schema":"1.1.1-chakra.0.0.4","pid":7,"nodes":[{"id":1,"name":"aten::mm","ctrl_deps":0,"attrs":[]}]}`
	step := strings.ReplaceAll(kineto(0), `"rank"`, `"r"`)
	for _, c := range []struct {
		path  string
		files []string // read
		other []string // not read
	}{
		{"one.json", []string{"one.json"}, []string{"two.json", "rank0/rank0.json"}},
		{"one.json", []string{"one.json", "one.et.json"}, []string{"two.et.json"}},
		{"one.json", []string{"one.json", "et/rank0.json", "et/rank0.et.json"}, []string{"other/rank0.json"}},
		{"rank*.json", []string{"rank0.json", "rank1.json", "et/a.json"}, []string{"x.json"}},
		{".", []string{"rank0.json", "rank1.json", "execution_traces/a.json"}, []string{"notes.md", ".hidden.json"}},
		{".", []string{"rank_0/t.json", "rank_1/t.json"}, []string{"plots/x.md"}},
		{".", []string{"occupancy.json"}, []string{"wstates1.json"}},
		{"occupancy.json", []string{"occupancy.json", "realtime.json"}, []string{"code.json"}},
	} {
		content := func(name string) string {
			switch base := filepath.Base(name); {
			case base == occupancyFile:
				return `{"0":[[100,6,1,0,1,2],[300,6,1,0,0,2]],"dispatches":{"2":"k"}}`
			case base == realtimeFile:
				return `{"SE0":[[100,1000],[300,3000]]}`
			case strings.HasSuffix(base, ".et.json"):
				return execution
			case strings.Contains(name, "1"):
				return kineto(1)
			case strings.Contains(base, "one") || strings.HasPrefix(name, "e"):
				return step
			}
			return kineto(0)
		}
		all := map[string]string{}
		for _, f := range slices.Concat(c.files, c.other) {
			all[f] = content(f)
		}
		dir := folder(t, all)
		got, err := Files(filepath.Join(dir, c.path), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		for i := range got {
			rel, _ := filepath.Rel(dir, got[i])
			got[i] = filepath.ToSlash(rel)
		}
		if want := slices.Sorted(slices.Values(c.files)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.path, got, want)
		}
		alone := map[string]string{}
		for _, f := range got {
			alone[f] = all[f]
		}
		if here, there := written(t, dir, c.path), written(t, folder(t, alone), c.path); here != there {
			t.Errorf("%s: the run is not that of the listed files alone", c.path)
		}
	}
}

// written is the run at a path as overlapse writes it, or the error.
func written(t *testing.T, dir, path string) string {
	t.Helper()
	t.Chdir(dir)
	run, err := Open(path, Options{})
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	must.Do(t, chrome.Write(&out, run, nil, nil, nil))
	return out.String()
}

// TestFilesOfNothing: what cannot be opened has no files.
func TestFilesOfNothing(t *testing.T) {
	if files, err := Files("-", Options{}); files != nil || err != nil {
		t.Errorf("standard input: %q, %v", files, err)
	}
	for _, path := range []string{"none.json", "none*.json", t.TempDir()} {
		if files, err := Files(path, Options{}); len(files) > 0 || err == nil && !isFolder(path) {
			t.Errorf("%s: %q, %v", path, files, err)
		}
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
