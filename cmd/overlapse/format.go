package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// micros formats a time for a table: "12.3 µs", "12.34 ms" or "1.234 s".
func micros(t trace.Time) string {
	us := float64(t) / 1e3
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.3f s", us/1e6)
	case us >= 1e4:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.1f µs", us)
}

// counted formats a number with its noun: "1 pair", "2 pairs".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// uncertainty formats the alignment error of a rank's clock against the first rank's.
func uncertainty(t trace.Time) string {
	if t == trace.None {
		return "unknown"
	}
	return micros(t)
}

// quoted is a text in quotes, or "" for none.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

func percent(change float64) string {
	if change > -0.0005 && change < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// binary is an error if standard output is a terminal and the format is none of text.
func (a *app) binary(format, cure string) error {
	if a.width == 0 || format != "pprof" && format != "parquet" {
		return nil
	}
	return usageError{fmt.Errorf("%s is binary: %s", format, cure)}
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(plain.JSON(w))
	e.SetIndent("", "  ")
	return e.Encode(v)
}
