-- At least one row of every table, all constraints and triggers on, in a schema of the previous version: what an upgrade
-- finds. :now is replaced by the database clock.
INSERT INTO ql3.projects (id, name, created_at_ms, updated_at_ms) VALUES ('kept', 'Kept', :now, :now);
INSERT INTO ql3.task_definitions (project_id, task_id, current_revision, created_at_ms, updated_at_ms) VALUES ('kept', 'job', 1, :now, :now);
INSERT INTO ql3.task_definition_revisions (project_id, task_id, revision, content, content_digest, created_at_ms)
    SELECT 'kept', 'job', 1, c, ql3.content_digest('qinglong.task-definition.v1', c), :now
    FROM (VALUES ('{"enabled":true,"id":"job","kind":"task","name":"Job","project":"kept"}')) v (c);
INSERT INTO ql3.task_execution_revisions (project_id, task_id, task_revision, task_content_digest, content, content_digest, created_at_ms)
    SELECT 'kept', 'job', 1, r.content_digest, c, ql3.content_digest('qinglong.task-execution.v1', c), :now
    FROM ql3.task_definition_revisions r, LATERAL (SELECT jsonb_build_object('executor', 'remote_worker', 'project', 'kept',
        'task', jsonb_build_object('id', 'job', 'revision', 1, 'digest', r.content_digest))::text AS c) e WHERE r.project_id = 'kept';
INSERT INTO ql3.triggers (project_id, trigger_id, current_revision, created_at_ms, updated_at_ms) VALUES ('kept', 'nightly', 1, :now, :now);
INSERT INTO ql3.trigger_revisions (project_id, trigger_id, revision, content, content_digest, created_at_ms)
    SELECT 'kept', 'nightly', 1, c, ql3.content_digest('qinglong.trigger-definition.v1', c), :now
    FROM ql3.task_definition_revisions r, LATERAL (SELECT jsonb_build_object('kind', 'somebody/else@v1', 'project', 'kept', 'trigger', 'nightly', 'enabled', false,
        'task', jsonb_build_object('id', 'job', 'revision', 1, 'digest', r.content_digest))::text AS c) e WHERE r.project_id = 'kept';

INSERT INTO ql3.users (id, issuer, subject, email, email_verified, created_at_ms, updated_at_ms)
    VALUES ('00000000-0000-7000-8000-0000000000a1', 'https://idp.example', 'ada', 'ada@kept.example', true, :now, :now);
INSERT INTO ql3.project_role_bindings (project_id, user_id, version, role, mutation_id, actor, created_at_ms)
    VALUES ('kept', '00000000-0000-7000-8000-0000000000a1', 1, 'operator', gen_random_uuid(), 'root', :now);
INSERT INTO ql3.console_sessions (id, user_id, origin, issuer, subject, peer_address, created_at_ms, last_seen_at_ms, idle_ms, expires_at_ms)
    VALUES ('00000000-0000-7000-8000-0000000000b1', '00000000-0000-7000-8000-0000000000a1', 'oidc', 'https://idp.example', 'ada', '192.0.2.1', :now, :now, 3600000, :now + 86400000);
INSERT INTO ql3.sessions (token, data, expiry) VALUES ('token', '\x00', now() + interval '1 day');
INSERT INTO ql3.logout_tokens (issuer, jti, created_at_ms) VALUES ('https://idp.example', 'once', :now);
INSERT INTO ql3.security_audit_events (id, action, outcome, actor_type, actor, created_at_ms) VALUES (gen_random_uuid(), 'role.grant', 'allowed', 'command', 'root', :now);

INSERT INTO ql3.trigger_pauses (id, project_id, trigger_id, reason, paused_by, paused_at_ms)
    VALUES ('00000000-0000-7000-8000-0000000000c1', 'kept', 'nightly', 'while the warehouse is away', '00000000-0000-7000-8000-0000000000a1', :now);
INSERT INTO ql3.trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, next_fire_at_ms, updated_at_ms, pause_id)
    VALUES ('kept', 'nightly', 1, false, :now, :now + 3600000, :now, '00000000-0000-7000-8000-0000000000c1');
INSERT INTO ql3.schedule_events (project_id, trigger_id, trigger_revision, type, first_at_ms, last_at_ms, instants, created_at_ms)
    VALUES ('kept', 'nightly', 1, 'skipped', :now - 1000, :now - 1000, 1, :now);
INSERT INTO ql3.replicas (id, version, started_at_ms, last_tick_at_ms, clock_skew_ms) VALUES ('gone/1/a', 'v0', :now - 60000, :now - 30000, 0);

INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest, scheduled_for_ms,
        trigger_type, execution_origin, status, idempotency_key, event_sequence, created_at_ms, queued_at_ms, started_at_ms, finished_at_ms, error_code)
    SELECT '00000000-0000-7000-8000-000000000001', 'kept', 'job', 1, 'Job', e.id, 'nightly', 1, t.content_digest, :now,
        'cron', 'scheduled', 'failed', 'ql3:cron:v1:nightly:1:' || :now, 1, :now, :now, :now, :now, 'exit_code'
    FROM ql3.task_execution_revisions e, ql3.trigger_revisions t WHERE e.project_id = 'kept' AND t.project_id = 'kept';
INSERT INTO ql3.run_attempts (id, run_id, attempt, status, executor_type, created_at_ms, started_at_ms, finished_at_ms, exit_code, error_code)
    VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 1, 'failed', 'remote_worker', :now, :now, :now, 1, 'exit_code');
INSERT INTO ql3.run_events (id, run_id, sequence, type, actor_type, actor_id, created_at_ms)
    VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 1, 'run.created', 'scheduler', 'gone/1/a', :now);
INSERT INTO ql3.run_retry_policies (run_id, max_attempts, backoff_ms, created_at_ms) VALUES ('00000000-0000-7000-8000-000000000001', 1, 0, :now);

INSERT INTO ql3.run_batches (id, action, project_id, user_id, words, created_at_ms)
    VALUES ('00000000-0000-7000-8000-0000000000d1', 'run.retry', 'kept', '00000000-0000-7000-8000-0000000000a1', 'the morning after', :now);
INSERT INTO ql3.run_batch_items (batch_id, position, run_id, run_status, run_version, execution_digest, mutation_id)
    VALUES ('00000000-0000-7000-8000-0000000000d1', 1, '00000000-0000-7000-8000-000000000001', 'failed', 1, 'digest', gen_random_uuid());
INSERT INTO ql3.auth_transactions (id, kind, state_hash, nonce_hash, binder_hash, issuer, client_id, route, created_at_ms, expires_at_ms, session_id, user_id, action, project_id, batch_id)
    VALUES ('00000000-0000-7000-8000-0000000000e1', 'step_up', sha256('state'), sha256('nonce'), sha256('binder'), 'https://idp.example', 'console', '{"name": "overview"}', :now, :now + 600000,
        '00000000-0000-7000-8000-0000000000b1', '00000000-0000-7000-8000-0000000000a1', 'run.retry', 'kept', '00000000-0000-7000-8000-0000000000d1');
INSERT INTO ql3.step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id, auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
    VALUES ('00000000-0000-7000-8000-0000000000f1', '00000000-0000-7000-8000-0000000000e1', '00000000-0000-7000-8000-0000000000b1', '00000000-0000-7000-8000-0000000000a1', 'run.retry', 'kept',
        '[{"run": "00000000-0000-7000-8000-000000000001", "version": 1, "digest": "digest"}]', 'why', 'multi_factor', 'https://idp.example', 'ada', 'console', :now / 1000, 'always', sha256('cookie'), :now, :now / 1000 * 1000 + 200000);
INSERT INTO ql3.runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, step_up_proof_id, triggered_by,
        trigger_type, execution_origin, status, idempotency_key, event_sequence, created_at_ms, queued_at_ms)
    SELECT '00000000-0000-7000-8000-000000000002', 'kept', 'job', 1, 'Job', e.id, '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-0000000000f1', '00000000-0000-7000-8000-0000000000a1',
        'run_manual_retry', 'manual', 'queued', 'ql3:run-manual-retry:v1:kept', 0, :now, :now
    FROM ql3.task_execution_revisions e WHERE e.project_id = 'kept';
