package web

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// ranges are what an account may be of, besides a range of one's own.
var ranges = []struct {
	name string
	text text.Text
	span time.Duration
}{
	{"hour", text.Of("last hour"), time.Hour},
	{"day", text.Of("last day"), 24 * time.Hour},
	{"week", text.Of("last week"), 7 * 24 * time.Hour},
	{"month", text.Of("last month"), 30 * 24 * time.Hour},
}

const (
	usualRange = "day"
	// accountPath ends the address of an account, which is JSON whatever the client asks for.
	accountPath = "/account"
)

var accountQuery = []string{"account", "from", "to", zoneParameter}

// accountRange is what an account is of; both ends belong to it.
type accountRange struct {
	name         string // empty for one of one's own
	fromMS, toMS int64
	query        url.Values // spells it
	wrong        problem    // with the query, if it names none
}

// rangeAsked is the range that q asks for. What is wrong with it the page says beside the field that holds it, and so it is
// no error there.
func (s *server) rangeAsked(c echo.Context, q url.Values, nowMS int64) (accountRange, error) {
	r, err := rangeOf(q, nowMS)
	if wrong, ok := s.correctable(c, err); ok {
		r.wrong = wrong
		return r, nil
	}
	return r, s.backToSchedule(c, err)
}

// backToSchedule leads from an address of a Schedule that makes no sense to the Schedule.
func (s *server) backToSchedule(c echo.Context, err error) error {
	p, ok := errors.AsType[problem](err)
	if !ok || p.status != http.StatusBadRequest {
		return err
	}
	p.next = text.Of("Correct the address, or begin again from the Schedule.")
	p.back = templates.Link{Text: text.Of("The Schedule"), URL: s.links.schedule(c.Param("project"), c.Param("trigger"))}
	return p
}

// rangeOf reads which range q asks for: account is the name of one, from and to make one.
func rangeOf(q url.Values, nowMS int64) (accountRange, error) {
	r := accountRange{query: url.Values{}}
	for _, name := range accountQuery {
		r.query.Set(name, q.Get(name))
	}
	if q.Get("from") == "" && q.Get("to") == "" {
		return r.named(q.Get("account"), nowMS)
	}
	if q.Get("account") != "" {
		return r, badQuery(text.Of("Give either account, or from and to."))
	}
	return r.between(q, nowMS)
}

func (r accountRange) named(name string, nowMS int64) (accountRange, error) {
	var names []string
	for _, x := range ranges {
		names = append(names, x.name)
	}
	name, err := oneOf("account", name, names)
	if err != nil {
		return r, err
	}
	if name == "" {
		name = usualRange
	}
	span := ranges[slices.Index(names, name)].span.Milliseconds()
	r.name, r.fromMS, r.toMS = name, nowMS-span, nowMS
	return r, nil
}

// between is the range from one moment to another; without the one it begins a day before the other, without the
// other it ends now.
func (r accountRange) between(q url.Values, nowMS int64) (_ accountRange, err error) {
	times, err := momentsOf(q, nowMS)
	if err != nil {
		return r, err
	}
	if r.fromMS, err = times.since("from", q.Get("from")); err != nil {
		return r, err
	}
	if r.toMS, err = times.last("to", q.Get("to")); err != nil {
		return r, err
	}
	if r.toMS == 0 {
		r.toMS = nowMS
	}
	if r.fromMS == 0 {
		r.fromMS = r.toMS - 24*time.Hour.Milliseconds()
	}
	switch {
	case r.fromMS > nowMS:
		return r, badField("from", text.Of("The range begins after now. The account says what became of the past; what is to come is on the Schedule's page."))
	case r.toMS < r.fromMS:
		return r, badField("to", text.Of("The range ends before it begins: to is earlier than from."))
	case r.toMS < nowMS-scheduler.AccountHorizon.Milliseconds():
		return r, badField("to", text.Of("The account is kept for 90 days. The range ends before that."))
	}
	return r, nil
}

// readAccount reads the account of r. What scheduler calls the beginning of a range does not belong to it.
func (s *server) readAccount(c echo.Context, v viewer, project, trigger string, r accountRange) (scheduler.Account, error) {
	return scheduler.ReadAccount(c.Request().Context(), s.DB, v.sees(""), project, trigger, r.fromMS-1, r.toMS)
}

// account answers an account whole, always as JSON: its page is the Schedule's.
func (s *server) account(c echo.Context) (reply, error) {
	q, err := query(c, accountQuery...)
	if err != nil {
		return reply{}, s.backToSchedule(c, err)
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	r, err := rangeOf(q, v.nowMS)
	if err != nil {
		return reply{}, s.backToSchedule(c, err)
	}
	a, err := s.readAccount(c, v, c.Param("project"), c.Param("trigger"), r)
	if err != nil {
		return reply{}, err
	}
	return reply{json: func() any { return a }, rows: accountTable(a)}, nil
}

// accountOf is the account of d for its page.
func (s *server) accountOf(c echo.Context, v viewer, d scheduler.Detail, plan scheduler.Plan, r accountRange) (templates.Account, error) {
	if r.wrong.status != 0 {
		return s.accountForm(d, r, v.nowMS), nil
	}
	start, part := columnOf(r, plan.Location())
	a, l, err := scheduler.ReadLane(c.Request().Context(), s.DB, v.sees(""), d.ProjectID, d.TriggerID, r.fromMS-1, r.toMS, start, part)
	if err != nil {
		return templates.Account{}, err
	}
	return s.accountSection(d, plan, r, a, l), nil
}

// accountForm is the account with what is asked for and without what was found, for which there is a reason if something is
// wrong.
func (s *server) accountForm(d scheduler.Detail, r accountRange, nowMS int64) templates.Account {
	page := templates.Account{Form: templates.FilterForm{Action: s.links.account(d.ProjectID, d.TriggerID, nil), Zone: visible(r.query.Get(zoneParameter)), Wrong: r.wrong.what,
		Beside: r.wrong.field == "from" || r.wrong.field == "to"}}
	page.From = momentField("from", text.Of("From"), r.query, r.fromMS, nowMS, r.wrong)
	page.To = momentField("to", text.Of("To"), r.query, r.toMS, nowMS, r.wrong)
	for _, x := range ranges {
		page.Ranges = append(page.Ranges, templates.NavLink{Text: x.text, Current: x.name == r.name,
			URL: s.links.account(d.ProjectID, d.TriggerID, url.Values{"account": {x.name}})})
	}
	return page
}

// accountSection words a, and draws it.
func (s *server) accountSection(d scheduler.Detail, plan scheduler.Plan, r accountRange, a scheduler.Account, l scheduler.Lane) templates.Account {
	page := s.accountForm(d, r, a.NowMS)
	page.JSON = s.links.accountAs(".json", d.ProjectID, d.TriggerID, r.query)
	page.CSV = s.links.accountAs(".csv", d.ProjectID, d.TriggerID, with(r.query, bomParameter, withBOM))
	page.Sentences, page.Since, page.Until, page.Empty = accountSentences(a, l), instant(a.FromMS+1, a.NowMS), instant(a.ToMS, a.NowMS), noInstants(d, plan, r)
	if r.fromMS <= a.FromMS {
		page.Kept = text.Of("It is kept for 90 days; what is older is not known any more.")
	}
	page.Spells, page.MoreSpells = spells(slices.Backward(a.Spells), a.NowMS, spellsShown)
	if plan.Location() != time.UTC {
		page.Zone = plan.Timezone
	}
	if len(a.Instants) == 0 {
		return page
	}
	words := accountWords{server: s, d: d, loc: plan.Location(), archived: l.Archived, nowMS: a.NowMS, left: maxEachOnPage, anchors: map[int64]bool{}}
	rows, more := foldAccount(a)
	for _, x := range rows {
		page.Rows = append(page.Rows, words.row(x))
	}
	if a.ToMS-a.FromMS > leastLaneMS {
		page.Lane = laneWords{server: s, d: d, loc: plan.Location(), a: a, l: l, from: a.FromMS + 1, to: a.ToMS, anchors: words.anchors}.lane()
	}
	if oldest := oldestOf(rows); more && oldest > r.fromMS {
		page.Older = s.links.account(d.ProjectID, d.TriggerID, url.Values{"from": {rfc3339(max(r.fromMS, a.FromMS+1))}, "to": {rfc3339(oldest - 1000)}})
	}
	return page
}

// oldestOf returns the oldest instant in rows; they are newest first.
func oldestOf(rows []stretch) int64 {
	for _, x := range slices.Backward(rows) {
		if n := len(x.instants); n > 0 {
			return x.instants[n-1].AtMS
		}
	}
	return 0
}

func rfc3339(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

var accountColumns = []string{"at", "trigger_revision", "verdict", "reason", "run", "run_status", "lateness_ms", "daylight_saving", "unattended", "catch_up"}

// accountTable is every instant of a, for an export.
func accountTable(a scheduler.Account) func(context.Context) iter.Seq2[[]string, error] {
	return func(context.Context) iter.Seq2[[]string, error] {
		read := func(*struct{}) ([]scheduler.Instant, *struct{}, error) { return a.Instants, nil, nil }
		return export(accountColumns, read, func(i scheduler.Instant) []string {
			return []string{cellTime(&i.AtMS), strconv.FormatInt(i.Revision, 10), string(i.Verdict), i.Reason, optional(i.RunID), i.RunStatus, optional(i.LatenessMS), i.Mark,
				strconv.FormatBool(i.Unattended), strconv.FormatBool(i.CatchUp)}
		})
	}
}
