-- What a Task's author says about running it again is for everybody who sees its Runs, unlike what it executes: it gets
-- columns of its own, which the console's role may read although the content beside them stays hidden from it.

-- +goose Up
ALTER TABLE ql3.task_definition_revisions
    ADD COLUMN retry_safe text GENERATED ALWAYS AS (content::jsonb #>> '{retry,safe}') STORED,
    ADD COLUMN retry_note text GENERATED ALWAYS AS (content::jsonb #>> '{retry,note}') STORED;
GRANT SELECT (retry_safe, retry_note) ON ql3.task_definition_revisions TO ql3_console;

INSERT INTO ql3.schema_floors (version, floor) VALUES (10, 9);

-- +goose Down
DELETE FROM ql3.schema_floors WHERE version = 10;
ALTER TABLE ql3.task_definition_revisions DROP COLUMN retry_safe, DROP COLUMN retry_note;
