package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

const repository = "../../../samples/measurements"

// In the repository's dataset every file and trace is listed, checksums match and ids
// are unique.
func TestOpenRepository(t *testing.T) {
	d := must.Have(Open(repository))(t)
	rows, splits, bytes := 0, map[Split]int{}, int64(0)
	for _, s := range d.Sets {
		rows += len(s.Rows)
		splits[s.Split]++
	}
	text := must.Have(os.ReadFile(filepath.Join(repository, IndexFile)))(t)
	generated := map[string]bool{IndexFile: true, "README.md": true, "ACCURACY.md": true, "errors.csv": true}
	must.Do(t, filepath.WalkDir(repository, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		bytes += info.Size()
		rel, err := filepath.Rel(repository, name)
		if rel = filepath.ToSlash(rel); !generated[rel] && !strings.Contains(string(text), "\n  "+rel+": ") {
			t.Errorf("%s is not in the index", rel)
		}
		return err
	}))
	if rows < 3000 || splits[Calibrate] == 0 || splits[Develop] == 0 {
		t.Errorf("%d rows, sets by split %v", rows, splits)
	}
	const most = 42_300_000 // with the other samples below the 44 MB of .ci/run
	if bytes > most {
		t.Errorf("%d bytes, more than %d", bytes, most)
	}
}

const goodIndex = `sets:
  - name: one
    rows: a/rows.jsonl
    split: blind
    about: a test
    host: none
    driver: none
    date: 2026-11-22
    stamps:
      - {name: s, files: "wg/s_*", row: c1}
files:
  a/rows.jsonl: SUM
  a/traces/t/rank0.json: TRACESUM
absent:
  a/traces/u/rank0.json: 00
`

func TestOpen(t *testing.T) {
	row := strings.Replace(goodRow, `"us": 28.5`, `"trace": "traces/t", "us": 28.5`, 1)
	second := strings.Replace(strings.Replace(row, "c1", "c2", 1), "traces/t", "traces/u", 1)
	for _, c := range []struct {
		name, index, rows string
		want              string // "" if it opens
	}{
		{"good", goodIndex, row + "\n" + second, ""},
		{"changed trace", strings.Replace(goodIndex, "TRACESUM", "00", 1), row, "rank0.json: its SHA-256 is "},
		{"missing file", strings.Replace(goodIndex, "absent:", "  a/gone: 00\nabsent:", 1), row, "gone: listed in "},
		{"unknown key", strings.Replace(goodIndex, "split:", "splits:", 1), row, `index.yaml:line 4: unknown field "splits"`},
		{"unknown split", strings.Replace(goodIndex, "blind", "held-out", 1), row, `set "one": split "held-out" is unknown (write blind, develop or calibrate)`},
		{"no host", strings.Replace(goodIndex, "    host: none\n", "", 1), row, "about, host, driver or date is missing"},
		{"stamps of no row", strings.Replace(goodIndex, "row: c1", "row: c7", 1), row, "stamps s belong to no row"},
		{"unlisted trace", goodIndex, strings.Replace(row, "traces/t", "traces/v", 1), "rows.jsonl:line 1: trace traces/v has no checksum in "},
		{"typo in a row", goodIndex, strings.Replace(row, "channels", "chanels", 1), `rows.jsonl:line 1: unknown key "params.chanels"`},
		{"same id in two sets", strings.Replace(goodIndex, "files:\n", "  - {name: two, rows: a/rows.jsonl, split: blind, about: x, host: x, driver: x, date: 2026-11-22}\nfiles:\n", 1), row, `rows.jsonl:line 1: id "c1" is in `},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			sums := map[string]string{}
			for name, text := range map[string]string{"a/rows.jsonl": c.rows, "a/traces/t/rank0.json": "{}"} {
				file := filepath.Join(dir, filepath.FromSlash(name))
				must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
				must.Do(t, os.WriteFile(file, []byte(text), 0o644))
				h := sha256.Sum256([]byte(text))
				sums[name] = hex.EncodeToString(h[:])
			}
			index := strings.NewReplacer("TRACESUM", sums["a/traces/t/rank0.json"], "SUM", sums["a/rows.jsonl"]).Replace(c.index)
			must.Do(t, os.WriteFile(filepath.Join(dir, IndexFile), []byte(index), 0o644))
			d, err := Open(dir)
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got  %v\nwant %s", err, c.want)
			case c.want == "":
				s := &d.Sets[0]
				if len(s.Rows) != 2 || d.Absent(s, "traces/t") || !d.Absent(s, "traces/u") || d.Path(s, "traces/t") != filepath.Join(dir, "a", "traces", "t") {
					t.Errorf("%+v", s)
				}
			}
		})
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "index.yaml: cannot read the index") {
		t.Error(err)
	}
}
