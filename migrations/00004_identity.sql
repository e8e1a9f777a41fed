-- Who may see and do what: Users, their role bindings, their sessions, and the audit.

-- +goose Up
CREATE TABLE ql3.users (
    id                uuid PRIMARY KEY,
    issuer            text NOT NULL CONSTRAINT user_issuer_form CHECK (char_length(issuer) BETWEEN 1 AND 500),
    subject           text NOT NULL CONSTRAINT user_subject_form CHECK (char_length(subject) BETWEEN 1 AND 500),
    email             text CONSTRAINT user_email_bounded CHECK (char_length(email) <= 320),
    email_verified    boolean NOT NULL DEFAULT false CONSTRAINT user_verified_email_exists CHECK (NOT email_verified OR email IS NOT NULL),
    name              text CONSTRAINT user_name_bounded CHECK (char_length(name) <= 200),
    join_key          text CONSTRAINT user_join_key_bounded CHECK (char_length(join_key) BETWEEN 1 AND 500),
    status            text NOT NULL DEFAULT 'active' CONSTRAINT user_status_known CHECK (status IN ('active', 'disabled')),
    version           bigint NOT NULL DEFAULT 1 CONSTRAINT user_version_positive CHECK (version >= 1),
    last_auth_time_s  bigint CONSTRAINT user_auth_time_not_negative CHECK (last_auth_time_s >= 0),
    created_at_ms     bigint NOT NULL,
    signed_in_at_ms   bigint,
    updated_at_ms     bigint NOT NULL CONSTRAINT user_updated_in_order CHECK (updated_at_ms >= created_at_ms),
    CONSTRAINT user_once UNIQUE (issuer, subject)
);
CREATE INDEX users_by_email ON ql3.users (email) WHERE email IS NOT NULL;
COMMENT ON COLUMN ql3.users.issuer IS 'An OpenID issuer, or proxy:<name> for an identity that a proxy''s headers assert.';
COMMENT ON COLUMN ql3.users.join_key IS 'The value of the configured claim by which a step-up at another issuer is joined to this User; read at sign-in.';
COMMENT ON COLUMN ql3.users.last_auth_time_s IS
    'The newest auth_time (Unix seconds) accepted for this User, at a sign-in or for a proof. A later authentication must be later.';

CREATE TABLE ql3.project_role_bindings (
    project_id    text NOT NULL REFERENCES ql3.projects (id),
    user_id       uuid NOT NULL REFERENCES ql3.users (id),
    version       bigint NOT NULL CONSTRAINT binding_version_positive CHECK (version >= 1),
    role          text CONSTRAINT binding_role_known CHECK (role IN ('owner', 'admin', 'operator', 'viewer')),
    mutation_id   uuid NOT NULL CONSTRAINT binding_mutation_once UNIQUE,
    actor         text NOT NULL CONSTRAINT binding_actor_bounded CHECK (char_length(actor) BETWEEN 1 AND 500),
    reason        text CONSTRAINT binding_reason_bounded CHECK (char_length(reason) BETWEEN 1 AND 500),
    created_at_ms bigint NOT NULL,
    PRIMARY KEY (project_id, user_id, version)
);
COMMENT ON TABLE ql3.project_role_bindings IS 'Append-only: the newest version counts. A NULL role is a role lost.';
CREATE INDEX project_role_bindings_by_user ON ql3.project_role_bindings (user_id, project_id, version DESC);
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.project_role_bindings FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();

CREATE TABLE ql3.console_sessions (
    id               uuid PRIMARY KEY,
    user_id          uuid NOT NULL REFERENCES ql3.users (id),
    origin           text NOT NULL CONSTRAINT session_origin_known CHECK (origin IN ('oidc', 'proxy_jwt', 'proxy_headers')),
    issuer           text NOT NULL,
    subject          text NOT NULL,
    client_id        text,
    sid              text CONSTRAINT session_sid_bounded CHECK (char_length(sid) BETWEEN 1 AND 500),
    generation       bigint NOT NULL DEFAULT 1 CONSTRAINT session_generation_positive CHECK (generation >= 1),
    peer_address     text NOT NULL,
    claimed_address  text,
    user_agent       text CONSTRAINT session_user_agent_bounded CHECK (char_length(user_agent) <= 500),
    created_at_ms    bigint NOT NULL,
    last_seen_at_ms  bigint NOT NULL CONSTRAINT session_seen_in_order CHECK (last_seen_at_ms >= created_at_ms),
    idle_ms          bigint NOT NULL CONSTRAINT session_idle_positive CHECK (idle_ms > 0),
    expires_at_ms    bigint NOT NULL CONSTRAINT session_expires_later CHECK (expires_at_ms > created_at_ms),
    revoked_at_ms    bigint,
    revoke_reason    text CONSTRAINT session_revoke_reason_known CHECK (revoke_reason IN
        ('signed_out', 'signed_out_everywhere', 'backchannel_logout', 'user_disabled', 'user_switched', 'replaced')),
    CONSTRAINT session_revocation_is_whole CHECK ((revoked_at_ms IS NULL) = (revoke_reason IS NULL))
);
CREATE INDEX console_sessions_of_user ON ql3.console_sessions (user_id, created_at_ms DESC) WHERE revoked_at_ms IS NULL;
CREATE INDEX console_sessions_by_sid ON ql3.console_sessions (issuer, sid) WHERE sid IS NOT NULL AND revoked_at_ms IS NULL;
CREATE INDEX console_sessions_by_subject ON ql3.console_sessions (issuer, subject) WHERE revoked_at_ms IS NULL;
COMMENT ON TABLE ql3.console_sessions IS
    'What decides whether a request is signed in: read on every request by the database clock. The cookie store holds only the id and the generation.';

-- The cookie store's own table (scs pgxstore): last writer wins, so nothing that must happen once lives in it.
CREATE TABLE ql3.sessions (
    token  text PRIMARY KEY,
    data   bytea NOT NULL,
    expiry timestamptz NOT NULL
);
CREATE INDEX sessions_by_expiry ON ql3.sessions (expiry);

CREATE TABLE ql3.auth_transactions (
    id             uuid PRIMARY KEY,
    kind           text NOT NULL CONSTRAINT auth_transaction_kind_known CHECK (kind IN ('sign_in', 'step_up', 'step_up_test')),
    state_hash     bytea NOT NULL CONSTRAINT auth_transaction_state_form CHECK (octet_length(state_hash) = 32),
    nonce_hash     bytea NOT NULL CONSTRAINT auth_transaction_nonce_form CHECK (octet_length(nonce_hash) = 32),
    binder_hash    bytea NOT NULL CONSTRAINT auth_transaction_binder_form CHECK (octet_length(binder_hash) = 32),
    issuer         text NOT NULL,
    client_id      text NOT NULL,
    route          jsonb NOT NULL CONSTRAINT auth_transaction_route_is_object CHECK (jsonb_typeof(route) = 'object'),
    created_at_ms  bigint NOT NULL,
    expires_at_ms  bigint NOT NULL CONSTRAINT auth_transaction_lives_ten_minutes CHECK (expires_at_ms BETWEEN created_at_ms + 1 AND created_at_ms + 600000),
    consumed_at_ms bigint,
    CONSTRAINT auth_transaction_state_once UNIQUE (state_hash)
);
CREATE INDEX auth_transactions_of_browser ON ql3.auth_transactions (binder_hash, created_at_ms);
CREATE INDEX auth_transactions_by_expiry ON ql3.auth_transactions (expires_at_ms);
COMMENT ON COLUMN ql3.auth_transactions.route IS 'Where the user was going: a matched GET route by name, its ids and its validated query. Never a URL.';

CREATE TABLE ql3.logout_tokens (
    issuer        text NOT NULL,
    jti           text NOT NULL CONSTRAINT logout_token_jti_bounded CHECK (char_length(jti) BETWEEN 1 AND 500),
    created_at_ms bigint NOT NULL,
    PRIMARY KEY (issuer, jti)
);
CREATE INDEX logout_tokens_by_time ON ql3.logout_tokens (created_at_ms);

CREATE TABLE ql3.security_audit_events (
    id               uuid PRIMARY KEY,
    action           text NOT NULL CONSTRAINT audit_action_form CHECK (action ~ '^[a-z_]+(\.[a-z_]+)+$'),
    outcome          text NOT NULL CONSTRAINT audit_outcome_known CHECK (outcome IN ('allowed', 'denied')),
    reason           text CONSTRAINT audit_reason_form CHECK (reason ~ '^[a-z][a-z0-9_]{0,63}$'),
    actor_type       text NOT NULL CONSTRAINT audit_actor_known CHECK (actor_type IN ('user', 'command', 'provider', 'anonymous')),
    user_id          uuid,
    issuer           text,
    subject          text,
    actor            text NOT NULL CONSTRAINT audit_actor_bounded CHECK (char_length(actor) BETWEEN 1 AND 500),
    session_id       uuid,
    peer_address     text,
    claimed_address  text,
    request_id       text,
    project_id       text,
    project_version  bigint,
    binding_version  bigint,
    role             text,
    target_user_id   uuid,
    run_id           uuid,
    run_version      bigint,
    mutation_id      uuid,
    proof_id         uuid,
    words            text CONSTRAINT audit_words_bounded CHECK (char_length(words) <= 500),
    strength         text CONSTRAINT audit_strength_known CHECK (strength IN ('single_factor', 'multi_factor', 'hardware')),
    acr              text,
    amr              text[],
    auth_time_s      bigint,
    second_factor    text CONSTRAINT audit_second_factor_known CHECK (second_factor IN ('always', 'session')),
    detail           jsonb NOT NULL DEFAULT '{}' CONSTRAINT audit_detail_is_object CHECK (jsonb_typeof(detail) = 'object'),
    created_at_ms    bigint NOT NULL,
    CONSTRAINT audit_denied_has_reason CHECK (outcome = 'allowed' OR reason IS NOT NULL),
    CONSTRAINT audit_user_is_named CHECK (actor_type <> 'user' OR user_id IS NOT NULL AND issuer IS NOT NULL AND subject IS NOT NULL)
);
CREATE INDEX security_audit_newest ON ql3.security_audit_events (project_id, created_at_ms DESC, id DESC);
CREATE INDEX security_audit_of_run ON ql3.security_audit_events (run_id, created_at_ms) WHERE run_id IS NOT NULL;
CREATE INDEX security_audit_of_user ON ql3.security_audit_events (user_id, created_at_ms DESC) WHERE user_id IS NOT NULL;
CREATE INDEX security_audit_of_target ON ql3.security_audit_events (target_user_id, created_at_ms DESC) WHERE target_user_id IS NOT NULL;
CREATE INDEX security_audit_by_time ON ql3.security_audit_events (created_at_ms DESC, id DESC);
COMMENT ON COLUMN ql3.security_audit_events.role IS 'With project_version and binding_version: the policy fence, which is what the actor was allowed it by.';
COMMENT ON COLUMN ql3.security_audit_events.target_user_id IS 'The User it was done to, when that is not the actor.';
COMMENT ON COLUMN ql3.security_audit_events.words IS 'The reason the person gave, in their own words.';
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.security_audit_events FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();

GRANT SELECT ON ql3.users, ql3.project_role_bindings, ql3.console_sessions TO ql3_admin, ql3_run_manager, ql3_authn, ql3_console;
GRANT INSERT ON ql3.security_audit_events TO ql3_admin, ql3_run_manager, ql3_authn, ql3_console;
GRANT SELECT ON ql3.security_audit_events TO ql3_console;
GRANT INSERT ON ql3.project_role_bindings TO ql3_admin;
GRANT UPDATE (status, version, updated_at_ms) ON ql3.users TO ql3_admin;
GRANT UPDATE (revoked_at_ms, revoke_reason) ON ql3.console_sessions TO ql3_admin, ql3_authn;
GRANT INSERT ON ql3.users, ql3.console_sessions TO ql3_authn;
GRANT UPDATE (email, email_verified, name, join_key, last_auth_time_s, signed_in_at_ms, updated_at_ms) ON ql3.users TO ql3_authn;
GRANT UPDATE (generation) ON ql3.console_sessions TO ql3_authn;
GRANT SELECT, INSERT, DELETE ON ql3.auth_transactions TO ql3_authn;
GRANT UPDATE (consumed_at_ms) ON ql3.auth_transactions TO ql3_authn;
GRANT SELECT, INSERT, DELETE ON ql3.logout_tokens TO ql3_authn;
GRANT UPDATE (last_seen_at_ms, revoked_at_ms, revoke_reason) ON ql3.console_sessions TO ql3_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON ql3.sessions TO ql3_console;

-- +goose Down
DROP TABLE ql3.security_audit_events, ql3.logout_tokens, ql3.auth_transactions, ql3.sessions, ql3.console_sessions,
    ql3.project_role_bindings, ql3.users CASCADE;
