package rocprof

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// records reads all of a table, header included.
func records(r io.Reader) (all [][]string, lines []int64, err error) {
	t, err := newTable(r, "t.csv")
	if err != nil {
		return nil, nil, err
	}
	all, lines = append(all, t.header), append(lines, 1)
	for {
		ok, err := t.next()
		if err != nil || !ok {
			return all, lines, err
		}
		all, lines = append(all, slices.Clone(t.fields)), append(lines, t.line)
	}
}

func TestTable(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       [][]string
		lines      []int64
	}{
		{"plain", "a,b\n1,2\n", [][]string{{"a", "b"}, {"1", "2"}}, []int64{1, 2}},
		{"no last newline", "a,b\r\n1,2\r", [][]string{{"a", "b"}, {"1", "2"}}, []int64{1, 2}},
		{"byte order mark", "\ufeff\"a\",b\n", [][]string{{"a", "b"}}, []int64{1}},
		{"quotes", "a,b\n\"x,y\",\"p\"\"q\"\n", [][]string{{"a", "b"}, {"x,y", `p"q`}}, []int64{1, 2}},
		{"bare quotes of rocprof v1", "a,b\n\"f(\"x\") [clone]\",\"\"\n", [][]string{{"a", "b"}, {`f("x") [clone]`, ""}}, []int64{1, 2}},
		{"newline in quotes", "a,b\n\"x\ny\",2\n3,4\n", [][]string{{"a", "b"}, {"x\ny", "2"}, {"3", "4"}}, []int64{1, 2, 4}},
		{"empty line", "a,b\n\n1,2\n", [][]string{{"a", "b"}, {"1", "2"}}, []int64{1, 3}},
		{"trailing comma", "a,\n1,\n,2", [][]string{{"a", ""}, {"1", ""}, {"", "2"}}, []int64{1, 2, 3}},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			got, lines, err := records(r)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) || !slices.Equal(lines, c.lines) {
				t.Errorf("%s: got %q at lines %v, want %q at %v", c.name, got, lines, c.want, c.lines)
			}
		}
	}
}

func TestTableLong(t *testing.T) {
	name := strings.Repeat("x,\"", 1<<20) + "end"
	text := "a,b\n\"" + strings.ReplaceAll(name, `"`, `""`) + "\",1\n2,3\n"
	got, lines, err := records(strings.NewReader(text))
	if err != nil || len(got) != 3 || got[1][0] != name || lines[2] != 3 {
		t.Errorf("%d records, lines %v, error %v", len(got), lines, err)
	}
}

func TestTableCutShort(t *testing.T) {
	r := io.MultiReader(strings.NewReader("a,b\n1,2\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, _, err := records(r)
	if want := "t.csv:line 3: the compressed file is truncated: unexpected EOF (copy it again, or let the job finish writing it)"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{" 42 ", 42, true},
		{"-7", -7, true},
		{"9223372036854775807", 9223372036854775807, true},
		{"9223372036854775808", 0, false},
		{"9999999999999999999", 0, false},
		{"99999999999999999999", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"1.5", 0, false},
		{"0x1", 0, false},
	} {
		if n, ok := number(c.text); n != c.want || ok != c.ok {
			t.Errorf("number(%q) = %d, %v", c.text, n, ok)
		}
	}
}

// What encoding/csv accepts without LazyQuotes, the table reads the same.
func FuzzTable(f *testing.F) {
	f.Add([]byte("a,b\n\"x\"\"\n\",2\r\n"))
	f.Add([]byte("\"a\",b,\n,\"\"\n"))
	f.Add([]byte("a,b\n\x00\n1,2\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, _, err := records(bytes.NewReader(text))
		slow, _, slowErr := records(iotest.OneByteReader(bytes.NewReader(text)))
		if fmt.Sprint(err) != fmt.Sprint(slowErr) || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", slow) {
			t.Fatalf("byte by byte: %q, %v; at once: %q, %v", slow, slowErr, got, err)
		}
		if bytes.Contains(text, []byte("\r")) || bytes.Contains(text, []byte("\ufeff")) {
			return // encoding/csv drops carriage returns inside quotes too
		}
		blank := func(r []string) bool { return len(r) == 1 && r[0] == "" }
		twin := csv.NewReader(bytes.NewReader(text))
		twin.FieldsPerRecord = -1
		want, twinErr := twin.ReadAll()
		if twinErr != nil || len(want) == 0 || strings.TrimSpace(strings.Join(want[0], "")) == "" {
			return
		}
		if err != nil {
			t.Fatalf("encoding/csv reads it, but: %v", err)
		}
		got = slices.DeleteFunc(got, blank)
		want = slices.DeleteFunc(want, blank)
		trimHeader := func(all [][]string) {
			if len(all) > 0 {
				for i := range all[0] {
					all[0][i] = strings.TrimSpace(all[0][i])
				}
			}
		}
		trimHeader(got)
		trimHeader(want)
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Fatalf("got %q, encoding/csv reads %q", got, want)
		}
	})
}

func FuzzReadWG(f *testing.F) {
	f.Add([]byte(wgHeader + "0,k,0,0,7,1,100,160,180\n0,k,0,0,7,1,90,60,80\n"))
	f.Add([]byte("Kernel_Name,Workgroup_Id,Start_Timestamp,Wait_End_Timestamp,End_Timestamp\n\"a\"\"b\",1,-5,9223372036854775807,3\n"))
	f.Add([]byte("Kernel_Name,Workgroup_Id,Start_Timestamp,End_Timestamp\nk,0,-1,9223372036854775807\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		run, err := ReadWG(bytes.NewReader(text), "f.csv")
		if err == nil {
			checkRun(t, run)
		}
	})
}
