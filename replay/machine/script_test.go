package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

// Scripts of machines and their files:
//
//	load h200:4                     the profile of a name, or why there is none
//	parse mine.yaml                 a file, of the lines that follow
//	file dir/base.yaml              a file that others may be based on; open reads such a one
//	show gpu.cus fabric.pair        numbers of the machine that was read last, with where they come from
//	edit                            testdata/profile.yaml with a text of lines "-" in place of one of lines "+", and what is said of it
//	device NVIDIA H200 CUs=132      the profile of a device, by its name and fields, and those of devices like it
//	architecture KERNEL             that of a kernel, by its name
//	whatif links=2                  factors of what-ifs
//	suggest decompse                what was meant
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		var m Machine
		files := tree{}
		read := func(found Machine, err error) string {
			if m = found; err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%s of profile %s, %d GPUs", m.Name, m.Profile, m.GPUs)
		}
		return func(t testing.TB, c scripttest.Call) string {
			switch c.Name {
			case "load":
				answer := read(Load(c.Text))
				return strings.ReplaceAll(answer, strings.Join(Names(), ", "), "...")
			case "parse":
				return strings.ReplaceAll(read(Parse(strings.NewReader(c.Input), c.Text)), strings.Join(Names(), ", "), "...")
			case "file":
				files[c.Text] = c.Input
				return ""
			case "open":
				return read(ParseFile(c.Text, files.open))
			case "show":
				return show(&m, c.Args)
			case "edit":
				return edited(t, c.Input)
			case "device":
				d := trace.Device{Name: strings.Join(c.Args, " ")}
				for path, text := range c.Set {
					must.Do(t, scripttest.SetField(&d, path, text))
				}
				return fmt.Sprintf("%q; alike are %q", ForDevice(d), Alike(d))
			case "architecture":
				return fmt.Sprintf("%q", ArchitectureOf(c.Text))
			case "whatif":
				x, err := ParseWhatIf(c.Text)
				if err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%q", x.String())
			case "suggest":
				return fmt.Sprintf("%q", Suggestion(c.Text, []string{"captured", "bulk", "decompose", "multistream", "fused", "h200x4"}))
			}
			t.Fatalf("no call %s", c.Name)
			return ""
		}
	})
}

// show is a line for each of some entries.
func show(m *Machine, keys []string) string {
	var lines []string
	for _, e := range Entries(m) {
		if slices.Contains(keys, e.Key) {
			mark, why := e.mark()
			lines = append(lines, fmt.Sprintf("%s: %s (%s)", e.Key, e, strings.TrimSpace(fmt.Sprint(mark, " ", why))))
		}
	}
	return strings.Join(lines, "\n")
}

// edited is what is said of the good profile behind an edit.
func edited(t testing.TB, edit string) string {
	t.Helper()
	var was, is []string
	for line := range strings.Lines(edit) {
		if line = strings.TrimSuffix(line, "\n"); line[0] == '-' {
			was = append(was, line[1:])
		} else {
			is = append(is, line[1:])
		}
	}
	old := strings.Join(was, "\n")
	if is == nil {
		old += "\n"
	}
	good := ReadFile(t, "testdata/profile.yaml")
	if !strings.Contains(good, old) {
		t.Fatalf("%q is not in testdata/profile.yaml", old)
	}
	must.Have(Parse(strings.NewReader(good), "v100.yaml"))(t)
	_, err := Parse(strings.NewReader(strings.Replace(good, old, strings.Join(is, "\n"), 1)), "v100.yaml")
	var located *trace.SyntaxError
	if !errors.As(err, &located) {
		t.Errorf("%q: %T has no position", edit, err)
	}
	return fmt.Sprint(err)
}
