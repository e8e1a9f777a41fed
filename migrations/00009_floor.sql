-- Which consoles a schema still takes, so that replicas can be exchanged one by one while the others work.
--
-- Every file from here on ends its Up with a row: its own number, and the number of the oldest schema whose console works
-- on what the file has made. A file that only adds repeats the floor before it; one that takes away what an older console
-- uses raises it.

-- +goose Up
CREATE TABLE ql3.schema_floors (
    version bigint PRIMARY KEY,
    floor   bigint NOT NULL,
    CONSTRAINT schema_floor_is_not_above CHECK (floor BETWEEN 1 AND version)
);
COMMENT ON TABLE ql3.schema_floors IS
    'What the migrations say of themselves: on the schema of this version, consoles that were built for version "floor" or a later one work.';

ALTER TABLE ql3.replicas ADD COLUMN schema_version bigint CONSTRAINT replica_schema_positive CHECK (schema_version >= 1);
COMMENT ON COLUMN ql3.replicas.schema_version IS 'The schema that this replica was built for; NULL for one from before version 9.';

GRANT SELECT ON ql3.schema_floors TO ql3_admin, ql3_runtime, ql3_run_manager, ql3_authn, ql3_console, ql3_worker_ingress;

-- A console from before this file takes no schema but its own.
INSERT INTO ql3.schema_floors (version, floor) VALUES (9, 9);

-- +goose Down
ALTER TABLE ql3.replicas DROP COLUMN schema_version;
DROP TABLE ql3.schema_floors;
