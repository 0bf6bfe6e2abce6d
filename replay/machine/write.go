package machine

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteYAML writes the profile so that Parse reads the same machine, but for
// the number of GPUs, which is part of a machine's name and not of its profile.
func WriteYAML(m Machine, w io.Writer) error {
	out := bufio.NewWriter(w)
	texts, entries := texts(&m), Entries(&m)
	var open []string // sections that are open
	for _, key := range order(&m) {
		section := strings.Split(key, ".")
		name := section[len(section)-1]
		section = section[:len(section)-1]
		open = descend(out, open, section)
		indent := strings.Repeat("  ", len(section))
		for _, t := range texts {
			if t.key == key {
				fmt.Fprintf(out, "%s%s: %s\n", indent, name, quote(*t.at))
			}
		}
		for _, e := range entries {
			if e.Key == key {
				writeEntry(out, indent, name, e)
			}
		}
	}
	return out.Flush()
}

// order lists the keys: a section's texts precede its numbers.
func order(m *Machine) []string {
	var keys []string
	texts := texts(m)
	written := make([]bool, len(texts))
	for _, e := range Entries(m) {
		if e.omitted() {
			continue
		}
		for i, t := range texts {
			if !written[i] && sectionOf(t.key) == sectionOf(e.Key) || !written[i] && sectionOf(t.key) == "" {
				keys = append(keys, t.key)
				written[i] = true
			}
		}
		keys = append(keys, e.Key)
	}
	return keys
}

func sectionOf(key string) string {
	i := strings.LastIndexByte(key, '.')
	return key[:max(i, 0)]
}

// descend writes the headings that lead from the open sections to the wanted ones.
func descend(w *bufio.Writer, open, want []string) []string {
	same := 0
	for same < len(open) && same < len(want) && open[same] == want[same] {
		same++
	}
	for i := same; i < len(want); i++ {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s%s:\n", strings.Repeat("  ", i), want[i])
	}
	return want
}

func writeEntry(w *bufio.Writer, indent, name string, e Entry) {
	if e.Quantity != nil {
		q := *e.Quantity
		value := ""
		if q.Known() {
			value = "value: " + q.String() + ", "
		}
		fmt.Fprintf(w, "%s%s: {%s%s: %s}\n", indent, name, value, markKeys[q.Mark], quote(q.Source))
		return
	}
	fmt.Fprintf(w, "%s%s:\n%s  %s: %s\n", indent, name, indent, markKeys[e.Table.Mark], quote(e.Table.Source))
	if !e.Table.Known() {
		return
	}
	fmt.Fprintf(w, "%s  rows:\n", indent)
	for _, row := range e.Table.Rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = formatCell(v, e.Dims[i])
		}
		fmt.Fprintf(w, "%s    - [%s]\n", indent, strings.Join(cells, ", "))
	}
}

// quote writes a text as a YAML double-quoted scalar where it is no plain word.
func quote(s string) string {
	plain := s != ""
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_') {
			plain = false
		}
	}
	if plain && s != "true" && s != "false" && s != "null" && s != "yes" && s != "no" {
		return s
	}
	return strconv.Quote(s)
}
