package lex

import (
	"encoding/binary"
	"math/bits"
)

// The lexer works on a window of the file that holds whole values. It consists of pure
// functions from a position to the position after a token. A negative result is not a
// position: Short means that the window ends inside the token, any other is bad(p), a
// syntax error at p.
//
// It accepts JSON and five extensions that profilers write:
// NaN and Infinity in the spellings of Python and C, a comma before a closing
// bracket, raw control characters in strings, and bare words of NCCL's profiler
// plugin (0x262ca50, ncclFloat32). FuzzLex compares it with encoding/json.
//
// A JSON library would reject those five and truncated files. Reading a .json.gz takes
// 1.5 times as long with the fastest streaming library (BenchmarkLibraryGzip,
// BenchmarkReadGzip).

// Short means that the window ends inside a token.
const Short = -1

// maxDepth bounds nesting as encoding/json does.
const maxDepth = 10000

func bad(p int) int { return -2 - p }

// BadAt is the inverse of bad.
func BadAt(j int) int { return -2 - j }

// SkipSpace returns the position of the first byte at or after i that is no white space.
func SkipSpace(b []byte, i int) int {
	const white = 1<<' ' | 1<<'\n' | 1<<'\r' | 1<<'\t'
	for i < len(b) && b[i] <= ' ' && white>>b[i]&1 != 0 {
		i++
	}
	return i
}

// skipString returns the position after the string whose opening quote is at i.
func skipString(b []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
		quote = ones * '"'
		slash = ones * '\\'
	)
	for i++; ; {
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			q, s := w^quote, w^slash
			// The lowest bit set marks the first quote or backslash; higher bits may be
			// false positives.
			m := ((q - ones) &^ q & highs) | ((s - ones) &^ s & highs)
			if m == 0 {
				i += 8
				continue
			}
			i += int(uint(bits.TrailingZeros64(m)) >> 3)
		} else {
			for i < len(b) && b[i] != '"' && b[i] != '\\' {
				i++
			}
			if i == len(b) {
				return Short
			}
		}
		if b[i] == '"' {
			return i + 1
		}
		if i = skipEscape(b, i); i < 0 {
			return i
		}
	}
}

// skipEscape returns the position after the escape sequence whose backslash is at i.
func skipEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return Short
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(b) {
				return Short
			}
			if !isHex(b[k]) {
				return bad(k)
			}
		}
		return i + 6
	}
	return bad(i + 1)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// skipNumber returns the position after the number at i. A number that touches the end
// of the window is Short: it may continue.
func skipNumber(b []byte, i int) int {
	start := i
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return Short
	case b[i] == '0':
		if j := skipBare(b, i); i == start && (j == Short || j > 0) {
			return j
		}
		i++
	case IsDigit(b[i]):
		for i < len(b) && IsDigit(b[i]) {
			i++
		}
	default:
		return skipNotFinite(b, start)
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i = skipDigits(b, i); i < 0 {
			return i
		}
	}
	if i >= len(b) {
		return Short
	}
	return i
}

// skipDigits requires at least one digit.
func skipDigits(b []byte, i int) int {
	if i >= len(b) {
		return Short
	}
	if !IsDigit(b[i]) {
		return bad(i)
	}
	for i < len(b) && IsDigit(b[i]) {
		i++
	}
	return i
}

// skipNotFinite returns the position after NaN, Infinity, inf and the like.
func skipNotFinite(b []byte, i int) int {
	start := i
	if b[i] == '-' {
		i++
	}
	for _, w := range [...]string{"NaN", "nan", "Infinity", "infinity", "inf", "Inf"} {
		j := skipWord(b, i, w)
		if j == Short {
			return Short
		}
		if j > 0 && (j >= len(b) || !isLetter(b[j])) {
			return j
		}
	}
	return bad(start)
}

// skipBare returns the position after a number in hexadecimal digits, or a name that begins with nccl.
func skipBare(b []byte, i int) int {
	inside, from := isHex, skipWord(b, i, "0x")
	if from < Short {
		inside, from = isNameByte, skipWord(b, i, "nccl")
	}
	if from < 0 {
		return from
	}
	for i = from; i < len(b) && inside(b[i]); i++ {
	}
	switch {
	case i == len(b):
		return Short
	case i == from:
		return bad(i)
	}
	return i
}

func isNameByte(c byte) bool { return isLetter(c) || IsDigit(c) || c == '_' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// skipWord returns the position after the word w at i.
func skipWord(b []byte, i int, w string) int {
	for k := range len(w) {
		if i+k >= len(b) {
			return Short
		}
		if b[i+k] != w[k] {
			return bad(i + k)
		}
	}
	return i + len(w)
}

// SkipValue returns the position after the value that starts at i.
func SkipValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return Short
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{':
		return skipObject(b, i, depth)
	case c == '[':
		return skipArray(b, i, depth)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n' && i+1 < len(b) && b[i+1] == 'u':
		return skipWord(b, i, "null")
	case c == 'n' && i+1 >= len(b):
		return Short
	case c == 'n' && b[i+1] == 'c':
		return skipBare(b, i)
	case c == '-' || IsDigit(c) || isLetter(c):
		return skipNumber(b, i)
	}
	return bad(i)
}

func skipArray(b []byte, i, depth int) int {
	if depth >= maxDepth {
		return bad(i)
	}
	for i++; ; i++ {
		if i = SkipSpace(b, i); i >= len(b) {
			return Short
		}
		if b[i] == ']' {
			return i + 1
		}
		if i = SkipValue(b, i, depth+1); i < 0 {
			return i
		}
		if i = SkipSpace(b, i); i >= len(b) {
			return Short
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return bad(i)
		}
	}
}

func skipObject(b []byte, i, depth int) int {
	if depth >= maxDepth {
		return bad(i)
	}
	i++
	for {
		key, j := NextKey(b, i)
		if key == nil {
			return j
		}
		if i = SkipValue(b, j, depth+1); i < 0 {
			return i
		}
		if i = SkipComma(b, i); i < 0 {
			return i
		}
	}
}

// NextKey reads the key, with its quotes, and the colon of the member at or
// after i and returns the position of its value. At the end of the object the
// key is nil and the position is after the bracket.
func NextKey(b []byte, i int) (key []byte, j int) {
	if i = SkipSpace(b, i); i >= len(b) {
		return nil, Short
	}
	if b[i] == '}' {
		return nil, i + 1
	}
	if b[i] != '"' {
		return nil, bad(i)
	}
	if j = skipString(b, i); j < 0 {
		return nil, j
	}
	key = b[i:j]
	if j = SkipSpace(b, j); j >= len(b) {
		return nil, Short
	}
	if b[j] != ':' {
		return nil, bad(j)
	}
	if j = SkipSpace(b, j+1); j >= len(b) {
		return nil, Short
	}
	return key, j
}

// SkipComma returns the position after a comma, or of the closing bracket of an object, at or after i.
func SkipComma(b []byte, i int) int {
	if i = SkipSpace(b, i); i >= len(b) {
		return Short
	}
	switch b[i] {
	case ',':
		return i + 1
	case '}':
		return i
	}
	return bad(i)
}

// Elements returns the elements of a list, and nothing of other values.
func Elements(b []byte) (list [][]byte) {
	if len(b) == 0 || b[0] != '[' {
		return nil
	}
	for i := 1; ; i++ {
		i = SkipSpace(b, i)
		end := SkipValue(b, i, 0)
		if end < 0 {
			return nil
		}
		list = append(list, b[i:end])
		switch i = SkipSpace(b, end); {
		case i < len(b) && b[i] == ']':
			return list
		case i >= len(b) || b[i] != ',':
			return nil
		}
	}
}
