package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/qinglong/console/internal/pg"
)

// Count is how many there are; with More, at least that many.
type Count struct {
	N    int  `json:"n"`
	More bool `json:"more"`
}

// textCap is where counting stops when there is a text to look for: it has many lanes.
const textCap = 1000

// CountByStatus counts the Runs that match f, whatever its Statuses, apart by status; a status without any is missing,
// unless there may be more. Of a filter's unanswered Runs it counts the [Troubles]. Of each status it looks at no more
// than [CountCap] Runs, fewer where no index has all that f asks for, and then says that there may be more.
func CountByStatus(ctx context.Context, q pg.Querier, f Filter) (_ map[Status]Count, err error) {
	defer pg.Wrap(&err, "run.CountByStatus(%d projects)", len(f.Projects))
	if f.Statuses = nil; f.Unanswered {
		f.Statuses = Troubles()
	}
	s, err := newStatement(ctx, q, f)
	if err != nil {
		return nil, err
	}
	counts := map[Status]Count{}
	walks := s.walks(true)
	if len(walks) == 0 {
		return counts, nil
	}
	rows, err := collect[counted](ctx, q, s.countSQL(walks), s.args)
	cut := s.partial() || slices.ContainsFunc(rows, func(r counted) bool { return r.CutAll })
	for _, r := range rows {
		if c := (Count{N: min(r.Fit, CountCap), More: cut || r.Cut}); c.N > 0 || c.More {
			counts[r.Status] = c
		}
	}
	return counts, err
}

// counted is what was seen of one status. Cut tells that not all of it was seen, CutAll that of no status all was.
type counted struct {
	Status      Status
	Fit         int
	Cut, CutAll bool
}

// countSQL counts what the lanes of all walks meet. A Run that more than one meets counts once.
func (s *statement) countSQL(walks []walk) string {
	if len(walks) == 1 && s.Text == "" && slices.Contains(walks[0].serves, byStatus) && len(s.unserved(walks[0])) == 0 {
		return s.countLanes(walks[0])
	}
	var seen []string
	for _, w := range walks {
		if slices.Contains(w.serves, byStatus) {
			seen = append(seen, s.seenByStatus(w))
		} else {
			seen = append(seen, s.seenMixed(w))
		}
	}
	once := strings.Join(seen, "\nUNION ALL\n")
	if len(walks) > 1 {
		once = "SELECT status, id, bool_or(fits) AS fits, bool_or(cut) AS cut, bool_or(cut_all) AS cut_all FROM (" + once + ") twice GROUP BY status, id"
	}
	return "SELECT status, count(*) FILTER (WHERE fits), bool_or(cut), bool_or(cut_all) FROM (" + once + ") once GROUP BY status"
}

// countLanes counts what an index has all of, and so need not be looked at.
func (s *statement) countLanes(w walk) string {
	return fmt.Sprintf(`SELECT status.status, n, n > %[1]d, false FROM %[2]s CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (SELECT FROM (SELECT *, status.status FROM %[3]s) l CROSS JOIN LATERAL (SELECT FROM runs r WHERE %[4]s LIMIT %[1]d + 1) c LIMIT %[1]d + 1) c) c`,
		CountCap, s.statuses(w, RunStatuses()), w.over, s.keysOf(w))
}

// seenByStatus looks at one Run more than it counts, of each status.
func (s *statement) seenByStatus(w walk) string {
	lane, most := s.countLane(w)
	return fmt.Sprintf(`SELECT status.status, c.id, c.fits AND c.nth <= %[4]d AS fits, c.nth > %[4]d AS cut, false AS cut_all
    FROM %[1]s CROSS JOIN LATERAL (
        SELECT c.*, row_number() OVER () AS nth FROM (SELECT *, status.status FROM %[2]s) l CROSS JOIN LATERAL (%[3]s) c LIMIT %[4]d + 1) c`, s.statuses(w, s.wanted()), w.over, lane, most)
}

// seenMixed looks at one Run more than it counts, of all statuses together.
func (s *statement) seenMixed(w walk) string {
	lane, most := s.countLane(w)
	return fmt.Sprintf(`SELECT c.status, c.id, c.fits AND c.nth <= %[3]d AS fits, false AS cut, c.nth > %[3]d AS cut_all FROM (
        SELECT c.*, row_number() OVER () AS nth FROM (SELECT * FROM %[1]s) l CROSS JOIN LATERAL (%[2]s) c LIMIT %[3]d + 1) c`, w.over, lane, most)
}

// countLane selects what is looked at of one lane, and says how many of them a count is made of at most.
func (s *statement) countLane(w walk) (sql string, most int) {
	fits := s.rest(w)
	switch {
	case s.Text != "":
		most = textCap
	case fits != "":
		most = lookedAt
	default:
		most = CountCap
	}
	if fits == "" {
		fits = "true"
	}
	return fmt.Sprintf("SELECT r.status, r.id, %s AS fits FROM runs r WHERE %s ORDER BY %s LIMIT %d",
		fits, s.keysOf(w), order{}, most+1), most
}
