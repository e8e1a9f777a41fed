package web

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/web/templates"
)

const auditPath = "/audit"

var (
	auditQuery   = []string{"project", "action", "outcome", "since", "run", "user", "after"}
	auditActions = []string{"run.retry", "run.retry_preview", "run.stop", "session.step_up", "binding.grant", "binding.revoke"}
)

// auditJSON is a part of the audit for a client.
type auditJSON struct {
	NowMS  int64                `json:"nowMs"`
	Events []policy.AuditRecord `json:"events"`
	Next   string               `json:"next,omitempty"`
}

// audit lists what was allowed and refused in the Projects whose audit the viewer may read.
func (s *server) audit(c echo.Context) error {
	q, err := query(c, auditQuery...)
	if err != nil {
		return err
	}
	v, err := s.viewer(c)
	if err != nil {
		return err
	}
	filter, after, err := auditFilter(q, v)
	if err != nil {
		return err
	}
	list, err := policy.ListAudit(c.Request().Context(), s.DB, filter, after, pageSize)
	if err != nil {
		return err
	}
	next := ""
	if list.Next != nil {
		next = s.links.url(auditPath+".json", with(q, "after", list.Next.String()))
	}
	return answer(c, func() any { return auditJSON{NowMS: v.nowMS, Events: nonNil(list.Events), Next: next} },
		func() templ.Component { return templates.AuditPage(s.auditPage(c, v, q, list)) })
}

func auditFilter(q url.Values, v viewer) (f policy.AuditFilter, _ *pg.Cursor, err error) {
	f = policy.AuditFilter{Scope: policy.Scope{Projects: v.sees(q.Get("project"))}, Action: q.Get("action")}
	if f.Outcome, err = oneOf("outcome", q.Get("outcome"), []policy.Outcome{policy.Allowed, policy.Denied}); err != nil {
		return f, nil, err
	}
	if f.SinceMS, err = moment("since", q.Get("since"), v.nowMS); err != nil {
		return f, nil, err
	}
	for name, id := range map[string]*uuid.UUID{"run": &f.Run, "user": &f.User} {
		if text := q.Get(name); text != "" {
			if *id, err = uuid.Parse(text); err != nil || id.String() != text {
				return f, nil, badQuery("The parameter " + name + " is not an id.")
			}
		}
	}
	if q.Get("after") == "" {
		return f, nil, nil
	}
	after, err := pg.ParseCursor(q.Get("after"))
	if err != nil {
		return f, nil, badQuery("The parameter after is not a place in the audit. Take it from a page's own link.")
	}
	return f, &after, nil
}

func (s *server) auditPage(c echo.Context, v viewer, q url.Values, list policy.AuditPage) templates.Audit {
	page := templates.Audit{Page: s.page(c, "Audit", "", v.nowMS), Action: s.links.url(auditPath, nil),
		Projects: projectOptions(v, q.Get("project")), Since: sinceOptions(q.Get("since")), Run: visible(q.Get("run")),
		Outcomes: []templates.Option{{Text: "any"}, option("allowed", "allowed", q.Get("outcome")), option("denied", "denied", q.Get("outcome"))},
		Actions:  actionOptions(q.Get("action")), Rows: s.auditRows(list.Events, v.nowMS), Filtered: len(nonEmpty(with(q, "after", ""))) > 0,
		Empty: templates.Empty{Why: "Nothing is on record here.", What: "Every retry and stop, allowed or refused, and every role that is given or taken, leaves a row."}}
	page.JSON = s.links.url(auditPath+".json", q)
	if list.Next != nil {
		page.Older = s.links.url(auditPath, with(q, "after", list.Next.String()))
	}
	if q.Get("after") != "" {
		page.Newest = s.links.url(auditPath, with(q, "after", ""))
	}
	return page
}

func actionOptions(selected string) []templates.Option {
	list := []templates.Option{{Text: "any"}}
	known := selected == ""
	for _, a := range auditActions {
		list = append(list, option(a, a, selected))
		known = known || a == selected
	}
	if !known {
		list = append(list, option(selected, visible(selected), selected))
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
	policy.Allowed: {Word: "allowed", Shape: "disc", Tone: "ok"},
	policy.Denied:  {Word: "denied", Shape: "triangle", Tone: "bad"},
}

func (s *server) auditRow(e policy.AuditRecord, nowMS int64) templates.AuditRow {
	row := templates.AuditRow{At: instant(e.CreatedAtMS, nowMS), Action: e.Action, Outcome: outcomeStatuses[e.Outcome], Reason: strings.ReplaceAll(string(e.Reason), "_", " "),
		Actor: shorten(visible(e.Actor.Name), listName), From: e.Actor.Peer, Project: e.ProjectID, Words: linked(e.Words), Facts: auditFacts(e)}
	if e.Actor.Claimed != "" {
		row.From = e.Actor.Claimed + " by way of " + e.Actor.Peer
	}
	if e.RunID != nil {
		row.Run = shortID(*e.RunID, s.links.run(*e.RunID))
	}
	if level := levels[e.Strength]; level != "" {
		row.Strength = "by " + level
	}
	return row
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
func linked(text string) []templates.Word {
	var words []templates.Word
	for text != "" {
		at := httpsLink.FindStringIndex(text)
		if at == nil {
			return append(words, templates.Word{Text: visible(text)})
		}
		address := strings.TrimRight(text[at[0]:at[1]], ".,;:!?)")
		word := templates.Word{Text: visible(address), URL: address}
		if u, err := url.Parse(address); err != nil || u.Hostname() == "" || u.User != nil || word.Text != address {
			word.URL = ""
		}
		if at[0] > 0 {
			words = append(words, templates.Word{Text: visible(text[:at[0]])})
		}
		words, text = append(words, word), text[at[0]+len(address):]
	}
	return words
}
