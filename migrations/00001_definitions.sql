-- What may run and when: Projects, Tasks, Triggers and their immutable revisions.
--
-- A revision's content is canonical JSON (RFC 8785) and is the only copy of the facts: the digest is checked against
-- it by the database, and every column a query filters or joins on is generated from it, so the two cannot differ.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION ql3.refuse_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ql3.%: rows are immutable, % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION ql3.refuse_write() FROM PUBLIC;

-- +goose StatementBegin
CREATE FUNCTION ql3.content_digest(domain text, content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN encode(sha256(convert_to(domain, 'UTF8') || '\x00'::bytea || convert_to(content, 'UTF8')), 'hex');
-- +goose StatementEnd
COMMENT ON FUNCTION ql3.content_digest IS
    'SHA-256 in lowercase hex over domain, a NUL, and the canonical JSON. Takes no table: anyone may compute it.';

CREATE TABLE ql3.projects (
    id            text PRIMARY KEY CONSTRAINT project_id_form CHECK (id ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    name          text NOT NULL CONSTRAINT project_name_form CHECK (char_length(name) BETWEEN 1 AND 200),
    status        text NOT NULL DEFAULT 'active' CONSTRAINT project_status_known CHECK (status IN ('active', 'archived')),
    version       bigint NOT NULL DEFAULT 1 CONSTRAINT project_version_positive CHECK (version >= 1),
    guard         bigint NOT NULL DEFAULT 0 CONSTRAINT project_guard_not_negative CHECK (guard >= 0),
    created_at_ms bigint NOT NULL CONSTRAINT project_created_not_negative CHECK (created_at_ms >= 0),
    updated_at_ms bigint NOT NULL CONSTRAINT project_updated_in_order CHECK (updated_at_ms >= created_at_ms)
);
COMMENT ON COLUMN ql3.projects.version IS 'Changes with name and status. Part of every policy fence.';
COMMENT ON COLUMN ql3.projects.guard IS
    'Raised by every writer of the Project, its bindings, or its Task and Trigger heads, so that a serializable transaction that waits for this row starts again and sees the change.';

CREATE TABLE ql3.task_definitions (
    project_id       text NOT NULL REFERENCES ql3.projects (id),
    task_id          text NOT NULL CONSTRAINT task_id_form CHECK (task_id ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    current_revision bigint NOT NULL,
    created_at_ms    bigint NOT NULL,
    updated_at_ms    bigint NOT NULL CONSTRAINT task_updated_in_order CHECK (updated_at_ms >= created_at_ms),
    PRIMARY KEY (project_id, task_id)
);

CREATE TABLE ql3.task_definition_revisions (
    project_id     text NOT NULL,
    task_id        text NOT NULL,
    revision       bigint NOT NULL CONSTRAINT task_revision_positive CHECK (revision >= 1),
    content        text NOT NULL,
    content_digest text NOT NULL
        CONSTRAINT task_digest_matches CHECK (content_digest = ql3.content_digest('qinglong.task-definition.v1', content)),
    created_at_ms  bigint NOT NULL,
    name           text NOT NULL GENERATED ALWAYS AS (content::jsonb ->> 'name') STORED,
    enabled        boolean NOT NULL GENERATED ALWAYS AS ((content::jsonb ->> 'enabled')::boolean) STORED,
    runbook        text GENERATED ALWAYS AS (content::jsonb ->> 'runbook') STORED,
    logs           text GENERATED ALWAYS AS (content::jsonb ->> 'logs') STORED,
    PRIMARY KEY (project_id, task_id, revision),
    CONSTRAINT task_revision_digest_once UNIQUE (project_id, task_id, revision, content_digest),
    CONSTRAINT task_revision_has_head FOREIGN KEY (project_id, task_id) REFERENCES ql3.task_definitions,
    CONSTRAINT task_content_names_itself CHECK (
        content::jsonb ->> 'project' = project_id AND content::jsonb ->> 'id' = task_id AND content::jsonb ->> 'kind' = 'task')
);
ALTER TABLE ql3.task_definitions ADD CONSTRAINT task_head_has_revision
    FOREIGN KEY (project_id, task_id, current_revision) REFERENCES ql3.task_definition_revisions DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE ql3.task_execution_revisions (
    project_id          text NOT NULL,
    task_id             text NOT NULL,
    task_revision       bigint NOT NULL,
    task_content_digest text NOT NULL,
    id                  text NOT NULL GENERATED ALWAYS AS ('qltd:v1:' || task_revision || ':' || task_content_digest) STORED,
    content             text NOT NULL,
    content_digest      text NOT NULL
        CONSTRAINT execution_digest_matches CHECK (content_digest = ql3.content_digest('qinglong.task-execution.v1', content)),
    executor            text NOT NULL GENERATED ALWAYS AS (content::jsonb ->> 'executor') STORED
        CONSTRAINT execution_executor_known CHECK (executor = 'remote_worker'),
    created_at_ms       bigint NOT NULL,
    PRIMARY KEY (project_id, task_id, task_revision),
    CONSTRAINT execution_id_once UNIQUE (project_id, task_id, task_revision, id),
    CONSTRAINT execution_of_task_revision FOREIGN KEY (project_id, task_id, task_revision, task_content_digest)
        REFERENCES ql3.task_definition_revisions (project_id, task_id, revision, content_digest),
    CONSTRAINT execution_content_names_its_task CHECK (
        content::jsonb ->> 'project' = project_id AND content::jsonb #>> '{task,id}' = task_id
        AND content::jsonb #>> '{task,revision}' = task_revision::text
        AND content::jsonb #>> '{task,digest}' = task_content_digest)
);

CREATE TABLE ql3.triggers (
    project_id       text NOT NULL REFERENCES ql3.projects (id),
    trigger_id       text NOT NULL CONSTRAINT trigger_id_form CHECK (trigger_id ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    current_revision bigint NOT NULL,
    created_at_ms    bigint NOT NULL,
    updated_at_ms    bigint NOT NULL CONSTRAINT trigger_updated_in_order CHECK (updated_at_ms >= created_at_ms),
    PRIMARY KEY (project_id, trigger_id)
);

CREATE TABLE ql3.trigger_revisions (
    project_id          text NOT NULL,
    trigger_id          text NOT NULL,
    revision            bigint NOT NULL CONSTRAINT trigger_revision_positive CHECK (revision >= 1),
    content             text NOT NULL,
    content_digest      text NOT NULL
        CONSTRAINT trigger_digest_matches CHECK (content_digest = ql3.content_digest('qinglong.trigger-definition.v1', content)),
    created_at_ms       bigint NOT NULL,
    kind                text NOT NULL GENERATED ALWAYS AS (content::jsonb ->> 'kind') STORED,
    enabled             boolean NOT NULL GENERATED ALWAYS AS ((content::jsonb ->> 'enabled')::boolean) STORED,
    task_id             text NOT NULL GENERATED ALWAYS AS (content::jsonb #>> '{task,id}') STORED,
    task_revision       bigint NOT NULL GENERATED ALWAYS AS ((content::jsonb #>> '{task,revision}')::bigint) STORED,
    task_content_digest text NOT NULL GENERATED ALWAYS AS (content::jsonb #>> '{task,digest}') STORED,
    PRIMARY KEY (project_id, trigger_id, revision),
    CONSTRAINT trigger_revision_has_head FOREIGN KEY (project_id, trigger_id) REFERENCES ql3.triggers,
    CONSTRAINT trigger_pins_execution FOREIGN KEY (project_id, task_id, task_revision)
        REFERENCES ql3.task_execution_revisions (project_id, task_id, task_revision),
    CONSTRAINT trigger_pins_task_digest FOREIGN KEY (project_id, task_id, task_revision, task_content_digest)
        REFERENCES ql3.task_definition_revisions (project_id, task_id, revision, content_digest),
    CONSTRAINT trigger_content_names_itself CHECK (
        content::jsonb ->> 'project' = project_id AND content::jsonb ->> 'trigger' = trigger_id)
);
ALTER TABLE ql3.triggers ADD CONSTRAINT trigger_head_has_revision
    FOREIGN KEY (project_id, trigger_id, current_revision) REFERENCES ql3.trigger_revisions DEFERRABLE INITIALLY DEFERRED;
-- Publishing a Task revision re-pins every Trigger of the Task.
CREATE INDEX trigger_revisions_by_task ON ql3.trigger_revisions (task_id, project_id);

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.task_definition_revisions FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.task_execution_revisions FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.trigger_revisions FOR EACH ROW EXECUTE FUNCTION ql3.refuse_write();

GRANT SELECT, INSERT, UPDATE ON ql3.projects, ql3.task_definitions, ql3.triggers TO ql3_admin;
GRANT SELECT, INSERT ON ql3.task_definition_revisions, ql3.task_execution_revisions, ql3.trigger_revisions TO ql3_admin;
GRANT SELECT ON ql3.projects, ql3.task_definitions, ql3.task_definition_revisions, ql3.task_execution_revisions,
    ql3.triggers, ql3.trigger_revisions TO ql3_runtime;
GRANT SELECT ON ql3.projects, ql3.task_definitions, ql3.task_definition_revisions, ql3.task_execution_revisions TO ql3_run_manager;
-- Pages show no command, argument, environment or directory, so their role cannot read them.
GRANT SELECT ON ql3.projects, ql3.task_definitions, ql3.triggers, ql3.trigger_revisions TO ql3_console;
GRANT SELECT (project_id, task_id, revision, content_digest, created_at_ms, name, enabled, runbook, logs)
    ON ql3.task_definition_revisions TO ql3_console;
GRANT EXECUTE ON FUNCTION ql3.content_digest(text, text) TO ql3_admin, ql3_runtime, ql3_run_manager;
REVOKE EXECUTE ON FUNCTION ql3.content_digest(text, text) FROM PUBLIC;

-- +goose Down
DROP TABLE ql3.trigger_revisions, ql3.triggers, ql3.task_execution_revisions, ql3.task_definition_revisions,
    ql3.task_definitions, ql3.projects CASCADE;
DROP FUNCTION ql3.content_digest(text, text);
DROP FUNCTION ql3.refuse_write();
