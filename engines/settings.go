package engines

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

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
