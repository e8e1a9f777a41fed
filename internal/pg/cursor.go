package pg

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Cursor is a position in a list of rows, newest first: the next page begins after it, whatever was written meanwhile.
type Cursor struct {
	CreatedAtMS int64
	ID          uuid.UUID
}

// String spells c for a URL.
func (c Cursor) String() string { return fmt.Sprintf("%d_%s", c.CreatedAtMS, c.ID) }

// ParseCursor reads what [Cursor.String] spelled, and nothing else.
func ParseCursor(s string) (Cursor, error) {
	ms, id, _ := strings.Cut(s, "_")
	var c Cursor
	var errMS, errID error
	c.CreatedAtMS, errMS = strconv.ParseInt(ms, 10, 64)
	c.ID, errID = uuid.Parse(id)
	if errMS != nil || errID != nil || c.CreatedAtMS < 0 || c.String() != s {
		return Cursor{}, errors.New("not a place in a list")
	}
	return c, nil
}

// FirstPage cuts list, of which one more than n was read to see whether there is more, to n, and says where the
// following page begins; nil is the end.
func FirstPage[T any](list []T, n int, at func(T) Cursor) ([]T, *Cursor) {
	if len(list) <= n {
		return list, nil
	}
	next := at(list[n-1])
	return list[:n], &next
}
