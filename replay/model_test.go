package replay

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// MODEL.md and the code agree: the tests of its rows and the constants of its tables exist, comments cite only
// rules that it has, every rule is cited, and says what it is worth or why that was not measured.
func TestModelAndCodeAgree(t *testing.T) {
	rules := map[string]string{} // their tests, by id
	constants, why := map[string]bool{}, map[string]bool{}
	text := must.Have(os.ReadFile("MODEL.md"))(t)
	row := regexp.MustCompile(`^\| ([A-Z]\d+) \| .* \| ([\w/]+(?:, [\w/]+)*) \| ([^|]+) \|$`)
	constant, name := regexp.MustCompile("^\\| (`?\\w+.*?) \\| "), regexp.MustCompile("`(\\w+)`")
	reason := regexp.MustCompile(`not measured: ([a-z ]+)`)
	number := regexp.MustCompile(`[-+−]\d+\.\d|\d+(?:\.\d+)? %|nothing moves`)
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "#") {
			section = strings.TrimLeft(line, "# ")
		}
		m := row.FindStringSubmatch(line)
		switch c := constant.FindStringSubmatch(line); {
		case m != nil:
			if _, twice := rules[m[1]]; twice {
				t.Errorf("MODEL.md:%d: rule %s is there already", i+1, m[1])
			}
			rules[m[1]] = m[2]
			r := reason.FindStringSubmatch(m[3])
			if r != nil && !why[strings.TrimSpace(r[1])] || r == nil && !number.MatchString(m[3]) {
				t.Errorf("MODEL.md:%d: rule %s: worth %q is neither measured nor one of the reasons", i+1, m[1], m[3])
			}
		case c != nil && section == "The simulator's rules":
			why[c[1]] = true
		case c != nil && section == "In the code, for every machine":
			for _, n := range name.FindAllStringSubmatch(c[1], -1) {
				constants[strings.ToLower(n[1])] = false
			}
		}
	}
	if len(rules) == 0 {
		t.Fatal("MODEL.md has no rules")
	}

	tests, cited := map[string]bool{}, map[string]bool{}
	named, word := regexp.MustCompile(`^func (Test\w+)\(`), regexp.MustCompile(`\b[A-Za-z]\w+`)
	cites := regexp.MustCompile(`\brules? ([A-Z]\d+(?:(?:, | and | to )[A-Z]\d+)*)`)
	id := regexp.MustCompile(`([A-Z])(\d+)( to )?`)
	must.Do(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if script, ok := strings.CutSuffix(filepath.Base(path), ".txt"); ok && filepath.Base(filepath.Dir(path)) == "testdata" {
			if tests["TestScripts/"+script] {
				t.Errorf("%s: there is another script of that name", path)
			}
			tests["TestScripts/"+script] = true
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			if m := named.FindStringSubmatch(lines.Text()); m != nil {
				tests[m[1]] = true
			}
			code, comment, _ := strings.Cut(lines.Text(), "//")
			for _, n := range word.FindAllString(code, -1) {
				if _, ok := constants[strings.ToLower(n)]; ok {
					constants[strings.ToLower(n)] = true
				}
			}
			for _, m := range cites.FindAllStringSubmatch(comment, -1) {
				from := 0 // of a range, the number after its first
				for _, x := range id.FindAllStringSubmatch(m[1], -1) {
					last, _ := strconv.Atoi(x[2])
					for k := max(from, 1); from > 0 && k < last; k++ {
						cited[x[1]+strconv.Itoa(k)] = true
					}
					if from = 0; x[3] != "" {
						from = last + 1
					}
					if _, ok := rules[x[1]+x[2]]; !ok {
						t.Errorf("%s:%d: MODEL.md has no rule %s%s", path, n, x[1], x[2])
					}
					cited[x[1]+x[2]] = true
				}
			}
		}
		return lines.Err()
	}))
	for id, of := range rules {
		for _, test := range strings.Split(of, ", ") {
			if test != "none" && !tests[test] {
				t.Errorf("rule %s: there is no test %s", id, test)
			}
		}
		if !cited[id] {
			t.Errorf("rule %s is cited by no comment", id)
		}
	}
	for n, found := range constants {
		if !found {
			t.Errorf("MODEL.md: there is no constant %s in the code", n)
		}
	}
}
