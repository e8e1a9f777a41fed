package web

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	exportPage  = 200 // rows read at a time
	exportFlush = 10 * time.Second
)

// Excel takes a file without this mark for one of its own language's encoding, and shows 账单 as something else. Programs
// stumble over it: it is there for who asks, which the link on a page does.
const (
	bomParameter = "bom"
	withBOM      = "1"
)

// csv is where the CSV of the list at path is, as a page offers it.
func (l links) csv(path string, q url.Values) string {
	return l.url(path+".csv", with(q, bomParameter, withBOM))
}

// writeCSV writes rows as they are read (RFC 4180, UTF-8). Until the first row is there, an error is a page like any other;
// after it the connection is broken off, because a part of a list must not look like the whole.
func writeCSV(c echo.Context, rows iter.Seq2[[]string, error]) error {
	w := csv.NewWriter(c.Response())
	w.UseCRLF = true
	rc := http.NewResponseController(c.Response())
	n := 0
	for row, err := range rows {
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if n == 0 {
			h := c.Response().Header()
			h.Set(echo.HeaderContentType, "text/csv; charset=utf-8; header=present")
			h.Set(echo.HeaderContentDisposition, `attachment; filename="`+strings.ReplaceAll(path.Base(c.Path()), `"`, "")+`"`)
			h.Set("X-Accel-Buffering", "no")
			c.Response().WriteHeader(http.StatusOK)
			if c.QueryParam(bomParameter) == withBOM && c.Request().Method != http.MethodHead {
				io.WriteString(c.Response(), "\ufeff") // an error is told by Flush
			}
		}
		if c.Request().Method == http.MethodHead {
			return nil // nobody reads the rest
		}
		w.Write(harmless(row)) // an error is the writer's own, and told by Flush
		if n++; n%exportPage == 0 {
			if err := rc.SetWriteDeadline(time.Now().Add(exportFlush)); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
			if err := flushed(w); err != nil {
				return err
			}
		}
	}
	return flushed(w)
}

// flushed hands w's rows to the reader. One who has left, or takes nothing any more, is no failure of the console's.
func flushed(w *csv.Writer) error {
	w.Flush()
	if err := w.Error(); err != nil {
		return fmt.Errorf("the reader of an export left: %w: %w", context.Canceled, err)
	}
	return nil
}

// harmless keeps a spreadsheet from taking a cell for a formula: one that begins like it gets an apostrophe before it. One
// that is set up for Chinese or Japanese takes the wide signs for the narrow ones.
func harmless(row []string) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		if cell != "" && strings.IndexAny(cell, "=+-@\t\r\n＝＋－＠") == 0 {
			cell = "'" + cell
		}
		cells[i] = cell
	}
	return cells
}

// export reads a list to its end, a part at a time, from the cursor on at which each part ends. The columns come with the first
// part, so that one that cannot be read is told of by a page.
func export[T, C any](columns []string, read func(after *C) ([]T, *C, error), row func(T) []string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		var after *C
		for {
			list, next, err := read(after)
			if err != nil {
				yield(nil, err)
				return
			}
			if after == nil && !yield(columns, nil) {
				return
			}
			for _, x := range list {
				if !yield(row(x), nil) {
					return
				}
			}
			if next == nil {
				return
			}
			after = next
		}
	}
}

// optional spells what may not be there; then it is an empty cell.
func optional[T any](x *T) string {
	if x == nil {
		return ""
	}
	return fmt.Sprint(*x)
}

// cellTime spells UTC milliseconds as RFC 3339 has them.
func cellTime(ms *int64) string {
	if ms == nil {
		return ""
	}
	return time.UnixMilli(*ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
