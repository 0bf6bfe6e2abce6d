package lex

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote removes the quotes of a raw string and returns other values unchanged.
func Unquote(b []byte) []byte {
	if len(b) >= 2 && b[0] == '"' {
		return b[1 : len(b)-1]
	}
	return b
}

// text returns the value of a raw string. It resolves escapes into buf, which grows as
// needed. Without escapes, the usual case, the result is a subslice of b.
func Text(b []byte, buf *[]byte) []byte {
	b = Unquote(b)
	i := 0
	for i < len(b) && b[i] != '\\' {
		i++
	}
	if i == len(b) {
		return b
	}
	out := append((*buf)[:0], b[:i]...)
	for i < len(b) {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		var r rune
		r, i = escape(b, i)
		out = utf8.AppendRune(out, r)
	}
	*buf = out
	return out
}

// escape resolves the valid escape sequence at i and returns the position after it.
func escape(b []byte, i int) (rune, int) {
	switch c := b[i+1]; c {
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'n':
		return '\n', i + 2
	case 'r':
		return '\r', i + 2
	case 't':
		return '\t', i + 2
	case 'u':
		r := hex4(b[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			if i+6 <= len(b) && b[i] == '\\' && b[i+1] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(b[i+2:])); pair != utf8.RuneError {
					return pair, i + 6
				}
			}
			return utf8.RuneError, i
		}
		return r, i
	default:
		return rune(c), i + 2
	}
}

// ValidUTF8 replaces invalid UTF-8, as JSON decoders do: other formats require valid
// UTF-8.
func ValidUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}

// quote formats a value for an error message: Short, Printable, on one line.
func Quote(s string) string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToGraphic(s)
}

// AppendString writes a JSON string. Names are untrusted: control characters and
// markup are escaped, and invalid UTF-8 is replaced.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c < ' ' || c == 0x7f || c == '<' || c == '>' || c == '&':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
		}
	}
	return append(b, '"')
}
