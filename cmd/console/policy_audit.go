package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/calendar"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

type auditCmd struct {
	Project string `help:"Only of this project." env:"-"`
	userFlags
	RunID   string `name:"run" help:"Only of this run." placeholder:"ID" env:"-"`
	Action  string `help:"Only this action, such as run.retry." env:"-"`
	Outcome string `enum:",allowed,denied" default:"" help:"Only allowed, or only denied." placeholder:"OUTCOME" env:"-"`
	Since   string `help:"Not before then: yesterday, 2026-11-29, 23:30, yesterday 23:30, an RFC 3339 instant, or how long ago, such as 24h or 7d." env:"-"`
	Until   string `help:"Before then, written likewise; a day is meant to its end." env:"-"`
	Zone    string `default:"UTC" help:"IANA time zone in which days and times of a day are meant." env:"-"`
	Before  string `help:"Go on where an earlier page ended." placeholder:"PLACE" env:"-"`
	Count   int    `short:"n" default:"50" help:"How many, 1 to 500." env:"-"`
	JSON    bool   `name:"json" help:"One JSON document." env:"-"`
}

// Run prints the audit, newest first.
func (c auditCmd) Run(ctx context.Context, e env) error {
	filter, after, err := c.filter(time.Now())
	if err != nil {
		return err
	}
	pool, err := openAs(ctx, e, migrations.RoleConsole)
	if err != nil {
		return err
	}
	defer pool.Close()
	u, err := c.find(ctx, pool)
	if err != nil {
		return err
	}
	filter.User = u.ID
	page, err := policy.ListAudit(ctx, pool, filter, after, c.Count)
	if err == nil && len(page.Events) == 0 {
		err = checkProject(ctx, pool, c.Project)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeAuditJSON(e.stdout, page)
	}
	return writeAudit(e.stdout, page)
}

// filter reports the first flag that cannot be understood. now is only for the reader's "this long ago".
func (c auditCmd) filter(now time.Time) (policy.AuditFilter, *pg.Cursor, error) {
	f := policy.AuditFilter{Scope: scopeOf(c.Project), Action: c.Action, Outcome: policy.Outcome(c.Outcome)}
	if c.Count < 1 || c.Count > policy.MaxAuditPage {
		return f, nil, usage("-n is %d, want 1 to %d", c.Count, policy.MaxAuditPage)
	}
	var err error
	if f.Run, err = parseRun(c.RunID); err != nil {
		return f, nil, err
	}
	if f.SinceMS, f.UntilMS, err = c.between(now); err != nil || c.Before == "" {
		return f, nil, err
	}
	after, err := pg.ParseCursor(c.Before)
	if err != nil {
		return f, nil, usage("--before %q is not a place in the audit; write what the page before ended with", c.Before)
	}
	return f, &after, nil
}

func parseRun(id string) (uuid.UUID, error) {
	if id == "" {
		return uuid.Nil, nil
	}
	run, err := uuid.Parse(id)
	if err != nil || run == uuid.Nil {
		return uuid.Nil, usage("--run %q is no run's id; write one such as 01890a5d-ac96-774b-bcce-b302099a8057", id)
	}
	return run, nil
}

// between reads --since and --until as the pages read theirs; 0 is no restriction.
func (c auditCmd) between(now time.Time) (since, until int64, err error) {
	words, err := calendar.In(c.Zone, now.UnixMilli())
	if err != nil {
		return 0, 0, usage("--zone %q is no time zone; write one such as Europe/Berlin", c.Zone)
	}
	if since, err = momentFlag("--since", c.Since, words.Since, now); err != nil {
		return 0, 0, err
	}
	until, err = momentFlag("--until", c.Until, words.Until, now)
	return since, until, err
}

// momentFlag also takes a length of time as Go writes it, such as 1h30m.
func momentFlag(flag, text string, read func(string) (int64, error), now time.Time) (int64, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago).UnixMilli(), nil
	}
	ms, err := read(text)
	if err != nil {
		return 0, usage("%s %q is no time; write one such as yesterday, 2027-03-14, yesterday 23:30, 2027-03-14T00:00:00Z, or how long ago, such as 24h", flag, text)
	}
	return ms, nil
}

func writeAuditJSON(w io.Writer, page policy.AuditPage) error {
	document := map[string]any{"events": append([]policy.AuditRecord{}, page.Events...)}
	if page.Next != nil {
		document["before"] = page.Next.String()
	}
	return writeJSON(w, document)
}

// writeAudit writes a line for each event, and below it what is known of it.
func writeAudit(w io.Writer, page policy.AuditPage) error {
	var b strings.Builder
	for _, e := range page.Events {
		fmt.Fprintf(&b, "%s  %-7s  %s\n", instant(e.CreatedAtMS), e.Outcome, visible(e.Action))
		for _, fact := range auditFacts(e) {
			if fact[1] != "" {
				fmt.Fprintf(&b, "    %-8s  %s\n", fact[0], fact[1])
			}
		}
	}
	switch {
	case len(page.Events) == 0:
		b.WriteString("no events\n")
	case page.Next != nil:
		fmt.Fprintf(&b, "more: --before %s\n", page.Next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// auditFacts are what an event's reader asks, in that order.
func auditFacts(e policy.AuditRecord) [][2]string {
	return [][2]string{
		{"refused", visible(string(e.Reason))},
		{"who", whoText(e.Actor)},
		{"from", facts("", e.Actor.Peer, ", claimed ", e.Actor.Claimed, ", session ", idText(e.Actor.SessionID), ", request ", e.Actor.RequestID)},
		{"project", visible(e.ProjectID)},
		{"run", facts("", idText(e.RunID), ", version ", numberText(e.RunVersion))},
		{"to user", facts("", e.Target, ", user ", idText(e.TargetUserID))},
		{"why", visible(e.Words)},
		{"strength", facts("", e.Strength, ", acr ", e.ACR, ", amr ", strings.Join(e.AMR, " "), ", authenticated ", secondText(e.AuthTimeS),
			", second factor ", e.SecondFactor, ", proof ", idText(e.ProofID))},
		{"policy", facts("", string(e.Role), ", binding version ", numberText(e.BindingVersion), ", project version ", numberText(e.ProjectVersion))},
		{"mutation", idText(e.MutationID)},
		{"detail", detailText(e.Detail)},
		{"event", e.ID.String()},
	}
}

func whoText(a policy.Actor) string {
	return facts("", string(a.Type), " ", a.Name, ", issuer ", a.Issuer, ", subject ", a.Subject, ", user ", idText(a.UserID))
}

// facts joins each label and its fact, made visible, and leaves out what is not known.
func facts(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		label, fact := pairs[i], pairs[i+1]
		if fact == "" {
			continue
		}
		if b.Len() == 0 {
			label = strings.TrimPrefix(label, ", ")
		}
		b.WriteString(label + visible(fact))
	}
	return b.String()
}

func idText(u *uuid.UUID) string {
	if u == nil {
		return ""
	}
	return u.String()
}

func numberText(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func secondText(s int64) string {
	if s == 0 {
		return ""
	}
	return time.Unix(s, 0).UTC().Format(time.RFC3339)
}

// detailText spells each entry: a text as it is, anything else as JSON.
func detailText(d map[string]any) string {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(d)) {
		text, isText := d[key].(string)
		if !isText {
			value, _ := json.Marshal(d[key]) // it was read as JSON
			text = string(value)
		}
		entries = append(entries, visible(key)+" "+orDash(text))
	}
	return strings.Join(entries, ", ")
}
