package scheduler

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
)

// fence is the state of a claimed Schedule and of everything its decision was made from, at the moment of the commit.
type fence struct {
	tid              pgtype.TID
	nowMS            int64 // the database clock, read after the lock was granted
	projectID        string
	triggerID        string
	owner            string
	token            uuid.UUID
	version          int64
	expiresAtMS      int64
	acquiredAtMS     int64
	stateVersion     int64
	enabled          bool
	cursorMS         *int64
	catchUp          bool
	scheduleRevision int64
	projectStatus    string
	projectVersion   int64
	headRevision     int64
	triggerEnabled   bool
	triggerContent   string
	triggerDigest    string
	taskID           string
	taskRevision     int64
	taskDigest       string // as the Trigger revision pins it
	taskOwnDigest    string // as the Task revision has it
	executionID      string
	executionDigest  string
	executionContent string
}

// lockSQL locks the rows by ctid, so that the primary key's pages, which every cursor advance writes, are not read and
// do not conflict. It locks by an UPDATE that changes nothing: what a SERIALIZABLE transaction has only read it keeps a
// predicate lock on, and more than two of a page become one of the whole page, which every commit beside it writes; what
// it has written it keeps none of. So a batch of any size conflicts with nobody who has other Schedules. The clock stands outside the MATERIALIZED locking CTE: inside, it would be as old as the wait.
const lockSQL = `
WITH locked AS MATERIALIZED (
    UPDATE trigger_schedules s SET claim_owner = s.claim_owner
    WHERE s.ctid = ANY($1::tid[]) AND s.claim_token = ANY($2::uuid[]) AND s.claim_version = ANY($3::bigint[])
    RETURNING s.ctid AS tid, s.*
)
SELECT s.tid, ` + pg.ClockMS + `, s.project_id, s.trigger_id, s.claim_owner, s.claim_token, s.claim_version, s.claim_expires_at_ms,
    s.updated_at_ms, s.state_version, s.enabled, s.next_fire_at_ms, s.catch_up, s.trigger_revision, p.status, p.version, t.current_revision,
    tr.enabled, tr.content, tr.content_digest, tr.task_id, tr.task_revision, tr.task_content_digest, task.content_digest,
    e.id, e.content_digest, e.content
FROM locked s
JOIN triggers t ON t.project_id = s.project_id AND t.trigger_id = s.trigger_id
JOIN trigger_revisions tr ON tr.project_id = s.project_id AND tr.trigger_id = s.trigger_id AND tr.revision = s.trigger_revision
JOIN task_definition_revisions task ON task.project_id = tr.project_id AND task.task_id = tr.task_id AND task.revision = tr.task_revision
JOIN task_execution_revisions e ON e.project_id = tr.project_id AND e.task_id = tr.task_id AND e.task_revision = tr.task_revision
JOIN projects p ON p.id = s.project_id`

// lock locks the claimed rows and returns for each what is there now, or nil if the claim is gone.
func lock(ctx context.Context, tx pgx.Tx, list []work) ([]*fence, error) {
	tids, tokens, versions := make([]pgtype.TID, len(list)), make([]uuid.UUID, len(list)), make([]int64, len(list))
	index := make(map[uuid.UUID]int, len(list))
	for i, w := range list {
		tids[i], tokens[i], versions[i] = w.claim.tid, w.claim.Token, w.claim.Version
		index[w.claim.Token] = i
	}
	rows, err := tx.Query(ctx, lockSQL, tids, tokens, versions)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanFence)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	now := make([]*fence, len(list))
	for k := range found {
		now[index[found[k].token]] = &found[k]
	}
	return now, nil
}

func scanFence(row pgx.CollectableRow) (f fence, err error) {
	err = row.Scan(&f.tid, &f.nowMS, &f.projectID, &f.triggerID, &f.owner, &f.token, &f.version, &f.expiresAtMS,
		&f.acquiredAtMS, &f.stateVersion, &f.enabled, &f.cursorMS, &f.catchUp, &f.scheduleRevision, &f.projectStatus, &f.projectVersion, &f.headRevision,
		&f.triggerEnabled, &f.triggerContent, &f.triggerDigest, &f.taskID, &f.taskRevision, &f.taskDigest, &f.taskOwnDigest,
		&f.executionID, &f.executionDigest, &f.executionContent)
	return f, err
}

// broken names the first part of the fence that is not intact, or returns "". Every part is compared, also those that
// a publisher's rewrite of the row would already have changed through the versions: no rule rests on another's habit.
func broken(w work, now *fence) string {
	if now == nil {
		return "claim gone"
	}
	c, d := w.claim, w.decision
	parts := []struct {
		name   string
		intact bool
	}{
		{"project", now.projectID == c.ProjectID},
		{"trigger", now.triggerID == c.TriggerID},
		{"claim owner", now.owner == c.Owner},
		{"claim token", now.token == c.Token},
		{"claim version", now.version == c.Version},
		{"claim expiry", now.expiresAtMS == c.ExpiresAtMS},
		{"claim expired", now.nowMS < now.expiresAtMS},
		{"database clock went back", now.nowMS >= c.AcquiredAtMS},
		{"claim acquired at", now.acquiredAtMS == c.AcquiredAtMS},
		{"state version", now.stateVersion == c.StateVersion},
		{"schedule enabled", now.enabled},
		{"cursor", sameInstant(now.cursorMS, c.CursorMS)},
		{"catch up", now.catchUp == c.CatchUp},
		{"schedule revision", now.scheduleRevision == c.TriggerRevision},
		{"project status", now.projectStatus == "active"},
		{"project version", now.projectVersion == c.ProjectVersion},
		{"trigger revision", now.headRevision == c.TriggerRevision},
		{"trigger enabled", now.triggerEnabled},
		{"trigger digest", now.triggerDigest == c.TriggerDigest && intact(catalog.DomainTrigger, now.triggerContent, now.triggerDigest)},
		{"task", now.taskID == c.TaskID},
		{"task revision", now.taskRevision == c.TaskRevision},
		{"task digest", now.taskDigest == c.TaskDigest && now.taskOwnDigest == c.TaskDigest},
		{"execution revision", now.executionID == c.ExecutionID},
		{"execution digest", now.executionDigest == c.ExecutionDigest && intact(catalog.DomainExecution, now.executionContent, now.executionDigest)},
		{"decision observed", d.ObservedMS == now.acquiredAtMS},
		{"decision candidate", d.Kind == Initialize || d.DueMS <= d.ObservedMS && (now.cursorMS == nil || *now.cursorMS == d.DueMS)},
		{"decision next", d.NextMS > d.ObservedMS},
	}
	for _, p := range parts {
		if !p.intact {
			return p.name
		}
	}
	return ""
}

func intact(domain catalog.Domain, content, digest string) bool {
	return catalog.Verify(domain, content, digest) == nil
}

func sameInstant(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
