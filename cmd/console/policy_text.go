package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// visible spells what does not print, such as an escape sequence in a name, so that nothing in the database can write
// on the terminal as it likes.
func visible(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case strconv.IsPrint(c):
			b.WriteRune(c)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

// orDash is s made visible, or a dash, so that a table has no holes.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return visible(s)
}

// instant is a time of the database in UTC.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// writeTable writes rows aligned; their cells are made visible.
func writeTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = orDash(cell)
		}
		io.WriteString(t, strings.Join(row, "\t")+"\n")
	}
	return t.Flush()
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
