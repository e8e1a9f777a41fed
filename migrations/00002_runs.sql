-- What ran: Runs, their Attempts and Events. A terminal row is never written again, whoever asks.

-- +goose Up
CREATE TABLE ql3.runs (
    id                     uuid PRIMARY KEY,
    project_id             text NOT NULL,
    task_id                text NOT NULL,
    task_revision          bigint NOT NULL,
    task_name              text NOT NULL,
    task_snapshot_ref      text NOT NULL,
    parent_run_id          uuid REFERENCES ql3.runs (id),
    retry_of_run_id        uuid REFERENCES ql3.runs (id),
    trigger_id             text,
    trigger_revision       bigint,
    trigger_content_digest text,
    scheduled_for_ms       bigint,
    trigger_type           text NOT NULL CONSTRAINT run_trigger_type_known CHECK (trigger_type IN ('cron', 'run_manual_retry')),
    execution_origin       text NOT NULL CONSTRAINT run_origin_known CHECK (execution_origin IN ('scheduled', 'manual')),
    execution_owner        text NOT NULL DEFAULT 'runtime' CONSTRAINT run_owner_known CHECK (execution_owner IN ('runtime', 'workflow')),
    triggered_by           text,
    request_id             text,
    step_up_proof_id       uuid,
    status                 text NOT NULL CONSTRAINT run_status_known CHECK (status IN (
        'created', 'queued', 'dispatching', 'running', 'waiting_approval', 'retry_wait', 'lost',
        'succeeded', 'failed', 'cancelled', 'timed_out')),
    version                bigint NOT NULL DEFAULT 1 CONSTRAINT run_version_positive CHECK (version >= 1),
    event_sequence         bigint NOT NULL DEFAULT 0 CONSTRAINT run_event_sequence_not_negative CHECK (event_sequence >= 0),
    priority               smallint NOT NULL DEFAULT 0,
    idempotency_key        text NOT NULL,
    input_ref              text,
    output_ref             text,
    created_at_ms          bigint NOT NULL CONSTRAINT run_created_not_negative CHECK (created_at_ms >= 0),
    queued_at_ms           bigint,
    started_at_ms          bigint,
    finished_at_ms         bigint,
    cancel_requested_at_ms bigint,
    cancel_reason          text CONSTRAINT run_cancel_reason_known CHECK (cancel_reason IN ('user', 'timeout')),
    error_code             text CONSTRAINT run_error_code_form CHECK (error_code ~ '^[a-z][a-z0-9_]{0,63}$'),
    error_summary          text CONSTRAINT run_error_summary_bounded CHECK (char_length(error_summary) <= 1000),
    CONSTRAINT run_idempotency_key_once UNIQUE (project_id, idempotency_key),
    CONSTRAINT run_pins_execution FOREIGN KEY (project_id, task_id, task_revision, task_snapshot_ref)
        REFERENCES ql3.task_execution_revisions (project_id, task_id, task_revision, id),
    CONSTRAINT run_of_trigger_revision FOREIGN KEY (project_id, trigger_id, trigger_revision)
        REFERENCES ql3.trigger_revisions (project_id, trigger_id, revision),
    CONSTRAINT run_cron_has_occurrence CHECK ((trigger_type = 'cron') = (
        trigger_id IS NOT NULL AND trigger_revision IS NOT NULL AND trigger_content_digest IS NOT NULL AND scheduled_for_ms IS NOT NULL)),
    CONSTRAINT run_only_cron_has_trigger CHECK (trigger_type = 'cron' OR num_nonnulls(
        trigger_id, trigger_revision, trigger_content_digest, scheduled_for_ms) = 0),
    CONSTRAINT run_cron_shape CHECK (trigger_type <> 'cron' OR (execution_origin = 'scheduled' AND retry_of_run_id IS NULL
        AND idempotency_key = 'ql3:cron:v1:' || trigger_id || ':' || trigger_revision || ':' || scheduled_for_ms)),
    CONSTRAINT run_retry_shape CHECK ((trigger_type = 'run_manual_retry') = (retry_of_run_id IS NOT NULL)
        AND (trigger_type <> 'run_manual_retry' OR (execution_origin = 'manual' AND triggered_by IS NOT NULL
            AND idempotency_key LIKE 'ql3:run-manual-retry:v1:%'))),
    CONSTRAINT run_retry_has_proof CHECK ((trigger_type = 'run_manual_retry') = (step_up_proof_id IS NOT NULL)),
    CONSTRAINT run_terminal_is_finished CHECK (
        (status IN ('succeeded', 'failed', 'cancelled', 'timed_out')) = (finished_at_ms IS NOT NULL)),
    CONSTRAINT run_queued_has_time CHECK (status = 'created' OR queued_at_ms IS NOT NULL),
    CONSTRAINT run_running_has_time CHECK (status NOT IN ('running', 'succeeded') OR started_at_ms IS NOT NULL),
    CONSTRAINT run_times_in_order CHECK (queued_at_ms >= created_at_ms AND started_at_ms >= queued_at_ms
        AND finished_at_ms >= coalesce(started_at_ms, queued_at_ms, created_at_ms)),
    CONSTRAINT run_cancel_is_whole CHECK ((cancel_requested_at_ms IS NULL) = (cancel_reason IS NULL)),
    CONSTRAINT run_success_has_no_error CHECK (status <> 'succeeded' OR error_code IS NULL)
);

CREATE INDEX runs_newest ON ql3.runs (project_id, created_at_ms DESC, id DESC);
CREATE INDEX runs_newest_by_status ON ql3.runs (project_id, status, created_at_ms DESC, id DESC);
CREATE INDEX runs_newest_by_task ON ql3.runs (project_id, task_id, created_at_ms DESC, id DESC);
CREATE INDEX runs_newest_by_trigger ON ql3.runs (project_id, trigger_id, created_at_ms DESC, id DESC);
CREATE INDEX runs_by_occurrence ON ql3.runs (project_id, trigger_id, scheduled_for_ms DESC);
CREATE INDEX runs_retries ON ql3.runs (retry_of_run_id) WHERE retry_of_run_id IS NOT NULL;
CREATE INDEX runs_retry_quota ON ql3.runs (project_id, triggered_by, created_at_ms) WHERE trigger_type = 'run_manual_retry';
-- What a dispatcher, an executor and start-up recovery look at: Runs that are still somebody's work.
CREATE INDEX runs_unfinished ON ql3.runs (status, priority DESC, queued_at_ms, id)
    WHERE status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out');

CREATE TABLE ql3.run_attempts (
    id                  uuid PRIMARY KEY,
    run_id              uuid NOT NULL REFERENCES ql3.runs (id),
    attempt             integer NOT NULL CONSTRAINT attempt_number_positive CHECK (attempt >= 1),
    status              text NOT NULL CONSTRAINT attempt_status_known CHECK (status IN (
        'claimed', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost')),
    executor_type       text NOT NULL CONSTRAINT attempt_executor_known CHECK (executor_type = 'remote_worker'),
    worker_id           text,
    executor_handle     text,
    lease_token         uuid,
    lease_expires_at_ms bigint,
    deadline_at_ms      bigint,
    callback_sequence   bigint NOT NULL DEFAULT 0 CONSTRAINT attempt_callback_not_negative CHECK (callback_sequence >= 0),
    created_at_ms       bigint NOT NULL,
    started_at_ms       bigint,
    finished_at_ms      bigint,
    exit_code           integer,
    error_code          text CONSTRAINT attempt_error_code_form CHECK (error_code ~ '^[a-z][a-z0-9_]{0,63}$'),
    error_summary       text CONSTRAINT attempt_error_summary_bounded CHECK (char_length(error_summary) <= 1000),
    CONSTRAINT attempt_once UNIQUE (run_id, attempt),
    CONSTRAINT attempt_lease_is_whole CHECK (
        (lease_token IS NULL) = (lease_expires_at_ms IS NULL) AND (lease_token IS NULL OR worker_id IS NOT NULL)),
    CONSTRAINT attempt_terminal_is_finished CHECK (
        (status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost')) = (finished_at_ms IS NOT NULL)),
    CONSTRAINT attempt_running_has_start CHECK (status NOT IN ('running', 'succeeded') OR started_at_ms IS NOT NULL),
    CONSTRAINT attempt_times_in_order CHECK (started_at_ms >= created_at_ms
        AND finished_at_ms >= coalesce(started_at_ms, created_at_ms)),
    CONSTRAINT attempt_exit_code_after_end CHECK (exit_code IS NULL OR finished_at_ms IS NOT NULL),
    CONSTRAINT attempt_success_has_no_error CHECK (status <> 'succeeded' OR error_code IS NULL)
);

CREATE TABLE ql3.run_events (
    id            uuid PRIMARY KEY,
    run_id        uuid NOT NULL REFERENCES ql3.runs (id),
    sequence      bigint NOT NULL CONSTRAINT event_sequence_positive CHECK (sequence >= 1),
    type          text NOT NULL CONSTRAINT event_type_form CHECK (type ~ '^[a-z]+(\.[a-z_]+)+$'),
    dedupe_key    text,
    actor_type    text NOT NULL CONSTRAINT event_actor_known CHECK (actor_type IN ('scheduler', 'user', 'executor', 'recovery')),
    actor_id      text NOT NULL,
    attempt_id    uuid REFERENCES ql3.run_attempts (id),
    payload       jsonb NOT NULL DEFAULT '{}' CONSTRAINT event_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
    created_at_ms bigint NOT NULL,
    CONSTRAINT event_sequence_once UNIQUE (run_id, sequence)
);
CREATE UNIQUE INDEX event_dedupe_once ON ql3.run_events (run_id, dedupe_key) WHERE dedupe_key IS NOT NULL;

CREATE TABLE ql3.run_retry_policies (
    run_id        uuid PRIMARY KEY REFERENCES ql3.runs (id),
    max_attempts  integer NOT NULL CONSTRAINT retry_policy_attempts CHECK (max_attempts BETWEEN 1 AND 100),
    backoff_ms    bigint NOT NULL CONSTRAINT retry_policy_backoff CHECK (backoff_ms BETWEEN 0 AND 86400000),
    created_at_ms bigint NOT NULL
);
COMMENT ON TABLE ql3.run_retry_policies IS 'Automatic retry of one Run. A manual retry never inherits it.';

-- +goose StatementBegin
CREATE FUNCTION ql3.refuse_terminal_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ql3.% %: status % is terminal, % refused', TG_TABLE_NAME, OLD.id, OLD.status, TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION ql3.refuse_terminal_write() FROM PUBLIC;
CREATE TRIGGER terminal BEFORE UPDATE OR DELETE ON ql3.runs FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'failed', 'cancelled', 'timed_out')) EXECUTE FUNCTION ql3.refuse_terminal_write();
CREATE TRIGGER terminal BEFORE UPDATE OR DELETE ON ql3.run_attempts FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost')) EXECUTE FUNCTION ql3.refuse_terminal_write();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.run_events FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();

GRANT SELECT, INSERT, UPDATE ON ql3.runs, ql3.run_attempts TO ql3_runtime;
GRANT SELECT, INSERT ON ql3.run_events TO ql3_runtime;
GRANT SELECT ON ql3.run_retry_policies TO ql3_runtime;
GRANT SELECT, INSERT ON ql3.runs, ql3.run_attempts, ql3.run_events TO ql3_run_manager;
GRANT UPDATE (cancel_requested_at_ms, cancel_reason, version, event_sequence) ON ql3.runs TO ql3_run_manager;
GRANT SELECT ON ql3.runs, ql3.run_events TO ql3_console;
GRANT SELECT (id, run_id, attempt, status, executor_type, worker_id, executor_handle, lease_expires_at_ms, deadline_at_ms, callback_sequence,
    created_at_ms, started_at_ms, finished_at_ms, exit_code, error_code, error_summary) ON ql3.run_attempts TO ql3_console;

-- +goose Down
DROP TABLE ql3.run_retry_policies, ql3.run_events, ql3.run_attempts, ql3.runs CASCADE;
DROP FUNCTION ql3.refuse_terminal_write();
