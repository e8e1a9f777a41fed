package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
)

// load reads what the database has of a Project. It takes no lock.
func load(ctx context.Context, q pg.Querier, project string) (state, error) {
	var s state
	err := q.QueryRow(ctx, `SELECT name, status, `+pg.ClockMS+` FROM projects WHERE id = $1`, project).Scan(&s.name, &s.status, &s.seenMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("load project: %w", err)
	}
	s.exists = true
	if s.tasks, err = loadTasks(ctx, q, project); err != nil {
		return state{}, fmt.Errorf("load tasks: %w", err)
	}
	if s.triggers, err = loadTriggers(ctx, q, project); err != nil {
		return state{}, fmt.Errorf("load triggers: %w", err)
	}
	return s, nil
}

func loadTasks(ctx context.Context, q pg.Querier, project string) (map[string]taskHead, error) {
	rows, err := q.Query(ctx, `
		SELECT task_id, revision, content, content_digest, enabled
		FROM task_definitions
		JOIN task_definition_revisions r USING (project_id, task_id)
		WHERE project_id = $1 AND r.revision = current_revision`, project)
	if err != nil {
		return nil, err
	}
	heads := map[string]taskHead{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
		var h taskHead
		err = row.Scan(&id, &h.revision, &h.content, &h.digest, &h.enabled)
		heads[id] = h
		return id, err
	})
	return heads, err
}

func loadTriggers(ctx context.Context, q pg.Querier, project string) (map[string]triggerHead, error) {
	rows, err := q.Query(ctx, `
		SELECT trigger_id, r.revision, r.content, r.content_digest, r.enabled, r.task_id, s.enabled, s.base_at_ms, s.next_fire_at_ms,
			coalesce((SELECT reason FROM trigger_pauses pause WHERE pause.id = s.pause_id), '')
		FROM triggers
		JOIN trigger_revisions r USING (project_id, trigger_id)
		JOIN trigger_schedules s USING (project_id, trigger_id)
		WHERE project_id = $1 AND r.revision = current_revision`, project)
	if err != nil {
		return nil, err
	}
	heads := map[string]triggerHead{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
		var h triggerHead
		err = row.Scan(&id, &h.revision, &h.content, &h.digest, &h.enabled, &h.taskID,
			&h.schedule.enabled, &h.schedule.baseAtMS, &h.schedule.cursorMS, &h.schedule.paused)
		heads[id] = h
		return id, err
	})
	return heads, err
}

// lock takes every row that p rewrites, the Project first, and then reads the
// database clock. At SERIALIZABLE it fails with 40001 if one of them was
// changed since p was planned, so the plan made without locks holds.
func lock(ctx context.Context, tx pgx.Tx, p publication) (nowMS int64, err error) {
	_, err = tx.Exec(ctx, `SELECT FROM projects WHERE id = $1 FOR NO KEY UPDATE`, p.id)
	if err != nil {
		return 0, fmt.Errorf("lock project: %w", err)
	}
	triggers := make([]string, len(p.resets))
	for i, r := range p.resets {
		triggers[i] = r.trigger
	}
	_, err = tx.Exec(ctx, `
		SELECT FROM trigger_schedules
		WHERE project_id = $1 AND trigger_id = ANY($2)
		ORDER BY trigger_id FOR UPDATE`, p.id, triggers)
	if err != nil {
		return 0, fmt.Errorf("lock schedules: %w", err)
	}
	if err := tx.QueryRow(ctx, `SELECT `+pg.ClockMS).Scan(&nowMS); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return nowMS, nil
}

// write publishes p over the locked rows. All its timestamps are nowMS.
func write(ctx context.Context, tx pgx.Tx, p publication, nowMS int64) error {
	var b pgx.Batch
	writeProject(&b, p, nowMS)
	for _, t := range p.tasks {
		writeTask(&b, p.id, t, nowMS)
	}
	for _, t := range p.triggers {
		writeTrigger(&b, p.id, t, nowMS)
	}
	for _, r := range p.resets {
		writeSuperseded(&b, p.id, r, nowMS)
		writeTurn(&b, p, r, nowMS)
		writeSchedule(&b, p.id, r, nowMS)
	}
	b.Queue(`SELECT pg_notify(channel, '') FROM unnest($1::text[]) AS channel`, []string{NotifyChannel, pg.ChangesChannel})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// writeProject raises the guard of every publication. A clock that went back
// must not stop one, so updated_at_ms never falls.
func writeProject(b *pgx.Batch, p publication, nowMS int64) {
	if p.isNew {
		// A concurrent insertion is no row to skip over: at SERIALIZABLE, DO NOTHING
		// turns its 23505 into a 40001, and the next try sees the Project.
		b.Queue(`
			INSERT INTO projects (id, name, status, created_at_ms, updated_at_ms) VALUES ($1, $2, $3, $4, $4)
			ON CONFLICT (id) DO NOTHING`, p.id, p.name, p.status, nowMS)
		return
	}
	b.Queue(`
		UPDATE projects SET guard = guard + 1, name = $2, status = $3, version = version + $4::boolean::int,
			updated_at_ms = greatest(updated_at_ms, $5)
		WHERE id = $1`, p.id, p.name, p.status, p.fenced, nowMS)
}

func writeTask(b *pgx.Batch, project string, t taskRevision, nowMS int64) {
	b.Queue(`
		INSERT INTO task_definitions AS head (project_id, task_id, current_revision, created_at_ms, updated_at_ms)
		VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (project_id, task_id) DO UPDATE
		SET current_revision = $3, updated_at_ms = greatest(head.updated_at_ms, $4)`,
		project, t.pin.ID, t.pin.Revision, nowMS)
	b.Queue(`
		INSERT INTO task_definition_revisions (project_id, task_id, revision, content, content_digest, created_at_ms)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		project, t.pin.ID, t.pin.Revision, t.content, t.digest, nowMS)
	b.Queue(`
		INSERT INTO task_execution_revisions (project_id, task_id, task_revision, task_content_digest, content, content_digest, created_at_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		project, t.pin.ID, t.pin.Revision, t.digest, t.execution.content, t.execution.digest, nowMS)
}

func writeTrigger(b *pgx.Batch, project string, t triggerRevision, nowMS int64) {
	b.Queue(`
		INSERT INTO triggers AS head (project_id, trigger_id, current_revision, created_at_ms, updated_at_ms)
		VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (project_id, trigger_id) DO UPDATE
		SET current_revision = $3, updated_at_ms = greatest(head.updated_at_ms, $4)`,
		project, t.id, t.revision, nowMS)
	b.Queue(`
		INSERT INTO trigger_revisions (project_id, trigger_id, revision, content, content_digest, created_at_ms)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		project, t.id, t.revision, t.content, t.digest, nowMS)
}

// writeSchedule raises both versions and clears cursor and claim, so that a
// replica that holds the row's claim commits nothing.
func writeSchedule(b *pgx.Batch, project string, r reset, nowMS int64) {
	b.Queue(`
		INSERT INTO trigger_schedules AS s (project_id, trigger_id, trigger_revision, enabled, base_at_ms, updated_at_ms)
		VALUES ($1, $2, $3, $4, $5, $5)
		ON CONFLICT (project_id, trigger_id) DO UPDATE
		SET trigger_revision = $3, enabled = $4, base_at_ms = $5, updated_at_ms = $5, next_fire_at_ms = NULL, catch_up = false, blocked_reason = NULL,
			claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL,
			state_version = s.state_version + 1, claim_version = s.claim_version + 1`,
		project, r.trigger, r.revision, r.enabled, nowMS)
}

func writeSuperseded(b *pgx.Batch, project string, r reset, nowMS int64) {
	if r.before == nil {
		return
	}
	p := r.before.until(nowMS)
	if p.count == 0 {
		return
	}
	b.Queue(`
		INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, at_least,
			lateness_ms, reason, created_at_ms)
		VALUES ($1, $2, $3, $11, $4, $5, $6, $7, $8, $9, $10)`,
		project, r.trigger, p.revision, p.firstMS, p.lastMS, p.count, p.atLeast, nowMS-p.firstMS, r.reason, nowMS, r.became)
}

// writeTurn records from when on, and until when, nothing is expected of a Schedule because its Project is archived.
func writeTurn(b *pgx.Batch, p publication, r reset, nowMS int64) {
	if p.turn == "" {
		return
	}
	b.Queue(`INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms) VALUES ($1, $2, $3, $4, $5)`,
		p.id, r.trigger, r.revision, p.turn, nowMS)
}
