package e2e

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/dev/postgres"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// baseBackup makes dir the directory of a server that has the data of from, by pg_basebackup where the server has it
// beside it: those from npm have not.
func baseBackup(t *testing.T, from *postgres.Server, dir string) {
	t.Helper()
	conn := connect(t, from)
	defer conn.Close(t.Context())
	tool := filepath.Join(pgtest.Value[string](t, conn, "SELECT setting FROM pg_config WHERE name = 'BINDIR'"), "pg_basebackup")
	if exec.Command(tool, "--version").Run() != nil {
		copyServer(t, from, dir)
		return
	}
	data := prepare(t, conn, dir)
	cmd := exec.Command(tool, "--pgdata="+data, "--checkpoint=fast", "--dbname="+from.SuperuserURL())
	cmd.Dir = "/"
	if os.Geteuid() == 0 { // what it writes must be the server's user's
		uid, gid, err := ownerOf(data)
		if err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	finish(t, "pg_basebackup", cmd)
}

// copyServer makes dir the directory of a server that has the data of from, by SQL and a copy. It has no WAL.
func copyServer(t *testing.T, from *postgres.Server, dir string) {
	t.Helper()
	conn := connect(t, from) // a backup lasts as long as its session
	defer conn.Close(t.Context())
	data := prepare(t, conn, dir)
	pgtest.Exec(t, conn, "SELECT pg_backup_start('copy', true)")
	copied := copyCluster(pgtest.Value[string](t, conn, "SHOW data_directory"), data)
	label := pgtest.Value[string](t, conn, "SELECT labelfile FROM pg_backup_stop(false)")
	if err := errors.Join(copied, write(data, "backup_label", label)); err != nil {
		t.Fatal(err)
	}
}

// prepare makes dir with the password of the server at the other end of conn and an empty place for its data, and returns
// the latter.
func prepare(t *testing.T, conn *pgx.Conn, dir string) string {
	t.Helper()
	from, data := pgtest.Value[string](t, conn, "SHOW data_directory"), filepath.Join(dir, "data")
	err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711), copyFile(filepath.Join(filepath.Dir(from), "password"), filepath.Join(dir, "password")),
		os.Mkdir(data, 0o700), sameOwner(from, data))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func connect(t *testing.T, server *postgres.Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// copyCluster copies a running cluster, without what belongs to the server that runs it.
func copyCluster(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server has removed it meanwhile; the WAL says so too
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || !entry.IsDir() && isServers(rel) {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return errors.Join(os.MkdirAll(target, 0o700), sameOwner(path, target))
		}
		if err := copyFile(path, target); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func isServers(rel string) bool {
	top, _, _ := strings.Cut(rel, string(filepath.Separator))
	return top == "pg_wal" || top == "pg_replslot" || strings.HasPrefix(rel, "postmaster.")
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), sameOwner(from, to))
}

// write writes a file that belongs to whoever the directory belongs to.
func write(dir, name, content string) error {
	path := filepath.Join(dir, name)
	return errors.Join(os.WriteFile(path, []byte(content), 0o600), sameOwner(dir, path))
}

func sameOwner(from, to string) error {
	uid, gid, err := ownerOf(from)
	if err != nil {
		return err
	}
	return os.Lchown(to, int(uid), int(gid))
}

func ownerOf(path string) (uid, gid uint32, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return owner.Uid, owner.Gid, nil
}
