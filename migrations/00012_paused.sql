-- Who looks for what somebody holds back finds it without judging every Schedule that is not enabled. The index is
-- written only by pausing and resuming.

-- +goose Up
CREATE INDEX trigger_schedules_paused ON ql3.trigger_schedules (project_id, trigger_id) WHERE pause_id IS NOT NULL;

INSERT INTO ql3.schema_floors (version, floor) VALUES (12, 9);

-- +goose Down
DELETE FROM ql3.schema_floors WHERE version = 12;
DROP INDEX ql3.trigger_schedules_paused;
