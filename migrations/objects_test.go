package migrations_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestObjectsAreWhatTheSchemaHolds(t *testing.T) {
	held := pgtest.Column[string](t, pgtest.New(t).Super(t), `
		WITH relation AS (SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = 'ql3'::regnamespace)
		SELECT relname::text FROM relation WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
		UNION ALL SELECT r.relname || '.' || a.attname FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid
		WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL SELECT 'sequence ' || relname FROM relation WHERE relkind = 'S'
		UNION ALL SELECT proname || '(' || oidvectortypes(proargtypes) || ')' FROM pg_proc WHERE pronamespace = 'ql3'::regnamespace`)
	listed := migrations.Objects()
	slices.Sort(held)
	slices.Sort(listed)
	if diff := cmp.Diff(listed, held); diff != "" {
		t.Errorf("what the schema holds (-objects.txt +server):\n%s", diff)
	}
}
