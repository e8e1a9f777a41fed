-- A day of Runs for the Triggers of screenshots.yaml that fire within a day, as if the instance had been there.
ALTER TABLE ql3.trigger_revisions DISABLE TRIGGER immutable;
UPDATE ql3.trigger_revisions SET created_at_ms = created_at_ms - 200000000 WHERE project_id IN ('billing', 'platform');
ALTER TABLE ql3.trigger_revisions ENABLE TRIGGER immutable;

CREATE TEMPORARY TABLE past AS
SELECT lpad(to_hex(at), 12, '0') AS stamp, md5(t.trigger_id || at) AS luck, at, how.took, ('x' || substr(md5('f' || t.trigger_id || at), 1, 4))::bit(16)::int % 100 < how.fails AS failed,
    (('x' || substr(md5(t.trigger_id || at), 1, 4))::bit(16)::int % 90) AS late, t.project_id, t.trigger_id, g.revision, g.content_digest, g.task_id, g.task_revision, e.id AS snapshot, r.name
FROM (VALUES ('invoice-export', 900000, 2100, 7), ('ledger-sync', 300000, 2300, 1), ('backup', 3600000, 190000, 0), ('search-index', 60000, 40200, 2)) AS how(id, step, took, fails)
JOIN ql3.triggers t ON t.trigger_id = how.id AND t.project_id IN ('billing', 'platform')
JOIN ql3.trigger_revisions g ON g.project_id = t.project_id AND g.trigger_id = t.trigger_id AND g.revision = t.current_revision
JOIN ql3.task_execution_revisions e ON e.project_id = g.project_id AND e.task_id = g.task_id AND e.task_revision = g.task_revision
JOIN ql3.task_definition_revisions r ON r.project_id = g.project_id AND r.task_id = g.task_id AND r.revision = g.task_revision
CROSS JOIN LATERAL generate_series(((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 90000000) / how.step * how.step,
    g.created_at_ms + 200000000, how.step) AS at;
UPDATE ql3.trigger_schedules s SET last_scheduled_at_ms = coalesce(s.last_scheduled_at_ms, (SELECT max(at) FROM past WHERE past.project_id = s.project_id AND past.trigger_id = s.trigger_id));

ALTER TABLE past ADD id uuid, ADD attempt uuid;
UPDATE past SET id = (substr(stamp, 1, 8) || '-' || substr(stamp, 9, 4) || '-7' || substr(luck, 1, 3) || '-a' || substr(luck, 4, 3) || '-' || substr(luck, 7, 12))::uuid, attempt = gen_random_uuid();

INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest, scheduled_for_ms, trigger_type,
    execution_origin, status, version, event_sequence, idempotency_key, created_at_ms, queued_at_ms, started_at_ms, finished_at_ms, error_code, error_summary)
SELECT id, project_id, task_id, task_revision, name, snapshot, trigger_id, revision, content_digest, at, 'cron', 'scheduled', CASE WHEN failed THEN 'failed' ELSE 'succeeded' END, 4, 4,
    'ql3:cron:v1:' || trigger_id || ':' || revision || ':' || at, at + late, at + late, at + late + 40, at + late + 40 + took, CASE WHEN failed THEN 'exit_code' END,
    CASE WHEN failed THEN 'connection to billing refused' END FROM past;
INSERT INTO ql3.run_attempts (id, run_id, attempt, status, executor_type, worker_id, created_at_ms, started_at_ms, finished_at_ms, exit_code, error_code, error_summary)
SELECT attempt, id, 1, CASE WHEN failed THEN 'failed' ELSE 'succeeded' END, 'remote_worker', 'local-executor', at + late, at + late + 40, at + late + 40 + took, CASE WHEN failed THEN 3 ELSE 0 END,
    CASE WHEN failed THEN 'exit_code' END, CASE WHEN failed THEN 'connection to billing refused' END FROM past;
INSERT INTO ql3.run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, created_at_ms)
SELECT gen_random_uuid(), id, e.n, CASE e.n WHEN 4 THEN CASE WHEN failed THEN 'run.failed' ELSE 'run.succeeded' END ELSE e.type END, e.by, CASE e.by WHEN 'scheduler' THEN 'console-1/4710/6e37' ELSE 'local-executor' END, CASE e.by WHEN 'executor' THEN attempt END, at + late + e.after + CASE e.n WHEN 4 THEN took ELSE 0 END
FROM past, (VALUES (1, 'run.created', 'scheduler', 0), (2, 'run.queued', 'scheduler', 0), (3, 'run.running', 'executor', 40), (4, '', 'executor', 40)) AS e(n, type, by, after);
DROP TABLE past;
