-- Many Runs at once: the set that somebody has frozen in order to retry or stop it, what a step-up proves for it, and that
-- it was submitted. A purpose is one Run, or a batch.

-- +goose Up
CREATE TABLE ql3.run_batches (
    id              uuid PRIMARY KEY,
    action          text NOT NULL CONSTRAINT batch_action_known CHECK (action IN ('run.retry', 'run.stop')),
    project_id      text NOT NULL REFERENCES ql3.projects (id),
    user_id         uuid NOT NULL REFERENCES ql3.users (id),
    words           text NOT NULL CONSTRAINT batch_words_bounded CHECK (char_length(words) BETWEEN 1 AND 500),
    created_at_ms   bigint NOT NULL,
    proof_id        uuid CONSTRAINT batch_proof_once UNIQUE REFERENCES ql3.step_up_proofs (id),
    submitted_at_ms bigint,
    CONSTRAINT batch_submission_is_whole CHECK ((proof_id IS NULL) = (submitted_at_ms IS NULL))
);
CREATE INDEX run_batches_newest ON ql3.run_batches (project_id, created_at_ms DESC, id DESC);
COMMENT ON COLUMN ql3.run_batches.submitted_at_ms IS 'When all of what was chosen of it was done. It is submitted once; what was not chosen then never is.';

CREATE TABLE ql3.run_batch_items (
    batch_id         uuid NOT NULL REFERENCES ql3.run_batches (id),
    position         integer NOT NULL CONSTRAINT batch_item_position_bounded CHECK (position BETWEEN 1 AND 50),
    run_id           uuid NOT NULL REFERENCES ql3.runs (id),
    run_status       text NOT NULL,
    run_version      bigint NOT NULL CONSTRAINT batch_item_version_positive CHECK (run_version >= 1),
    execution_digest text NOT NULL,
    mutation_id      uuid NOT NULL CONSTRAINT batch_item_mutation_once UNIQUE,
    PRIMARY KEY (batch_id, position),
    CONSTRAINT batch_item_run_once UNIQUE (batch_id, run_id)
);
CREATE INDEX run_batch_items_of_run ON ql3.run_batch_items (run_id);
COMMENT ON TABLE ql3.run_batch_items IS 'The Runs of a batch as they were when it was frozen.';
COMMENT ON COLUMN ql3.run_batch_items.mutation_id IS 'Derived from batch and Run: the key of the retry it makes, or of the request to stop.';

CREATE TRIGGER submitted BEFORE UPDATE ON ql3.run_batches FOR EACH ROW
    WHEN (OLD.submitted_at_ms IS NOT NULL) EXECUTE FUNCTION ql3.refuse_write();
CREATE TRIGGER immutable BEFORE DELETE ON ql3.run_batches FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.run_batch_items FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();

ALTER TABLE ql3.auth_transactions
    ADD COLUMN batch_id uuid REFERENCES ql3.run_batches (id),
    DROP CONSTRAINT auth_transaction_purpose_is_set,
    ADD CONSTRAINT auth_transaction_purpose_is_one_run CHECK (jsonb_typeof(purpose) = 'array' AND jsonb_array_length(purpose) = 1),
    DROP CONSTRAINT auth_transaction_purpose_by_kind,
    ADD CONSTRAINT auth_transaction_purpose_by_kind CHECK (
        num_nonnulls(action, project_id) = CASE WHEN kind = 'step_up' THEN 2 ELSE 0 END
        AND num_nonnulls(purpose, batch_id) = CASE WHEN kind = 'step_up' THEN 1 ELSE 0 END);
COMMENT ON COLUMN ql3.auth_transactions.purpose IS 'The Run the step-up is for, unless it is for a batch: [{"run": id, "version": n, "digest": execution digest}].';

ALTER TABLE ql3.step_up_proofs
    ADD COLUMN batch_id uuid REFERENCES ql3.run_batches (id),
    ALTER COLUMN purpose DROP NOT NULL,
    DROP CONSTRAINT proof_purpose_is_set,
    ADD CONSTRAINT proof_purpose_is_one_run CHECK (jsonb_typeof(purpose) = 'array' AND jsonb_array_length(purpose) = 1),
    ADD CONSTRAINT proof_of_a_run_or_a_batch CHECK (num_nonnulls(purpose, batch_id) = 1);

GRANT SELECT, INSERT ON ql3.run_batches, ql3.run_batch_items TO ql3_run_manager;
GRANT UPDATE (proof_id, submitted_at_ms) ON ql3.run_batches TO ql3_run_manager;
GRANT SELECT ON ql3.run_batches, ql3.run_batch_items TO ql3_console;
GRANT SELECT (batch_id) ON ql3.step_up_proofs TO ql3_console;

-- +goose Down
-- A proof of a batch becomes one of its Runs: what they made keeps its proof.
ALTER TABLE ql3.step_up_proofs DROP CONSTRAINT proof_of_a_run_or_a_batch, DROP CONSTRAINT proof_purpose_is_one_run;
UPDATE ql3.step_up_proofs p SET purpose = (
    SELECT jsonb_agg(jsonb_build_object('run', i.run_id, 'version', i.run_version, 'digest', i.execution_digest) ORDER BY i.position)
    FROM ql3.run_batch_items i WHERE i.batch_id = p.batch_id) WHERE p.batch_id IS NOT NULL;
ALTER TABLE ql3.step_up_proofs DROP COLUMN batch_id, ALTER COLUMN purpose SET NOT NULL,
    ADD CONSTRAINT proof_purpose_is_set CHECK (jsonb_typeof(purpose) = 'array' AND jsonb_array_length(purpose) BETWEEN 1 AND 50);
DELETE FROM ql3.auth_transactions WHERE batch_id IS NOT NULL;
ALTER TABLE ql3.auth_transactions DROP CONSTRAINT auth_transaction_purpose_by_kind, DROP COLUMN batch_id,
    DROP CONSTRAINT auth_transaction_purpose_is_one_run,
    ADD CONSTRAINT auth_transaction_purpose_is_set CHECK (jsonb_typeof(purpose) = 'array' AND jsonb_array_length(purpose) BETWEEN 1 AND 50),
    ADD CONSTRAINT auth_transaction_purpose_by_kind CHECK (
        num_nonnulls(action, project_id, purpose) = CASE WHEN kind = 'step_up' THEN 3 ELSE 0 END);
DROP TABLE ql3.run_batch_items, ql3.run_batches;
