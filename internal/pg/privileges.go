package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// privilegesSQL lists everything the connected role may do in the schema, however it came by it: directly, through
// PUBLIC, through membership or as owner. A column is listed only where its table does not already say so.
const privilegesSQL = `
WITH relation AS (
    SELECT c.oid, c.relname, c.relowner FROM pg_class c WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
), verb AS (
    SELECT unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS name
)
SELECT v.name || ' ' || r.relname FROM relation r, verb v WHERE has_table_privilege(r.oid, v.name)
UNION ALL
SELECT v.name || ' ' || r.relname || '.' || a.attname FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid, verb v
WHERE v.name IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') AND a.attnum > 0 AND NOT a.attisdropped
    AND has_column_privilege(r.oid, a.attnum, v.name) AND NOT has_table_privilege(r.oid, v.name)
UNION ALL
SELECT v.name || ' sequence ' || c.relname FROM pg_class c, unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) AS v(name)
WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'S' AND has_sequence_privilege(c.oid, v.name)
UNION ALL
SELECT 'EXECUTE ' || p.proname || '(' || oidvectortypes(p.proargtypes) || ')' FROM pg_proc p
WHERE p.pronamespace = $1::text::regnamespace AND has_function_privilege(p.oid, 'EXECUTE')
UNION ALL
SELECT v.name || ' schema' FROM unnest(ARRAY['USAGE', 'CREATE']) AS v(name) WHERE has_schema_privilege($1, v.name)
UNION ALL
SELECT 'CREATE database' WHERE has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT 'OWN ' || r.relname FROM relation r WHERE r.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)
UNION ALL
SELECT 'ATTRIBUTE ' || a.name FROM pg_roles o, LATERAL (VALUES ('SUPERUSER', o.rolsuper), ('CREATEROLE', o.rolcreaterole),
    ('CREATEDB', o.rolcreatedb), ('REPLICATION', o.rolreplication), ('BYPASSRLS', o.rolbypassrls)) AS a(name, held)
WHERE o.rolname = current_user AND a.held
UNION ALL
SELECT 'MEMBER ' || g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
WHERE m.member = (SELECT oid FROM pg_roles WHERE rolname = current_user)`

// ReadPrivileges lists what the connected role may do in schema and beyond: "SELECT table", "UPDATE table.column",
// "EXECUTE function(types)", "USAGE schema", "OWN table", "ATTRIBUTE SUPERUSER", "MEMBER role".
func ReadPrivileges(ctx context.Context, q Querier, schema string) (_ []string, err error) {
	defer Wrap(&err, "pg.ReadPrivileges(%s)", schema)
	rows, err := q.Query(ctx, privilegesSQL, schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// CheckPrivileges compares what the connected role may do with want, whole, and names every deviation. On a newer schema
// than the program's it compares what the program knows, column by column: a newer one may hold more, and may grant a
// table whose new columns are not for everybody by the column.
func (s Schema) CheckPrivileges(ctx context.Context, q Querier, role string, want []string) error {
	got, err := ReadPrivileges(ctx, q, s.Name)
	if err != nil {
		return err
	}
	version, err := SchemaVersion(ctx, q, s.VersionTable) // afterwards: what a migration granted meanwhile is then no surprise
	if err != nil {
		return err
	}
	if version > s.Version {
		got, want = s.known(got), s.known(want)
	}
	var deviations []string
	for _, p := range without(want, got) {
		deviations = append(deviations, "lacks "+p)
	}
	for _, p := range without(got, want) {
		deviations = append(deviations, "has "+p+", which is too much")
	}
	if len(deviations) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s; run console migrate up, or undo the grant by hand", role, strings.Join(deviations, ", and "))
}

// known leaves out privileges on what the program has never heard of, and spells those that a column can have by the
// columns it knows.
func (s Schema) known(privileges []string) []string {
	var list []string
	for _, p := range privileges {
		verb, object, _ := strings.Cut(p, " ")
		columns := s.columnsOf(object)
		switch {
		case len(columns) > 0 && ofColumns(verb):
			for _, c := range columns {
				list = append(list, verb+" "+c)
			}
		case slices.Contains(s.Objects, object) || !ofObjects(verb, object):
			list = append(list, p)
		}
	}
	return list
}

func (s Schema) columnsOf(table string) (columns []string) {
	for _, o := range s.Objects {
		if strings.HasPrefix(o, table+".") {
			columns = append(columns, o)
		}
	}
	return columns
}

// ofColumns tells the privileges that can be granted on a column.
func ofColumns(verb string) bool {
	return slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "REFERENCES"}, verb)
}

// ofObjects tells privileges on what migrations make from those that a role has by itself.
func ofObjects(verb, object string) bool {
	return object != "schema" && object != "database" && verb != "ATTRIBUTE" && verb != "MEMBER"
}

// without returns what is in a and not in b, sorted.
func without(a, b []string) []string {
	var rest []string
	for _, v := range a {
		if !slices.Contains(b, v) {
			rest = append(rest, v)
		}
	}
	slices.Sort(rest)
	return rest
}
