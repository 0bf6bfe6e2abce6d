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
)

// MODEL.md and the code agree: the files and tests of its rows exist, comments
// cite only rules that it has, and every rule is cited.
func TestModelAndCodeAgree(t *testing.T) {
	type rule struct{ files, tests string }
	rules := map[string]rule{}
	text, err := os.ReadFile("MODEL.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^\| ([A-Z]\d+) \| .* \| ([^|]+) \| (\w+(?:, \w+)*) \|$`)
	for i, line := range strings.Split(string(text), "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if _, twice := rules[m[1]]; twice {
			t.Errorf("MODEL.md:%d: rule %s is there already", i+1, m[1])
		}
		rules[m[1]] = rule{m[2], m[3]}
	}
	if len(rules) == 0 {
		t.Fatal("MODEL.md has no rules")
	}

	tests, cited := map[string]bool{}, map[string]bool{}
	named := regexp.MustCompile(`^func (Test\w+)\(`)
	cites := regexp.MustCompile(`\brules? ([A-Z]\d+(?:(?:, | and | to )[A-Z]\d+)*)`)
	id := regexp.MustCompile(`([A-Z])(\d+)( to )?`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
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
			_, comment, _ := strings.Cut(lines.Text(), "//")
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
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range rules {
		for _, file := range strings.Split(r.files, ", ") {
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("rule %s: %v", name, err)
			}
		}
		for _, test := range strings.Split(r.tests, ", ") {
			if test != "none" && !tests[test] {
				t.Errorf("rule %s: there is no test %s", name, test)
			}
		}
		if !cited[name] {
			t.Errorf("rule %s is cited by no comment", name)
		}
	}
}
