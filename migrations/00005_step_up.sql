-- What a fresh sign-in was made for: step-up transactions, their proofs, and the fence a retry or stop takes first.

-- +goose Up
ALTER TABLE ql3.auth_transactions
    ADD COLUMN session_id uuid REFERENCES ql3.console_sessions (id),
    ADD COLUMN user_id    uuid REFERENCES ql3.users (id),
    ADD COLUMN action     text CONSTRAINT auth_transaction_action_known CHECK (action IN ('run.retry', 'run.stop')),
    ADD COLUMN project_id text REFERENCES ql3.projects (id),
    ADD COLUMN purpose    jsonb CONSTRAINT auth_transaction_purpose_is_set CHECK (
        jsonb_typeof(purpose) = 'array' AND jsonb_array_length(purpose) BETWEEN 1 AND 50),
    ADD COLUMN words      text CONSTRAINT auth_transaction_words_bounded CHECK (char_length(words) <= 500),
    ADD CONSTRAINT auth_transaction_session_by_kind CHECK ((kind = 'sign_in') = (session_id IS NULL) AND (kind = 'sign_in') = (user_id IS NULL)),
    ADD CONSTRAINT auth_transaction_purpose_by_kind CHECK (
        num_nonnulls(action, project_id, purpose) = CASE WHEN kind = 'step_up' THEN 3 ELSE 0 END);
COMMENT ON COLUMN ql3.auth_transactions.purpose IS 'The frozen set the step-up is for: [{"run": id, "version": n, "digest": execution digest}], in order.';
COMMENT ON COLUMN ql3.auth_transactions.words IS 'The reason, asked for before the step-up, so that typing burns no proof time.';

CREATE TABLE ql3.step_up_proofs (
    id                   uuid PRIMARY KEY,
    transaction_id       uuid NOT NULL CONSTRAINT proof_once_per_transaction UNIQUE,
    session_id           uuid NOT NULL REFERENCES ql3.console_sessions (id),
    user_id              uuid NOT NULL REFERENCES ql3.users (id),
    action               text NOT NULL CONSTRAINT proof_action_known CHECK (action IN ('run.retry', 'run.stop')),
    project_id           text NOT NULL REFERENCES ql3.projects (id),
    purpose              jsonb NOT NULL CONSTRAINT proof_purpose_is_set CHECK (
        jsonb_typeof(purpose) = 'array' AND jsonb_array_length(purpose) BETWEEN 1 AND 50),
    words                text NOT NULL CONSTRAINT proof_words_bounded CHECK (char_length(words) <= 500),
    level                text NOT NULL CONSTRAINT proof_is_strong CHECK (level IN ('multi_factor', 'hardware')),
    issuer               text NOT NULL,
    subject              text NOT NULL,
    client_id            text NOT NULL,
    acr                  text,
    amr                  text[],
    acrs                 text[],
    auth_time_s          bigint NOT NULL CONSTRAINT proof_auth_time_positive CHECK (auth_time_s > 0),
    second_factor        text NOT NULL CONSTRAINT proof_second_factor_known CHECK (second_factor IN ('always', 'session')),
    cookie_hash          bytea NOT NULL CONSTRAINT proof_cookie_form CHECK (octet_length(cookie_hash) = 32),
    created_at_ms        bigint NOT NULL,
    expires_at_ms        bigint NOT NULL,
    previewed_at_ms      bigint,
    consumed_at_ms       bigint,
    consumed_mutation_id uuid,
    revoked_at_ms        bigint,
    CONSTRAINT proof_lives_five_minutes CHECK (
        expires_at_ms > created_at_ms AND expires_at_ms <= least(auth_time_s * 1000, created_at_ms) + 300000),
    CONSTRAINT proof_consumption_is_whole CHECK ((consumed_at_ms IS NULL) = (consumed_mutation_id IS NULL)),
    CONSTRAINT proof_consumed_in_time CHECK (consumed_at_ms < expires_at_ms),
    CONSTRAINT proof_consumed_or_revoked CHECK (num_nonnulls(consumed_at_ms, revoked_at_ms) <= 1)
);
CREATE INDEX step_up_proofs_of_session ON ql3.step_up_proofs (session_id) WHERE consumed_at_ms IS NULL AND revoked_at_ms IS NULL;
CREATE INDEX step_up_proofs_of_user ON ql3.step_up_proofs (user_id, created_at_ms DESC);
COMMENT ON COLUMN ql3.step_up_proofs.expires_at_ms IS
    'min(auth_time, callback) + 300 s, and no later than the session ends. Nothing slides it.';

ALTER TABLE ql3.runs ADD CONSTRAINT run_proof_exists FOREIGN KEY (step_up_proof_id) REFERENCES ql3.step_up_proofs (id);
CREATE UNIQUE INDEX run_proof_once_per_source ON ql3.runs (step_up_proof_id, retry_of_run_id) WHERE step_up_proof_id IS NOT NULL;

-- A stop sent again finds what it recorded.
CREATE UNIQUE INDEX event_cancel_mutation_once ON ql3.run_events ((payload ->> 'mutation_id')) WHERE type = 'run.cancel_requested';

-- A session that ends takes its unconsumed proofs with it, in the transaction that ends it, whoever ends it.
-- +goose StatementBegin
CREATE FUNCTION ql3.revoke_proofs_of_session() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = ql3, pg_temp AS $$
BEGIN
    UPDATE ql3.step_up_proofs SET revoked_at_ms = NEW.revoked_at_ms
    WHERE session_id = NEW.id AND consumed_at_ms IS NULL AND revoked_at_ms IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER revoke_proofs AFTER UPDATE OF revoked_at_ms ON ql3.console_sessions FOR EACH ROW
    WHEN (NEW.revoked_at_ms IS NOT NULL AND OLD.revoked_at_ms IS NULL) EXECUTE FUNCTION ql3.revoke_proofs_of_session();

-- +goose StatementBegin
CREATE FUNCTION ql3.lock_run_management_policy_fence(project text, usr uuid)
RETURNS TABLE (project_status text, project_version bigint, user_status text, role text, binding_version bigint, bound_at_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ql3, pg_temp AS $$
BEGIN
    PERFORM FROM ql3.projects p WHERE p.id = project FOR NO KEY UPDATE;
    RETURN QUERY
        SELECT p.status, p.version, u.status, b.role, b.version, b.created_at_ms
        FROM ql3.projects p JOIN ql3.users u ON u.id = usr
        LEFT JOIN LATERAL (SELECT n.role, n.version, n.created_at_ms FROM ql3.project_role_bindings n
            WHERE n.project_id = p.id AND n.user_id = u.id ORDER BY n.version DESC LIMIT 1) b ON true
        WHERE p.id = project;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION ql3.lock_run_management_policy_fence IS
    'Locks the Project and reads, over the lock, what decides whether the user may manage its Runs. No row: no such Project or user.';
REVOKE EXECUTE ON FUNCTION ql3.revoke_proofs_of_session(), ql3.lock_run_management_policy_fence(text, uuid) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION ql3.lock_run_management_policy_fence(text, uuid) TO ql3_run_manager;
GRANT SELECT ON ql3.step_up_proofs TO ql3_run_manager;
GRANT UPDATE (previewed_at_ms, consumed_at_ms, consumed_mutation_id) ON ql3.step_up_proofs TO ql3_run_manager;
GRANT SELECT, INSERT ON ql3.step_up_proofs TO ql3_authn;
GRANT UPDATE (revoked_at_ms) ON ql3.step_up_proofs TO ql3_authn;
GRANT SELECT ON ql3.projects TO ql3_authn;
GRANT SELECT (id, session_id, user_id, action, project_id, purpose, level, issuer, auth_time_s, second_factor, created_at_ms, expires_at_ms,
    consumed_at_ms, consumed_mutation_id, revoked_at_ms) ON ql3.step_up_proofs TO ql3_console;

-- +goose Down
DROP TRIGGER revoke_proofs ON ql3.console_sessions;
DROP FUNCTION ql3.lock_run_management_policy_fence(text, uuid), ql3.revoke_proofs_of_session();
REVOKE SELECT ON ql3.projects FROM ql3_authn;
DROP INDEX ql3.run_proof_once_per_source, ql3.event_cancel_mutation_once;
ALTER TABLE ql3.runs DROP CONSTRAINT run_proof_exists;
DROP TABLE ql3.step_up_proofs;
DELETE FROM ql3.auth_transactions WHERE kind <> 'sign_in';
ALTER TABLE ql3.auth_transactions DROP CONSTRAINT auth_transaction_session_by_kind, DROP CONSTRAINT auth_transaction_purpose_by_kind,
    DROP COLUMN session_id, DROP COLUMN user_id, DROP COLUMN action, DROP COLUMN project_id, DROP COLUMN purpose, DROP COLUMN words;
