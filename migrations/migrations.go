// Package migrations holds the database's shape as data: the numbered SQL files, and the roles they grant to.
//
// A file that has landed is never edited; a change is a new file. Each file has a Down that undoes it, and from the
// ninth on says which consoles the schema it makes still takes, so that old and new replicas can work side by side. The
// schema and the roles exist before the first file runs: a superuser makes them once, see [Bootstrap].
package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
)

//go:embed *.sql
var files embed.FS

// Files returns the numbered migrations, for goose.
func Files() fs.FS { return files }

// Schema is the schema that owns everything of ours.
const Schema = "ql3"

// VersionTable is goose's record of what has been applied.
const VersionTable = "ql3.goose_db_version"

// FloorTable says, by version, which consoles the schema still takes. Each file writes its own row.
const FloorTable = "ql3.schema_floors"

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

// Latest is the version of the newest migration: the schema that this build was made for.
func Latest() int64 {
	var version int64
	if _, err := fmt.Sscanf(newest(), "%d_", &version); err != nil {
		panic("migrations: " + newest() + " has no number")
	}
	return version
}

// floorRow is how a file says which consoles its schema takes.
var floorRow = regexp.MustCompile(`(?m)^INSERT INTO ql3\.schema_floors \(version, floor\) VALUES \((\d+), (\d+)\);$`)

// Floor is the oldest schema whose console works on that of [Latest], as its file says.
func Floor() int64 {
	text, err := fs.ReadFile(files, newest())
	if err != nil {
		panic(err)
	}
	row := floorRow.FindSubmatch(text)
	if row == nil {
		panic("migrations: " + newest() + " does not say which consoles its schema takes")
	}
	floor, err := strconv.ParseInt(string(row[2]), 10, 64)
	if err != nil {
		panic("migrations: " + newest() + ": " + err.Error())
	}
	return floor
}

// newest is the name of the last file.
func newest() string {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		panic("migrations: no files embedded")
	}
	return names[len(names)-1]
}
