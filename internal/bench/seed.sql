INSERT INTO ql3.projects (id, name, status, created_at_ms, updated_at_ms)
SELECT @project, @name, CASE WHEN @active THEN 'active' ELSE 'archived' END, clock.ms, clock.ms
FROM (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS ms) clock
-- next
WITH clock AS (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS ms
), head AS (
    INSERT INTO ql3.task_definitions (project_id, task_id, current_revision, created_at_ms, updated_at_ms)
    SELECT @project, 'work', 1, ms, ms FROM clock
), definition AS (
    SELECT format('{"command":["/bin/true"],"enabled":true,"id":"work","kind":"task","name":"Work","project":"%s","retry":{"safe":"yes"},"timeoutMs":60000}',
        @project::text) AS content
), revision AS (
    INSERT INTO ql3.task_definition_revisions (project_id, task_id, revision, content, content_digest, created_at_ms)
    SELECT @project, 'work', 1, content, ql3.content_digest('qinglong.task-definition.v1', content), ms FROM definition, clock
    RETURNING content_digest
), plan AS (
    SELECT content_digest AS task, format('{"command":["/bin/true"],"executor":"remote_worker","kind":"execution","project":"%s",'
        '"task":{"digest":"%s","id":"work","revision":1},"timeoutMs":60000}', @project::text, content_digest) AS content
    FROM revision
)
INSERT INTO ql3.task_execution_revisions (project_id, task_id, task_revision, task_content_digest, content, content_digest, created_at_ms)
SELECT @project, 'work', 1, task, content, ql3.content_digest('qinglong.task-execution.v1', content), ms FROM plan, clock
-- next
WITH clock AS (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS ms,
    extract(epoch FROM date_trunc('year', now() AT TIME ZONE 'UTC') + interval '1 year')::bigint * 1000 AS new_year
), kind AS MATERIALIZED (
    SELECT 't-' || lpad(n::text, 7, '0') AS id, n <= @due::int OR n % 2 = 0 AS enabled,
        CASE WHEN n <= @due::int THEN 1 + n % 59 || ' * * * * *' ELSE '0 0 1 1 *' END AS cron
    FROM generate_series(1, @schedules::int) n
), heads AS (
    INSERT INTO ql3.triggers (project_id, trigger_id, current_revision, created_at_ms, updated_at_ms)
    SELECT @project, id, 1, ms, ms FROM kind, clock
), definition AS (
    SELECT id, format('{"cron":"%s","enabled":%s,"kind":"qinglong/cron@v1","misfire":"skip","project":"%s",'
        '"task":{"digest":"%s","id":"work","revision":1},"timezone":"UTC","trigger":"%s","written":"%s"}',
        cron, kind.enabled::text, @project::text, task.content_digest, id, cron) AS content
    FROM kind, ql3.task_definition_revisions task WHERE task.project_id = @project AND task.task_id = 'work' AND task.revision = 1
), revisions AS (
    INSERT INTO ql3.trigger_revisions (project_id, trigger_id, revision, content, content_digest, created_at_ms)
    SELECT @project, id, 1, content, ql3.content_digest('qinglong.trigger-definition.v1', content), ms FROM definition, clock
)
INSERT INTO ql3.trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms)
SELECT @project, id, 1, enabled AND @active, ms, CASE WHEN enabled AND @active THEN new_year END, ms FROM kind, clock
-- next
WITH clock AS (SELECT floor(extract(epoch FROM now()))::bigint * 1000 AS ms
), new AS MATERIALIZED (
    SELECT 't-' || lpad((1 + n % @schedules::int)::text, 7, '0') AS trigger_id, ms - n::bigint * (2592000 / greatest(@runs::int, 1)) * 1000 AS at,
        CASE WHEN n % 25 = 0 THEN 'failed' ELSE 'succeeded' END AS status, n % 25 = 0 AS failed,
        uuids.run, uuids.attempt, uuids.created, uuids.queued, uuids.ended
    FROM generate_series(1, @runs::int) n, clock, LATERAL (
        SELECT run, gen_random_uuid() AS attempt, gen_random_uuid() AS created, gen_random_uuid() AS queued, gen_random_uuid() AS ended
        FROM (SELECT overlay(overlay(gen_random_uuid()::text PLACING '7' FROM 15 FOR 1)
            PLACING regexp_replace(lpad(to_hex(ms - n::bigint * (2592000 / greatest(@runs::int, 1)) * 1000 + 5), 12, '0'), '(.{8})', '\1-') FROM 1 FOR 13)::uuid AS run) r
    ) uuids
), runs AS (
    INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
        scheduled_for_ms, trigger_type, execution_origin, status, version, event_sequence, idempotency_key,
        created_at_ms, queued_at_ms, started_at_ms, finished_at_ms, error_code)
    SELECT new.run, @project, 'work', 1, 'Work', e.id, new.trigger_id, 1, g.content_digest,
        at, 'cron', 'scheduled', status, 4, 3, 'ql3:cron:v1:' || new.trigger_id || ':1:' || at,
        at + 5, at + 5, at + 100, at + 1100, CASE WHEN failed THEN 'exit_code' END
    FROM new
    JOIN ql3.trigger_revisions g ON g.project_id = @project AND g.trigger_id = new.trigger_id AND g.revision = 1
    JOIN ql3.task_execution_revisions e ON e.project_id = @project AND e.task_id = 'work' AND e.task_revision = 1
), attempts AS (
    INSERT INTO ql3.run_attempts (id, run_id, attempt, status, executor_type, worker_id, created_at_ms, started_at_ms, finished_at_ms, exit_code, error_code)
    SELECT attempt, run, 1, status, 'remote_worker', 'load', at + 5, at + 100, at + 1100, failed::int, CASE WHEN failed THEN 'exit_code' END FROM new
)
INSERT INTO ql3.run_events (id, run_id, sequence, type, actor_type, actor_id, attempt_id, created_at_ms)
SELECT created, run, 1, 'run.created', 'scheduler', 'load', attempt, at + 5 FROM new
UNION ALL SELECT queued, run, 2, 'run.queued', 'scheduler', 'load', attempt, at + 5 FROM new
UNION ALL SELECT ended, run, 3, 'run.' || status, 'executor', 'load', attempt, at + 1100 FROM new
-- next
-- Only now does anything become due: a replica that is running does not begin with the first Project before the last is there.
WITH clock AS (SELECT (floor(extract(epoch FROM now()) / 60)::bigint + 2) * 60000 AS minute
), due AS MATERIALIZED (
    SELECT project_id, trigger_id, substr(trigger_id, 3)::int AS n FROM ql3.trigger_schedules
    WHERE enabled AND project_id LIKE 'load-%' AND substr(trigger_id, 3)::int <= @due::int
)
UPDATE ql3.trigger_schedules s SET next_fire_at_ms = minute + (1 + n % 59) * 1000
FROM clock, due WHERE s.project_id = due.project_id AND s.trigger_id = due.trigger_id
