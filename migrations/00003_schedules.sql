-- When it is due and who is deciding: one Schedule per Trigger, the account of its instants, and the replicas.

-- +goose Up
CREATE TABLE ql3.trigger_schedules (
    project_id           text NOT NULL,
    trigger_id           text NOT NULL,
    trigger_revision     bigint NOT NULL,
    enabled              boolean NOT NULL,
    base_at_ms           bigint NOT NULL CONSTRAINT schedule_base_not_negative CHECK (base_at_ms >= 0),
    next_fire_at_ms      bigint CONSTRAINT schedule_cursor_not_negative CHECK (next_fire_at_ms >= 0),
    last_scheduled_at_ms bigint,
    state_version        bigint NOT NULL DEFAULT 1 CONSTRAINT schedule_state_version_positive CHECK (state_version >= 1),
    claim_owner          text,
    claim_token          uuid,
    claim_version        bigint NOT NULL DEFAULT 0 CONSTRAINT schedule_claim_version_not_negative CHECK (claim_version >= 0),
    claim_expires_at_ms  bigint,
    blocked_reason       text CONSTRAINT schedule_blocked_reason_bounded CHECK (char_length(blocked_reason) BETWEEN 1 AND 500),
    updated_at_ms        bigint NOT NULL,
    PRIMARY KEY (project_id, trigger_id),
    CONSTRAINT schedule_of_trigger_revision FOREIGN KEY (project_id, trigger_id, trigger_revision)
        REFERENCES ql3.trigger_revisions (project_id, trigger_id, revision),
    CONSTRAINT schedule_claim_is_whole CHECK (num_nonnulls(claim_owner, claim_token, claim_expires_at_ms) IN (0, 3)),
    CONSTRAINT schedule_claim_expires_later CHECK (claim_expires_at_ms > updated_at_ms),
    CONSTRAINT schedule_only_enabled_is_claimed CHECK (enabled OR claim_token IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
COMMENT ON COLUMN ql3.trigger_schedules.enabled IS
    'Project active, Task enabled and Trigger enabled; rewritten by whoever changes one of them, so that idle rows are not in the due index.';
COMMENT ON COLUMN ql3.trigger_schedules.base_at_ms IS
    'While the cursor is NULL, the instant after which the first occurrence is looked for: when this Schedule was published, re-enabled or un-archived.';
COMMENT ON COLUMN ql3.trigger_schedules.updated_at_ms IS 'While a claim is held, when it was acquired: claimAcquiredAtMs.';

-- The claim reads this index and nothing else until it has found a row. Claims stay out of it, so that claiming is a
-- HOT update; every claimed row is due, so claims are found at this index's head.
CREATE INDEX trigger_schedules_due ON ql3.trigger_schedules ((coalesce(next_fire_at_ms, -1)), project_id, trigger_id) WHERE enabled;
CREATE INDEX trigger_schedules_blocked ON ql3.trigger_schedules (project_id, trigger_id) WHERE blocked_reason IS NOT NULL;

CREATE TABLE ql3.schedule_events (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id       text,
    trigger_id       text,
    trigger_revision bigint,
    type             text NOT NULL CONSTRAINT schedule_event_type_known CHECK (type IN (
        'initialized', 'skipped', 'coalesced', 'superseded', 'archived', 'unarchived', 'taken_over', 'raced', 'failed', 'unattended')),
    first_at_ms      bigint,
    last_at_ms       bigint,
    instants         integer NOT NULL DEFAULT 0 CONSTRAINT schedule_event_instants_not_negative CHECK (instants >= 0),
    at_least         boolean NOT NULL DEFAULT false,
    lateness_ms      bigint,
    claim_owner      text,
    claim_version    bigint,
    reason           text CONSTRAINT schedule_event_reason_bounded CHECK (char_length(reason) <= 500),
    created_at_ms    bigint NOT NULL,
    CONSTRAINT schedule_event_of_trigger FOREIGN KEY (project_id, trigger_id) REFERENCES ql3.triggers,
    CONSTRAINT schedule_event_subject_is_whole CHECK (num_nonnulls(project_id, trigger_id, trigger_revision) IN (0, 3)),
    CONSTRAINT schedule_event_spell_has_no_subject CHECK ((type = 'unattended') = (trigger_id IS NULL)),
    CONSTRAINT schedule_event_range_is_whole CHECK ((first_at_ms IS NULL) = (last_at_ms IS NULL) AND last_at_ms >= first_at_ms)
);
COMMENT ON TABLE ql3.schedule_events IS
    'Append-only: what became of the instants that did not become Runs, and what happened to claims.';
COMMENT ON COLUMN ql3.schedule_events.instants IS 'How many instants first_at_ms to last_at_ms stands for; with at_least, that many or more.';
CREATE INDEX schedule_events_by_instant ON ql3.schedule_events (project_id, trigger_id, last_at_ms);
CREATE INDEX schedule_events_turns ON ql3.schedule_events (project_id, trigger_id, id) WHERE type IN ('archived', 'unarchived');
CREATE INDEX schedule_events_by_time ON ql3.schedule_events (created_at_ms);
-- Replicas that wake together see the same spell; it is recorded once.
CREATE UNIQUE INDEX schedule_event_spell_once ON ql3.schedule_events (first_at_ms) WHERE type = 'unattended';

-- +goose StatementBegin
CREATE FUNCTION ql3.account_horizon_ms() RETURNS bigint LANGUAGE sql STABLE
    RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 90 * 86400000::bigint;
-- +goose StatementEnd
COMMENT ON FUNCTION ql3.account_horizon_ms IS 'The account is kept for 90 days; what is older may be deleted, and nothing else.';

-- +goose StatementBegin
CREATE FUNCTION ql3.refuse_recent_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.created_at_ms < ql3.account_horizon_ms() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'ql3.%: rows are kept for 90 days, % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.schedule_events FOR EACH ROW EXECUTE FUNCTION ql3.refuse_recent_write();

CREATE TABLE ql3.replicas (
    id              text PRIMARY KEY CONSTRAINT replica_id_bounded CHECK (char_length(id) BETWEEN 1 AND 200),
    version         text NOT NULL,
    started_at_ms   bigint NOT NULL,
    last_tick_at_ms bigint NOT NULL CONSTRAINT replica_tick_in_order CHECK (last_tick_at_ms >= started_at_ms),
    clock_skew_ms   bigint NOT NULL
);
-- +goose StatementBegin
CREATE FUNCTION ql3.prune(most integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = ql3, pg_temp AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM ql3.schedule_events WHERE id IN (
        SELECT id FROM ql3.schedule_events WHERE created_at_ms < ql3.account_horizon_ms() ORDER BY created_at_ms LIMIT most);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    DELETE FROM ql3.replicas WHERE last_tick_at_ms < ql3.account_horizon_ms();
    RETURN pruned;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION ql3.prune IS 'Deletes up to that many rows of the account that are past its horizon, and replicas not seen since. Returns how many of the former.';

COMMENT ON COLUMN ql3.replicas.clock_skew_ms IS 'Replica clock minus database clock. Shown and alerted on, never corrected by.';

GRANT SELECT, INSERT, UPDATE ON ql3.trigger_schedules TO ql3_admin;
GRANT INSERT ON ql3.schedule_events TO ql3_admin;
GRANT SELECT, UPDATE ON ql3.trigger_schedules TO ql3_runtime;
GRANT SELECT, INSERT ON ql3.schedule_events TO ql3_runtime;
GRANT SELECT, INSERT, UPDATE ON ql3.replicas TO ql3_runtime;
GRANT SELECT ON ql3.trigger_schedules, ql3.schedule_events, ql3.replicas TO ql3_console;

REVOKE EXECUTE ON FUNCTION ql3.account_horizon_ms(), ql3.refuse_recent_write(), ql3.prune(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ql3.prune(integer) TO ql3_runtime;

-- +goose Down
DROP TABLE ql3.replicas, ql3.schedule_events, ql3.trigger_schedules CASCADE;
DROP FUNCTION ql3.prune(integer), ql3.refuse_recent_write(), ql3.account_horizon_ms();
