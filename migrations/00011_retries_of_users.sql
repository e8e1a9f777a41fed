-- The retries of one user in one Project are asked for by the quota, which counts them, and by lists and the search,
-- which want the newest first. One index serves all of them; two had each a part of what it has.

-- +goose Up
DROP INDEX ql3.runs_retry_quota, ql3.runs_retries_by_user;
CREATE INDEX runs_retries_by_user ON ql3.runs (project_id, triggered_by, created_at_ms DESC, id DESC) WHERE trigger_type = 'run_manual_retry';

INSERT INTO ql3.schema_floors (version, floor) VALUES (11, 9);

-- +goose Down
DELETE FROM ql3.schema_floors WHERE version = 11;
DROP INDEX ql3.runs_retries_by_user;
CREATE INDEX runs_retries_by_user ON ql3.runs (triggered_by, created_at_ms DESC, id DESC) WHERE trigger_type = 'run_manual_retry';
CREATE INDEX runs_retry_quota ON ql3.runs (project_id, triggered_by, created_at_ms) WHERE trigger_type = 'run_manual_retry';
