// Package migrations holds the database's shape as data: the numbered SQL files, and the roles they grant to.
//
// A file that has landed is never edited; a change is a new file. Each file has a Down that undoes it. The schema and
// the roles exist before the first file runs: a superuser makes them once, see [Bootstrap].
package migrations

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// Files returns the numbered migrations, for goose.
func Files() fs.FS { return files }

// Schema is the schema that owns everything of ours.
const Schema = "ql3"

// VersionTable is goose's record of what has been applied.
const VersionTable = "ql3.goose_db_version"

// The database roles. Each is a LOGIN role with its own small pool and the privileges the design's table gives it.
const (
	RoleMigration     = "ql3_migration"
	RoleAdmin         = "ql3_admin"
	RoleRuntime       = "ql3_runtime"
	RoleRunManager    = "ql3_run_manager"
	RoleAuthn         = "ql3_authn"
	RoleConsole       = "ql3_console"
	RoleWorkerIngress = "ql3_worker_ingress"
)

// Roles lists every role, the owner first.
func Roles() []string {
	return []string{RoleMigration, RoleAdmin, RoleRuntime, RoleRunManager, RoleAuthn, RoleConsole, RoleWorkerIngress}
}

// Latest is the version of the newest migration, which a replica of this build needs.
func Latest() int64 {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		panic("migrations: no files embedded")
	}
	var version int64
	if _, err := fmt.Sscanf(names[len(names)-1], "%d_", &version); err != nil {
		panic("migrations: " + names[len(names)-1] + " has no number")
	}
	return version
}
