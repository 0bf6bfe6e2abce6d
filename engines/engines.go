// Package engines is the table of overlap strategies and the parser of their names and settings, and plans and simulates
// them on one workload: their times and how these vary between runs.
//
//	engines.go    the table; select.go reads names and settings
//	instances.go  which operations ran beside others, and which are the same work
//	isolate.go    from these, what operations take alone, without the interference of the captured schedule
//	compare.go    a strategy planned and simulated from those times at the clock that it settles at; several side by side
//	relative.go   its time relative to that of the captured schedule, simulated in the same way
//	races.go      its mean over the orders in which kernels may be dispatched
//	mixed.go      strategies on one kind of pair, and the mix of the best on each
package engines

import (
	"bufio"
	_ "embed" // the page
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/trace"
)

//go:embed STRATEGIES.md
var page string

// About is what STRATEGIES.md says about a strategy, without its tables; "" if nothing.
func About(name string) string {
	_, text, _ := strings.Cut(page, "\n## "+name+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	before, tables, _ := strings.Cut(text, "<!-- parameters of ")
	_, after, _ := strings.Cut(tables, "<!-- end -->\n")
	return strings.TrimSpace(before + strings.TrimSpace(after))
}

// All lists the strategies in the order of tables.
func All() []plan.Strategy {
	return []plan.Strategy{schedule.Captured, schedule.Bulk, schedule.Ideal, tiles.Decompose, schedule.Multistream, tiles.Fused, tiles.Tilesync, tiles.Onesided, tiles.Trigger}
}

// Named returns the strategy of a name.
func Named(name string) (plan.Strategy, bool) {
	all := All()
	i := slices.IndexFunc(all, func(e plan.Strategy) bool { return e.Name == name })
	if i < 0 {
		return plan.Strategy{}, false
	}
	return all[i], true
}

// CapturedSelection is the captured schedule, with which every comparison starts.
func CapturedSelection() plan.Selection {
	return plan.Selection{Strategy: schedule.Captured, Values: plan.Values{}}
}

const maxSettings = 64 << 10 // bytes of a file of settings

// ReadSettings reads a file of a strategy's settings, a line "name: value" each, as a selection
// has them: name=value, separated by colons. path names the file in errors.
func ReadSettings(r io.Reader, path string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSettings+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxSettings {
		return "", &trace.SyntaxError{File: path, Msg: fmt.Sprintf("larger than %d KiB", maxSettings>>10), Cure: "is it a file of settings?"}
	}
	var list []string
	s := bufio.NewScanner(strings.NewReader(string(data)))
	s.Buffer(nil, maxSettings+1)
	for line := int64(1); s.Scan(); line++ {
		text, _, _ := strings.Cut(s.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" || strings.ContainsAny(name+value, ":=,") {
			return "", &trace.SyntaxError{File: path, Pos: line, Unit: "line", Msg: "no setting", Cure: "write name: value, one a line, as overlapse strategies NAME lists them"}
		}
		list = append(list, name+"="+value)
	}
	if err := s.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return strings.Join(list, ":"), nil
}
