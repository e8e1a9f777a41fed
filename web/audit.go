package web

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const auditPath = "/audit"

var (
	auditQuery = []string{"project", "action", "outcome", "since", "until", zoneParameter, "run", "user", "after"}
	// auditActions are what a Project's audit has, each a choice of the filter.
	auditActions = []string{"run.retry", "run.retry_preview", "run.stop", "run.stop_preview", "run.batch", "trigger.pause", "trigger.resume", "session.step_up",
		"binding.grant", "binding.revoke"}
)

// auditJSON is a part of the audit for a client.
type auditJSON struct {
	NowMS  int64                `json:"nowMs"`
	Events []policy.AuditRecord `json:"events"`
	Next   string               `json:"next,omitempty"`
}

// audit lists what was allowed and refused in the Projects whose audit the viewer may read.
func (s *server) audit(c echo.Context) (reply, error) {
	q, err := query(c, auditQuery...)
	if err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	filter, err := auditFilter(q, v)
	if err != nil {
		return s.again(c, err, func(wrong problem) templ.Component { return templates.AuditPage(s.auditForm(c, v, q, filter, wrong)) })
	}
	after, err := place("after", q, pg.ParseCursor)
	if err != nil {
		return reply{}, err
	}
	found := reply{rows: s.auditTable(filter)}
	if s.mediumOf(c) == asCSV {
		return found, nil
	}
	list, err := policy.ListAudit(c.Request().Context(), s.DB, filter, after, pageSize)
	if err != nil {
		return reply{}, err
	}
	found.json = func() any {
		return auditJSON{NowMS: v.nowMS, Events: nonNil(list.Events), Next: onwards(s.links, auditPath+".json", q, "after", list.Next)}
	}
	found.page = func() templ.Component { return templates.AuditPage(s.auditPage(c, v, q, filter, list)) }
	return found, nil
}

func auditFilter(q url.Values, v viewer) (f policy.AuditFilter, err error) {
	f = policy.AuditFilter{Scope: policy.Scope{Projects: v.sees(q.Get("project"))}, Action: q.Get("action")}
	if f.Outcome, err = oneOf("outcome", q.Get("outcome"), []policy.Outcome{policy.Allowed, policy.Denied}); err != nil {
		return f, err
	}
	times, err := momentsOf(q, v.nowMS)
	if err != nil {
		return f, err
	}
	if f.SinceMS, err = times.since("since", q.Get("since")); err != nil {
		return f, err
	}
	if f.UntilMS, err = times.until("until", q.Get("until")); err != nil {
		return f, err
	}
	if f.Run, err = anID("run", q.Get("run")); err != nil {
		return f, err
	}
	f.User, err = anID("user", q.Get("user"))
	return f, err
}

// anID reads an id written whole; empty is none.
func anID(name, given string) (uuid.UUID, error) {
	if given == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(given)
	if err != nil || id.String() != given {
		return uuid.Nil, badField(name, text.Of("The parameter %s is not an id.", name))
	}
	return id, nil
}

// auditForm is the page of the audit with what is asked for and without what was found.
func (s *server) auditForm(c echo.Context, v viewer, q url.Values, f policy.AuditFilter, wrong problem) templates.Audit {
	page := templates.Audit{Page: s.page(c, text.Of("Audit"), auditPath, v.nowMS), Filters: s.filterForm(auditPath, q),
		Projects: projectOptions(v, q.Get("project")), Run: visible(q.Get("run")), Outcomes: outcomeOptions(q.Get("outcome")), Actions: actionOptions(q.Get("action")),
		Since: momentField("since", text.Of("Since"), q, f.SinceMS, v.nowMS, wrong), Until: momentField("until", text.Of("Until"), q, f.UntilMS, v.nowMS, wrong)}
	page.Filters.Wrong, page.Filters.Beside = wrong.what, wrong.field == "since" || wrong.field == "until"
	return page
}

func (s *server) auditPage(c echo.Context, v viewer, q url.Values, f policy.AuditFilter, list policy.AuditPage) templates.Audit {
	page := s.auditForm(c, v, q, f, problem{})
	page.User, page.Rows = q.Get("user"), s.auditRows(list.Events, v.nowMS)
	page.Pages = templates.Pages{Order: templates.NewestFirst, On: onwards(s.links, auditPath, q, "after", list.Next)}
	page.Empty = templates.Empty{Why: text.Of("Nothing is on record here."), What: text.Of("Every retry, stop, pause and resumption, allowed or refused, and every role that is given or taken, leaves a row.")}
	page.JSON, page.CSV = s.links.url(auditPath+".json", q), s.links.csv(auditPath, filters(q))
	if q.Get("after") != "" {
		page.Pages.First = s.links.url(auditPath, without(q, "after"))
	}
	s.auditOfUser(&page, q, list.Events)
	return page
}

// auditOfUser says whose events are shown, as far as one of them names the user, and how to see everybody's.
func (s *server) auditOfUser(page *templates.Audit, q url.Values, list []policy.AuditRecord) {
	if page.User == "" {
		return
	}
	page.UserName, page.Everybody = page.User, s.links.url(auditPath, without(q, "user", "after"))
	for _, e := range list {
		if e.Actor.UserID != nil && e.Actor.UserID.String() == page.User && e.Actor.Name != "" {
			page.UserName = shorten(visible(e.Actor.Name), listName)
			return
		}
		if e.TargetUserID != nil && e.TargetUserID.String() == page.User && e.Target != "" {
			page.UserName = shorten(visible(e.Target), listName)
			return
		}
	}
}

func outcomeOptions(selected string) []templates.Option {
	return []templates.Option{{Text: text.Of("any")}, option(string(policy.Allowed), outcomeStatuses[policy.Allowed].Word, selected),
		option(string(policy.Denied), outcomeStatuses[policy.Denied].Word, selected)}
}

func actionOptions(selected string) []templates.Option {
	list := []templates.Option{{Text: text.Of("any")}}
	known := selected == ""
	for _, a := range auditActions {
		list = append(list, option(a, auditWord(a), selected))
		known = known || a == selected
	}
	if !known {
		list = append(list, option(selected, auditWord(selected), selected))
	}
	return list
}

func (s *server) auditRows(list []policy.AuditRecord, nowMS int64) []templates.AuditRow {
	var rows []templates.AuditRow
	for _, e := range list {
		rows = append(rows, s.auditRow(e, nowMS))
	}
	return rows
}

var outcomeStatuses = map[policy.Outcome]templates.Status{
	policy.Allowed: {Word: text.Of("allowed"), Shape: "disc", Tone: "ok"},
	policy.Denied:  {Word: text.Of("denied"), Shape: "triangle", Tone: "bad"},
}

func (s *server) auditRow(e policy.AuditRecord, nowMS int64) templates.AuditRow {
	row := templates.AuditRow{At: instant(e.CreatedAtMS, nowMS), Name: auditWord(e.Action), Action: visible(e.Action), Outcome: outcomeStatuses[e.Outcome], Reason: auditReason(e.Reason), Word: visible(string(e.Reason)),
		Actor: templates.Link{Text: text.Data(shorten(visible(e.Actor.Name), listName))}, From: text.Data(e.Actor.Peer), Project: e.ProjectID, Words: linked(e.Words), Facts: auditFacts(e)}
	if e.Actor.UserID != nil {
		row.Actor.URL = s.links.url(auditPath, url.Values{"user": {e.Actor.UserID.String()}})
	}
	if e.Actor.Claimed != "" {
		row.From = text.Of("%s by way of %s", e.Actor.Claimed, e.Actor.Peer)
	}
	if e.RunID != nil {
		row.Run = shortID(*e.RunID, s.links.run(*e.RunID))
	}
	if e.TargetUserID != nil {
		row.User = templates.Link{Text: text.Data(shorten(visible(e.Target), listName)), URL: s.links.url(auditPath, url.Values{"user": {e.TargetUserID.String()}})}
		row.Role = roleOf(e)
	}
	if trigger := triggerOf(e); trigger != "" {
		row.Trigger = templates.Link{Text: text.Data(shorten(visible(trigger), listName)), URL: s.links.schedule(e.ProjectID, trigger)}
	}
	if id, err := uuid.Parse(fmt.Sprint(e.Detail["batch"])); err == nil && made(e) { // what was not submitted is its author's alone
		row.Batch = templates.Link{Text: text.Of("a batch"), URL: s.links.batch(id)}
	}
	if level, ok := levels[e.Strength]; ok {
		row.Strength = text.Of("verified by %s", level)
	}
	return row
}

// made reports whether e says that something was done to its Run.
func made(e policy.AuditRecord) bool {
	return e.Outcome == policy.Allowed && (e.Action == string(policy.RetryRun) || e.Action == string(policy.StopRun))
}

// roleOf says which role a User was given or lost, and which they had before.
func roleOf(e policy.AuditRecord) text.Text {
	role, _ := e.Detail["role"].(string)
	before, _ := e.Detail["previous_role"].(string)
	switch {
	case role == "" && before == "":
		return text.Text{}
	case role == "":
		return text.Of("was %s", roleName(policy.Role(before)))
	case before == "" || before == role:
		return text.Of("is %s", roleName(policy.Role(role)))
	}
	return text.Of("is %s, was %s", roleName(policy.Role(role)), roleName(policy.Role(before)))
}

// triggerOf is the Trigger that an event is about, if it is about one.
func triggerOf(e policy.AuditRecord) string {
	name, _ := e.Detail["trigger"].(string)
	return name
}

// auditFacts is the whole event, which never holds a secret, for who unfolds it.
func auditFacts(e policy.AuditRecord) string {
	b, err := json.Marshal(e)
	if err != nil {
		return ""
	}
	return facts(b)
}

var httpsLink = regexp.MustCompile(`https://[^\s<>"]+`)

// linked takes a reason apart: what begins with https:// and is an address with a host becomes a link, and nothing else.
func linked(reason string) []templates.Word {
	var words []templates.Word
	for reason != "" {
		at := httpsLink.FindStringIndex(reason)
		if at == nil {
			return append(words, templates.Word{Text: visible(reason)})
		}
		address := strings.TrimRight(reason[at[0]:at[1]], ".,;:!?)")
		word := templates.Word{Text: visible(address), URL: address}
		if u, err := url.Parse(address); err != nil || u.Hostname() == "" || u.User != nil || word.Text != address {
			word.URL = ""
		}
		if at[0] > 0 {
			words = append(words, templates.Word{Text: visible(reason[:at[0]])})
		}
		words, reason = append(words, word), reason[at[0]+len(address):]
	}
	return words
}

var auditColumns = []string{"at", "action", "outcome", "reason", "user", "issuer", "subject", "project", "run", "trigger", "strength", "peer", "words", "detail", "target"}

// auditTable is every event that f lets through, for an export.
func (s *server) auditTable(f policy.AuditFilter) func(context.Context) iter.Seq2[[]string, error] {
	return func(ctx context.Context) iter.Seq2[[]string, error] {
		return export(auditColumns, func(after *pg.Cursor) ([]policy.AuditRecord, *pg.Cursor, error) {
			page, err := policy.ListAudit(ctx, s.DB, f, after, exportPage)
			return page.Events, page.Next, err
		}, auditCells)
	}
}

func auditCells(e policy.AuditRecord) []string {
	return []string{cellTime(&e.CreatedAtMS), e.Action, string(e.Outcome), string(e.Reason), e.Actor.Name, e.Actor.Issuer, e.Actor.Subject, e.ProjectID,
		optional(e.RunID), triggerOf(e), string(e.Strength), e.Actor.Peer, e.Words, auditFacts(e), e.Target}
}
