package run

import (
	"cmp"
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
	// Partial tells that the filter's text names more than is looked for: Runs that fit are on no page.
	Partial bool
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
	n, page.Partial = min(max(n, 1), MaxPage), s.partial()
	if len(walks) == 0 {
		return page, nil
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

// listSQL merges what the lanes of all walks meet first. A Run that more than one walk meets is one row.
func (s *statement) listSQL(walks []walk, from *pg.Cursor, newer bool, limit int) string {
	o := order{newer}
	if len(walks) == 1 && s.lanes(walks[0]) == 1 && len(s.unserved(walks[0])) == 0 {
		return fmt.Sprintf("SELECT %s, true AS fits, false AS cut FROM %s CROSS JOIN LATERAL (SELECT * FROM runs r WHERE %s ORDER BY %s LIMIT %d) r ORDER BY %[4]s",
			summaryColumns, s.over(walks[0]), s.keysOf(walks[0])+s.beyond(from, o), o, limit)
	}
	var seen []string
	for _, w := range walks {
		seen = append(seen, "("+s.seen(w, len(walks), from, o, limit)+")")
	}
	once := seen[0]
	if len(walks) > 1 {
		once = "(SELECT r.id, r.created_at_ms, bool_or(r.fits) AS fits, bool_or(r.cut) AS cut FROM (" +
			strings.Join(seen, "\nUNION ALL\n") + ") r GROUP BY r.created_at_ms, r.id)"
	}
	return fmt.Sprintf(`WITH page AS MATERIALIZED (SELECT r.id, r.fits, r.cut FROM %s r ORDER BY %s LIMIT %d)
SELECT %s, page.fits, page.cut FROM page JOIN runs r ON r.id = page.id ORDER BY %[2]s`, once, o, limit, summaryColumns)
}

// over is the relation of w's lanes.
func (s *statement) over(w walk) string {
	over := w.over
	if slices.Contains(w.serves, byStatus) {
		over += " CROSS JOIN " + s.statuses(w, s.wanted())
	}
	return "(SELECT * FROM " + over + ") l"
}

// wanted are the statuses that a walk by status has lanes for.
func (s *statement) wanted() []Status {
	if len(s.Statuses) > 0 {
		return s.Statuses
	}
	return RunStatuses()
}

// statuses is a relation of the statuses that w has lanes for. Where there are many lanes of each, it leaves out those that
// no Run is in: of the ones that a Run does not stay in there are few Runs, and an index of them tells with one look. The
// order is that index's, so that nothing else can serve it.
func (s *statement) statuses(w walk, list []Status) string {
	passing := slices.DeleteFunc(slices.Clone(list), Status.Terminal)
	if w.rows == 1 || len(passing) == 0 {
		return column(s, "status", list)
	}
	final := slices.DeleteFunc(slices.Clone(list), func(s Status) bool { return !s.Terminal() })
	return fmt.Sprintf(`(SELECT status FROM unnest(%s::text[]) AS final(status)
        UNION ALL
        SELECT passing.status FROM unnest(%s::text[]) AS passing(status) CROSS JOIN LATERAL (
            SELECT FROM runs r WHERE r.status = passing.status AND %s ORDER BY r.priority DESC, r.queued_at_ms, r.id LIMIT 1) r) AS status`,
		s.arg(final), s.arg(passing), unsettled)
}

// lanes is how many lanes w has at most.
func (s *statement) lanes(w walk) int {
	if slices.Contains(w.serves, byStatus) {
		return w.rows * len(s.wanted())
	}
	return w.rows
}

// beyond restricts a lane to what comes after a place in the list, if there is one.
func (s *statement) beyond(from *pg.Cursor, o order) string {
	if from == nil {
		return ""
	}
	return o.after(s.arg(from.CreatedAtMS), s.arg(from.ID))
}

// seen selects the first Runs that w meets, and where its lanes were cut.
func (s *statement) seen(w walk, walks int, from *pg.Cursor, o order, limit int) string {
	l := lane{over: s.over(w), keys: s.keysOf(w), rest: s.rest(w), order: o, limit: limit}
	l.most = max(lookedAt/(walks*s.lanes(w)), limit)
	if head := HeadOf(limit, s.lanes(w)); head < limit {
		return l.heads(s.beyond(from, o), head)
	}
	return "SELECT c.* FROM " + l.over + " CROSS JOIN LATERAL (" + l.walk(s.beyond(from, o), l.most) + ") c"
}

// lane is what the lanes of one walk have in common.
type lane struct {
	over, keys string
	rest       string // what is asked for beyond the keys, or ""
	order      order
	limit      int // Runs that fit are wanted
	most       int // Runs are looked at, if not all of them fit
}

// walk selects the first Runs of one lane, and the last that it looked at if it looked at as many as it may.
func (l lane) walk(beyond string, most int) string {
	if l.rest == "" {
		return fmt.Sprintf("SELECT r.id, r.created_at_ms, true AS fits, false AS cut FROM runs r WHERE %s ORDER BY %s LIMIT %d", l.keys+beyond, l.order, l.limit)
	}
	return fmt.Sprintf(`SELECT x.id, x.created_at_ms, x.fits, x.nth = %[4]d AS cut FROM (
        SELECT r.id, r.created_at_ms, %[2]s AS fits, row_number() OVER (ORDER BY %[3]s) AS nth
        FROM runs r WHERE %[1]s ORDER BY %[3]s LIMIT %[4]d) x
    WHERE x.fits OR x.nth = %[4]d LIMIT %[5]d`, l.keys+beyond, l.rest, l.order, most, l.limit)
}

// HeadOf is how many rows make the head of a lane, of Runs or of Schedules: so many that half the lanes fill a page of limit
// rows, and with few lanes more are not entered twice than need be.
func HeadOf(limit, lanes int) int { return min(max(2*limit/max(lanes, 1), 3), limit) }

// heads selects the first Runs of many lanes. Only the head of every lane is looked at: the last of the first limit that fit
// of all heads is a bound that no Run of the page is beyond, and a lane is walked on, as far as the bound, only if all of its
// head comes before it.
func (l lane) heads(beyond string, head int) string {
	until := l.order.until("(SELECT created_at_ms FROM bound)")
	return fmt.Sprintf(`WITH head AS MATERIALIZED (
        SELECT l.*, r.* FROM %[1]s CROSS JOIN LATERAL (
            SELECT r.id, r.created_at_ms, %[2]s AS fits, row_number() OVER (ORDER BY %[4]s) AS nth FROM runs r WHERE %[3]s ORDER BY %[4]s LIMIT %[5]d) r
    ), bound AS MATERIALIZED (SELECT r.created_at_ms FROM head r WHERE r.fits ORDER BY %[4]s OFFSET %[6]d - 1 LIMIT 1)
    SELECT id, created_at_ms, fits, false AS cut FROM head WHERE fits
    UNION ALL
    SELECT c.* FROM (SELECT * FROM head r WHERE r.nth = %[5]d%[7]s) l CROSS JOIN LATERAL (
        %[8]s) c`,
		l.over, cmp.Or(l.rest, "true"), l.keys+beyond, l.order, head, l.limit, until, l.walk(l.order.after("l.created_at_ms", "l.id")+until, l.most-head))
}

// order is that of a list: newest first, or the other way round.
type order struct{ newer bool }

func (o order) String() string {
	if o.newer {
		return "r.created_at_ms, r.id"
	}
	return "r.created_at_ms DESC, r.id DESC"
}

// after restricts to what comes after a place.
func (o order) after(createdAtMS, id string) string {
	than := "<"
	if o.newer {
		than = ">"
	}
	return " AND (r.created_at_ms, r.id) " + than + " (" + createdAtMS + ", " + id + ")"
}

// until restricts to what does not come after the Runs of a time, which may be NULL.
func (o order) until(createdAtMS string) string {
	if o.newer {
		return " AND r.created_at_ms <= coalesce(" + createdAtMS + ", 9223372036854775807)"
	}
	return " AND r.created_at_ms >= coalesce(" + createdAtMS + ", 0)"
}
