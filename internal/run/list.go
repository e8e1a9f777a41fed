package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/qinglong/console/internal/pg"
)

// MaxPage is the largest number of Runs that one [List] returns.
const MaxPage = 200

// Page is a part of a list, newest first. Next is where the older part begins and Prev where the newer part ends; nil
// is the end.
//
// When no index has all that a filter asks for, a page ends where as many Runs as are looked at once have been looked
// at: then it is shorter than asked for, possibly empty, and Next leads on.
type Page struct {
	Runs []Summary
	Next *pg.Cursor
	Prev *pg.Cursor
}

// List returns at most n Runs (1 to [MaxPage]) that match f, newest first, from after on; a nil after is the newest.
func List(ctx context.Context, q pg.Querier, f Filter, after *pg.Cursor, n int) (_ Page, err error) {
	defer pg.Wrap(&err, "run.List(%d projects)", len(f.Projects))
	page, err := list(ctx, q, f, after, false, n)
	if err != nil || after == nil {
		return page, err
	}
	if page.Prev = after; len(page.Runs) > 0 {
		page.Prev = place(page.Runs[0])
	}
	return page, nil
}

// Newer returns the at most n Runs that match f and stand before a place in the list, newest first. Where there is
// nothing newer than those, it is the newest page, filled up.
func Newer(ctx context.Context, q pg.Querier, f Filter, before pg.Cursor, n int) (_ Page, err error) {
	defer pg.Wrap(&err, "run.Newer(%d projects)", len(f.Projects))
	page, err := list(ctx, q, f, &before, true, n)
	if err != nil {
		return Page{}, err
	}
	if page.Next == nil {
		return List(ctx, q, f, nil, n)
	}
	slices.Reverse(page.Runs)
	page.Prev, page.Next = page.Next, &before
	if len(page.Runs) > 0 {
		page.Next = place(page.Runs[len(page.Runs)-1])
	}
	return page, nil
}

func place(r Summary) *pg.Cursor { return &pg.Cursor{CreatedAtMS: r.CreatedAtMS, ID: r.ID} }

// list walks away from a place, and says in Next where to go on in the same direction.
func list(ctx context.Context, q pg.Querier, f Filter, from *pg.Cursor, newer bool, n int) (Page, error) {
	s, err := newStatement(ctx, q, f)
	if err != nil {
		return Page{}, err
	}
	return s.page(ctx, q, s.walks(false), from, newer, n)
}

func (s *statement) page(ctx context.Context, q pg.Querier, walks []walk, from *pg.Cursor, newer bool, n int) (page Page, err error) {
	n = min(max(n, 1), MaxPage)
	if len(walks) == 0 {
		return Page{}, nil
	}
	rows, err := collect[met](ctx, q, s.listSQL(walks, from, newer, n+1), s.args)
	if err != nil {
		return Page{}, err
	}
	for _, r := range rows {
		if r.Fits && len(page.Runs) == n {
			page.Next = place(page.Runs[n-1])
			break
		}
		if r.Fits {
			page.Runs = append(page.Runs, r.Summary)
		}
		if r.Cut {
			page.Next = place(r.Summary)
			break
		}
	}
	return page, nil
}

// met is a Run that a walk met. Beyond one with Cut its lane was not walked: there may be others that fit.
type met struct {
	Summary
	Fits, Cut bool
}

// listSQL merges what the lanes of all walks meet first. A Run that more than one meets is one row.
func (s *statement) listSQL(walks []walk, from *pg.Cursor, newer bool, limit int) string {
	var lanes []string
	for _, w := range walks {
		over := w.over
		if slices.Contains(w.serves, byStatus) {
			over += " CROSS JOIN unnest(" + s.arg(s.wanted()) + "::text[]) AS s(status)"
		}
		lanes = append(lanes, "SELECT c.* FROM "+over+" CROSS JOIN LATERAL ("+s.lane(w, len(walks), from, newer, limit)+") c")
	}
	order := order(newer)
	return fmt.Sprintf(`WITH page AS MATERIALIZED (
    SELECT r.id, r.created_at_ms, bool_or(r.fits) AS fits, bool_or(r.cut) AS cut FROM (%s) r
    GROUP BY r.created_at_ms, r.id ORDER BY %s LIMIT %d
)
SELECT %s, page.fits, page.cut FROM page JOIN runs r ON r.id = page.id ORDER BY %s`,
		strings.Join(lanes, "\nUNION ALL\n"), order, limit, summaryColumns, order)
}

// wanted are the statuses that a walk by status has lanes for.
func (s *statement) wanted() []Status {
	if len(s.Statuses) > 0 {
		return s.Statuses
	}
	return RunStatuses()
}

// lane selects the first Runs of one lane, and the last that it looked at if it looked at as many as it may.
func (s *statement) lane(w walk, walks int, from *pg.Cursor, newer bool, limit int) string {
	keys, rest, order := s.keysOf(w, from, newer), s.rest(w), order(newer)
	if rest == "" {
		return fmt.Sprintf("SELECT r.id, r.created_at_ms, true AS fits, false AS cut FROM runs r WHERE %s ORDER BY %s LIMIT %d", keys, order, limit)
	}
	most := max(lookedAt/(walks*s.lanes(w)), limit)
	return fmt.Sprintf(`SELECT x.id, x.created_at_ms, x.fits, x.nth = %[4]d AS cut FROM (
        SELECT r.id, r.created_at_ms, %[2]s AS fits, row_number() OVER (ORDER BY %[3]s) AS nth
        FROM runs r WHERE %[1]s ORDER BY %[3]s LIMIT %[4]d) x
    WHERE x.fits OR x.nth = %[4]d LIMIT %[5]d`, keys, rest, order, most, limit)
}

// lanes is how many lanes w has, roughly.
func (s *statement) lanes(w walk) int {
	n := len(s.Projects) * max(w.each, 1)
	if slices.Contains(w.serves, byStatus) {
		n *= len(s.wanted())
	}
	return n
}
