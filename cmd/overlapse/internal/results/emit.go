package results

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/trace/guard"
)

// A snippet is a file that --emit writes, and how its lines are written.
type snippet struct {
	name, use string
	holds     *regexp.Regexp // lines of ways that go there
	line      func(w plan.Way) string
}

var snippets = []snippet{
	{"overlapse.env", "variables: set -a; . overlapse.env", regexp.MustCompile(`^[A-Z][A-Z0-9_]*=\S*$`), func(w plan.Way) string { return w.Line }},
	{"overlapse.sh", "options, in an array for each library: . overlapse.sh, then \"${MEGATRON_ARGS[@]}\"", regexp.MustCompile(`^--`), func(w plan.Way) string {
		library, _, _ := strings.Cut(w.Library, " ")
		return fmt.Sprintf("%s_ARGS+=(%s)", strings.ToUpper(library), w.Line)
	}},
	{"overlapse.py", "lines for the program: names that it does not define are yours", regexp.MustCompile(`(?s)^[^-]`), func(w plan.Way) string { return w.Line }},
}

// Emit writes the settings of the recommended row into a folder, as far as they can be written,
// or says why nothing is. Each line has its reason and the version that it needs above it. Where more is recommended than one
// setting can be, of several phases, each has a folder inside.
func Emit(con *cli.Console, set *cli.Set, dir string, v verdict.Verdict) error {
	advised := slices.DeleteFunc(slices.Clone(v.Each()), func(p verdict.Verdict) bool { return p.Advice == nil })
	if len(advised) == 0 {
		con.Notef("--emit %s: nothing is written, since no change is recommended", dir)
	}
	for _, p := range advised {
		into := dir
		if len(advised) > 1 {
			into = filepath.Join(dir, strings.ReplaceAll(p.Phase, " ", "-"))
		}
		if err := emit(con, set, into, p); err != nil {
			return err
		}
	}
	return nil
}

func emit(con *cli.Console, set *cli.Set, dir string, v verdict.Verdict) error {
	text := map[string]string{}
	for _, w := range v.Advice.Ways {
		for _, s := range snippets {
			if w.Line == "" || !s.holds.MatchString(w.Line) {
				continue
			}
			if text[s.name] == "" {
				of := ""
				if v.Phase != "" {
					of = "for " + v.Phase + " steps only"
				}
				text[s.name] = comments(of, fmt.Sprintf("predicted: %+.1f %% of the captured schedule's time", 100*v.Change), "where: "+strings.Join(v.Advice.Where, "; "), s.use)
			}
			text[s.name] += "\n" + comments("for "+w.For, w.Costs, strings.TrimSpace("needs "+w.Library+" "+w.Version), w.Note) + s.line(w) + "\n"
			break
		}
	}
	if len(text) == 0 {
		con.Notef("--emit %s: nothing is written: %s takes work that is no setting (%s)", dir, v.Strategy, v.Advice.Effort)
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, s := range snippets {
		if text[s.name] == "" {
			continue
		}
		if err := set.WriteBytes(filepath.Join(dir, s.name), []byte(text[s.name])); err != nil {
			return err
		}
		con.Notef("wrote %s", filepath.Join(dir, s.name))
	}
	return nil
}

// comments are lines of a comment, one each, whatever names of a trace contain.
func comments(lines ...string) (text string) {
	for _, s := range lines {
		if s != "" {
			text += "# " + guard.Line(s) + "\n"
		}
	}
	return text
}
