package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/overlapse/overlapse/replay/machine"
)

const (
	maxLine   = 1 << 20 // bytes of a row
	rowCure   = "each line is one JSON object: id, machine, world, workload, strategy, params, us, min_us, max_us"
	knownKeys = "see the schema in samples/measurements/README.md"
)

// readRows reads a file of rows, one JSON object a line; empty lines are skipped.
// Errors are *trace.SyntaxError with the line, all of them joined; the good rows
// are returned with them. Unknown and repeated keys are errors.
func readRows(r io.Reader, file string) ([]Row, error) {
	var rows []Row
	errs := machine.Errors{File: file}
	ids := map[string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		row := Row{File: file, Line: n}
		if msg, cure := decode(text, &row); msg != "" {
			errs.FailLine(n, cure, "%s", msg)
			continue
		}
		if err := row.check(); err != nil {
			errs.FailLine(n, "", "%v", err)
			continue
		}
		if first, twice := ids[row.ID]; twice {
			errs.FailLine(n, "give every row an id of its own", "id %q is on line %d already", row.ID, first)
			continue
		}
		ids[row.ID] = n
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		errs.FailLine(n+1, "", "%v", err)
	}
	return rows, errs.Err()
}

// decode reads one row. It returns the error message with a remedy, or "".
func decode(text []byte, row *Row) (msg, cure string) {
	err := json.Unmarshal(text, row, json.RejectUnknownMembers(true))
	if err == nil {
		return "", ""
	}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return fmt.Sprintf("unknown key %q", dotted(semantic.JSONPointer)), knownKeys
	case errors.As(err, &semantic) && semantic.JSONPointer != "" && semantic.GoType != nil:
		return fmt.Sprintf("%s: not a %s", dotted(semantic.JSONPointer), semantic.GoType), rowCure
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("key %q stands twice", dotted(syntactic.JSONPointer)), ""
	}
	return "no JSON object", rowCure
}

// dotted converts a JSON pointer to the notation of the messages: params.channels.
func dotted(p jsontext.Pointer) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
}
