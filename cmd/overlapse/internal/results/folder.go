package results

import (
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/pprof"
)

// CheckFolder is an error if `replay -o` may not write the folder.
func CheckFolder(dir string) error {
	return cli.Replaceable(dir, "result.json", func(name string) bool {
		return slices.Contains(fixedNames, name) || strings.HasPrefix(name, "profile.") && strings.HasSuffix(name, ".pb.gz")
	})
}

// fixedNames are the files of `replay -o` besides the profiles, those of earlier versions last.
var fixedNames = []string{"result.json", "timeline.json.gz", "result.csv", "spans.csv.gz", "summary.md", "report.html", "result.parquet", "spans.parquet"}

// WriteFolder writes the folder of `replay -o`, which is complete or absent.
func WriteFolder(ctx context.Context, con *cli.Console, set *cli.Set, dir string, r *Replayed) error {
	if err := CheckFolder(dir); err != nil {
		return err
	}
	outcomes := r.written()
	runs := r.runsOf(outcomes)
	type file struct {
		name  string
		write func(io.Writer) error
	}
	list := []file{
		{"result.json", func(w io.Writer) error { return WriteJSON(w, r) }},
		{"timeline.json.gz", func(w io.Writer) error { return r.writeTimeline(w, runs) }},
		{"result.csv", func(w io.Writer) error { return WriteCSV(w, r.CSV()) }},
		{"spans.csv.gz", func(w io.Writer) error {
			z := gzip.NewWriter(w)
			return cmp.Or(WriteTableCSV(z, Spans(func(r *trace.Run) string { return r.Name }, runs...)), z.Close())
		}},
		{"summary.md", func(w io.Writer) error { return WriteMarkdown(w, r) }},
		{"report.html", func(w io.Writer) error { return html.Write(w, r.HTML()) }},
	}
	for i, out := range outcomes {
		reasons := ReasonsOf(out.Result, 0, 0)
		list = append(list, file{profileName(runs, i), func(w io.Writer) error { return pprof.Write(w, runs[i], reasons) }})
	}
	bar := con.Progress(len(list), "writing")
	var names []string
	for _, f := range list {
		names = append(names, f.name)
	}
	err := set.Folder(dir, names, func(w io.Writer, i int) error {
		defer bar.Add(1)
		return list[i].write(cli.WhileRunning(ctx, w))
	})
	bar.Finish()
	if err != nil {
		return err
	}
	if left := r.Coarse(); left != "" {
		con.Notef("%s", left)
	}
	con.Notef("wrote report.html, timeline.json.gz, result.json, result.csv, spans.csv.gz, summary.md and %s (go tool pprof -diff_base) to %s", cli.Counted(len(runs), "profile"), dir)
	return nil
}

// profileName is the file of a run's profile: profile.NAME.pb.gz, with a number if another
// run has the name too.
func profileName(runs []*trace.Run, i int) string {
	clean := func(r *trace.Run) string {
		return strings.Map(func(c rune) rune {
			if c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("=._,", c)) {
				return c
			}
			return '-'
		}, cli.Shorten(r.Name, 80))
	}
	name, same := clean(runs[i]), 1
	for _, r := range runs[:i] {
		if clean(r) == name {
			same++
		}
	}
	if same > 1 {
		name += fmt.Sprintf("-%d", same)
	}
	return "profile." + name + ".pb.gz"
}

// writeTimeline writes the runs side by side, as Perfetto opens them.
func (r *Replayed) writeTimeline(w io.Writer, runs []*trace.Run) error {
	z := gzip.NewWriter(w)
	shifted, shifts := aligned(r.workload, runs)
	if err := WritePerfetto(z, assemble.SideBySide(shifted, r.Path), nil, r.reasons(runs, shifts), r.shares(runs, shifts)); err != nil {
		return err
	}
	return z.Close()
}
