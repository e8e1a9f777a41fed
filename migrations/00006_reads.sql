-- What lists are walked by. None of it makes inserting a cron Run dearer: of its indexes two are replaced by wider ones,
-- and the new ones hold retries alone or belong to other tables.

-- +goose Up
-- With the status, a list of one Task or Trigger restricted by status reads what it shows and no more; without it, a
-- list merges one lane for each status.
CREATE INDEX runs_by_task ON ql3.runs (project_id, task_id, status, created_at_ms DESC, id DESC);
CREATE INDEX runs_by_trigger ON ql3.runs (project_id, trigger_id, status, created_at_ms DESC, id DESC);
DROP INDEX ql3.runs_newest_by_task, ql3.runs_newest_by_trigger;

-- Retries are few among many Runs.
CREATE INDEX runs_retries_newest ON ql3.runs (project_id, status, created_at_ms DESC, id DESC) WHERE trigger_type = 'run_manual_retry';
CREATE INDEX runs_retries_by_user ON ql3.runs (triggered_by, created_at_ms DESC, id DESC) WHERE trigger_type = 'run_manual_retry';

-- Names are compared without reading the contents beside them.
CREATE INDEX task_revisions_named ON ql3.task_definition_revisions (project_id, task_id, revision) INCLUDE (name);

-- A list of Schedules is walked Project by Project, the next due first. Of the three only the first is written by every
-- advance of a cursor.
CREATE INDEX trigger_schedules_next ON ql3.trigger_schedules (project_id, (coalesce(next_fire_at_ms, -1)), trigger_id) WHERE enabled;
CREATE INDEX trigger_schedules_idle ON ql3.trigger_schedules (project_id, trigger_id) WHERE NOT enabled;
DROP INDEX ql3.trigger_schedules_blocked;
CREATE INDEX trigger_schedules_blocked ON ql3.trigger_schedules (project_id, (coalesce(next_fire_at_ms, -1)), trigger_id)
    WHERE blocked_reason IS NOT NULL;

-- What happened to claims is rare among what happened to instants.
CREATE INDEX schedule_events_of_claims ON ql3.schedule_events (project_id, created_at_ms DESC, id DESC)
    WHERE type IN ('taken_over', 'raced', 'failed');

-- +goose Down
DROP INDEX ql3.schedule_events_of_claims;
DROP INDEX ql3.trigger_schedules_next, ql3.trigger_schedules_idle, ql3.trigger_schedules_blocked;
CREATE INDEX trigger_schedules_blocked ON ql3.trigger_schedules (project_id, trigger_id) WHERE blocked_reason IS NOT NULL;
DROP INDEX ql3.task_revisions_named, ql3.runs_retries_newest, ql3.runs_retries_by_user;
CREATE INDEX runs_newest_by_task ON ql3.runs (project_id, task_id, created_at_ms DESC, id DESC);
CREATE INDEX runs_newest_by_trigger ON ql3.runs (project_id, trigger_id, created_at_ms DESC, id DESC);
DROP INDEX ql3.runs_by_task, ql3.runs_by_trigger;
