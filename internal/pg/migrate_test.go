package pg_test

import (
	"testing"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

func TestMigrationsUpDownUp(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t, migrations.RoleMigration)
	m, err := pg.OpenMigrations(pool, migrations.Files(), migrations.VersionTable)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx := t.Context()
	for {
		file, err := m.Down(ctx)
		if err != nil {
			t.Fatalf("Down: %v", err)
		}
		if file == "" {
			break
		}
		t.Log("down", file)
	}
	var left int
	if err := pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = 'ql3' AND tablename <> 'goose_db_version')
		+ (SELECT count(*) FROM pg_proc WHERE pronamespace = 'ql3'::regnamespace)`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("after every Down %d tables and functions are left, want 0", left)
	}
	if _, err := m.Up(ctx); err != nil {
		t.Fatalf("Up after Down: %v", err)
	}
}
