package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// memory is a file system in memory, where there is one. A database is some four hundred files, so that making and
// dropping one costs a tenth there of what it costs on a disk.
const memory = "/dev/shm"

// roomNeeded is how much of it must be free: the databases of a test, and their WAL, of the packages that are tested at
// the same time.
const roomNeeded = 4 << 30

// dirPrefix begins the name of a directory of tests, and inUse is the file in it that is locked for as long as they run.
const (
	dirPrefix = "ql3-pgtest-"
	inUse     = "in-use"
)

// Dir is a directory for a server of t's own, which the server's user can reach, until t ends.
func Dir(t testing.TB) string {
	t.Helper()
	dir, remove, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return dir
}

// DiskDir is a [Dir] on a disk: what is durable is not in memory, and not everything fits there.
func DiskDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ql3-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the server's user must pass through
		t.Fatal(err)
	}
	return dir
}

func makeDir() (dir string, remove func(), err error) {
	parent := "" // the system's own place for what is temporary
	if hasRoom(memory) {
		sweep(memory)
		parent = memory
	}
	if dir, err = os.MkdirTemp(parent, dirPrefix); err != nil {
		return "", nil, err
	}
	lock, err := takeDir(dir)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
}

// takeDir locks dir, and opens it to the server's user. The file has its name only once it is locked.
func takeDir(dir string) (*os.File, error) {
	f, err := os.Create(filepath.Join(dir, inUse+".new"))
	if err != nil {
		return nil, err
	}
	err = errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_EX), os.Rename(f.Name(), filepath.Join(dir, inUse)), os.Chmod(dir, 0o755))
	return f, err
}

// hasRoom reports whether whoever runs the test may put so much below dir.
func hasRoom(dir string) bool {
	var s syscall.Statfs_t
	const writable = 2 // access(2)'s W_OK
	return syscall.Statfs(dir, &s) == nil && s.Bavail*uint64(s.Bsize) >= roomNeeded && syscall.Access(dir, writable) == nil
}

// sweep removes what tests that were killed have left below dir: nothing else would give that memory back.
func sweep(dir string) {
	locks, err := filepath.Glob(filepath.Join(dir, dirPrefix+"*", inUse))
	if err != nil {
		return
	}
	for _, name := range locks {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // another user's, or gone by now
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(filepath.Dir(name))
		}
		f.Close()
	}
}
