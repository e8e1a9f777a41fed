package web

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const claimsPath = "/claims"

// claimsFound is who decides what now, what became of claims that were not carried through, and who could decide.
type claimsFound struct {
	NowMS    int64                 `json:"nowMs"`
	Claims   []scheduler.Held      `json:"claims"`
	News     []scheduler.ClaimNews `json:"lastHour"` // newest first
	MoreNews bool                  `json:"moreThanListed"`
	Replicas []scheduler.Replica   `json:"replicas"`
}

func (s *server) claimsNow(c echo.Context) (reply, error) {
	if _, err := query(c); err != nil {
		return reply{}, err
	}
	v, err := s.viewer(c)
	if err != nil {
		return reply{}, err
	}
	f, err := s.readClaims(c.Request().Context(), v)
	if err != nil {
		return reply{}, err
	}
	return reply{json: func() any { return f }, rows: claimTable(f.Claims), page: func() templ.Component {
		return templates.ClaimsPage(s.claimsPage(c, f))
	}}, nil
}

func (s *server) readClaims(ctx context.Context, v viewer) (f claimsFound, err error) {
	f.NowMS = v.nowMS
	if f.Claims, err = scheduler.Claims(ctx, s.DB, v.sees("")); err != nil {
		return f, err
	}
	if f.News, f.MoreNews, err = scheduler.ReadClaimNews(ctx, s.DB, v.sees("")); err != nil {
		return f, err
	}
	f.Replicas, err = scheduler.Replicas(ctx, s.DB)
	f.Claims, f.News, f.Replicas = nonNil(f.Claims), nonNil(f.News), nonNil(f.Replicas)
	return f, err
}

func (s *server) claimsPage(c echo.Context, f claimsFound) templates.Claims {
	now := f.NowMS
	page := templates.Claims{
		Page: s.page(c, text.Of("Claims"), claimsPath, now), Claims: s.claims(f.Claims, now), Replicas: replicas(overviewFacts{Replicas: f.Replicas, Claims: f.Claims}, now),
		NoClaims:   templates.Empty{Why: text.Of("No claim is held."), What: text.Of("A claim lasts only while a replica decides a due Schedule.")},
		NoNews:     templates.Empty{Why: text.Of("Every claim of the last hour was carried through."), What: text.Of("One that lapsed and was taken over, lost a race or failed is listed here.")},
		NoReplicas: templates.Empty{Why: text.Of("No replica has run within a day."), What: text.Of("Start one with console serve; until then nothing is admitted.")},
	}
	page.JSON, page.CSV = s.links.url(claimsPath+".json", nil), s.links.csv(claimsPath, nil)
	for i, h := range f.Claims {
		page.Claims[i].Drain = drain(h, now)
		page.Claims[i].Key = fmt.Sprintf("%s/%s/%d", h.ProjectID, h.TriggerID, h.Version)
	}
	for _, n := range f.News {
		page.News = append(page.News, s.claimNews(n, now))
	}
	if f.MoreNews {
		page.MoreNews = text.Of("And more: these are the newest %s.", len(f.News))
	}
	return page
}

// drain is how much of a claim's time is left, as its bar shows it.
func drain(h scheduler.Held, nowMS int64) templates.Drain {
	whole, left := max(h.ExpiresMS-h.AcquiredMS, 1), max(h.ExpiresMS-nowMS, 0)
	return templates.Drain{
		Share: percent(float64(min(left, whole)), float64(whole)), Ago: instant(h.ExpiresMS, max(nowMS, h.ExpiresMS-left)).Ago,
		Left: seconds(left), Of: seconds(whole), Words: text.Of("%s left", coarse(left)),
	}
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }

// claimFates are the kinds of news.
var claimFates = map[string]templates.Status{
	"taken_over": {Word: text.Of("taken over"), Shape: "half", Tone: "warn"},
	"raced":      {Word: text.Of("raced"), Shape: "diamond", Tone: "warn"},
	"failed":     {Word: text.Of("failed"), Shape: "triangle", Tone: "bad"},
}

func (s *server) claimNews(n scheduler.ClaimNews, nowMS int64) templates.ClaimNews {
	row := templates.ClaimNews{
		Key:  fmt.Sprintf("%s/%s/%d/%s", n.ProjectID, n.TriggerID, n.AtMS, n.Kind),
		Fate: claimFates[n.Kind], Schedule: templates.Link{Text: text.Data(n.TriggerID), URL: s.links.schedule(n.ProjectID, n.TriggerID)},
		Project: n.ProjectID, At: instant(n.AtMS, nowMS), Due: maybe(n.DueMS, nowMS),
	}
	if n.Owner != nil {
		row.Owner = shorten(visible(*n.Owner), listName)
	}
	if n.Version != nil {
		row.Version = text.Of("version %s", *n.Version)
	}
	if n.Reason != nil {
		row.Reason = text.Data(shorten(visible(*n.Reason), listText))
	}
	return row
}

var claimColumns = []string{"project", "trigger", "owner", "token", "version", "acquired", "expires"}

// claimTable is every live claim, for an export.
func claimTable(list []scheduler.Held) func(context.Context) iter.Seq2[[]string, error] {
	return func(context.Context) iter.Seq2[[]string, error] {
		read := func(*struct{}) ([]scheduler.Held, *struct{}, error) { return list, nil, nil }
		return export(claimColumns, read, func(h scheduler.Held) []string {
			return []string{h.ProjectID, h.TriggerID, h.Owner, h.Token, strconv.FormatInt(h.Version, 10), cellTime(&h.AcquiredMS), cellTime(&h.ExpiresMS)}
		})
	}
}
