//go:build torture

package e2e

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// A disk is a file system of the database's own in memory, whose size can be changed while it is in use. It is nil
// where mounting is not permitted.
type disk struct{ dir string }

const (
	diskSize = 2 << 30
	diskPage = 4096
)

// newDisk mounts a disk at dir, or says why it cannot.
func newDisk(t testing.TB, dir string) (*disk, error) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", diskSize)); err != nil {
		return nil, fmt.Errorf("mount a tmpfs: %w", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &disk{dir}, nil
}

// fill makes the disk no larger than what is on it. What is written meanwhile makes that too small, and it tries again.
func (d *disk) fill() error {
	var err error = syscall.EINVAL
	for try := 0; try < 100 && errors.Is(err, syscall.EINVAL); try++ {
		var is syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &is); err != nil {
			return err
		}
		err = d.resize((is.Blocks - is.Bfree) * uint64(is.Bsize))
	}
	return err
}

func (d *disk) free() error { return d.resize(diskSize) }

func (d *disk) resize(bytes uint64) error {
	return os.NewSyscallError("remount", syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes/diskPage*diskPage)))
}
