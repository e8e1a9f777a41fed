package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/cron"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/text"
)

// Detail is one Schedule, with the fence that a commit would check.
type Detail struct {
	Summary
	NowMS          int64   `json:"nowMs"`
	TriggerDigest  string  `json:"triggerContentDigest"`
	TriggerEnabled bool    `json:"triggerEnabled"`
	PublishedAtMS  int64   `json:"triggerPublishedAtMs"`
	TaskName       string  `json:"taskName"`
	TaskDigest     string  `json:"taskContentDigest"`
	TaskHead       int64   `json:"taskCurrentRevision"`
	TaskEnabled    bool    `json:"taskEnabled"` // in its current revision
	Archived       bool    `json:"projectArchived"`
	ProjectVersion int64   `json:"projectVersion"`
	StateVersion   int64   `json:"stateVersion"`
	ClaimVersion   int64   `json:"claimVersion"`
	ClaimToken     *string `json:"claimToken"` // its first eight digits: it is shown, never used
	BaseMS         int64   `json:"baseAtMs"`
	UpdatedAtMS    int64   `json:"updatedAtMs"`
}

const getSQL = `
WITH clock AS MATERIALIZED (SELECT ` + pg.ClockMS + ` AS ms)
SELECT ` + summaryColumns + `, clock.ms, g.content_digest, g.enabled, g.created_at_ms, head.name, g.task_content_digest,
    t.current_revision, head.enabled, p.status = 'archived', p.version, s.state_version, s.claim_version,
    left(s.claim_token::text, 8), s.base_at_ms, s.updated_at_ms
FROM clock CROSS JOIN (` + judged + ` WHERE s.project_id = $1 AND s.trigger_id = $2) s
JOIN projects p ON p.id = s.project_id
JOIN trigger_revisions g ON g.project_id = s.project_id AND g.trigger_id = s.trigger_id AND g.revision = s.trigger_revision
JOIN task_definitions t ON t.project_id = g.project_id AND t.task_id = g.task_id
JOIN task_definition_revisions head ON head.project_id = t.project_id AND head.task_id = t.task_id AND head.revision = t.current_revision
` + alongside + `
WHERE s.project_id = ANY($3)`

// Get returns one Schedule. One outside projects is [ErrNotFound], exactly like one that does not exist.
func Get(ctx context.Context, q pg.Querier, projects []string, project, trigger string) (_ Detail, err error) {
	defer pg.Wrap(&err, "scheduler.Get(%s, %s)", project, trigger)
	rows, err := q.Query(ctx, getSQL, project, trigger, projects)
	if err != nil {
		return Detail{}, err
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Detail])
	if errors.Is(err, pgx.ErrNoRows) {
		return Detail{}, ErrNotFound
	}
	return d, err
}

// archivings are the times in which the Schedule's Project was archived, oldest first; one that lasts ends at nowMS.
func (f facts) archivings(nowMS int64) []Spell {
	var list []Spell
	for i, t := range f.turns {
		if !t.archived {
			continue
		}
		until := nowMS
		if i+1 < len(f.turns) {
			until = f.turns[i+1].atMS
		}
		list = append(list, Spell{FromMS: t.atMS, ToMS: until})
	}
	return list
}

// Plan is what a Trigger's content says about time.
type Plan struct {
	catalog.TriggerContent
	Words text.Text // when it falls due; nothing if the content could not be read
	next  cron.Schedule
}

// Plan reads the Schedule's content and explains it. It decides nothing, so the digest is not checked: a content that
// does not match its digest is shown as it is, and its Schedule is blocked.
func (s Summary) Plan() (Plan, error) {
	c, next, err := catalog.ParseSchedule(s.Content)
	if err != nil {
		return Plan{TriggerContent: c}, err
	}
	return Plan{TriggerContent: c, Words: next.Words(), next: next}, nil
}

// After returns the next n occurrences after ms; none of a content that could not be read.
func (p Plan) After(ms int64, n int) []cron.Occurrence {
	if p.Words.Empty() {
		return nil
	}
	return p.next.Occurrences(time.UnixMilli(ms), n)
}

// FixedTime reports whether the times of day are fixed, which decides what a change of the clock does to them.
func (p Plan) FixedTime() bool { return p.next.FixedTime() }

// Location is where the occurrences' local time is.
func (p Plan) Location() *time.Location { return p.next.Location() }
