package postgres

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrInUse reports that another server of this package keeps the directory.
var ErrInUse = errors.New("in use")

// A lock is the right to run a server in one directory. The kernel takes it back
// when its holder dies, so it can never be stale.
type lock struct{ file *os.File }

// takeLock fails with ErrInUse, naming the holder, when the directory is taken.
func takeLock(dir string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, fmt.Errorf("%w by %s", ErrInUse, holder(f))
	}
	if err == nil {
		err = writeHolder(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return &lock{f}, nil
}

func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f, "process %d since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	return err
}

// holder reads what the holder wrote; it may be between taking the lock and writing.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 200))
	if err != nil || len(b) == 0 {
		return "a process that has just begun"
	}
	return strings.TrimSpace(string(b))
}

// release gives the directory back. Unlocking, not closing, is what counts: a child
// that is being forked at this moment still has a copy of the descriptor.
func (l *lock) release() {
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	l.file.Close()
}
