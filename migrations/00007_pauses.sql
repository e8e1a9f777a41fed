-- A Trigger that somebody holds back, for a reason. A pause is a fact of its own: it makes no revision and survives every
-- publication. While it lasts the Schedule is not enabled, so nothing can claim it and no claim of it can be held.

-- +goose Up
CREATE TABLE ql3.trigger_pauses (
    id            uuid PRIMARY KEY,
    project_id    text NOT NULL,
    trigger_id    text NOT NULL,
    reason        text NOT NULL CONSTRAINT pause_reason_bounded CHECK (char_length(reason) BETWEEN 1 AND 500),
    paused_by     uuid NOT NULL REFERENCES ql3.users (id),
    paused_at_ms  bigint NOT NULL,
    resumed_by    uuid REFERENCES ql3.users (id),
    resumed_at_ms bigint,
    caught_up     boolean,
    CONSTRAINT pause_of_trigger FOREIGN KEY (project_id, trigger_id) REFERENCES ql3.triggers,
    CONSTRAINT pause_of_one_trigger UNIQUE (project_id, trigger_id, id),
    CONSTRAINT pause_resumption_is_whole CHECK (num_nonnulls(resumed_by, resumed_at_ms, caught_up) IN (0, 3)),
    CONSTRAINT pause_times_in_order CHECK (resumed_at_ms >= paused_at_ms)
);
CREATE UNIQUE INDEX pause_once_at_a_time ON ql3.trigger_pauses (project_id, trigger_id) WHERE resumed_at_ms IS NULL;
CREATE INDEX trigger_pauses_newest ON ql3.trigger_pauses (project_id, trigger_id, paused_at_ms DESC);
COMMENT ON COLUMN ql3.trigger_pauses.id IS 'Issued with the form, so that the same form sent again finds what it did.';
COMMENT ON COLUMN ql3.trigger_pauses.caught_up IS 'Resumed with one Run for all that were missed; else from then on, as also when nothing was missed.';
CREATE TRIGGER ended BEFORE UPDATE OR DELETE ON ql3.trigger_pauses FOR EACH ROW
    WHEN (OLD.resumed_at_ms IS NOT NULL) EXECUTE FUNCTION ql3.refuse_write();

ALTER TABLE ql3.trigger_schedules
    ADD COLUMN pause_id uuid,
    ADD COLUMN catch_up boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT schedule_pause_exists FOREIGN KEY (project_id, trigger_id, pause_id) REFERENCES ql3.trigger_pauses (project_id, trigger_id, id),
    ADD CONSTRAINT schedule_paused_is_not_enabled CHECK (pause_id IS NULL OR NOT enabled),
    ADD CONSTRAINT schedule_catch_up_has_cursor CHECK (NOT catch_up OR next_fire_at_ms IS NOT NULL);
COMMENT ON COLUMN ql3.trigger_schedules.enabled IS
    'Project active, Task enabled, Trigger enabled and not paused; rewritten by whoever changes one of them, so that idle rows are not in the due index.';
COMMENT ON COLUMN ql3.trigger_schedules.catch_up IS
    'The cursor''s occurrence stands for all that a pause missed: it is admitted however late it is. The next commit clears it.';

ALTER TABLE ql3.schedule_events DROP CONSTRAINT schedule_event_type_known, ADD CONSTRAINT schedule_event_type_known CHECK (type IN (
    'initialized', 'skipped', 'coalesced', 'superseded', 'paused', 'archived', 'unarchived', 'taken_over', 'raced', 'failed', 'unattended'));

-- Both functions lock the Schedule first and are the only way in which the role of operators writes one: it can hold a
-- Trigger back, and let go what is held back, and can move no other cursor. NULL says that the Schedule is not as assumed.
-- +goose StatementBegin
CREATE FUNCTION ql3.pause_schedule(project text, trigger text, pause uuid, usr uuid, why text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ql3, pg_temp AS $$
DECLARE
    now_ms bigint;
BEGIN
    PERFORM FROM ql3.trigger_schedules s WHERE s.project_id = project AND s.trigger_id = trigger AND s.pause_id IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    INSERT INTO ql3.trigger_pauses (id, project_id, trigger_id, reason, paused_by, paused_at_ms) VALUES (pause, project, trigger, why, usr, now_ms);
    UPDATE ql3.trigger_schedules s SET pause_id = pause, enabled = false, claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL,
        state_version = s.state_version + 1, claim_version = s.claim_version + 1, updated_at_ms = now_ms
    WHERE s.project_id = project AND s.trigger_id = trigger;
    RETURN now_ms;
END
$$;
-- +goose StatementEnd

-- The instants from first_ms to last_ms became nothing. The next one looked for is after base_ms; if there is a
-- cursor_ms it is that one, which was missed and is due now.
-- +goose StatementBegin
CREATE FUNCTION ql3.resume_schedule(project text, trigger text, pause uuid, usr uuid, seen bigint, first_ms bigint, last_ms bigint,
    missed integer, or_more boolean, why text, base_ms bigint, cursor_ms bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ql3, pg_temp AS $$
DECLARE
    now_ms bigint;
    revision bigint;
    expected boolean;
BEGIN
    SELECT s.trigger_revision, p.status = 'active' AND tr.enabled AND task.enabled INTO revision, expected
    FROM ql3.trigger_schedules s JOIN ql3.projects p ON p.id = s.project_id
    JOIN ql3.trigger_revisions tr ON tr.project_id = s.project_id AND tr.trigger_id = s.trigger_id AND tr.revision = s.trigger_revision
    JOIN ql3.task_definition_revisions task ON task.project_id = tr.project_id AND task.task_id = tr.task_id AND task.revision = tr.task_revision
    WHERE s.project_id = project AND s.trigger_id = trigger AND s.pause_id = pause AND s.state_version = seen FOR UPDATE OF s;
    now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    IF revision IS NULL OR base_ms > now_ms OR cursor_ms > now_ms THEN
        RETURN NULL;
    END IF;
    UPDATE ql3.trigger_pauses t SET resumed_by = usr, resumed_at_ms = greatest(now_ms, t.paused_at_ms), caught_up = cursor_ms IS NOT NULL WHERE t.id = pause;
    IF missed > 0 THEN
        INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, at_least, lateness_ms, reason, created_at_ms)
        VALUES (project, trigger, revision, 'paused', first_ms, last_ms, missed, or_more, now_ms - first_ms, why, now_ms);
    END IF;
    UPDATE ql3.trigger_schedules s SET pause_id = NULL, enabled = expected, base_at_ms = base_ms, next_fire_at_ms = cursor_ms, catch_up = cursor_ms IS NOT NULL,
        state_version = s.state_version + 1, claim_version = s.claim_version + 1, updated_at_ms = now_ms
    WHERE s.project_id = project AND s.trigger_id = trigger;
    PERFORM pg_notify('ql3_schedules', '');
    RETURN now_ms;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION ql3.pause_schedule(text, text, uuid, uuid, text),
    ql3.resume_schedule(text, text, uuid, uuid, bigint, bigint, bigint, integer, boolean, text, bigint, bigint) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION ql3.pause_schedule(text, text, uuid, uuid, text),
    ql3.resume_schedule(text, text, uuid, uuid, bigint, bigint, bigint, integer, boolean, text, bigint, bigint) TO ql3_run_manager;
GRANT SELECT ON ql3.triggers, ql3.trigger_revisions, ql3.trigger_schedules TO ql3_run_manager;
GRANT SELECT ON ql3.trigger_pauses TO ql3_admin, ql3_run_manager, ql3_console;

-- +goose Down
REVOKE SELECT ON ql3.triggers, ql3.trigger_revisions, ql3.trigger_schedules FROM ql3_run_manager;
DROP FUNCTION ql3.pause_schedule(text, text, uuid, uuid, text),
    ql3.resume_schedule(text, text, uuid, uuid, bigint, bigint, bigint, integer, boolean, text, bigint, bigint);
ALTER TABLE ql3.trigger_schedules DROP COLUMN pause_id, DROP COLUMN catch_up;
DROP TABLE ql3.trigger_pauses;
-- What was paused was not enabled, and stays so until it is published again.
ALTER TABLE ql3.schedule_events DISABLE TRIGGER immutable;
UPDATE ql3.schedule_events SET type = 'superseded' WHERE type = 'paused';
ALTER TABLE ql3.schedule_events ENABLE TRIGGER immutable;
ALTER TABLE ql3.schedule_events DROP CONSTRAINT schedule_event_type_known, ADD CONSTRAINT schedule_event_type_known CHECK (type IN (
    'initialized', 'skipped', 'coalesced', 'superseded', 'archived', 'unarchived', 'taken_over', 'raced', 'failed', 'unattended'));
COMMENT ON COLUMN ql3.trigger_schedules.enabled IS
    'Project active, Task enabled and Trigger enabled; rewritten by whoever changes one of them, so that idle rows are not in the due index.';
